package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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

// launchHelper starts the program that is to become the spawner process.
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
