//go:build linux

package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
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

// An ordinary user gets the next level where user namespaces are refused, or not wanted; the reason is kept.
func TestFallsDownALevel(t *testing.T) {
	t.Parallel()
	uid := os.Getuid()
	if uid == 0 {
		uid = nobody
	}
	_, cmd := superviseAs(uid, "host", "exit 0")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " "+string(Subreaper)) || !strings.Contains(string(out), "was promised none") {
		t.Errorf("%v: %s", err, out)
	}
	_, cmd = superviseAs(uid, "", "exit 0")
	cmd.Args = append([]string{"unshare", "--user", "--map-root-user", "sh", "-c",
		`echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all -- "$@"`, "sh", "/proc/self/fd/3"}, cmd.Args[1:]...)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd.ExtraFiles = []*os.File{self}
	if cmd.Path, err = exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " "+string(Subreaper)) || !strings.Contains(string(out), "sudo sysctl user.max_user_namespaces") {
		t.Errorf("%v: %s", err, out)
	}
}

// A level that was to be had once is not exchanged for a lower one.
func TestLevelStays(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		without := filepath.Join(t.TempDir(), "without")
		text := "#!/bin/sh\n[ \"$2\" = " + string(s.Level()) + " ] && { echo not any more; exit 1; }\nexec " + quote(os.Args[0]) + " \"$@\"\n"
		if err := os.WriteFile(without, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		s.exe = without
		for range 2 {
			s.h.proc.Kill()
			<-s.h.ended
			if res, err := s.Run(context.Background(), script("exit 7")); err == nil || !strings.Contains(err.Error(), "not any more") || res.Ended != NotStarted {
				t.Errorf("%v %+v", err, res)
			}
			s.exe = "/proc/self/exe"
			if res := mustRun(t, s, script("exit 8")); res.Code != 8 {
				t.Errorf("%+v", res)
			}
			s.exe = without
		}
	})
}

// Where something is mounted over a part of /proc, as in most containers, an ordinary user may not mount a new one.
func TestMaskedProc(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount over /proc")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	_, cmd := superviseAs(0, "", "exit 0")
	cmd.Args = append([]string{"unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o ro none /proc/irq && exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all -- "$@"`, "sh", "/proc/self/fd/3"}, cmd.Args[1:]...)
	cmd.ExtraFiles = []*os.File{self}
	if cmd.Path, err = exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " "+string(Subreaper)) || !strings.Contains(string(out), "pid_namespace: mounting /proc of the PID namespace: operation not permitted") {
		t.Errorf("%v: %s", err, out)
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
