//go:build linux

package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Each waits for the file that the other one writes, so they only end if they run at the same time.
func TestTwoSpawnersAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, a *Spawner) {
		b := spawnerAt(t, a.Level())
		dir := t.TempDir()
		var wg sync.WaitGroup
		for i, s := range []*Spawner{a, b} {
			wg.Go(func() {
				mine, other := filepath.Join(dir, "ab"[i:i+1]), filepath.Join(dir, "ba"[i:i+1])
				for range 3 {
					spec := script("touch " + quote(mine) + "; until [ -e " + quote(other) + " ]; do sleep 0.01; done; setsid sleep 1000 & exit 2")
					res, err := s.Run(context.Background(), spec)
					if err != nil || res.Code != 2 || res.LeftBehind != 1 {
						t.Errorf("%v %+v", err, res)
					}
					nothingLeft(t, spec.Marker)
				}
			})
		}
		wg.Wait()
	})
}

func TestBusyAndClose(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		tap, ready := said("ready")
		spec := script(brood)
		spec.Stdout = tap
		ended := make(chan error, 1)
		go func() {
			_, err := s.Run(context.Background(), spec)
			ended <- err
		}()
		<-ready
		if res, err := s.Run(context.Background(), script(":")); !errors.Is(err, ErrBusy) || res.Ended != NotStarted {
			t.Errorf("%v %+v", err, res)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrSpawnerLost) {
			t.Errorf("the run under way: %v", err)
		}
		nothingLeft(t, spec.Marker)
		if _, err := s.Run(context.Background(), script(":")); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestProbeAndNotes(t *testing.T) {
	t.Parallel()
	best, notes, err := Probe(Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := available()
	above := 0
	for all[above] != best {
		above++
	}
	if len(notes) != above {
		t.Errorf("%s holds, %d levels above it, notes %q", best, above, notes)
	}
	for i, n := range notes {
		if !strings.HasPrefix(n, string(all[i])+": ") {
			t.Errorf("note %q is not about %s", n, all[i])
		}
	}
}

// Without CAP_SYS_ADMIN the clone is refused; the reason is kept.
func TestFallsDownALevel(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to become somebody else")
	}
	s := spawnerAt(t, "")
	copied := filepath.Join(t.TempDir(), "supervisor") // nobody may not be able to read where the test binary lies
	res := mustRun(t, s, script("cp "+quote(os.Args[0])+" "+quote(copied)+" && chmod -R a+rx "+quote(filepath.Dir(filepath.Dir(copied)))+
		" && setpriv --reuid 65534 --regid 65534 --clear-groups "+quote(copied)+" "+superviseArg+" '' A=1 'exit 0'"))
	if got := res.Stdout.Text(); res.Code != 0 || !strings.Contains(got, " "+string(Subreaper)) {
		t.Errorf("%q %q", got, res.Stderr.Text())
	}
}

func TestSpawnerArgByHand(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	res := mustRun(t, s, Spec{Argv: []string{os.Args[0], SpawnerArg}})
	if res.Code != 2 || !strings.Contains(res.Stderr.Text(), "not by hand") {
		t.Errorf("%+v", res)
	}
}

// A binary whose main does not know SpawnerArg must give an error, not a crowd of processes.
func TestExeThatIsNoSpawner(t *testing.T) {
	t.Parallel()
	for _, exe := range []string{"/bin/true", "/no/such/binary"} {
		s := &Spawner{exe: exe}
		if _, err := s.ensure(); err == nil {
			s.Close()
			t.Errorf("%s: no error", exe)
		}
	}
}

func TestStartInsideTheSpawnerProcess(t *testing.T) {
	t.Setenv(spawnerEnv, "1")
	if s, err := Start(Options{}); err == nil || !strings.Contains(err.Error(), "SpawnerMain") {
		t.Errorf("%v %v", s, err)
	}
}
