package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
)

// losses are what an agent can do to the repository, as commands in it, and what the operator reads. Then mend, and the
// next command that superloop named, make the loop go on.
var losses = map[string]struct {
	do, says, mend string
	ends           bool // the next run completes without mend
}{
	"removed":         {do: `rm -rf .git`, says: "there is no "},
	"moved away":      {do: `mv .git ../gone`, says: "there is no ", mend: `mv ../gone .git`},
	"emptied":         {do: `rm -rf .git/* .git/.??*`, says: "has no HEAD, objects, refs"},
	"without HEAD":    {do: `rm .git/HEAD`, says: "has no HEAD; the next run writes it anew", ends: true},
	"without objects": {do: `rm -rf .git/objects`, says: "has no objects"},
	"another one":     {do: `git init -q ../other && rm -rf .git && echo "gitdir: $PWD/../other/.git" >.git`, says: "leads to "},
	"leads nowhere":   {do: `rm -rf .git && echo "gitdir: /nowhere" >.git`, says: "has no HEAD, objects, refs"},
	"a FIFO":          {do: `rm -rf .git && mkfifo .git`, says: "has no HEAD, objects, refs"},
	"unreadable":      {do: `chmod 000 .git`, says: "cannot be read"},
	"top unreadable":  {do: `chmod 000 .`, says: "cannot be read"},
}

// lostEnv is a loop whose tester does something once, in the repository.
func lostEnv(t *testing.T, do string) *testEnv {
	n := newPathsEnv(t)
	n.write("before.sh", fmt.Sprintf("if [ \"$SUPERLOOP_ROLE\" = tester ] && ! [ -e %[1]q/once ]; then : >%[1]q/once; (cd %[1]q/repo; %[2]s) || exit 9; fi\n", n.root, do))
	t.Cleanup(func() { _ = os.Chmod(n.path("repo"), 0o755) })
	return n
}

