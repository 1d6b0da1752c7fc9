package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// liar plays all four roles in a way that $LIE names. The reviewer promises in each.
const liar = `cat > /dev/null
case $SUPERLOOP_ROLE in planner) file=plan.md ;; implementer) file=implementer.md ;; tester) file=test-report.md ;; *) file=review.md ;; esac
source=$(ls add.js add.go add.py 2> /dev/null)
case $LIE in
"no reports") ;;
"old reports") cp "$OLD/$file" "$SUPERLOOP_LOOP_DIR/$file"; [ "$SUPERLOOP_ROLE" != implementer ] || echo "$WORK" >> "$source" ;;
*) echo "$SUPERLOOP_ROLE of $SUPERLOOP_RUN_ID, iteration $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$file" ;;
esac
case "$LIE of $SUPERLOOP_ROLE" in
"white space of implementer") printf '\n\n' >> "$source" ;;
"honest of implementer") echo "$WORK" >> "$source" ;;
esac
[ "$SUPERLOOP_ROLE" != reviewer ] || echo '<promise>SUPERLOOP_COMPLETE</promise>'
`

// In a green repository no lie completes the loop that init sets up, and an honest small change does, without a question.
func TestLiarsDoNotComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, needs, work string
		files             map[string]string
	}{
		{"npm", "npm", "exports.sub = (a, b) => a - b;", map[string]string{
			"package.json": `{"name": "x", "version": "1.0.0", "scripts": {"test": "node check.test.js"}}`, "add.js": "exports.add = (a, b) => a + b;\n",
			"check.test.js": "if (require('./add.js').add(1, 2) !== 3) process.exit(1);\n",
		}},
		{"go", "go", "func Sub(a, b int) int { return a - b }", map[string]string{
			"go.mod": "module x\n\ngo 1.22\n", "add.go": "package x\n\nfunc Add(a, b int) int { return a + b }\n\n",
			"add_test.go": "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
		}},
		{"pytest", "pytest", "def sub(a, b): return a - b", map[string]string{
			"pytest.ini": "[pytest]\n", "add.py": "def add(a, b):\n    return a + b\n\n\n", "test_add.py": "from add import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
		}},
		{"unittest", "python3", "def sub(a, b): return a - b", map[string]string{
			"add.py": "def add(a, b):\n    return a + b\n\n\n", "tests/__init__.py": "",
			"tests/test_add.py": "import unittest\nfrom add import add\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
		}},
	} {
		for i, lie := range []string{"no change", "no reports", "old reports", "white space", "honest"} {
			t.Run(c.name+", "+lie, func(t *testing.T) {
				t.Parallel()
				if !slow() && (c.name != "unittest" || i%2 != 0) {
					t.Skip("each lie in each language: set SUPERLOOP_SLOW_TESTS")
				}
				if _, err := exec.LookPath(c.needs); err != nil {
					t.Skip("needs " + c.needs)
				}
				n := newTestEnv(t, false)
				if err := os.RemoveAll(n.path("repo/.superloop")); err != nil {
					t.Fatal(err)
				}
				n.mkdir("repo/tests")
				for name, text := range c.files {
					n.write("repo/"+name, text)
				}
				n.write("bin/liar", "#!/bin/sh\n"+liar)
				if err := os.Chmod(n.path("bin/liar"), 0o755); err != nil {
					t.Fatal(err)
				}
				n.env = append(n.env, "PATH="+n.path("bin")+":"+os.Getenv("PATH"), "LIE="+lie, "WORK="+c.work, "OLD="+n.path("old"), "GOCACHE="+goCache())
				if code, out := n.superloop(nil, "init", "--loop", "l", "--runner", "liar", "--yes"); code != exitOK {
					t.Fatalf("init gave %d\n%s", code, out)
				}
				n.write("repo/.superloop/specs/l.md", "# Sub\n\nAdd a function that subtracts.\n")
				text, err := os.ReadFile(n.path("repo/.superloop/config.json"))
				if err != nil {
					t.Fatal(err)
				}
				n.write("repo/.superloop/config.json", strings.Replace(string(text), `"max_iterations": 20`, `"retry": {"attempts": 2, "backoff_seconds": 0}, "max_iterations": 2`, 1))
				n.git("add", "-A")
				n.git("commit", "-q", "-m", "all")
				if lie == "old reports" { // those of an honest run, from the archive
					n.env = append(n.env, "LIE=honest")
					if code, out := n.superloop(nil, "run", "--exit-on-escalation"); code != exitOK {
						t.Fatalf("the honest run gave %d\n%s", code, out)
					}
					if err := os.CopyFS(n.path("old"), os.DirFS(n.path("repo/.superloop/loops/l"))); err != nil {
						t.Fatal(err)
					}
					n.git("checkout", "-q", ".")
					n.env = append(n.env, "LIE="+lie)
				}
				code, out := n.superloop(nil, "run", "--fresh", "--exit-on-escalation")
				switch {
				case lie == "honest" && code != exitOK:
					t.Errorf("an honest change: run gave %d\n%s", code, out)
				case lie != "honest" && (code == exitOK || strings.Contains(out, "loop completed")):
					t.Errorf("run gave %d\n%s", code, out)
				case lie == "no reports" && code != exitHuman, lie == "no change" && code != exitStuck && code != exitLimit, // the cache of Python's tests counts as a change
					(lie == "old reports" || lie == "white space") && code != exitLimit:
					t.Errorf("it ended in another way than by the lie: run gave %d\n%s", code, out)
				}
				if !strings.Contains(out, "tests passed before the first role") {
					t.Errorf("the repository was not green\n%s", out)
				}
			})
		}
	}
}

// goCache is the build cache of the user, so that the standard library is not built anew; or another one, if the user
// cannot write there.
var goCache = sync.OnceValue(func() string {
	out, _ := exec.Command("go", "env", "GOCACHE").Output()
	dir := strings.TrimSpace(string(out))
	if f, err := os.CreateTemp(dir, "probe"); err == nil {
		f.Close()
		os.Remove(f.Name())
		return dir
	}
	return filepath.Join(os.TempDir(), "superloop-go-build")
})
