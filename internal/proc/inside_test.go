//go:build linux

package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// launchedArg makes the test binary a program that becomes the spawner process.
const launchedArg = "launched"

// launched is that program: it has the descriptor to watch, and the control socket. Its arguments are its user and
// group outside, and then those of the spawner process.
func launched(args []string) int {
	ids, argv := args[:2], args[2:]
	if os.Geteuid() == nobody && enterUser(ids) != nil { // what nobody has mapped looks like this
		return 1
	}
	const spare = 9
	for _, dup := range [][2]int{{3, spare}, {4, ControlFD}, {spare, WatchFD}} {
		if err := unix.Dup3(dup[0], dup[1], 0); err != nil {
			return 1
		}
	}
	_ = syscall.Exec("/proc/self/exe", argv, os.Environ())
	return 1
}

// insider is a Spawner inside of another one.
type insider struct {
	*Spawner
	alive *os.File // closing it is a change of what was prepared
	watch *os.File // its other end
	done  int
}

func insideOf(t testing.TB, s *Spawner) *insider {
	t.Helper()
	in := &insider{}
	var err error
	if in.Spawner, err = s.Inside(in.launch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.close)
	return in
}

func (in *insider) close() {
	in.alive.Close()
	in.watch.Close()
}

func (in *insider) launch(b Become) (Launch, error) {
	if in.alive != nil {
		in.close()
	}
	var err error
	if in.watch, in.alive, err = os.Pipe(); err != nil {
		return Launch{}, err
	}
	return Launch{
		Argv: append([]string{"/proc/self/exe", launchedArg, strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())}, b.Argv...), Env: b.Env, Files: []*os.File{in.watch},
		Namespaces: Namespaces{User: NeedsUser()},
		Done: func(err error) error {
			in.done++
			return err
		},
	}, nil
}

func (in *insider) pid() int { return in.h.proc.Pid }

func TestInside(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		in := insideOf(t, s)
		if in.Level() != s.Level() {
			t.Fatal(in.Level(), in.Notes())
		}
		dir := t.TempDir()
		// Both at the same time.
		ended := make(chan Result, 1)
		go func() {
			res, err := s.Run(context.Background(), script("touch "+quote(dir)+"/outer; until [ -e "+quote(dir)+"/inner ]; do sleep 0.01; done; exit 4"))
			if err != nil {
				t.Error(err)
			}
			ended <- res
		}()
		spec := script("touch " + quote(dir) + "/inner; until [ -e " + quote(dir) + "/outer ]; do sleep 0.01; done; setsid sleep 1000 & exit 5")
		if res := mustRun(t, in.Spawner, spec); res.Code != 5 || res.LeftBehind != 1 {
			t.Errorf("%+v", res)
		}
		nothingLeft(t, spec.Marker)
		if res := <-ended; res.Code != 4 {
			t.Errorf("%+v", res)
		}
		pid := in.pid()
		tap, ready := said("ready")
		spec = script(brood)
		spec.Stdout = tap
		if res, err := in.Run(cancelWhen(t, ready), spec); err != nil || res.Ended != Killed || in.pid() != pid {
			t.Errorf("%v %+v", err, res)
		}
		nothingLeft(t, spec.Marker)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		awaitEnd(t, pid)
		if _, err := in.Run(context.Background(), script(":")); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// What was prepared has changed: the command is started once, by another process.
func TestInsideIsPreparedAnew(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		in := insideOf(t, s)
		count := filepath.Join(t.TempDir(), "count")
		for i, change := range []func(){func() {}, func() {
			in.alive.Close()
			// A child of another test may hold it until its exec.
			if n, err := in.watch.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
		}, func() {}, func() {
			if err := in.Renew(); err != nil {
				t.Error(err)
			}
		}, func() { in.h.proc.Kill() }} {
			before, h := in.pid(), in.h
			change()
			if i == 4 {
				<-h.ended // a child of another test may hold its socket until its exec
			}
			res := mustRun(t, in.Spawner, script("echo x >> "+quote(count)+"; echo out; exit 3"))
			if res.Code != 3 || res.Stdout.Text() != "out\n" || (in.pid() != before) != (i%2 == 1 || i == 4) {
				t.Errorf("%d: %+v", i, res)
			}
		}
		if text, err := os.ReadFile(count); err != nil || len(text) != 10 {
			t.Errorf("%q %v", text, err)
		}
		if in.done != 4 {
			t.Errorf("Done was called %d times", in.done)
		}
	})
}

func TestInsideIsLost(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		in := insideOf(t, s)
		tap, ready := said("ready")
		spec := script(brood)
		spec.Stdout = tap
		go func() {
			<-ready
			in.mu.Lock()
			defer in.mu.Unlock()
			in.h.proc.Kill()
		}()
		if res, err := in.Run(context.Background(), spec); !errors.Is(err, ErrSpawnerLost) || res.Ended != Lost {
			t.Errorf("%v %+v", err, res)
		}
		nothingLeft(t, spec.Marker)
		if res := mustRun(t, in.Spawner, script("exit 8")); res.Code != 8 {
			t.Errorf("%+v", res)
		}
	})
}

func TestInsideThatCannotBe(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	for want, launch := range map[string]Launcher{
		"no plan": func(Become) (Launch, error) { return Launch{}, errors.New("no plan") },
		"it said why: it did not answer": func(Become) (Launch, error) {
			return Launch{Argv: []string{"/bin/false"}, Namespaces: Namespaces{User: NeedsUser()}, Done: func(err error) error { return errors.New("it said why: " + err.Error()) }}, nil
		},
		"no such file": func(Become) (Launch, error) {
			return Launch{Argv: []string{"/no/such/program"}, Namespaces: Namespaces{User: NeedsUser()}, Done: func(err error) error { return err }}, nil
		},
	} {
		if in, err := s.Inside(launch); in != nil || err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if res := mustRun(t, s, script("exit 8")); res.Code != 8 {
		t.Errorf("%+v", res)
	}
}
