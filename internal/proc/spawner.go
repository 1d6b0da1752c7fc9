// Package proc runs one tree of processes to its end: every process that a command starts, directly or through forks,
// new sessions and background jobs, is gone when Run returns, and gone too when the supervisor itself is killed.
//
// # Who starts what
//
// A Spawner keeps one long-lived child, the spawner process (our own binary, started again with SpawnerArg). It forks
// each command, is its parent, adopts every orphan of the tree, and reaps them all:
//
//	supervisor ---- control socket (requests with file descriptors, events) ---- spawner process
//	    |                                                                             | fork, wait4(-1)
//	    +---- reads the pipes of stdout and stderr <---- command and its tree <-------+
//
// The supervisor never calls wait4(-1), so os/exec stays safe to use there. The spawner process never uses os/exec, so
// it may reap whatever it finds. As everything in the tree descends from it, "wait4 says ECHILD" proves that nothing is
// left.
//
// A second Spawner can live in mounts that another program has prepared: see Inside.
//
// # The supervisor dies, everything dies
//
// When the supervisor goes, for any reason, the spawner process reads end of file on the control socket, kills the tree
// and exits. PR_SET_PDEATHSIG is not used: it fires when the parent's thread ends, and the Go runtime ends threads as
// it likes. When the spawner process goes, Run returns ErrSpawnerLost, after ending what can still be found of the tree
// (see Spec.Marker), and the next Run starts a new one.
//
// # What holds a tree together
//
// See Level. A user namespace would give an ordinary user a PID namespace as well. It is not used: inside one, sudo,
// su, ping, rootless podman, fuse mounts and file ownership no longer work as the user knows them.
package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrSpawnerLost: the spawner process died while it ran a command. How the command ended is not known; what could
	// be found of its tree was ended. The next Run starts a new spawner process.
	ErrSpawnerLost = errors.New("the spawner process was lost")
	// ErrBusy: a Spawner runs one tree at a time, and one is running.
	ErrBusy   = errors.New("this spawner already runs a command")
	ErrClosed = errors.New("this spawner is closed") // ErrClosed: Close was called.
)

// Options say how to start a Spawner. The zero value is the usual one.
type Options struct {
	Level Level // the highest to try; "" is the best there is. If it cannot be had the next lower one is taken: see Notes
}

// Spawner runs commands, one tree at a time; for two at the same time start two. All methods may be called from any
// goroutine.
type Spawner struct {
	exe                    string // the binary whose main calls SpawnerMain
	want                   Level
	launch                 Launcher      // nil: the binary itself is started
	killLimit, answerLimit time.Duration // the constants of these names; shorter in tests
	running                sync.Mutex    // held by Run

	mu     sync.Mutex // guards what follows
	h      *helper    // nil: to be started by the next Run
	level  Level
	notes  []string
	closed bool
	inside []*Spawner // see Inside
}

// Start starts the spawner process and measures which Level holds here. It takes about as long as the start of the
// binary.
func Start(o Options) (*Spawner, error) {
	if os.Getenv(spawnerEnv) != "" {
		return nil, fmt.Errorf("starting the spawner process: this is the spawner process; main must call proc.SpawnerMain when the first argument is %s", SpawnerArg)
	}
	exe := "/proc/self/exe" // the very file that runs, even if it was replaced by an upgrade since
	if runtime.GOOS != "linux" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding our own binary: %w", err)
		}
	}
	s := &Spawner{exe: exe, want: o.Level, killLimit: killLimit, answerLimit: answerLimit}
	if _, err := s.ensure(); err != nil {
		return nil, err
	}
	return s, nil
}

// Probe says which level holds on this system, and why none above it does.
func Probe(o Options) (Level, []string, error) {
	s, err := Start(o)
	if err != nil {
		return "", nil, err
	}
	return s.Level(), s.Notes(), s.Close()
}

// ensure returns the spawner process, started if there is none.
func (s *Spawner) ensure() (*helper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.h != nil {
		return s.h, nil
	}
	var notes []string
	for _, l := range s.want.from() {
		h, err := startHelper(s.exe, l, s.launch)
		if err == nil {
			s.h, s.level, s.notes = h, l, notes
			return h, nil
		}
		if no, ok := errors.AsType[launchError](err); ok {
			return nil, no.error
		}
		notes = append(notes, fmt.Sprintf("%s: %v", l, err))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // no level would answer sooner
		}
	}
	return nil, fmt.Errorf("starting the spawner process: %s", strings.Join(notes, "; "))
}

// retire makes the next Run start a new spawner process.
func (s *Spawner) retire(h *helper) {
	h.abandon()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h == h {
		s.h = nil
	}
}

