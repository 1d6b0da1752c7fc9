package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// aided is a night whose tests fail of the environment, and whose only role says
// that it is done. recovery is the section of the config, tests the command.
func remediated(t *testing.T, recovery, tests string) *testEnv {
	n := newTestEnv(t, false)
	n.write("agent.sh", `cat > /dev/null
echo x > made
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
[ "$SUPERLOOP_ROLE" != reviewer ] || echo '<promise>DONE</promise>'
`)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}}, "recovery": %s,
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 2,
    "roles": ["implementer", "tester", "reviewer"], "tests": {"commands": [%q]}}]
}`, n.path("agent.sh"), recovery, tests))
	return n
}

// wantRemedied wants that the loop is complete after one iteration, and that between
// the tests' failure and their passing no role ran.
func (n *testEnv) wantRemedied(handler string) {
	n.t.Helper()
	code, out := n.superloop(nil, "run", "--exit-on-escalation")
	if code != exitOK {
		n.t.Fatalf("run gave %d\n%s\n%s", code, out, n.log("recovery-1.log"))
	}
	var story []string
	for _, ev := range n.events() {
		switch ev.Event {
		case "role_start", "tests_end", "tests_rerun_end", "failure_classified", "chain_closed", "recovery_executed", "leftovers_ended":
			story = append(story, ev.Event)
		}
		if ev.Iteration > 1 {
			n.t.Errorf("it took another iteration\n%s", out)
		}
		if ev.Event == "failure_classified" && handler != "" && !strings.Contains(string(ev.Fields), `"handler":"`+handler+`"`) {
			n.t.Errorf("it was taken for something else: %s", ev.Fields)
		}
	}
	text := strings.Join(story, " ")
	failed, passed := strings.Index(text, "tests_end"), strings.LastIndex(text, "tests_rerun_end")
	if failed < 0 || passed < 0 || strings.Contains(text[failed:passed], "role_start") || !strings.Contains(text, "chain_closed") {
		n.t.Fatalf("what happened was: %s\n%s", text, out)
	}
}

// TestRemediationStaleLock: a git that was killed has left its lock.
func TestRemediationStaleLock(t *testing.T) {
	t.Parallel()
	if _, err := proc.LookPath("git", os.Environ()); err != nil {
		t.Skip("git is not installed")
	}
	n := remediated(t, `{"auto_approve": ["rm -f .git/index.lock"]}`, "git add -A")
	n.write("repo/.git/index.lock", "")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(n.path("repo/.git/index.lock"), long, long); err != nil {
		t.Fatal(err)
	}
	n.wantRemedied("git_index_lock")
}

// TestRemediationLeftover: what an earlier run, which was killed, has left behind has
// the port that the tests need. It is ours, so it is ended, and nobody is asked.
func TestRemediationLeftover(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("whose a process is can only be seen on Linux")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed; it plays a server that was left behind")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	n := remediated(t, `{"auto_approve": ["touch never"]}`, fmt.Sprintf("python3 serve.py %d", port))
	n.write("repo/serve.py", `import http.server, sys, threading
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.BaseHTTPRequestHandler)
if len(sys.argv) > 2:
    print("ready", flush=True)
    server.serve_forever()
print("the tests pass")
`)
	left := exec.Command(python, n.path("repo/serve.py"), fmt.Sprint(port), "stay")
	left.Env = append(n.env, "SUPERLOOP_MARK=20260101T000000.000Z-0badcafe", "SUPERLOOP_LOOP=l", "SUPERLOOP_LOOP_DIR="+n.path("repo/.superloop/loops/l"))
	out, err := left.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { _ = left.Wait(); close(gone) }() // how it ended does not matter
	n.wantRemedied("port_in_use")
	select {
	case <-gone:
	case <-time.After(patience):
		_ = left.Process.Kill() // it was to be ended
		t.Error("what was left behind is still there")
	}
}

// TestRealRemediation are the real tools: what they say is recognised, and what fixes
// it is what the rules say, with no role in between.
// Conforms: 004-goal-auto
func TestRealRemediation(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPERLOOP_TEST_CLIS") == "" {
		t.Skip("it installs packages; set SUPERLOOP_TEST_CLIS to run it, as .ci/run does")
	}
	needs := func(t *testing.T, tools ...string) {
		t.Parallel()
		for _, tool := range tools {
			if _, err := proc.LookPath(tool, os.Environ()); err != nil {
				t.Skipf("%s is not installed", tool)
			}
		}
	}
	project := func(t *testing.T) *testEnv {
		needs(t, "npm", "node")
		n := remediated(t, publishedPolicy, "node test.js")
		n.loginAsNpm()
		n.write("repo/package.json", `{"name": "shop", "version": "1.0.0", "private": true}`+"\n")
		n.npm("repo", "esbuild@"+wantedESBuild, "is-number@7.0.0")
		n.write("repo/.gitignore", "node_modules\n")
		n.write("repo/test.js", `const out = require("esbuild").transformSync("export const total: number = 1", { loader: "ts" }).code
