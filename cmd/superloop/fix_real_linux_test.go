package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
)

// broken is a small real project with one fault of the environment.
type broken struct {
	name    string
	network bool     // it needs a registry
	tools   []string // it needs these programs
	// prepare makes the project, commits it, breaks it, and returns the command that fails now.
	prepare func(n *testEnv) string
	code    int    // the exit code of superloop fix; 0 means that the command passes afterwards
	says    string // what a hand-over has to say, as an expression
	after   func(n *testEnv)
}

// TestFixRealProjects lets superloop fix --yes loose on real projects. It either cures them, so that the command passes
// without superloop, or hands over: it says what an operator has to do, and has changed nothing.
// Conforms: 004-goal-auto
func TestFixRealProjects(t *testing.T) {
	t.Parallel()
	for i, c := range brokenProjects() {
		if c.network && !slow() || i%testkit.Sample(6, 1, 1) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range c.tools {
				if _, err := proc.LookPath(tool, os.Environ()); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			fixProject(t, c)
		})
	}
}

var ranRemedy = regexp.MustCompile(`(?m)^superloop: level \d+ runs: (.*)$`)

func fixProject(t *testing.T, c broken) {
	n := newTestEnv(t, false)
	n.env = append(n.env, "GOCACHE="+goEnv(t, "GOCACHE"), "GOFLAGS=-modcacherw -buildvcs=false", "PIP_NO_INDEX=1")
	command := c.prepare(n)
	began := time.Now()
	if out, ok := n.shell("repo", command); ok {
		t.Fatalf("%s passes before the fix:\n%s", command, out)
	}
	byItself := time.Since(began)
	before := ""
	if c.code != 0 {
		before = n.tree("repo")
	} else if out, err := exec.Command("cp", "-a", n.path("repo"), n.path("copy")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	began = time.Now()
	code, out := n.superloop(nil, "fix", "--yes", "--", command)
	took := time.Since(began)
	if code != c.code || !regexp.MustCompile(c.says).MatchString(out) {
		t.Fatalf("fix gave %d, want %d with %s\n%s", code, c.code, c.says, out)
	}
	if c.after != nil {
		c.after(n)
	}
	if c.code != 0 {
		if now := n.tree("repo"); now != before {
			t.Errorf("it handed over, and changed the project:\n%s\nwas\n%s\n%s", now, before, out)
		}
		t.Logf("handed over after %s (the command alone: %s)", took.Round(time.Millisecond), byItself.Round(time.Millisecond))
		return
	}
	if out, ok := n.shell("repo", command); !ok {
		t.Fatalf("it was fixed, and %s fails:\n%s", command, out)
	}
	began = time.Now()
	var cures []string
	for _, m := range ranRemedy.FindAllStringSubmatch(out, -1) {
		cures = append(cures, m[1])
		if out, ok := n.shell("copy", m[1]); !ok {
			t.Logf("by hand %s fails: %s", m[1], out)
		}
	}
	cure := time.Since(began)
	if len(cures) == 0 {
		t.Logf("fix took %s, the command %s", took.Round(time.Millisecond), byItself.Round(time.Millisecond))
		return
	}
	byHand := 2*byItself + cure // it fails, is cured, and runs again
	t.Logf("fix took %s, %q alone %s (ratio %.2f), and with the command before and after it %s (ratio %.2f)", took.Round(time.Millisecond),
		strings.Join(cures, "; "), cure.Round(time.Millisecond), float64(took)/float64(max(cure, 1)), byHand.Round(time.Millisecond), float64(took)/float64(byHand))
}

func brokenProjects() []broken {
	return []broken{
		{name: "git lock left over", tools: []string{"git"}, prepare: func(n *testEnv) string {
			n.write("repo/.git/index.lock", "")
			n.age("repo/.git/index.lock")
			return "git add -A"
		}},
		{name: "corrupted node_modules", network: true, tools: []string{"npm", "node"}, prepare: func(n *testEnv) string {
			n.nodeProject(`if (!require("is-number")(5)) throw new Error("no")`, "is-number@7.0.0")
			n.write("repo/node_modules/is-number/package.json", `{"name": "is-num`)
			return "node test.js"
		}},
		{name: "native part missing", network: true, tools: []string{"npm", "node"}, prepare: func(n *testEnv) string {
			n.nodeProject(`require("esbuild").transformSync("export const total: number = 1", { loader: "ts" })`, "esbuild@"+wantedESBuild)
			n.remove("repo/node_modules/@esbuild")
			return "node test.js"
		}},
		{name: "Python environment missing", tools: []string{"/usr/bin/python3"}, prepare: func(n *testEnv) string {
			n.pythonProject()
			return ".venv/bin/python test.py"
		}},
		{name: "bad native module", network: true, tools: []string{"npm", "node"}, prepare: func(n *testEnv) string {
			n.nodeProject(`require("rollup")`, "rollup@4.21.0")
			found, err := filepath.Glob(n.path("repo/node_modules/@rollup/*/*.node"))
			if err != nil || len(found) == 0 {
				n.t.Fatalf("rollup has no native part here (%v)", err)
			}
			for _, file := range found {
				n.write(strings.TrimPrefix(file, n.root+"/"), "<!DOCTYPE html><html>proxy</html>\n")
			}
			return "node test.js"
		}},
		{name: "package missing in the Python environment", tools: []string{"/usr/bin/python3"}, says: `level 1 runs: \.venv/bin/pip install -r requirements\.txt`, prepare: func(n *testEnv) string {
			n.pythonProject()
			if out, ok := n.shell("repo", "/usr/bin/python3 -m venv .venv"); !ok {
				n.t.Fatal(out)
			}
			n.write("repo/.venv/mine", "")
			return ".venv/bin/python test.py"
		}, after: func(n *testEnv) {
			if _, err := os.Lstat(n.path("repo/.venv/mine")); err != nil {
				n.t.Errorf("the environment was made anew: %v", err)
			}
			for range 2 { // what was kept is the environment as it was
				if code, out := n.superloop(nil, "chain", "undo"); code != exitOK {
					n.t.Errorf("chain undo gave %d\n%s", code, out)
				}
				if out, works := n.shell("repo", ".venv/bin/python test.py"); works || !strings.Contains(out, "No module named 'dep'") {
					n.t.Errorf("it was undone, and the command gives %v\n%s", works, out)
				}
				if code, out := n.superloop(nil, "fix", "--yes", "--", ".venv/bin/python test.py"); code != exitOK || strings.Contains(out, "runs: python3 -m venv") {
					n.t.Errorf("fix gave %d\n%s", code, out)
				}
			}
		}},
		{name: "entry missing in go.sum", network: true, tools: []string{"go"}, prepare: func(n *testEnv) string {
			n.goProject()
			n.write("repo/go.sum", "")
			return "go build -o /dev/null ."
		}},
		{name: "wrong checksum in go.sum", network: true, tools: []string{"go"}, code: exitHuman, says: `(?i)checksum mismatch[\s\S]*go\.sum`,
			prepare: func(n *testEnv) string {
				n.goProject()
				sum, err := os.ReadFile(n.path("repo/go.sum"))
				if err != nil {
					n.t.Fatal(err)
				}
				n.write("repo/go.sum", strings.ReplaceAll(string(sum), "h1:FEBL", "h1:FEBM"))
				n.remove("home-go/pkg/mod")
				return "go build -o /dev/null ."
			}},
		{name: "tool of the system missing", tools: []string{"apt-get"}, code: exitHuman, says: `apt-get install .*aria2`, prepare: func(n *testEnv) string {
			if _, err := proc.LookPath("aria2c", os.Environ()); err == nil {
				n.t.Skip("aria2c is installed")
			}
			n.commit()
			return "aria2c --version"
		}},
		{name: "port of a leftover", tools: []string{"python3"}, says: "ended 1 leftover", prepare: (*testEnv).leftover},
		{name: "port of a child", tools: []string{"python3"}, code: 1, says: `(?i)port`, prepare: func(n *testEnv) string {
			n.write("repo/serve.py", serveOnce)
			n.write("repo/test.sh", fmt.Sprintf("python3 serve.py %d stay > /dev/null & child=$!\ntrap 'kill $child' EXIT\n"+
				"until python3 serve.py %d probe; do :; done\npython3 serve.py %d\n", n.port(), n.port(), n.port()))
			n.commit()
			return "sh test.sh"
		}},
		{name: "full file system", tools: []string{"cp"}, code: 1, says: `(?i)no space left[\s\S]*big\.bin`, prepare: func(n *testEnv) string {
			n.mkdir("repo/out")
			dir := n.path("repo/out")
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
				n.t.Skipf("a file system is mounted only as root: %v", err)
			}
			n.t.Cleanup(func() {
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					n.t.Error(err)
				}
			})
			n.write("repo/.gitignore", "out\n")
			n.write("repo/source.bin", strings.Repeat("x", 1<<20))
			n.commit()
			n.write("repo/out/big.bin", strings.Repeat("x", 7<<19))
			return "cp source.bin out/copy.bin"
		}},
	}
}

