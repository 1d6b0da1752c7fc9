//go:build linux

package proc

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

func TestNothingIsLeftAfterAGoodExit(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		for _, c := range []struct {
			name, script string
			left         int // at least
		}{
			{"background", "sleep 1000 & exit 3", 1},
			{"deaf to TERM", "trap '' TERM; sleep 1000 & exit 3", 1},
			{"own session", "setsid sleep 1000 & exit 3", 1},
			{"double fork and own session", "(setsid sleep 1000 & ) & wait; (setsid bash -c 'setsid sleep 1000 & sleep 1000' &); exit 3", 1},
			{"twenty", "for i in {1..20}; do setsid sleep 1000 & done; exit 3", 20},
			{"stopped", "sleep 1000 & kill -STOP $!; exit 3", 1},
			{"finished by itself", "(:) & (setsid : &) ; wait; exit 3", 0},
		} {
			spec := script(c.script)
			res := mustRun(t, s, spec)
			nothingLeft(t, spec.Marker)
			if res.Code != 3 || res.Ended != Exited || res.Err != nil || res.LeftBehind < c.left {
				t.Errorf("%s: %+v", c.name, res)
			}
		}
	})
}

func TestKillLadder(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		const obeys, deaf = time.Hour, 200 * time.Millisecond
		for _, c := range []struct {
			name, script string
			grace        time.Duration
			code         int
			signal       string
			left         int
		}{
			{"obeys", "echo ready; exec sleep 1000", obeys, -1, "SIGTERM", 0},
			{"says goodbye", "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.01; done", obeys, 9, "", 0},
			{"deaf", "trap '' TERM; echo ready; while :; do sleep 1000; done", deaf, -1, "SIGKILL", 1},
			{"own session is asked too", "setsid bash -c 'trap \"echo bye; exit 0\" TERM; echo ready; while :; do sleep 0.01; done' & wait", obeys, -1, "SIGTERM", 0},
			{"main obeys, child is deaf", "(trap '' TERM; echo ready; exec setsid sleep 1000) & wait", deaf, -1, "SIGTERM", 1},
			{"stopped", "echo ready; kill -STOP $$; exec sleep 1000", obeys, -1, "SIGTERM", 0},
		} {
			tap, ready := said("ready\n")
			spec := script(c.script)
			spec.Grace, spec.Stdout = c.grace, tap
			res, err := s.Run(cancelWhen(t, ready), spec)
			nothingLeft(t, spec.Marker)
			if err != nil || res.Ended != Killed || res.Code != c.code || res.Signal != c.signal || res.LeftBehind != c.left || res.Err != nil {
				t.Errorf("%s: %v %+v", c.name, err, res)
			}
			if bye := strings.Contains(res.Stdout.Text(), "bye"); bye != strings.Contains(c.script, "bye") {
				t.Errorf("%s: output %q", c.name, res.Stdout.Text())
			}
		}
	})
}

func TestTimeoutAndInactivity(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	for _, c := range []struct {
		name, script        string
		timeout, inactivity time.Duration
		why                 Reason
		signal              string
	}{
		{"timeout", "while echo tick; do sleep 0.01; done", 100 * time.Millisecond, time.Hour, TimedOut, "SIGTERM"},
		{"silent", "exec sleep 1000", time.Hour, 100 * time.Millisecond, Inactive, "SIGTERM"},
		{"closed its output", "exec >&- 2>&-; exec sleep 1000", time.Hour, 100 * time.Millisecond, Inactive, "SIGTERM"},
		{"deaf from the start", "trap '' TERM; exec sleep 1000", 2 * time.Second, 0, TimedOut, "SIGKILL"},
	} {
		spec := script(c.script)
		spec.Timeout, spec.Inactivity, spec.Grace = c.timeout, c.inactivity, 100*time.Millisecond
		res := mustRun(t, s, spec)
		nothingLeft(t, spec.Marker)
		if res.Ended != c.why || res.Code != -1 || res.Signal != c.signal || res.Err != nil {
			t.Errorf("%s: %+v", c.name, res)
		}
		if bound := min(c.timeout, max(c.inactivity, time.Millisecond)); res.Duration < bound {
			t.Errorf("%s: ended after %v", c.name, res.Duration)
		}
	}
}

func TestActivityPutsInactivityOff(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	spec := script("for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i >&$((1 + i % 2)); done; exit 4")
	spec.Inactivity = 3 * time.Second // less than it takes in all
	if res := mustRun(t, s, spec); res.Ended != Exited || res.Code != 4 {
		t.Errorf("%+v", res)
	}
}