// sh runs a command in the directory of the repositories, as an operator types it.
func (n *testEnv) sh(command string) {
	n.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	if _, err := os.Stat(n.path("repo/.superloop")); err != nil {
		cmd.Dir = n.root
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// TestALostRepository: an agent takes the repository away, and superloop asks. It names the command, which works, and
// nothing of its own state is lost.
func TestALostRepository(t *testing.T) {
	t.Parallel()
	names, i := []string{}, 0
	for name := range losses {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, level := range []string{"L0", "L1"} {
			if i++; i%testkit.Sample(17, 1, 1) != 0 || os.Geteuid() == 0 && strings.Contains(name, "unreadable") {
				continue // root reads all
			}
			t.Run(name+" at "+level, func(t *testing.T) {
				t.Parallel()
				lose(t, name, level)
			})
		}
	}
}

func lose(t *testing.T, name, level string) {
	c := losses[name]
	n := lostEnv(t, c.do)
	run := []string{"run", "--exit-on-escalation"}
	if level == "L0" {
		run = append(run, "--unprotected")
	}
	code, out := n.bounded(name, 0, run...)
	if code != exitHuman || !strings.Contains(out, "the repository of "+n.path("repo")+" is lost: ") || !strings.Contains(out, c.says) {
		t.Fatalf("run gave %d\n%s", code, out)
	}
	before := ""
	if name != "top unreadable" {
		before = n.journalText()
	}
	if !c.ends && !strings.Contains(name, "unreadable") {
		// The operator has done nothing, or something that did not help.
		if code, out := n.bounded(name, 0, run...); code != exitHuman && code != exitConfig || nextCommand(out) == "" {
			t.Errorf("the run after it gave %d\n%s", code, out)
		}
	}
	switch fix := nextCommand(out); {
	case c.mend != "":
		n.sh(c.mend)
	case fix != "":
		n.sh(fix)
	case !c.ends:
		t.Fatalf("no next command\n%s", out)
	}
	if code, out = n.bounded(name, 0, run...); code != exitOK {
		t.Errorf("the run after the next command gave %d\n%s", code, out)
	}
	if after := n.journalText(); !strings.HasPrefix(after, before) {
		t.Error("events were lost")
	}
	n.git("fsck")
}

// nextCommand returns the command of superloop's last line that mends, without what stands in brackets behind it.
func nextCommand(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	_, command, _ := strings.Cut(lines[len(lines)-1], ": ")
	command, _, _ = strings.Cut(command, ", then: ")
	command, _, _ = strings.Cut(command, "   (")
	if strings.HasPrefix(command, "superloop ") {
		return ""
	}
	return command
}

func (n *testEnv) journalText() string {
	n.t.Helper()
	var text []byte
	for _, ev := range n.events() {
		var err error
		if text, err = journal.AppendLine(text, ev); err != nil {
			n.t.Fatal(err)
		}
	}
	return string(text)
}

// TestALostRepositoryByTests: what is no role can lose it, too. The loop pauses, and SIGTERM ends a run that waits.
func TestALostRepositoryByTests(t *testing.T) {
	t.Parallel()
	n := newPathsEnv(t)
	config, err := os.ReadFile(n.path("repo/.superloop/config.json"))
	if err != nil {
		t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", strings.Replace(string(config), `"commands": ["test -f work-1.txt"]`,
		fmt.Sprintf(`"commands": ["mv .git '%s/gone' || :"]`, n.root), 1))
	code, out := n.bounded("tests", 0, "run", "--unprotected")
	if code != exitHuman || !strings.Contains(out, "there is no "+n.path("repo/.git")) {
		t.Fatalf("run gave %d\n%s", code, out)
	}
	if _, status := n.superloop(nil, "status"); !strings.Contains(status, "paused") || !strings.Contains(status, "there is no ") {
		t.Errorf("status: %s", status)
	}
}

func TestALostRepositoryAndSIGTERM(t *testing.T) {
	t.Parallel()
	n := lostEnv(t, losses["removed"].do)
	began := time.Now()
	code, out := n.bounded("removed", 10*time.Second, "run", "--unprotected") // it waits for an answer until then
	if code != exitTerminated || !strings.Contains(out, "still waiting for an operator") {
		t.Errorf("run gave %d after %v\n%s", code, time.Since(began), out)
	}
}

// TestLostFiles: the same for superloop's own directories, which an agent can only reach at L0.
func TestLostFiles(t *testing.T) {
	t.Parallel()
	nexts := map[string]string{
		`rm -rf .superloop`:                       "superloop init",
		`mv .superloop ../gone`:                   "superloop init",
		`rm -rf .superloop/loops/l`:               "superloop run --fresh",
		`mv .superloop/loops/l ../gone`:           "superloop run --fresh",
		`rm .superloop/loops/l/events.jsonl`:      "superloop run --fresh",
		`rm -rf .superloop/loops/l/events.jsonl*`: "superloop run --fresh",
		`rm .superloop/specs/l.md`:                "superloop validate",
		`cd .. && mv repo gone`:                   "superloop run",
	}
	for i, do := range slices.Sorted(maps.Keys(nexts)) {
		if i%testkit.Sample(2, 1, 1) != 0 {
			continue
		}
		next := nexts[do]
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			n := lostEnv(t, do)
			_, out := n.bounded(do, 0, "run", "--unprotected", "--exit-on-escalation")
			if !strings.Contains(out, "hint: ") && !strings.Contains(out, "next: ") {
				t.Errorf("no next command\n%s", out)
			}
			if strings.Contains(do, "repo") {
				n.sh("mv gone repo")
			}
			code, out := n.bounded(do, 0, "run", "--unprotected", "--exit-on-escalation")
			if next == "superloop run" {
				if code != exitOK {
					t.Errorf("put back: %d\n%s", code, out)
				}
				return
			}
			if !strings.Contains(out, next) {
				t.Errorf("the next run gave %d and does not name %s\n%s", code, next, out)
			}
			if next == "superloop run --fresh" {
				if code, out = n.bounded(do, 0, "run", "--unprotected", "--fresh"); code != exitOK {
					t.Errorf("run --fresh: %d\n%s", code, out)
				}
			}
		})
	}
}
