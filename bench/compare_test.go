//go:build linux

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// compareVariable makes TestComparison run: "quick" takes minutes, "full" has the outage and the limit of 30 seconds.
const compareVariable = "SUPERLOOP_COMPARE"

// situations are the rows of docs/comparison.md, in its order. right says what the right end is.
var situations = []struct{ name, what, right string }{
	{"happy", "three steps of work, an honest agent", "done"},
	{"red", "says that it is done while the tests are red, and works when it is told", "done"},
	{"green", "says that it is done, the tests are green, and nothing was done", "refused"},
	{"limit", "the limit of the account after the first run, with its reset", "done"},
	{"outage", "the provider is overloaded after the first run", "done"},
	{"hang", "the second turn of work never ends", "done"},
	{"child", "the agent leaves a process behind", "clean"},
	{"missing", "a dependency is declared and not installed", "done"},
	{"kill", "kill -9 of the supervisor in the second turn, then the same command", "single"},
	{"budget", "an agent that is never done, and $3", "budget"},
}

// ways are the columns: how the agent is run.
var ways = []struct{ name, what string }{
	{"init", "superloop as `init` writes it"},
	{"prompt", "superloop `run --prompt`"},
	{"shell", "`while :; do claude -p ...; done`"},
	{"grep", "`until claude -p ... | grep -q '<promise>'; do :; done`"},
}

// night is one situation in one way.
type night struct {
	way, situation string
	span           time.Duration // of the outage and of the limit
	silence        time.Duration // after which superloop ends a hanging agent
	patience       time.Duration // after which the loop is stopped from outside
	dir, repo      string
	env            []string
	superloop      string
	ended          bool
	code           int
	took           time.Duration
}