func TestKillContextAndHurry(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		tap, ready := said("ready")
		spec := script("trap 'echo asked' TERM; (setsid sleep 1000 &); echo ready; while :; do sleep 0.01; done")
		hurry := make(chan struct{})
		spec.Stdout, spec.Grace, spec.Hurry = tap, time.Hour, hurry
		asked, heard := said("asked")
		spec.Stdout = func(p []byte) { tap(p); asked(p) }
		go func() {
			<-heard
			close(hurry)
		}()
		res, err := s.Run(cancelWhen(t, ready), spec)
		nothingLeft(t, spec.Marker)
		if err != nil || res.Ended != Killed || res.Signal != "SIGKILL" {
			t.Errorf("%v %+v", err, res)
		}
	})
}

func TestKilledBeforeTheStart(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if res, err := s.Run(ctx, script("echo no")); err != nil || res.Ended != Killed || res.Err == nil || res.Stdout.Bytes != 0 {
		t.Errorf("%v %+v", err, res)
	}
}

// Each link forks the next one and exits, with and without a session of its own, for ever.
const (
	chainOfForks    = "f() { f & }; f"
	chainOfSessions = `c=$(mktemp -u); echo 'setsid sh "$0" &' > "$c.sh"; sh "$c.sh"`
)

func TestForkChain(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		dir := t.TempDir()
		for name, chain := range map[string]string{"forks": chainOfForks, "sessions": chainOfSessions} {
			for _, end := range []string{"exit 0", "sleep 1000"} {
				tap, begun := said("begun")
				spec := script("trap '' TERM\n" + chain + "\necho begun\n" + end)
				spec.Env = append(spec.Env, "TMPDIR="+dir)
				spec.Grace, spec.Stdout = time.Millisecond, tap
				res, err := s.Run(cancelWhen(t, begun), spec)
				nothingLeft(t, spec.Marker)
				if err != nil || res.Err != nil || res.Ended == NotStarted || res.LeftBehind == 0 {
					t.Errorf("%s, %s: %v %+v", name, end, err, res)
				}
			}
		}
	})
}

// Nobody asks for its end: that the main process has ended is enough.
func TestForkChainOutlivesItsMain(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		dir := t.TempDir()
		for name, chain := range map[string]string{"forks": chainOfForks, "sessions": chainOfSessions} {
			for range testkit.Sample(2, 5, 20) {
				spec := script(chain + "\nexit 3")
				spec.Env = append(spec.Env, "TMPDIR="+dir)
				spec.Timeout = time.Minute
				res := mustRun(t, s, spec)
				nothingLeft(t, spec.Marker)
				if res.Err != nil || res.Ended != Exited || res.Code != 3 || res.LeftBehind == 0 {
					t.Errorf("%s: %+v", name, res)
				}
			}
		}
	})
}

// Somebody outside of the tree holds its output: it got the pipe through a FIFO's other side, a /proc link.
func TestOutputHeldFromOutsideTheTree(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, Subreaper)
	holder := spawnerAt(t, Subreaper)
	fifo := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan Result, 1)
	tap, holds := said("holding")
	go func() {
		hold := script("until [ -s " + quote(fifo) + " ]; do sleep 0.01; done; exec 9>/proc/$(cat " + quote(fifo) + ")/fd/1; echo holding; exec sleep 1000")
		hold.Stdout = tap
		res, _ := holder.Run(ctx, hold)
		done <- res
	}()
	spec := script("printf 'before\\nhalf'; echo $$ > " + quote(fifo) + "; trap 'exit 5' TERM; while :; do sleep 0.01; done")
	res, err := s.Run(cancelWhen(t, holds), spec)
	if err != nil || res.Code != 5 || res.Stdout.Text() != "before\nhalf" {
		t.Errorf("%v %+v", err, res)
	}
	cancel()
	if res := <-done; res.Ended != Killed {
		t.Errorf("the holder: %+v", res)
	}
}

// A process that no signal can end: frozen by the cgroup v1 freezer.
func TestUnkillable(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, Subreaper)
	dir := filepath.Join("/sys/fs/cgroup/freezer", "proc-test-"+strings.TrimPrefix(newMark(), "PROC_TEST_MARK="))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup v1 freezer: %v", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	s.killLimit = 300 * time.Millisecond
	spec := script("echo $$ > " + dir + "/tasks; echo FROZEN > " + dir + "/freezer.state; sleep 1000")
	spec.Timeout, spec.Grace = 2*time.Second, 10*time.Millisecond
	res := mustRun(t, s, spec)
	if res.Ended != TimedOut || res.Err == nil || !strings.Contains(res.Err.Error(), "could not be killed") {
		t.Errorf("%+v", res)
	}
	if len(withMark(spec.Marker)) == 0 {
		t.Error("it could be killed: this test shows nothing")
	}
	// A spawner process with such a child is given up; the next Run has a new one.
	if res := mustRun(t, s, script("exit 6")); res.Code != 6 {
		t.Errorf("%+v", res)
	}
	if err := os.WriteFile(dir+"/freezer.state", []byte("THAWED"), 0); err != nil {
		t.Error(err)
	}
	awaitNone(t, spec.Marker)
}