// shell runs a command in a directory, without superloop.
func (n *testEnv) shell(dir, command string) (string, bool) {
	n.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = n.path(dir), n.env
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		n.t.Fatal(err)
	}
	return string(out), err == nil
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	if _, err := proc.LookPath("go", os.Environ()); err != nil {
		return ""
	}
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// tree lists the files of a directory with their sizes and checksums.
func (n *testEnv) tree(dir string) string {
	n.t.Helper()
	out, ok := n.shell(dir, "find . -path ./.git -prune -o -path ./.superloop -prune -o -type f -exec cksum {} + | sort -k3")
	if !ok {
		n.t.Fatal(out)
	}
	return out
}

func (n *testEnv) remove(rel string) {
	n.t.Helper()
	if err := os.RemoveAll(n.path(rel)); err != nil {
		n.t.Fatal(err)
	}
}

// age makes a file an hour old.
func (n *testEnv) age(rel string) {
	n.t.Helper()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(n.path(rel), long, long); err != nil {
		n.t.Fatal(err)
	}
}

func (n *testEnv) commit() {
	n.t.Helper()
	n.git("add", "-A")
	n.git("commit", "-q", "-m", "a project")
}

func (n *testEnv) nodeProject(test string, packages ...string) {
	n.t.Helper()
	n.loginAsNpm()
	n.write("repo/package.json", `{"name": "shop", "version": "1.0.0", "private": true}`+"\n")
	n.npm("repo", packages...)
	n.write("repo/.gitignore", "node_modules\n")
	n.write("repo/test.js", test+"\n")
	n.commit()
}

