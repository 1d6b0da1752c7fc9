// Package proc runs process trees. When Run returns, every process that a command has started has ended, whether it was
// started directly or through forks, new sessions and background jobs. The processes also end if the supervisor itself
// is killed.
//
// # Who starts what
//
// A Spawner has one long-lived child, the spawner process (the superloop binary, started with SpawnerArg). The spawner
// process forks each command, adopts every orphan of the tree, and reaps all of them:
//
//	supervisor ---- control socket (requests with file descriptors, events) ---- spawner process
//	    |                                                                             | fork, wait4(-1)
//	    +---- reads the pipes of stdout and stderr <---- command and its tree <-------+
//
// The supervisor never calls wait4(-1), so it can use os/exec safely. The spawner process never uses os/exec, so it may
// reap every child. Every process of the tree descends from it, so ECHILD of wait4 proves that no process is left.
//
// A second Spawner can run in mounts that another program has prepared: see Inside.
//
// # The end of the supervisor ends everything
//
// When the supervisor ends, for any reason, the spawner process reads end of file on the control socket, kills the tree
// and exits. In a PID namespace the kernel kills the spawner process as soon as the supervisor is dead, also if the
// spawner process is stopped, and with it the tree. When the spawner process dies, Run ends the processes of the tree
// that it can still find (see Spec.Marker) and returns ErrSpawnerLost. The next Run starts a new spawner process.
//
// # How a tree is held together
//
// See Level. An ordinary user gets a PID namespace by way of a user namespace. Inside of one sudo, su, ping, rootless
// podman, fuse mounts and file ownership do not work as usual; see OnHost.
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
	// ErrSpawnerLost says that the spawner process died while it ran a command. It is not known how the command ended.
	// Run has ended the processes of the tree that it found. The next Run starts a new spawner process.
	ErrSpawnerLost = errors.New("the spawner process was lost")
	// ErrBusy says that this Spawner already runs a tree; it runs only one at a time.
	ErrBusy   = errors.New("this spawner already runs a command")
	ErrClosed = errors.New("this spawner is closed") // Close was called
)

// Options say how to start a Spawner. The zero value tries all levels. See OnHost for what a user namespace forbids.
type Options struct {
	// Level is the highest level to try; "" tries all. Start falls back to lower levels, see Notes. What Start has found
	// holds for the life of the Spawner: where it is not to be had any more, nothing runs.
	Level Level
	host  bool // see OnHost
}

// OnHost returns Options for a Spawner that makes no user namespace, so that sudo, other setuid programs and rootless
// containers work in its commands. An ordinary user has no PIDNamespace then: a command can end or stop superloop. It is
// for commands that an operator gives, and for an operator who has chosen to have no protection.
func OnHost(l Level) Options { return Options{Level: l, host: true} }

// Spawner runs commands, one tree at a time. To run two trees at the same time, start two Spawners. All methods may be
// called from any goroutine.
type Spawner struct {
	exe                    string // the binary whose main calls SpawnerMain
	want                   Level
	host                   bool          // see OnHost
	launch                 Launcher      // nil: the binary itself is started
	killLimit, answerLimit time.Duration // the constants of these names; shorter in tests
	running                sync.Mutex    // held by Run

	mu     sync.Mutex // guards the following fields
	h      *helper    // nil: the next Run starts one
	level  Level      // "" before the first spawner process
	notes  []string
	closed bool
	inside []*Spawner // see Inside
}

// Start starts the spawner process and finds out which Level is available. This takes about as long as the start of the
// binary.
func Start(o Options) (*Spawner, error) {
	if os.Getenv(spawnerEnv) != "" {
		return nil, fmt.Errorf("starting the spawner process: this is the spawner process; main must call proc.SpawnerMain when the first argument is %s", SpawnerArg)
	}
	exe := "/proc/self/exe" // the running binary, even if an upgrade has replaced its file
	if runtime.GOOS != "linux" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding our own binary: %w", err)
		}
	}
	s := &Spawner{exe: exe, want: o.Level, host: o.host, killLimit: killLimit, answerLimit: answerLimit}
	if _, err := s.ensure(); err != nil {
		return nil, err
	}
	return s, nil
}