// Close ends the spawner process, and what it runs: a Run under way returns ErrSpawnerLost. It returns when that is
// done, at the latest after 12 s. Calling it again does nothing.
func (s *Spawner) Close() error {
	s.mu.Lock()
	h, inside := s.h, s.inside
	s.h, s.inside, s.closed = nil, nil, true
	s.mu.Unlock()
	for _, in := range inside {
		_ = in.Close()
	}
	if h == nil {
		return nil
	}
	limit := reapLimit
	if s.running.TryLock() {
		limit = idleLimit
		s.running.Unlock()
	}
	h.close(limit)
	return nil
}

// Level is what holds the trees of this Spawner together.
func (s *Spawner) Level() Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// Notes says of each level that was tried and cannot be had here, why.
func (s *Spawner) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes)
}

// A spawner process can be started by way of another program, which prepares the mounts and capabilities that all its
// commands get, and then executes it. So that is done once and not for each command.

// insideEnv is the variable that carries the setup to a spawner process that another program started.
const insideEnv = "inside"

// Descriptors that the program passes on to what it executes, besides stdin, stdout and stderr.
const (
	ControlFD = 3
	// WatchFD (/proc/self/mountinfo) is polled before each command. When it is ready, something has changed since the
	// preparation: the command is not started, and the next spawner process is prepared anew.
	WatchFD = ControlFD + 1
)

// Become is what the program is to execute at the end. It calls Enter(Level) first of all.
type Become struct {
	Argv, Env []string
	Level     Level
}

// Launch is how the program is started.
type Launch struct {
	Argv, Env []string // Argv[0] is its path
	// Files are its descriptors 3, 4 and so on. The control socket comes next; it is to become ControlFD.
	Files      []*os.File
	Namespaces Namespaces
	// Done is called once, when the spawner process is ready (nil) or will never be. What it returns counts.
	Done func(error) error
}

// Launcher makes a Launch for each spawner process that is started.
type Launcher func(Become) (Launch, error)

// launchError is why the program could not become a spawner process; another Level would not help.
type launchError struct{ error }

func (e launchError) Unwrap() error { return e.error }

// Inside starts a second Spawner, at the Level of s or the best one below it, whose spawner processes are started by
// way of l. Commands of both may run at the same time. The spawner process is undumpable, since its commands may have
// all the capabilities that it has; therefore Spec.Namespaces.User is for root alone. Standard input is opened once
// more, as the process sees it. Close of s closes it as well.
func (s *Spawner) Inside(l Launcher) (*Spawner, error) {
	in := &Spawner{exe: s.exe, want: s.Level(), launch: l, killLimit: s.killLimit, answerLimit: s.answerLimit}
	if _, err := in.ensure(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	s.inside = append(s.inside, in)
	s.mu.Unlock()
	if closed {
		_ = in.Close()
		return nil, ErrClosed
	}
	return in, nil
}

// Renew ends the spawner process and starts another one. It must not be called while a command runs.
func (s *Spawner) Renew() error {
	s.mu.Lock()
	h := s.h
	s.h = nil
	s.mu.Unlock()
	if h != nil {
		h.close(idleLimit)
	}
	_, err := s.ensure()
	return err
}

func launchHelper(l Level, by Launcher, argv []string, attr *os.ProcAttr) (p *os.Process, done func(error) error, err error) {
	launch, err := by(Become{Argv: argv, Env: []string{spawnerEnv + "=" + insideEnv, "GOMAXPROCS=2"}, Level: l})
	if err != nil {
		return nil, nil, launchError{err}
	}
	done = func(err error) error {
		if err = launch.Done(err); err != nil {
			return launchError{err}
		}
		return nil
	}
	control := attr.Files[ControlFD]
	attr.Env, attr.Files = launch.Env, append(append(attr.Files[:ControlFD:ControlFD], launch.Files...), control)
	if err = launch.Namespaces.apply(attr.Sys, true); err == nil {
		p, err = os.StartProcess(launch.Argv[0], launch.Argv, attr)
	}
	if err != nil {
		return nil, nil, done(err)
	}
	return p, done, nil
}

// reopen opens standard input by its path, as this process sees it: by the descriptor that came, an agent could open
// the file once more, around the mounts that protect it. What is hidden now is left as it came, to be read. The
// descriptor is to be closed; -1 is none.
func reopen(path string, came int) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil
	}
	var now, before unix.Stat_t
	if unix.Fstat(fd, &now) != nil || unix.Fstat(came, &before) != nil || now.Dev != before.Dev || now.Ino != before.Ino {
		err = fmt.Errorf("standard input: %s was replaced by another file", path)
	} else if err = unix.SetNonblock(fd, false); err != nil {
		err = fmt.Errorf("standard input: %w", err)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// changed reports whether WatchFD is ready.
func changed() bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: WatchFD, Events: unix.POLLPRI}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 || err != nil
		}
	}
}
