package proc

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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

// The control socket carries frames: 4 bytes of length, big endian, then that many bytes of JSON. The descriptors of a
// run request travel with the first byte of its frame.

// maxFrame bounds one frame: maxArguments in base64, and more.
const maxFrame = 64 << 20

// Operations that the supervisor asks for.
const (
	opRun  = "run"
	opTerm = "term" // SIGTERM to the whole tree, once
	opKill = "kill" // the sure end of the whole tree
)

// request goes from the supervisor to the spawner process. Strings that end in exec are bytes, because JSON would
// replace what is not UTF-8.
type request struct {
	Op   string `json:"op"`
	Path []byte `json:"path,omitempty"`
	Dir  []byte `json:"dir,omitempty"`
	Argv []byte `json:"argv,omitempty"` // packed
	Env  []byte `json:"env,omitempty"`  // packed

	Namespaces Namespaces `json:"namespaces,omitzero"`
	// Stdin is the path of standard input, empty for /dev/null. Fresh: the spawner process was started for this
	// command, so WatchFD is not looked at. Both are for one that was launched by another program.
	Stdin []byte `json:"stdin,omitempty"`
	Fresh bool   `json:"fresh,omitempty"`
	// KillLimitMS bounds the sure kill, in milliseconds. What still lives then cannot be killed (a process in
	// uninterruptible sleep) and is reported as stuck.
	KillLimitMS int64 `json:"kill_limit_ms,omitempty"`
}

// Kinds of event.
const (
	evReady      = "ready"       // Cgroups; or Text says why the spawner process could not be set up
	evStarted    = "started"     // PID
	evNotStarted = "not_started" // Errno of fork or exec, Text
	evStale      = "stale"       // not started, because WatchFD is ready
	evExited     = "exited"      // the main process ended, others of its tree are still there
	evSwept      = "swept"       // the tree is gone; carries the exit status too
)

// event goes from the spawner process to the supervisor.
type event struct {
	Kind     string `json:"kind"`
	Text     string `json:"text,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Cgroups  string `json:"cgroups,omitempty"` // see containment.name
	Errno    int    `json:"errno,omitempty"`
	Code     int    `json:"code,omitempty"`
	Signal   int    `json:"signal,omitempty"`
	UserUS   int64  `json:"user_us,omitempty"`   // microseconds, the whole tree
	SystemUS int64  `json:"system_us,omitempty"` // microseconds, the whole tree
	Left     int    `json:"left,omitempty"`
	Stuck    int    `json:"stuck,omitempty"`
}

// pack joins strings that hold no NUL byte, each with a NUL after it.
func pack(list []string) []byte {
	var out []byte
	for _, s := range list {
		out = append(append(out, s...), 0)
	}
	return out
}

func unpack(p []byte) []string {
	list := strings.Split(string(p), "\x00")
	return list[:len(list)-1]
}

func hasNUL(s string) bool { return strings.Contains(s, "\x00") }

// frame encodes a request or an event, ready to be sent.
func frame(v any) []byte {
	body, _ := json.Marshal(v) // neither holds what JSON has no form for
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return fmt.Errorf("a message of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// sendFrame writes one frame with descriptors to a non-blocking socket, waiting at most sendLimit.
func sendFrame(f *os.File, msg []byte, fds []int) error {
	err := f.SetWriteDeadline(time.Now().Add(sendLimit))
	var rc syscall.RawConn
	if err == nil {
		rc, err = f.SyscallConn()
	}
	if err == nil {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		var failed error
		err = rc.Write(func(fd uintptr) bool {
			for failed = nil; len(msg) > 0; {
				n, err := unix.SendmsgN(int(fd), msg, rights, nil, 0)
				switch err {
				case nil:
					msg, rights = msg[n:], nil
				case unix.EINTR:
				default:
					failed = err
					return err != unix.EAGAIN // else it is called again when there is room
				}
			}
			return true
		})
		err = cmp.Or(err, failed)
	}
	if err != nil {
		return fmt.Errorf("sending to the spawner process: %w", err)
	}
	return nil
}

// control reads the control socket in the spawner process. It keeps the descriptors that come; they are close-on-exec,
// and belong to who reads.
type control struct{ fds []int }

func (c *control) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace((3+MaxFiles)*4))
	n, oobn, _, _, err := unix.Recvmsg(ControlFD, p, oob, 0)
	switch {
	case err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	for i := range msgs {
		fds, perr := unix.ParseUnixRights(&msgs[i])
		for _, fd := range fds {
			unix.CloseOnExec(fd) // nothing is forked meanwhile: who reads is who forks
		}
		if c.fds = append(c.fds, fds...); perr != nil {
			err = perr
		}
	}
	if err != nil {
		err = fmt.Errorf("reading descriptors: %w", err)
	}
	return n, err
}

// WriteAll writes p to a blocking descriptor.
func WriteAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		if err != nil && err != unix.EINTR {
			return err
		}
		p = p[max(n, 0):]
	}
	return nil
}