if (!out.includes("total = 1") || !require("is-number")(5)) throw new Error(out)
`)
		n.git("add", "-A")
		n.git("commit", "-q", "-m", "a project")
		return n
	}
	t.Run("another version of esbuild", func(t *testing.T) {
		n := project(t)
		n.mkdir("other")
		n.npm("other", "esbuild@"+brokenESBuild)
		platform := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
		binary := "node_modules/@esbuild/" + runtime.GOOS + "-" + platform + "/bin/esbuild"
		n.copyFile("other/"+binary, "repo/"+binary)
		n.wantRemedied("")
	})
	t.Run("corrupted node_modules", func(t *testing.T) {
		n := project(t)
		n.write("repo/node_modules/is-number/package.json", `{"name": "is-num`)
		n.wantRemedied("")
	})
	t.Run("nothing installed", func(t *testing.T) {
		n := project(t)
		if err := os.RemoveAll(n.path("repo/node_modules")); err != nil {
			t.Fatal(err)
		}
		n.wantRemedied("")
	})
	t.Run("a Python that refuses pip", func(t *testing.T) {
		const python = "/usr/bin/python3"
		marked, _ := filepath.Glob("/usr/lib/python3*/EXTERNALLY-MANAGED")
		if len(marked) == 0 || exec.Command(python, "-c", "import venv, ensurepip, pip").Run() != nil {
			t.Skip("there is no Python here that belongs to the system, with pip and venv")
		}
		needs(t)
		n := remediated(t, `{"auto_approve": ["python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"]}`, "sh test.sh")
		n.write("repo/.gitignore", ".venv\n")
		n.write("repo/requirements.txt", "./dep-1.0-py3-none-any.whl\n")
		n.write("repo/test.sh", `[ -d .venv ] && . .venv/bin/activate || alias python3=`+python+`
python3 -m pip install --no-index -r requirements.txt && python3 -c "import dep"
`)
		n.write("wheel.py", `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("dep.py", "")
    z.writestr("dep-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n")
    z.writestr("dep-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("dep-1.0.dist-info/RECORD", "dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n")
`)
		if out, err := exec.Command(python, n.path("wheel.py"), n.path("repo/dep-1.0-py3-none-any.whl")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		n.git("add", "-A")
		n.git("commit", "-q", "-m", "a project")
		n.wantRemedied("pep668")
	})
	// Installing a package of the system is an operator's decision, whatever is listed.
	// They are asked before any role is started, and what they approve runs in the
	// sandbox, which lets it write where the owner says.
	t.Run("a tool of the system is missing", func(t *testing.T) {
		needs(t, "apt-get")
		tool := ""
		for _, name := range []string{"tree", "zip", "rsync", "tmux", "shellcheck", "jq"} {
			if _, err := proc.LookPath(name, os.Environ()); err != nil && tool == "" {
				tool = name
			}
		}
		if tool == "" || os.Getuid() != 0 || exec.Command("apt-get", "install", "--print-uris", "-y", tool).Run() != nil {
			t.Skip("apt-get cannot install anything here that is missing")
		}
		n := remediated(t, `{"sandbox": {"caches": ["/usr", "/var", "/etc"]}}`, "command -v "+tool+" || "+tool+" --version")
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		if code != exitHuman {
			t.Fatalf("run gave %d\n%s", code, out)
		}
		for _, ev := range n.events() {
			if ev.Event == "role_start" && strings.Contains(string(ev.Fields), `"tester"`) {
				t.Errorf("the tester was started before an operator was asked\n%s", out)
			}
		}
		// Where the system's list of packages is old, it is read anew first.
		q := n.asked().Question
		if q.Command == nil || !strings.HasPrefix(strings.TrimPrefix(string(q.Command.Text), "apt-get update && "), "apt-get install ") {
			t.Fatalf("it asks about %+v", q)
		}
		if code, out := n.superloop(nil, "approve-recovery", "--yes", "--by", "ann"); code != exitOK {
			t.Fatalf("approve-recovery gave %d\n%s", code, out)
		}
		code, out = n.superloop(nil, "run", "--exit-on-escalation")
		if text := n.log("recovery-1.log"); code != exitOK && strings.Contains(text, "Could not get lock") {
			t.Skip("somebody else installs packages on this machine")
		} else if code != exitOK {
			t.Fatalf("run gave %d\n%s\n%s", code, out, text)
		}
	})
}
