package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
)

// publishedPolicy is the example section of the published design, as it is.
const publishedPolicy = `{
    "enabled": true,
    "auto_approve": [
      "bun install",
      "npm install",
      "yarn install",
      "pnpm install",
      "rm -rf node_modules && bun install",
      "rm -rf node_modules && npm install",
      "rm -rf .next && bun run build",
      "rm -rf dist && bun run build"
    ],
    "require_human": [
      "rm -rf *",
      "git reset --hard",
      "git push",
      "curl *",
      "wget *"
    ],
    "max_auto_recoveries_per_run": 3,
    "cooldown_seconds": 60,
    "on_unknown": "escalate"
  }`

// The two versions of esbuild that the published example is about, and a bun.
const (
	wantedESBuild = "0.27.2"
	brokenESBuild = "0.21.5"
	bunPackage    = "bun@1.4.5"
)

// TestRealRecovery is the case that the published design was written for, with
// the real tools: the esbuild of a project has the binary of another version, the
// tests cannot start, the tester leaves the published proposal byte for byte, and
// under the published policy it is executed without an operator; the project works
// afterwards.
// Conforms: 004-problem-diagnosed, 004-problem-esbuild
func TestRealRecovery(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPERLOOP_TEST_CLIS") == "" {
		t.Skip("it installs packages; set SUPERLOOP_TEST_CLIS to run it, as .ci/run does")
	}
	for _, tool := range []string{"npm", "node"} {
		if _, err := proc.LookPath(tool, os.Environ()); err != nil {
			t.Skipf("%s is not installed; the real recovery needs it", tool)
		}
	}
	n := newTestEnv(t, false)
	n.loginAsNpm()
	n.mkdir("tools")
	n.mkdir("other")
	n.npm("tools", bunPackage)
	n.npm("other", "esbuild@"+brokenESBuild)
	for i, v := range n.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			n.env[i] = "PATH=" + n.path("tools/node_modules/.bin") + ":" + path
		}
	}
	n.write("repo/package.json", `{"name": "shop", "version": "1.0.0", "private": true}`+"\n")
	n.npm("repo", "esbuild@"+wantedESBuild)
	n.write("repo/.gitignore", "node_modules\n")
	n.write("repo/test.js", `const out = require("esbuild").transformSync("export const total: number = 1", { loader: "ts" }).code
if (!out.includes("total = 1")) throw new Error(out)
`)
	proposal, err := os.ReadFile("../../schemas/testdata/valid/recovery.published.json")
	if err != nil {
		t.Fatal(err)
	}
	n.write("proposal.json", string(proposal))
	n.write("agent.sh", `cat > /dev/null
echo x > made
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
case $SUPERLOOP_ROLE in
tester) node test.js 2> /dev/null || cp "`+n.path("proposal.json")+`" "$SUPERLOOP_LOOP_DIR/recovery.json" ;;
reviewer) echo '<promise>DONE</promise>' ;;
esac
`)
	n.write("repo/.superloop/config.json", `{
  "runners": {"sh": {"command": ["sh", "`+n.path("agent.sh")+`"]}},
  "recovery": `+strings.Replace(publishedPolicy, `"enabled": true`, `"enabled": true, "first_aid": false`, 1)+`,
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 2,
    "roles": ["implementer", "tester", "reviewer"], "tests": {"commands": ["node test.js"]}}]
}`)
	n.git("add", "-A")
	n.git("commit", "-q", "-m", "a project")

	platform := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	binary := "node_modules/@esbuild/" + runtime.GOOS + "-" + platform + "/bin/esbuild"
	n.copyFile("other/"+binary, "repo/"+binary)
	if out, ok := n.node("test.js"); ok || !strings.Contains(out, "does not match binary version") {
		t.Fatalf("the project is not broken as it should be:\n%s", out)
	}

	code, out := n.superloop(nil, "run", "--exit-on-escalation")
	if code != exitOK {
		t.Fatalf("run gave %d\n%s\n%s", code, out, n.log("recovery-1.log"))
	}
	if out, ok := n.node("test.js"); !ok {
		t.Fatalf("the project does not work after the recovery:\n%s", out)
	}
	seen := map[string]int{}
	for _, ev := range n.events() {
		fact, err := loop.DecodeFact(ev.Event, ev.Fields)
		if err != nil {
			t.Fatal(err)
		}
		switch f := fact.(type) {
		case loop.Proposed:
			if f.Verdict != "auto" || f.Rule != "auto_approve" || f.Command != "rm -rf node_modules && bun install" {
				t.Errorf("the verdict is %s by %s of %q", f.Verdict, f.Rule, f.Command)
			}
		case loop.Executed:
			if !f.OK() || !strings.Contains(f.OutputTail, "esbuild@"+wantedESBuild) {
				t.Errorf("the command ended with %d and said %q", f.ExitCode, f.OutputTail)
			}
		case loop.TestsEnded:
			if v := f.Verification; v != nil && v.Result != loop.Verified {
				t.Errorf("the tests say %+v", *v)
			}
		}
		seen[ev.Event]++
	}
	for name, want := range map[string]int{"recovery_executed": 1, "recovery_verified": 1, "recovery_escalated": 0, "iteration_start": 1} {
		if seen[name] != want {
			t.Errorf("%d events %s, want %d", seen[name], name, want)
		}
	}
}

// loginAsNpm gives the night the registry that npm is set to here, in the one way
// that a recovery sees too: the home's .npmrc.
func (n *testEnv) loginAsNpm() {
	n.t.Helper()
	cmd := exec.Command("npm", "config", "get", "registry")
	cmd.Dir = n.root
	registry, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("npm config: %v", err)
	}
	own := ""
	if home, err := os.UserHomeDir(); err == nil {
		data, _ := os.ReadFile(filepath.Join(home, ".npmrc")) // often there is none
		own = string(data) + "\n"
	}
	n.write(".npmrc", own+"registry="+strings.TrimSpace(string(registry))+"\n")
}

// npm installs packages, or skips the test where there is no network.
func (n *testEnv) npm(dir string, packages ...string) {
	n.t.Helper()
	args := append([]string{"install", "--no-audit", "--no-fund", "--loglevel=error", "--save-exact", "--prefix", n.path(dir)}, packages...)
	cmd := exec.Command("npm", args...)
	cmd.Dir, cmd.Env = n.path(dir), n.env
	out, err := cmd.CombinedOutput()
	for _, trouble := range []string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH"} {
		if err != nil && bytes.Contains(out, []byte(trouble)) {
			n.t.Skipf("npm does not reach its registry (%s); the real recovery needs it", trouble)
		}
	}
	if err != nil {
		n.t.Fatalf("npm install %v: %v\n%s", packages, err, out)
	}
}

func (n *testEnv) node(script string) (string, bool) {
	n.t.Helper()
	cmd := exec.Command("node", script)
	cmd.Dir, cmd.Env = n.path("repo"), n.env
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// copyFile replaces a file: what links to it elsewhere stays what it is.
func (n *testEnv) copyFile(from, to string) {
	n.t.Helper()
	data, err := os.ReadFile(n.path(from))
	if err == nil {
		err = os.Remove(n.path(to))
	}
	if err == nil {
		err = os.WriteFile(n.path(to), data, 0o755)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *testEnv) log(name string) string {
	data, _ := os.ReadFile(n.path("repo/.superloop/loops/l/logs/iter-1/" + name)) // it may not have come to that
	return string(data)
}
