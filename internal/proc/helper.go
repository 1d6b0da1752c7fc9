package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// SpawnerArg is the hidden first argument that makes our binary the spawner process. main (and TestMain of
	// every package whose tests run commands) looks for it before anything else and calls SpawnerMain.
	SpawnerArg = "__spawn"

	// spawnerEnv stands in the spawner process's own environment, and in nothing that it starts.
	spawnerEnv = "SUPERLOOP_SPAWNER"

	readyLimit = 30 * time.Second // start of the spawner process; takes 20 ms on an idle machine
	reapLimit  = 12 * time.Second // from its last sign of life to its exit status; more than killLimit
	sendLimit  = 10 * time.Second
	idleLimit  = 2 * time.Second // from closing the life line to the end of one that runs nothing
)

// helper is the supervisor's handle of one spawner process.
type helper struct {
	proc       *os.Process
	ctl        *os.File
	complaints *os.File      // the other end of its stdout and stderr
	events     chan event    // closed when it is gone; lost is set before
	quit       chan struct{} // closed when nobody reads events any more
	lost       error
	cgroups    string // see containment.name
	once       sync.Once
}

// startHelper starts a spawner process, by way of another program if there is a Launcher, and waits until it is set up for the
// level.
func startHelper(exe string, l Level, by Launcher) (*helper, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	complaints, w, err := outputPipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	// Non-blocking: a spawner process that has much to say must not hang on a supervisor that only
	// listens when it is gone.
	_ = unix.SetNonblock(w, true)
	mouth := os.NewFile(uintptr(w), "complaints")
	defer mouth.Close()
	fail := func(err error) (*helper, error) {
		ours.Close()
		complaints.Close()
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fail(fmt.Errorf("starting the spawner process: %w", err))
	}
	defer null.Close()

	// The first name is kept: a test binary may serve several commands by it.
	argv, done := []string{os.Args[0], SpawnerArg, string(l)}, func(err error) error { return err }
	attr := &os.ProcAttr{
		Dir:   "/", // it must not keep a directory of the user's busy
		Env:   []string{spawnerEnv + "=1", "GOMAXPROCS=2"},
		Files: []*os.File{null, mouth, mouth, theirs},
		Sys:   spawnerAttr(l),
	}
	var p *os.Process
	if by != nil {
		p, done, err = launchHelper(l, by, argv, attr)
	} else {
		p, err = os.StartProcess(exe, argv, attr)
	}
	theirs.Close() // else its death would not end the socket
	if err != nil {
		return fail(fmt.Errorf("starting the spawner process: %w", err))
	}
	h := &helper{proc: p, ctl: ours, complaints: complaints, events: make(chan event, 8), quit: make(chan struct{})}
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
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
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
	case <-limit.C:
		_ = h.proc.Kill()
		return "", fmt.Errorf("it did not answer within %v: %w", readyLimit, os.ErrDeadlineExceeded)
	}
}

// listen passes events on until the spawner process is gone, then finds out how it went.
func (h *helper) listen() {
	r := bufio.NewReader(h.ctl)
	var err error
	for {
		var ev event
		if ev, err = readEvent(r); err != nil {
			break
		}
		select {
		case h.events <- ev:
			continue
		case <-h.quit:
		}
		break
	}
	h.ctl.Close()
	h.lost = h.obituary(err)
	close(h.events)
}

// obituary waits for the end of the spawner process and says how it came: the status, and what it said last.
func (h *helper) obituary(cause error) error {
	type status struct {
		state *os.ProcessState
		err   error
	}
	ended := make(chan status, 1)
	go func() {
		st, err := h.proc.Wait()
		ended <- status{st, err}
	}()
	var how string
	limit := time.NewTimer(reapLimit)
	defer limit.Stop()
	select {
	case st := <-ended:
		how = fmt.Sprint(st.state)
		if st.err != nil {
			how = st.err.Error()
		}
	case <-limit.C:
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
func (h *helper) send(req request, fds ...int) error {
	msg, err := frame(req)
	if err != nil {
		return err
	}
	return sendFrame(h.ctl, msg, fds, sendLimit)
}

// leave closes the life line and stops listening to events.
func (h *helper) leave() {
	h.once.Do(func() {
		close(h.quit)
		h.ctl.Close()
	})
}

// close lets the spawner process end its tree and leave, and returns when it is gone. After limit it is killed.
func (h *helper) close(limit time.Duration) {
	h.leave()
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		select {
		case _, ok := <-h.events:
			if !ok {
				return
			}
		case <-t.C:
			_ = h.proc.Kill()
		}
	}
}

// abandon kills the spawner process and does not wait for it.
func (h *helper) abandon() {
	_ = h.proc.Kill()
	h.leave()
}

// executable returns the path of the binary to start as spawner process.
func executable(exe string) (string, error) {
	if exe == "" {
		exe = defaultExe
	}
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return "", fmt.Errorf("finding our own binary: %w", err)
		}
	}
	return filepath.Abs(exe)
}