// pythonProject is a project with a requirement that is a file of the project.
func (n *testEnv) pythonProject() {
	n.t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import venv, ensurepip").CombinedOutput(); err != nil {
		n.t.Skipf("/usr/bin/python3 has no venv: %s", out)
	}
	n.write("repo/.gitignore", ".venv\n")
	n.write("repo/requirements.txt", "--no-index\n--find-links .\ndep==1.0\n")
	n.write("repo/test.py", "import dep\n")
	n.write("wheel.py", writeWheel)
	if out, err := exec.Command("/usr/bin/python3", n.path("wheel.py"), n.path("repo/dep-1.0-py3-none-any.whl")).CombinedOutput(); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	n.commit()
}

// goProject is a program with one small dependency.
func (n *testEnv) goProject() {
	n.t.Helper()
	n.env = append(n.env, "GOPATH="+n.path("home-go"))
	n.write("repo/go.mod", "module example.invalid/shop\n\ngo 1.21\n\nrequire github.com/pkg/errors v0.9.1\n")
	n.write("repo/go.sum", "github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=\n"+
		"github.com/pkg/errors v0.9.1/go.mod h1:bwawxfHBFNV+L2hUp1rHADufV3IMtnDRdf1r5NINEl0=\n")
	n.write("repo/main.go", "package main\n\nimport \"github.com/pkg/errors\"\n\nfunc main() { println(errors.New(\"x\").Error()) }\n")
	if out, ok := n.shell("repo", "go build -o /dev/null ."); !ok {
		if regexp.MustCompile(`dial tcp|no such host|i/o timeout|proxyconnect`).MatchString(out) {
			n.t.Skipf("go does not reach its module proxy: %s", out)
		}
		n.t.Fatal(out)
	}
	n.commit()
}

// port returns a free port, the same for each call of one test.
func (n *testEnv) port() int {
	n.t.Helper()
	data, err := os.ReadFile(n.path("port"))
	if err == nil {
		port, err := strconv.Atoi(string(data))
		if err != nil {
			n.t.Fatal(err)
		}
		return port
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = free.Close() }()
	port := free.Addr().(*net.TCPAddr).Port
	n.write("port", fmt.Sprint(port))
	return port
}

// leftover starts a server as a killed run of superloop leaves it.
func (n *testEnv) leftover() string {
	n.t.Helper()
	n.write("repo/serve.py", serveOnce)
	n.commit()
	left := exec.Command("python3", n.path("repo/serve.py"), fmt.Sprint(n.port()), "stay")
	left.Env = append(n.env, "SUPERLOOP_MARK=20260101T000000.000Z-0badf00d", "SUPERLOOP_LOOP=l", "SUPERLOOP_LOOP_DIR="+n.path("repo/.superloop/loops/l"))
	out, err := left.StdoutPipe()
	if err == nil {
		err = left.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 6))
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = left.Process.Kill() // it may have been ended, as is wanted
		_ = left.Wait()
	})
	return fmt.Sprintf("python3 serve.py %d", n.port())
}

// serveOnce binds a port and ends; with a second argument it stays, or only tries to connect.
const serveOnce = `import http.server, socket, sys
port = int(sys.argv[1])
if sys.argv[2:] == ["probe"]:
    sys.exit(socket.socket().connect_ex(("127.0.0.1", port)))
server = http.server.HTTPServer(("127.0.0.1", port), http.server.BaseHTTPRequestHandler)
if len(sys.argv) > 2:
    print("ready", flush=True)
    server.serve_forever()
print("the tests pass")
`

const writeWheel = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("dep.py", "")
    z.writestr("dep-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n")
    z.writestr("dep-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("dep-1.0.dist-info/RECORD", "dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n")
`