// TestComparison runs each situation in each way with a scripted agent, and writes docs/comparison.md.
func TestComparison(t *testing.T) {
	mode := os.Getenv(compareVariable)
	if mode == "" {
		t.Skipf("it takes minutes; %s=quick or full runs it and writes docs/comparison.md", compareVariable)
	}
	n := night{span: 6 * time.Second, silence: 5 * time.Second, patience: 60 * time.Second}
	if mode == "full" {
		n.span, n.silence, n.patience = 30*time.Second, 15*time.Second, 180*time.Second
	}
	n.superloop = filepath.Join(t.TempDir(), "superloop")
	if out, err := exec.Command("go", "build", "-o", n.superloop, "../cmd/superloop").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var page strings.Builder
	for _, s := range situations {
		fmt.Fprintf(&page, "| %s: %s |", s.name, s.what)
		for _, w := range ways {
			one := n
			one.way, one.situation = w.name, s.name
			one.prepare(t)
			one.run(t)
			right, why := one.judge(s.right)
			cell := "**no**"
			if right {
				cell = "yes"
			}
			runs, refused := one.lines("runs"), one.lines("refused")
			more := ""
			if refused > 0 {
				more = fmt.Sprintf(" (and %d refused)", refused)
			}
			fmt.Fprintf(&page, " %s: %s; %d paid%s, $%.2f, %.0f s |", cell, why, runs, more, float64(runs)/2, one.took.Seconds())
			t.Logf("%-8s %-7s %-8s %s; %d paid%s, %.1fs", s.name, w.name, cell, why, runs, more, one.took.Seconds())
			one.sweep()
		}
		page.WriteString("\n")
	}
	if t.Failed() {
		return
	}
	text, err := os.ReadFile("testdata/compare/page.md")
	if err != nil {
		t.Fatal(err)
	}
	version, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	bash, _ := exec.Command("bash", "-c", "echo $BASH_VERSION").Output()
	out := strings.NewReplacer("{table}", page.String(), "{mode}", mode, "{span}", n.span.String(), "{silence}", n.silence.String(), "{shell}", (&night{way: "shell", patience: n.patience, span: n.span}).limit().String(),
		"{version}", strings.TrimSpace(string(version)), "{go}", runtime.Version(), "{bash}", strings.TrimSpace(string(bash)), "{os}", runtime.GOOS+"/"+runtime.GOARCH).Replace(string(text))
	if err := os.WriteFile("../docs/comparison.md", []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

// prepare makes the repository, the agent and the configuration.
func (n *night) prepare(t *testing.T) {
	t.Helper()
	n.dir = t.TempDir()
	n.repo = filepath.Join(n.dir, "repo")
	agent, err := filepath.Abs("testdata/compare")
	if err != nil {
		t.Fatal(err)
	}
	n.env = append(os.Environ(), "COMPARE="+n.dir, "SPAN="+strconv.Itoa(int(n.span.Seconds())), "PATH="+agent+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+filepath.Join(n.dir, "state"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid")
	check := "test \"$(wc -l < work.txt)\" -ge 3\n"
	files := map[string]string{"situation": n.situation, "repo/PROMPT.md": "Put three lines into work.txt. check.sh says whether it is done.\n"}
	switch n.situation {
	case "green":
		check = "true\n"
	case "missing":
		check = "node -e 'require(\"dep\")' && " + check
		files["repo/package.json"] = `{"name": "x", "version": "1.0.0", "scripts": {"test": "sh check.sh"}, "dependencies": {"dep": "file:./lib"}}`
		files["repo/package-lock.json"] = `{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {"": {"name": "x", "version": "1.0.0", "dependencies": {"dep": "file:./lib"}}, "lib": {"name": "dep", "version": "1.0.0"}, "node_modules/dep": {"resolved": "lib", "link": true}}}`
		files["repo/lib/package.json"] = `{"name": "dep", "version": "1.0.0", "main": "i.js"}`
		files["repo/lib/i.js"] = ""
		files["repo/.gitignore"] = "node_modules/\n"
	}
	files["repo/check.sh"] = check
	for name, text := range files {
		path := filepath.Join(n.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	n.must(t, "git init -q . && git add -A && git commit -q -m start")
	if n.way != "init" {
		return
	}
	n.must(t, n.superloop+" init --yes --loop night --runner claude --test 'sh check.sh'")
	n.must(t, "cp PROMPT.md .superloop/specs/night.md && printf '\\n- [x] as above\\n' >> .superloop/specs/night.md")
	config := filepath.Join(n.repo, ".superloop", "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if n.situation == "hang" {
		text = bytes.Replace(text, []byte(`"inactivity": 900`), fmt.Appendf(nil, `"inactivity": %d`, int(n.silence.Seconds())), 1)
	}
	if n.situation == "budget" {
		text = bytes.Replace(text, []byte(`"max_iterations": 20`), []byte(`"max_iterations": 20, "max_cost_usd": 3`), 1)
	}
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// command is what a person types.
func (n *night) command() string {
	switch n.way {
	case "init":
		return n.superloop + " run --loop night --exit-on-escalation"
	case "prompt":
		more := ""
		if n.situation == "hang" {
			more = " --max-silence " + n.silence.String()
		}
		if n.situation == "budget" {
			more = " --max-cost 3"
		}
		return n.superloop + " run --prompt PROMPT.md --test 'sh check.sh' --exit-on-escalation" + more + " -- claude"
	}
	if n.way == "grep" {
		return `until claude -p "$(cat PROMPT.md)" < /dev/null | grep -q "<promise>"; do :; done`
	}
	return `while :; do claude -p "$(cat PROMPT.md)" < /dev/null; done`
}

// run starts the command and waits for its end, for patience at most. In the situation kill it kills the process in the
// middle and starts the command again.
func (n *night) run(t *testing.T) {
	t.Helper()
	begun := time.Now()
	defer func() { n.took = time.Since(begun) }()
	for {
		log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		cmd := n.shell(n.command())
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = cmd.Wait() // ProcessState says how it ended
		}()
		again, ended := n.watch(cmd.Process.Pid, over, begun)
		log.Close()
		if !again {
			n.ended, n.code = ended, cmd.ProcessState.ExitCode()
			return
		}
	}
}

// watch waits for the end of a process. again says that it was killed in the middle, as the situation wants.
func (n *night) watch(pid int, over <-chan struct{}, begun time.Time) (again, ended bool) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return false, true
		case <-tick.C:
		}
		if _, err := os.Stat(filepath.Join(n.dir, "kill-now")); err == nil && os.Remove(filepath.Join(n.dir, "kill-now")) == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			<-over
			return true, false
		}
		if time.Since(begun) > n.limit() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			<-over
			return false, false
		}
	}
}

// byHand reports whether no supervisor runs the agent.
func (n *night) byHand() bool { return n.way == "shell" || n.way == "grep" }

// limit is the time after which the night is stopped from outside. A loop by hand may have no end, so it gets less.
func (n *night) limit() time.Duration {
	if n.byHand() {
		return max(n.patience/3, 2*n.span)
	}
	return n.patience
}

// judge says whether the end is the right one, and how it ended. The books are those of the agent and of the work tree,
// and not what a program says of itself.
func (n *night) judge(right string) (bool, string) {
	how := fmt.Sprintf("ended with exit code %d", n.code)
	if !n.ended {
		how = "stopped from outside"
	}
	done := n.sh("sh check.sh").Run() == nil && strings.Count(n.read("work.txt"), "\n") >= 3
	if !done {
		how += ", the work is not done"
	}
	switch right {
	case "refused":
		if n.ended && n.code == 0 {
			how += ", taken for done"
		}
		return n.ended && n.code != 0, how
	case "budget":
		return n.ended && n.lines("runs") <= 6, how
	case "clean":
		if len(n.processes("98765")) > 0 {
			return false, how + ", the process lives"
		}
	case "single":
		if n.lines("overlap") > 0 {
			return false, how + ", two agents at once"
		}
	}
	return n.ended && n.code == 0 && done, how
}

// sweep ends what is left of the night.
func (n *night) sweep() {
	for _, pid := range n.processes("") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processes returns the processes of the night whose command line holds a word. They are known by their environment,
// because an agent may see its processes under other pids.
func (n *night) processes(word string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // "" for a process that has ended
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.Contains(env, []byte("COMPARE="+n.dir+"\x00")) && bytes.Contains(line, []byte(word)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (n *night) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(n.repo, name)) // "" for a file that the night has not made
	return string(data)
}

func (n *night) lines(name string) int { return strings.Count(n.read("../"+name), "\n") }

func (n *night) sh(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir, cmd.Env = n.repo, n.env
	return cmd
}

// shell is sh whose process is the program itself, and not a shell that waits for it.
func (n *night) shell(line string) *exec.Cmd {
	if n.byHand() {
		return n.sh(line)
	}
	return n.sh("exec " + line)
}

func (n *night) must(t *testing.T, line string) {
	t.Helper()
	if out, err := n.sh(line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}
