package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// SpawnerArg is the hidden first argument that makes our binary the spawner process. main (and TestMain of every
	// package whose tests run commands) looks for it before anything else and calls SpawnerMain.
	SpawnerArg = "__spawn"

	// spawnerEnv stands in the spawner process's own environment, and in nothing that it starts.
	spawnerEnv = "SUPERLOOP_SPAWNER"

	readyLimit = 30 * time.Second // start of the spawner process; takes 20 ms on an idle machine
	reapLimit  = 12 * time.Second // from its last sign of life to its exit status; more than killLimit
	sendLimit  = 10 * time.Second
	idleLimit  = 2 * time.Second // from closing the control socket to the end of one that runs nothing
)

// helper is the supervisor's handle of one spawner process.
type helper struct {
	proc       *os.Process
	level      Level
	ctl        *os.File
	complaints *os.File      // the other end of its stdout and stderr
	events     chan event    // closed when it is gone; lost is set before
	quit       chan struct{} // closed when nobody reads events any more
	lost       error
	cgroups    string // see containment.name
	leave      func() // closes the control socket and stops listening to events, once
}

// controlPair returns the two ends of the control socket: ours non-blocking, for the runtime's poller, theirs blocking.
func controlPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
		err = unix.SetNonblock(p[0], true)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(p[0]), "control"), os.NewFile(uintptr(p[1]), "control"), nil
}

// startHelper starts a spawner process, by way of another program if there is a Launcher, and waits until it is set up
// for the level.
func startHelper(exe string, l Level, by Launcher) (*helper, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("starting the spawner process: %w", err)
	}
	defer null.Close()
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	defer theirs.Close()
	h := &helper{level: l, ctl: ours, events: make(chan event, 8), quit: make(chan struct{})}
	var mouth *os.File
	if h.complaints, mouth, err = os.Pipe(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("starting the spawner process: %w", err)
	}
	defer mouth.Close()

	// The first name is kept: a test binary may serve several commands by it.
	argv, done := []string{os.Args[0], SpawnerArg, string(l)}, func(err error) error { return err }
	attr := &os.ProcAttr{
		Dir:   "/", // it must not keep a directory of the user's busy
		Env:   []string{spawnerEnv + "=1", "GOMAXPROCS=2"},
		Files: []*os.File{null, mouth, mouth, theirs},
		Sys:   spawnerAttr(l),
	}
	if by != nil {
		h.proc, done, err = launchHelper(l, by, argv, attr)
	} else {
		h.proc, err = os.StartProcess(exe, argv, attr)
	}
	theirs.Close() // else its death would not end the socket
	if err != nil {
		ours.Close()
		h.complaints.Close()
		return nil, fmt.Errorf("starting the spawner process: %w", err)
	}
	h.leave = sync.OnceFunc(func() {
		close(h.quit)
		h.ctl.Close()
	})
	go h.listen()
	text, err := h.ready()
	if err = done(err); err == nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		h.abandon()
		return nil, err
	}
	return h, nil
}

// ready waits until the spawner process is set up. The text is why it cannot be, at this level.
func (h *helper) ready() (text string, err error) {
	select {
	case ev, ok := <-h.events:
		switch {
		case !ok:
			return "", fmt.Errorf("it did not answer: %w", h.lost)
		case ev.Kind != evReady:
			return "", fmt.Errorf("it answered %q, not %q", ev.Kind, evReady)
		}
		h.cgroups = ev.Cgroups
		return ev.Text, nil
	case <-time.After(readyLimit):
		_ = h.proc.Kill()
		return "", fmt.Errorf("it did not answer within %v: %w", readyLimit, os.ErrDeadlineExceeded)
	}
}

// listen passes events on until the spawner process is gone, then finds out how it went.
func (h *helper) listen() {
	r := bufio.NewReader(h.ctl)
	wanted := true
	var err error
	for wanted {
		var ev event
		if err = readFrame(r, &ev); err != nil {
			break
		}
		select {
		case h.events <- ev:
		case <-h.quit:
			wanted = false
		}
	}
	h.ctl.Close()
	h.lost = h.obituary(err)
	close(h.events)
}

// obituary waits for the end of the spawner process and says how it came: the status, and what it said last.
func (h *helper) obituary(cause error) error {
	ended := make(chan string, 1)
	go func() {
		if st, err := h.proc.Wait(); err != nil {
			ended <- err.Error()
		} else {
			ended <- st.String()
		}
	}()
	var how string
	select {
	case how = <-ended:
	case <-time.After(reapLimit):
		// In a PID namespace its exit waits for processes that cannot be killed.
		_ = h.proc.Kill()
		how = fmt.Sprintf("not ended after %v (%v)", reapLimit, cause)
	}
	defer h.complaints.Close()
	said := make([]byte, 4096)
	_ = h.complaints.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	n, _ := h.complaints.Read(said)
	if line, _, _ := bytes.Cut(bytes.TrimSpace(said[:n]), []byte("\n")); len(line) > 0 {
		how += ": " + string(line)
	}
	return fmt.Errorf("spawner process %d: %s", h.proc.Pid, how)
}

// send asks for something. An error means that the spawner process is as good as lost.
func (h *helper) send(req request, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return sendFrame(h.ctl, frame(req), fds)
}

// close lets the spawner process end its tree and leave, and returns when it is gone. After limit it is killed.
func (h *helper) close(limit time.Duration) {
	h.leave()
	late := time.AfterFunc(limit, func() { _ = h.proc.Kill() })
	defer late.Stop()
	for range h.events {
	}
}

// abandon kills the spawner process and does not wait for it.
func (h *helper) abandon() {
	_ = h.proc.Kill()
	h.leave()
}
