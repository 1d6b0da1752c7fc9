package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/proc"
)

// superviseArg makes the test binary a supervisor of its own: it takes a job from
// stdin and writes an outcome to stdout.
const superviseArg = "supervise"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.SpawnerArg:
			os.Exit(proc.SpawnerMain())
		case ShimArg:
			os.Exit(ShimMain())
		case KnockArg:
			os.Exit(KnockMain(os.Args[2:]))
		case superviseArg:
			os.Exit(supervise())
		case tricksterArg:
			os.Exit(trickster(os.Args[2:]))
		}
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // most tests wait for something most of the time
	}
	goleak.VerifyTestMain(m)
}

// job is what can be written down of a Spec, and what to run it with.
type job struct {
	Tree    proc.Level
	Measure bool      // instead of running something
	Agent   *agentJob // the same

	Command                     string
	Place                       Place
	Env                         []string
	Writable, Protected, Hidden []string
	Network                     Network
	Ports                       []uint16
	Required                    Level
	Without                     []Mechanism
	Timeout, Grace              time.Duration
	OutputLimit                 int64
	Marker                      string
}

func (j job) spec() Spec {
	return Spec{
		Command: j.Command, Place: j.Place, Env: j.Env, Writable: j.Writable, Protected: j.Protected, Hidden: j.Hidden, Network: j.Network, Ports: j.Ports,
		Required: j.Required, Without: j.Without, Timeout: j.Timeout, Grace: j.Grace, OutputLimit: j.OutputLimit, Marker: j.Marker,
	}
}

// outcome is what can be written down of a Result and an error.
type outcome struct {
	Result  Result
	Sandbox Sandbox
	Err     string
	Refused *RefusedError
	Stuck   string // Result.Err
	Report  ProtectionReport
	Siege   Siege
}

// String is for messages of tests.
func (o outcome) String() string {
	text := o.Result.Output.Text()
	if len(text) > 4000 {
		text = text[:4000] + "..."
	}
	return fmt.Sprintf("%s %d %s after %v, %d left behind, sandbox %+v, error %q %q; it said:\n%s", o.Result.Ended, o.Result.Code, o.Result.Signal,
		o.Result.Duration, o.Result.LeftBehind, o.Sandbox, o.Err, o.Stuck, text)
}

func outcomeOf(res Result, err error) outcome {
	o := outcome{Result: res, Sandbox: res.Sandbox}
	if res.Err != nil {
		o.Stuck = res.Err.Error()
	}
	o.Result.Err = nil
	if err != nil {
		o.Err = err.Error()
		errors.As(err, &o.Refused)
	}
	return o
}

func (j job) run(s *proc.Spawner) outcome {
	if j.Agent != nil {
		return j.Agent.run(s)
	}
	if j.Measure {
		box, err := Measure(context.Background(), s, j.Without...)
		o := outcomeOf(Result{}, err)
		o.Sandbox = box
		return o
	}
	return outcomeOf(Run(context.Background(), s, j.spec()))
}

func supervise() int {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := j.Agent.mount(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := proc.Start(proc.Options{Level: j.Tree})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Fprintln(os.Stderr, "supervising")
	if err := json.NewEncoder(os.Stdout).Encode(j.run(s)); err != nil {
		return 1
	}
	return 0
}

// nobody is an unprivileged user.
const nobody = 65534

// world is a repository, places around it, and a user who runs commands there.
type world struct {
	uid                      int
	spawner                  *proc.Spawner // nil: in a process of that user
	tree                     proc.Level    // "" is the best
	repo, tmp, outside, home string
}

// eachUser runs f as the user that runs the test, and for root as nobody too.
func eachUser(t *testing.T, f func(t *testing.T, w *world)) {
	users := map[string]int{"self": os.Getuid()}
	if os.Getuid() == 0 {
		users["nobody"] = nobody
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newWorld(t, uid, ""))
		})
	}
}

func newWorld(t testing.TB, uid int, tree proc.Level) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// For anybody to get there.
	if err := os.Chmod(filepath.Dir(base), 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{uid: uid, tree: tree, repo: filepath.Join(base, "repo"), tmp: filepath.Join(base, "tmp"), outside: filepath.Join(base, "outside"), home: filepath.Join(base, "home")}
	for _, dir := range []string{w.repo, w.tmp, w.outside, w.home, w.repo + "/.superloop", w.repo + "/sub/deep"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write(t, filepath.Join(w.repo, ".superloop/config.json"), "{}")
	w.write(t, filepath.Join(w.outside, "file"), "untouched")
	w.own(t, base)
	if uid == os.Getuid() {
		if w.spawner, err = proc.Start(proc.Options{Level: tree}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.spawner.Close() })
		if tree != "" && w.spawner.Level() != tree {
			t.Skipf("%s is not to be had here: %s", tree, strings.Join(w.spawner.Notes(), "; "))
		}
	}
	return w
}

func (w *world) write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// own gives everything to the user.
func (w *world) own(t testing.TB, dir string) {
	t.Helper()
	if w.uid == os.Getuid() {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, w.uid, w.uid)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// job is a command in the repository, as it is usually run.
func (w *world) job(t testing.TB, command string) job {
	t.Helper()
	place, err := Resolve(w.repo, "")
	if err != nil {
		t.Fatal(err)
	}
	base := append(os.Environ(), "HOME="+w.home)
	return job{
		Command: command, Place: place, Env: Environment(base, nil, w.repo, w.tmp), Writable: []string{w.tmp},
		Protected: Protected(w.repo), Marker: newMark(), Timeout: time.Minute,
	}
}

func (w *world) run(t testing.TB, j job) outcome {
	t.Helper()
	if w.spawner != nil {
		return j.run(w.spawner)
	}
	return w.runWith(t, j, nil)
}

// runWith runs a command under a supervisor of its own, with more in its
// environment.
func (w *world) runWith(t testing.TB, j job, env []string) outcome {
	t.Helper()
	cmd := w.command(t, j)
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var o outcome
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err != nil {
		t.Fatalf("supervising as %d: %v: %s", w.uid, err, said.String())
	}
	return o
}

// command is a supervisor as the world's user.
func (w *world) command(t testing.TB, j job) *exec.Cmd {
	t.Helper()
	task, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", superviseArg)
	cmd.Dir, cmd.Stdin = "/", bytes.NewReader(task)
	if j.Agent != nil && len(j.Agent.Binds) > 0 {
		cmd.SysProcAttr = ownMounts() // it will become that user
	} else if w.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
	return cmd
}

// mustRun fails if the command was not run.
func (w *world) mustRun(t testing.TB, j job) outcome {
	t.Helper()
	o := w.run(t, j)
	if o.Err != "" || o.Stuck != "" {
		t.Fatalf("%q: %s %s", j.Command, o.Err, o.Stuck)
	}
	return o
}

var marks atomic.Int64

func newMark() string {
	return fmt.Sprintf("CAGE_TEST_MARK=%d-%d-%d", os.Getpid(), time.Now().UnixNano(), marks.Add(1))
}

// withMark lists the processes that have the marker.
func withMark(mark string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[1-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) {
			cmd, _ := os.ReadFile(dir + "/cmdline")
			found = append(found, filepath.Base(dir)+" "+string(bytes.ReplaceAll(cmd, []byte{0}, []byte(" "))))
		}
	}
	return found
}

func nothingLeft(t testing.TB, mark string) {
	t.Helper()
	if left := withMark(mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
		proc.Sweep(mark)
	}
}
