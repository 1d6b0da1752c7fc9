//go:build linux

package bench

import (
	"bytes"
	"cmp"
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

// way is how the agent is run. An operator writes files into the repository, types setup once and command each night.
type way struct {
	name, what string
	byHand     bool              // no supervisor runs the agent
	peer       bool              // a program of peers runs it
	files      map[string]string // by path in the repository
	setup      string
	command    string
}

// The tasks of a peer. ralphy takes the end of a run for the end of a task, so it gets a task for each of the three steps.
const (
	ralphyTasks = "# Tasks\n\n- [ ] Put the first of three lines into work.txt.\n- [ ] Put the second line into work.txt.\n- [ ] Put the third line into work.txt. check.sh says whether it is done.\n"
	tuiTasks    = `{"name": "x", "branchName": "main", "description": "Three lines", "userStories": [{"id": "US-001", "title": "Put three lines into work.txt", "priority": 1, "passes": false, "dependsOn": [],
 "description": "Put three lines into work.txt. check.sh says whether it is done.", "acceptanceCriteria": ["sh check.sh passes"]}]}`
	tuiConfig = "[[agents]]\nname = \"claude\"\nplugin = \"claude\"\ndefault = true\n%s[agents.rateLimitHandling]\nmaxRetries = 10\n\n[errorHandling]\nstrategy = \"retry\"\nmaxRetries = 10\n"
)

// ways returns the columns.
func (n *night) ways() []way {
	silent, cost, iterations, timeout := "", "", 20, ""
	switch n.situation {
	case "hang":
		silent, timeout = " --max-silence "+n.silence.String(), fmt.Sprintf("timeout = %d\n", n.silence.Milliseconds())
	case "budget":
		cost, iterations = " --max-cost 3", 6 // what $3 pay for; see the page
	}
	return []way{
		{name: "init", what: "superloop as `init` writes it", command: n.superloop + " run --loop night --exit-on-escalation",
			setup: n.superloop + " init --yes --loop night --runner claude --test 'sh check.sh' && cp PROMPT.md .superloop/specs/night.md && printf '\\n- [x] as above\\n' >> .superloop/specs/night.md"},
		{name: "prompt", what: "superloop `run --prompt`", command: n.superloop + " run --prompt PROMPT.md --test 'sh check.sh' --exit-on-escalation" + silent + cost + " -- claude"},
		{name: "shell", what: "`while :; do claude -p ...; done`", byHand: true, command: `while :; do claude -p "$(cat PROMPT.md)" < /dev/null; done`},
		{name: "grep", what: "the same `until` it prints `<promise>`", byHand: true, command: `until claude -p "$(cat PROMPT.md)" < /dev/null | grep -q "<promise>"; do :; done`},
		{name: "ralph-tui", peer: true, files: map[string]string{"prd.json": tuiTasks, ".ralph-tui/config.toml": fmt.Sprintf(tuiConfig, timeout)},
			command: fmt.Sprintf("ralph-tui run --headless --no-setup --no-notify --prd prd.json --delay 0 --iterations %d", iterations)},
		{name: "ralphy", peer: true, files: map[string]string{"PRD.md": ralphyTasks, ".ralphy/config.yaml": "commands:\n  test: sh check.sh\n"},
			command: fmt.Sprintf("ralphy-linux-%s --prd PRD.md --max-retries 10 --max-iterations %d", strings.Replace(runtime.GOARCH, "amd64", "x64", 1), iterations)},
		{name: "ralph-starter", peer: true, files: map[string]string{"AGENTS.md": "- **Lint**: `sh check.sh`\n"},
			command: fmt.Sprintf(`ralph-starter run "$(cat PROMPT.md)" --agent claude-code --headless --output-dir . --no-auto-skills --validate --completion-promise "<promise>COMPLETE</promise>" --max-iterations %d%s`, iterations, cost)},
	}
}

// What the peers need, pinned. The scripts of starter's installation want another package manager than npm, and are left out.
const (
	peers   = "ralph-tui@0.11.0 bun@1.4.5 ralphy-cli@4.7.2"
	starter = "ralph-starter@0.5.2"
)

// install returns the PATH of the peers, and installs them at the first time. It returns "" where npm is missing.
func install(t *testing.T) string {
	if _, err := exec.LookPath("npm"); err != nil {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, want := filepath.Join(cache, "superloop-compare"), peers+" "+starter
	modules := filepath.Join(dir, "node_modules")
	if have, _ := os.ReadFile(filepath.Join(dir, "installed")); string(have) != want {
		t.Log("installing the peers into " + dir)
		npm := "npm install --no-audit --no-fund --loglevel=error "
		cmd := exec.Command("bash", "-c", "rm -rf node_modules package*.json installed && npm init -y && "+npm+peers+" && "+npm+"--ignore-scripts "+starter)
		cmd.Dir = dir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the peers could not be installed from npm (no network?): %v\n%s", err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, "installed"), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(modules, ".bin") + ":" + filepath.Join(modules, "ralphy-cli", "dist")
}

// night is one situation in one way.
type night struct {
	way
	situation string
	span      time.Duration // of the outage and of the limit
	silence   time.Duration // after which superloop ends a hanging agent
	patience  time.Duration // after which a supervisor is stopped from outside
	dir, repo string
	env       []string
	superloop string
	programs  string // PATH of the peers
	ended     bool
	code      int
	took      time.Duration
}

// TestComparison runs each situation in each way with a scripted agent, and writes docs/comparison.md if it has run all.
func TestComparison(t *testing.T) {
	mode := os.Getenv(compareVariable)
	if mode == "" {
		t.Skipf("it takes minutes; %s=quick or full runs it and writes docs/comparison.md", compareVariable)
	}
	n := night{span: 6 * time.Second, silence: 5 * time.Second, patience: 60 * time.Second, programs: install(t)}
	if mode == "full" {
		n.span, n.silence, n.patience = 30*time.Second, 15*time.Second, 180*time.Second
	}
	n.superloop = filepath.Join(t.TempDir(), "superloop")
	if out, err := exec.Command("go", "build", "-o", n.superloop, "../cmd/superloop").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole := true
	var table strings.Builder
	for _, s := range situations {
		n.situation = s.name
		fmt.Fprintf(&table, "| %s: %s |", s.name, s.what)
		for _, w := range n.ways() {
			played := false
			t.Run(s.name+"/"+w.name, func(t *testing.T) {
				if w.peer && n.programs == "" {
					t.Skip("npm is not there to install the peers, so the page is not written; install Node.js 20 or newer")
				}
				one := n
				one.way = w
				one.prepare(t)
				one.run(t)
				cell := one.cell(s.right)
				one.sweep()
				t.Log(cell)
				fmt.Fprintf(&table, " %s |", cell)
				played = true
			})
			whole = whole && played
		}
		table.WriteString("\n")
	}
	if t.Failed() || !whole {
		return
	}
	page, err := os.ReadFile("testdata/compare/page.md")
	if err != nil {
		t.Fatal(err)
	}
	head, line := "| situation |", "|---|"
	for _, w := range n.ways() {
		head, line = head+" "+cmp.Or(w.what, w.name)+" |", line+"---|"
	}
	version, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	bash, _ := exec.Command("bash", "-c", "echo $BASH_VERSION").Output()
	out := strings.NewReplacer("{table}", head+"\n"+line+"\n"+table.String(), "{mode}", mode, "{span}", n.span.String(), "{silence}", n.silence.String(), "{hand}", byHandPatience.String(), "{patience}", n.patience.String(),
		"{version}", strings.TrimSpace(string(version)), "{peers}", strings.ReplaceAll(peers+" "+starter, " ", ", "),
		"{go}", runtime.Version(), "{bash}", strings.TrimSpace(string(bash)), "{os}", runtime.GOOS+"/"+runtime.GOARCH).Replace(string(page))
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
	n.env = append(os.Environ(), "COMPARE="+n.dir, "SPAN="+strconv.Itoa(int(n.span.Seconds())), "PATH="+agent+":"+n.programs+":"+os.Getenv("PATH"), "HOME="+filepath.Join(n.dir, "home"), "XDG_STATE_HOME="+filepath.Join(n.dir, "state"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid")
	check := "test \"$(cat work.txt 2> /dev/null | wc -l)\" -ge 3 || { echo three lines are wanted >&2; exit 1; }\n"
	files := map[string]string{"situation": n.situation, "home/.profile": "", "repo/PROMPT.md": "Put three lines into work.txt. check.sh says whether it is done.\n"}
	for path, text := range n.files {
		files["repo/"+path] = text
	}
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
	if n.setup == "" {
		return
	}
	n.must(t, n.setup)
	config := filepath.Join(n.repo, ".superloop", "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	switch n.situation {
	case "hang":
		text = bytes.Replace(text, []byte(`"inactivity": 900`), fmt.Appendf(nil, `"inactivity": %d`, int(n.silence.Seconds())), 1)
	case "budget":
		text = bytes.Replace(text, []byte(`"max_iterations": 20`), []byte(`"max_iterations": 20, "max_cost_usd": 3`), 1)
	}
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
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
		cmd := n.shell(n.command)
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

// byHandPatience is the time after which a loop by hand is stopped from outside, beside the outage or the limit of the
// situation. Such a loop may have no end.
const byHandPatience = 20 * time.Second

// limit is the time after which the night is stopped from outside.
func (n *night) limit() time.Duration {
	switch {
	case n.byHand && (n.situation == "limit" || n.situation == "outage"):
		return n.span + byHandPatience
	case n.byHand:
		return byHandPatience
	case n.name == "ralph-starter":
		return n.patience + 5*time.Minute // it ends an agent after five minutes, and that cannot be set
	}
	return n.patience
}

// cell says whether the end is the right one, how it came if not, and what the night cost. The books are those of the
// agent and of the work tree, and not what a program says of itself.
func (n *night) cell(right string) string {
	why := ""
	fault := func(is bool, what string) {
		if is {
			why = strings.TrimPrefix(why+", "+what, ", ")
		}
	}
	// The same for all, whatever the agent has done to check.sh.
	done := n.sh("sh check.sh").Run() == nil && strings.Count(n.read("work.txt"), "\n") >= 3
	fault(!n.ended, "no end")
	switch right {
	case "refused":
		fault(n.ended && n.code == 0, "taken for done")
	case "budget":
		fault(n.lines("runs") > 6, "over the budget")
	default:
		fault(n.ended && n.code != 0, fmt.Sprintf("exit code %d", n.code))
		fault(!done, "not done")
		fault(right == "clean" && len(n.processes("98765")) > 0, "the process lives")
		fault(right == "single" && n.lines("overlap") > 0, "two agents at once")
	}
	out := "yes"
	if why != "" {
		out = "**no**: " + why
	}
	out += fmt.Sprintf("; %d paid", n.lines("runs"))
	if refused := n.lines("refused"); refused > 0 {
		out += fmt.Sprintf(" (%d refused)", refused)
	}
	return out + fmt.Sprintf(", %.0f s", n.took.Seconds())
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
	if n.byHand {
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
