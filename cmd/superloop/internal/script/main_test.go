package script

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/schemas"
)

// verb makes the test binary the scripted agent, as superloop's own does.
const verb = "__agent"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == verb {
		// As in superloop's own main, which takes signals before it knows the
		// verb: Main must undo that.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// stage is one scripted agent in a repository of its own.
type stage struct {
	t                *testing.T
	dir, loop, last  string
	env              []string
	out, err, prompt *os.File
}

func newStage(t *testing.T, scenario string) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{t: t, dir: filepath.Join(dir, "repo"), loop: filepath.Join(dir, "loop"), last: filepath.Join(dir, "last.txt")}
	for _, d := range []string{s.dir, s.loop} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name, text string) *os.File {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	file("scenario.json", scenario)
	s.prompt, s.out, s.err = file("prompt.md", "the prompt"), file("out", ""), file("err", "")
	s.env = append(os.Environ(), "SUPERLOOP_LOOP=demo", "SUPERLOOP_ROLE=planner", "SUPERLOOP_ITERATION=2", "SUPERLOOP_ATTEMPT=1",
		"SUPERLOOP_LOOP_DIR="+s.loop, "SUPERLOOP_LAST_MESSAGE_FILE="+s.last)
	return s
}

func (s *stage) start() *os.Process {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := os.StartProcess(exe, []string{"agent", verb, filepath.Join(filepath.Dir(s.dir), "scenario.json")}, &os.ProcAttr{
		Dir: s.dir, Env: append(s.env, "PWD="+s.dir), Files: []*os.File{s.prompt, s.out, s.err},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// play runs the scenario to its end and returns the exit code and outputs.
func (s *stage) play() (code int, out, errs string) {
	s.t.Helper()
	state, err := s.start().Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	return state.ExitCode(), s.read(s.out), s.read(s.err)
}

func (s *stage) read(f *os.File) string {
	s.t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *stage) want(path, text string) {
	s.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != text {
		s.t.Errorf("%s holds %q (%v), want %q", path, b, err, text)
	}
}

func TestPlayEachStep(t *testing.T) {
	t.Parallel()
	const text = `{"version":1,"default":[
		{"say":"hello from the {role} of {loop}, iteration {iteration}"},
		{"say":"second\n"},
		{"stderr":"a word aside"},
		{"write":{"path":"src/a-{iteration}.txt","content":"one\n"}},
		{"append":{"path":"src/a-2.txt","content":"two {unknown}\n"}},
		{"append":{"path":"new.txt","content":"n"}},
		{"write":{"path":"gone.txt","content":"x"}},
		{"delete":{"path":"gone.txt"}},
		{"delete":{"path":"never-there.txt"}},
		{"report":"# Plan of {iteration}\n"},
		{"last_message":"done as {role}"},
		{"run":["sh","-c","echo from $0; echo aside >&2; exit 3","sh"]},
		{"sleep_ms":1},
		{"exit":7},
		{"say":"never"}]}`
	for _, p := range schemas.Validate(schemas.Scenario, []byte(text)) {
		t.Errorf("the schema refuses it: %v", p)
	}
	s := newStage(t, text)
	code, out, errs := s.play()
	if code != 7 {
		t.Errorf("exit %d", code)
	}
	if want := "hello from the planner of demo, iteration 2\nsecond\nfrom sh\n"; out != want {
		t.Errorf("stdout %q, want %q", out, want)
	}
	if want := "a word aside\naside\nscript: sh ended with exit code 3\n"; errs != want {
		t.Errorf("stderr %q, want %q", errs, want)
	}
	s.want(filepath.Join(s.dir, "src/a-2.txt"), "one\ntwo {unknown}\n")
	s.want(filepath.Join(s.dir, "new.txt"), "n")
	s.want(filepath.Join(s.loop, "plan.md"), "# Plan of 2\n")
	s.want(s.last, "done as planner")
	if _, err := os.Lstat(filepath.Join(s.dir, "gone.txt")); err == nil {
		t.Error("gone.txt is still there")
	}
}

func TestPlayNothingForThisTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, `{"version":1,"turns":[{"role":"tester","steps":[{"exit":9}]}]}`)
	code, out, _ := s.play()
	if code != 0 || !strings.Contains(out, `no turn for role "planner", iteration "2", attempt "1"`) {
		t.Errorf("exit %d, stdout %q", code, out)
	}
	s.want(filepath.Join(s.loop, "plan.md"), out)
}

func TestPlayRefuses(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	cases := map[string]struct {
		steps string
		env   string
		want  string
	}{
		"an absolute path outside": {fmt.Sprintf(`{"write":{"path":%q,"content":"x"}}`, outside+"/f"), "", "default, step 1 (write): the path"},
		"a link that leads out":    {`{"run":["ln","-s",` + strconv.Quote(outside) + `,"out"]},{"write":{"path":"out/f","content":"x"}}`, "", "default, step 2 (write)"},
		"the directory itself":     {`{"delete":{"path":"."}}`, "", "default, step 1 (delete)"},
		"report without a loop":    {`{"report":"x"}`, "SUPERLOOP_LOOP_DIR=", "SUPERLOOP_LOOP_DIR"},
		"message without a file":   {`{"last_message":"x"}`, "SUPERLOOP_LAST_MESSAGE_FILE=", "SUPERLOOP_LAST_MESSAGE_FILE"},
		"no such program to run":   {`{"run":["no-such-program-here"]}`, "", "default, step 1 (run): "},
		"no such program to spawn": {`{"spawn":["no-such-program-here"]}`, "", "default, step 1 (spawn): program \"no-such-program-here\" not found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, `{"version":1,"default":[`+c.steps+`,{"say":"went on"}]}`)
			if c.env != "" { // the first of two wins in the child
				s.env = append([]string{c.env}, s.env...)
			}
			code, out, errs := s.play()
			if code != 2 || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, out, errs, c.want)
			}
		})
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 0 {
		t.Errorf("outside: %v %v", list, err)
	}
	s := newStage(t, `{"version":1,"turns":[{"steps":[{"sing":1}]}]}`)
	if code, _, errs := s.play(); code != 2 || !strings.Contains(errs, `scenario.json: 1:34: /turns/0/steps/0/sing: unknown key "sing"`) {
		t.Errorf("exit %d, stderr %q", code, errs)
	}
	if code := Main(nil); code != 2 {
		t.Errorf("exit %d without a scenario", code)
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	s := newStage(t, `{"version":1,"default":[{"flood_bytes":1000001}]}`)
	code, out, _ := s.play()
	if code != 0 || len(out) != 1000001 {
		t.Errorf("exit %d, %d bytes", code, len(out))
	}
	if lines := strings.Split(out, "\n"); len(lines[0]) != 79 || len(lines[12000]) != 79 {
		t.Errorf("lines of %d and %d bytes", len(lines[0]), len(lines[12000]))
	}
}

func TestTermEndsTheAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t, `{"version":1,"default":[{"say":"ready"},{"sleep_ms":60000}]}`)
	agent := s.start()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(s.read(s.out), "ready"); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not begin")
		}
	}
	if err := agent.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	state, err := agent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v, want SIGTERM", state)
	}
}

func TestIgnoreTermAndSpawn(t *testing.T) {
	t.Parallel()
	// The agent cannot be asked to end, and leaves two processes behind.
	s := newStage(t, `{"version":1,"default":[
		{"ignore_term":true},
		{"spawn":["sh","-c","echo $$ >kept.pid.tmp; mv kept.pid.tmp kept.pid; exec sleep 60"]},
		{"spawn":["sh","-c","echo $$ >own.pid.tmp; mv own.pid.tmp own.pid; exec sleep 60"],"detach":true},
		{"say":"ready"},
		{"run":["sh","-c","while [ ! -e go ]; do sleep 0.01; done"]},
		{"exit":5}]}`)
	agent := s.start()
	deadline := time.Now().Add(2 * time.Minute)
	await := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if time.Now().After(deadline) {
				t.Fatalf("%s did not come", what)
			}
			<-time.After(2 * time.Millisecond)
		}
	}
	pid := func(name string) int {
		t.Helper()
		path := filepath.Join(s.dir, name+".pid")
		await(path, func() bool { _, err := os.Stat(path); return err == nil })
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	kept, own := pid("kept"), pid("own")
	defer func() {
		for _, p := range []int{kept, own} {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
	}()
	await("ready", func() bool { return strings.Contains(s.read(s.out), "ready") })
	session := func(pid int) int {
		t.Helper()
		sid, err := unix.Getsid(pid)
		if err != nil {
			t.Fatalf("session of %d: %v", pid, err)
		}
		return sid
	}
	if session(kept) != session(agent.Pid) {
		t.Error("the spawned process is not in the agent's session")
	}
	if session(own) != own {
		t.Error("the detached process has no session of its own")
	}
	if err := agent.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	state, err := agent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if state.ExitCode() != 5 {
		t.Errorf("ended by %v, want exit code 5: SIGTERM was not ignored", state)
	}
	for _, p := range []int{kept, own} {
		if err := syscall.Kill(p, 0); err != nil {
			t.Errorf("process %d did not outlive the agent: %v", p, err)
		}
	}
}