// Probe returns the level that is available on this system, and the reasons why the higher ones are not.
func Probe(o Options) (Level, []string, error) {
	s, err := Start(o)
	if err != nil {
		return "", nil, err
	}
	return s.Level(), s.Notes(), s.Close()
}

// ensure returns the spawner process. If there is none, ensure starts one.
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
	user, levels := NeedsUser(), s.want.from()
	if s.level != "" {
		levels = []Level{s.level} // otherwise a command that ends its spawner process could get a lower one for the next
	}
	for _, l := range levels {
		if l == PIDNamespace && user && s.host {
			notes = append(notes, fmt.Sprintf("%s: an ordinary user needs a user namespace for it, and was promised none", l))
			continue
		}
		h, err := startHelper(s.exe, l, user, s.launch)
		if err == nil {
			if s.h = h; s.level == "" {
				s.level, s.notes = l, notes
			}
			return h, nil
		}
		if no, ok := errors.AsType[launchError](err); ok {
			return nil, no.error
		}
		hint := ""
		if l == PIDNamespace {
			hint = NamespaceHint()
		}
		notes = append(notes, fmt.Sprintf("%s: %v%s", l, err, hint))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // a lower level would not answer sooner
		}
	}
	return nil, fmt.Errorf("starting the spawner process: %s", strings.Join(notes, "; "))
}

// retire kills the spawner process h. The next Run starts a new one.
func (s *Spawner) retire(h *helper) {
	h.abandon()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h == h {
		s.h = nil
	}
}

// Close ends the spawner process and its tree; a Run in progress returns ErrSpawnerLost. It first closes the Spawners
// that Inside has made. Close returns when all have ended, after 12 s for each of them at the latest. A second call
// does nothing.
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

// Level returns the mechanism that holds the process trees of this Spawner together.
func (s *Spawner) Level() Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// Notes says for each level that was tried and is not available why it is not.
func (s *Spawner) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes)
}

// Another program can start a spawner process: it prepares mounts and capabilities once for all commands of this
// spawner process, and then executes the spawner process.

// insideEnv is the value of spawnerEnv for a spawner process that another program has started.
const insideEnv = "inside"

// The descriptors that the program passes to the spawner process, besides stdin, stdout and stderr.
const (
	ControlFD = 3
	// WatchFD is an open /proc/self/mountinfo. The spawner process polls it before each command. An event means that
	// the mounts have changed since the preparation. The command is then not started, and a new spawner process is
	// prepared.
	WatchFD = ControlFD + 1
)

// Become describes the program that the other program executes at the end. The other program calls Enter(Level) before
// it drops its capabilities.
type Become struct {
	Argv, Env []string
	Level     Level
}

// Launch says how to start the other program.
type Launch struct {
	Argv, Env []string // Argv[0] is the path of the program
	// Files become descriptors 3, 4 and so on. The control socket is the next descriptor; the program must move it to
	// ControlFD.
	Files      []*os.File
	Namespaces Namespaces
	// Done is called once: with nil when the spawner process is ready, or with the error that prevents this. Its result
	// replaces the error.
	Done func(error) error
}

// Launcher returns a Launch for each start of a spawner process.
type Launcher func(Become) (Launch, error)

// launchError says why the program could not become a spawner process. Another Level would not help.
type launchError struct{ error }

func (e launchError) Unwrap() error { return e.error }

// Inside starts a second Spawner, whose spawner processes are started by way of l. Its level is that of s or the next
// lower one that is available. Both Spawners may run commands at the same time. The spawner process is undumpable,
// since its commands may have all of its capabilities; therefore only root can use Spec.Namespaces.User. The spawner
// process opens standard input again by its path. Close of s also closes the second Spawner.
func (s *Spawner) Inside(l Launcher) (*Spawner, error) {
	in := &Spawner{exe: s.exe, want: s.Level(), host: s.host, launch: l, killLimit: s.killLimit, answerLimit: s.answerLimit}
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

// Renew ends the spawner process and starts a new one. No command may be running.
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

// reopen opens standard input by its path, in the mounts of this process. Through the descriptor came, which is from
// outside of these mounts, an agent could open the file for writing despite a read-only mount. If the path cannot be
// opened here, reopen returns -1, and the command reads from came. The caller closes the returned descriptor.
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

// changed reports whether WatchFD has an event.
func changed() bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: WatchFD, Events: unix.POLLPRI}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 || err != nil
		}
	}
}
