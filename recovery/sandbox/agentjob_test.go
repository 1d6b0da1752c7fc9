package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// agentJob is an agent to run, as far as it can be written down.
type agentJob struct {
	Protection Protection
	Ports      []uint16
	Siege      bool // TryWall instead of Argv
	NoLandlock bool // the kernel of the supervisor has none; it needs a process of its own
	Plain      bool // without any protection, as a control
	Undumpable bool // of the supervisor
	// Binds are mounted first, in a mount namespace of the supervisor's own.
	Binds [][2]string
	User  int // who the supervisor is then

	Argv    []string
	Dir     string
	Env     []string // $SUPERVISOR is added
	Stdin   string
	Timeout time.Duration

	said func([]byte) // for jobs of this process
}

func (a *agentJob) spec() proc.Spec {
	env := append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", fmt.Sprintf("SUPERVISOR=%d", os.Getpid())}, a.Env...)
	return proc.Spec{Argv: a.Argv, Dir: a.Dir, Env: env, Stdin: a.Stdin, Timeout: a.Timeout, Stdout: a.said}
}

func (a *agentJob) run(s *proc.Spawner) outcome {
	if a.Undumpable {
		if err := proc.Undumpable(); err != nil {
			return outcome{Err: err.Error()}
		}
	}
	if a.Ports != nil {
		a.Protection.Ports = func() []uint16 { return a.Ports }
	}
	if a.Siege {
		rep, siege := TryWall(context.Background(), s, a.Protection)
		return outcome{Report: rep, Siege: siege}
	}
	var with Spawner = s
	rep := ProtectionReport{}
	if !a.Plain {
		with, rep = Protect(context.Background(), s, a.Protection)
	}
	res, err := with.Run(context.Background(), a.spec())
	o := outcomeOf(Result{
		Code: res.Code, Signal: res.Signal, Ended: res.Ended, Err: res.Err, Duration: res.Duration, LeftBehind: res.LeftBehind,
		Stdout: res.Stdout, Stderr: res.Stderr, Output: res.Stdout,
	}, err)
	o.Report = rep
	return o
}

// shielded is a world with the directories of a loop, and what protects them.
type shielded struct {
	*world
	loop, private string
	tool          string // this test binary, where everybody may execute it
}

// shieldedWorld has its own level of the tree of processes, "" for the best one.
func shieldedWorld(t testing.TB, uid int, tree proc.Level) *shielded {
	t.Helper()
	w := newWorld(t, uid, tree)
	s := &shielded{world: w, loop: w.repo + "/.superloop/loops/demo", private: w.home + "/.local/state/superloop", tool: filepath.Join(filepath.Dir(w.repo), "tool")}
	for path, text := range map[string]string{
		w.repo + "/.superloop/specs/demo.md": "spec", s.loop + "/plan.md": "plan", s.loop + "/events.jsonl": "event\n",
		s.loop + "/escalation.json": "{}", s.loop + "/proposals/1.json": "{}", s.private + "/repo/pin.json": "private-pin",
	} {
		w.write(t, path, text)
	}
	w.own(t, w.repo)
	w.own(t, w.home)
	return s
}

// withTool brings the test binary to where nobody can execute it too.
func (s *shielded) withTool(t testing.TB) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Not by this process: a test that starts another program meanwhile would leave it open for writing there, and nobody
	// could execute it.
	if out, err := exec.Command("cp", exe, s.tool).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (s *shielded) protection() Protection {
	return Protection{
		ReadOnly: []string{s.repo + "/.superloop", s.loop + "/events.jsonl", s.loop + "/proposals", s.loop + "/escalation.json", s.loop + "/missing"},
		Writable: []string{s.loop},
		Hidden:   []string{s.private},
	}
}

// apart is the same world with every supervisor in a process of its own.
func (s *shielded) apart() *shielded {
	w, c := *s.world, *s
	w.spawner = nil
	c.world = &w
	return &c
}

// agent is a script that an agent in the repository runs.
func (s *shielded) agent(script string) *agentJob {
	return &agentJob{
		Protection: s.protection(), User: s.uid, Argv: []string{"bash", "-c", script}, Dir: s.repo, Timeout: time.Minute,
		Env: []string{"LOOP=" + s.loop, "PRIVATE=" + s.private, "TOOL=" + s.tool, "HOME=" + s.home},
	}
}

// runAgent runs it, and skips the test where there is no protection to test.
func (s *shielded) runAgent(t testing.TB, a *agentJob) outcome {
	t.Helper()
	j := job{Agent: a, Tree: s.tree}
	if s.spawner != nil {
		j.Tree = s.spawner.Level()
	}
	o := s.run(t, j)
	if o.Err != "" {
		t.Fatal(o)
	}
	if !a.Plain && o.Report.Level != ProtectMount {
		if s.refused(o) {
			t.Skipf("no protection is to be had here: %s", strings.Join(o.Report.Notes, "; "))
		}
		t.Fatalf("no protection: %+v", o.Report)
	}
	return o
}

// refused reports whether the kernel refuses namespaces, and nothing else went
// wrong.
func (s *shielded) refused(o outcome) bool {
	notes := strings.Join(o.Report.Notes, " ")
	return strings.Contains(notes, "in namespaces of its own: ") || strings.Contains(notes, "separating the mounts: ")
}

// eachShielded runs f for both users.
func eachShielded(t *testing.T, f func(t *testing.T, s *shielded)) {
	users := map[string]int{"self": os.Getuid()}
	if os.Getuid() == 0 {
		users["nobody"] = nobody
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, shieldedWorld(t, uid, ""))
		})
	}
}
