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

	"github.com/superloop/superloop/internal/text"
)

const (
	// SpawnerArg is the hidden first argument that makes the superloop binary the spawner process. main (and TestMain
	// of every package whose tests run commands) checks for it before anything else and calls SpawnerMain.
	SpawnerArg = "__spawn"

	// spawnerEnv is set in the environment of the spawner process, and in no process that it starts.
	spawnerEnv = "SUPERLOOP_SPAWNER"

	readyLimit = 30 * time.Second // from the start of the spawner process to its first event; 20 ms on an idle machine
	reapLimit  = 12 * time.Second // from the last event to the exit status; more than killLimit
	sendLimit  = 10 * time.Second
	idleLimit  = 2 * time.Second // from closing the control socket to the end of a spawner process without a tree
)

// helper represents one spawner process in the supervisor.
type helper struct {
	proc       *os.Process
	level      Level
	ctl        *os.File
	complaints *os.File      // the read end of its stdout and stderr
	events     chan event    // closed after the end of the spawner process; lost is set before
	ended      chan struct{} // closed together with events
	quit       chan struct{} // closed when nobody reads events any more
	lost       error
	cgroups    string // see containment.name
	leave      func() // closes the control socket and stops reading events, once
}

// controlPair returns both ends of the control socket. ours is non-blocking, for the poller of the Go runtime; theirs
// is blocking.
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

// startHelper starts a spawner process, with a Launcher by way of another program. It waits until the process is set up
// for the level. user says that the level needs a user namespace.
func startHelper(exe string, l Level, user bool, by Launcher) (*helper, error) {
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
	h := &helper{level: l, ctl: ours, events: make(chan event, 8), ended: make(chan struct{}), quit: make(chan struct{})}
	var mouth *os.File
	if h.complaints, mouth, err = os.Pipe(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("starting the spawner process: %w", err)
	}
	defer mouth.Close()

	done := func(err error) error { return err }
	sys, ids, err := spawnerAttr(l, user && by == nil) // a Launch names its own user namespace
	// argv[0] stays the same, because a test binary may choose its role by it.
	argv := append([]string{os.Args[0], SpawnerArg, string(l)}, ids...)
	attr := &os.ProcAttr{
		Dir:   "/", // the process must not keep a directory of the operator in use
		Env:   []string{spawnerEnv + "=1", "GOMAXPROCS=2"},
		Files: []*os.File{null, mouth, mouth, theirs},
		Sys:   sys,
	}
	if err == nil {
		err = startBound(h.ended, func() (err error) {
			if by != nil {
				h.proc, done, err = launchHelper(l, by, argv, attr)
			} else {
				h.proc, err = os.StartProcess(exe, argv, attr)
			}
			return err
		})
	}
	theirs.Close() // otherwise the socket would stay open after the death of the process
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

// ready waits until the spawner process is set up. text says why the level is not available, if it is not.
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

// listen passes events on until the spawner process has ended, and then sets lost.
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
	close(h.ended)
	close(h.events)
}

// obituary waits for the end of the spawner process. It returns the exit status and the first line of its output as an
// error.
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
		// At the end of PID 1 the kernel waits for all processes of the namespace, also for those that cannot be
		// killed.
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

// send sends a request. After an error the spawner process is not usable any more.
func (h *helper) send(req request, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return sendFrame(h.ctl, frame(req), fds)
}

// close makes the spawner process end its tree and exit, and waits for this. After limit it kills the process.
func (h *helper) close(limit time.Duration) {
	h.leave()
	late := time.AfterFunc(limit, func() { _ = h.proc.Kill() })
	defer late.Stop()
	for range h.events {
	}
}

// abandon kills the spawner process and does not wait for its end.
func (h *helper) abandon() {
	_ = h.proc.Kill()
	h.leave()
}

// The control socket carries frames: 4 bytes of length in big endian, followed by this many bytes of JSON. The
// descriptors of a run request are sent with the first byte of its frame.

// maxFrame is the most bytes of a frame. It has room for maxArguments in base64.
const maxFrame = 64 << 20

// The operations that the supervisor requests.
const (
	opRun  = "run"
	opTerm = "term" // SIGTERM to the whole tree, once
	opKill = "kill" // SIGKILL to the whole tree until it is gone
)

// request goes from the supervisor to the spawner process. Paths, arguments and environment are bytes, because JSON
// would replace bytes that are not valid UTF-8.
type request struct {
	Op   string `json:"op"`
	Path []byte `json:"path,omitempty"`
	Dir  []byte `json:"dir,omitempty"`
	Argv []byte `json:"argv,omitempty"` // as pack encodes it
	Env  []byte `json:"env,omitempty"`  // as pack encodes it

	Namespaces Namespaces `json:"namespaces,omitzero"`
	// Stdin is the path of standard input, or empty for /dev/null. It matters only for a spawner process that another
	// program has started.
	Stdin []byte `json:"stdin,omitempty"`
	// Fresh says that the spawner process was started for this command, so it does not look whether it is out of date.
	Fresh bool `json:"fresh,omitempty"`
	// KillLimitMS limits the time for killing the tree, in milliseconds. Processes that live longer cannot be killed
	// (for example in uninterruptible sleep) and are reported as stuck.
	KillLimitMS int64 `json:"kill_limit_ms,omitempty"`
}

// The kinds of event.
const (
	evReady      = "ready"       // carries Cgroups, or in Text why the spawner process could not be set up
	evStarted    = "started"     // carries PID
	evNotStarted = "not_started" // carries Errno of fork or exec, and Text
	evStale      = "stale"       // not started, because WatchFD has an event, or because of other bounds
	evExited     = "exited"      // the main process has ended, others of its tree are alive
	evSwept      = "swept"       // the tree is gone; carries the exit status, too
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
	UserUS   int64  `json:"user_us,omitempty"`   // microseconds of the whole tree
	SystemUS int64  `json:"system_us,omitempty"` // microseconds of the whole tree
	Left     int    `json:"left,omitempty"`
	Stuck    int    `json:"stuck,omitempty"`
}

// pack joins strings without NUL bytes, each followed by a NUL.
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

// frame encodes a request or an event as a frame.
func frame(v any) []byte {
	body, _ := json.Marshal(v) // both types contain only values that JSON can represent
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
	body, err := io.ReadAll(io.LimitReader(r, int64(n))) // a length that is only claimed costs no memory
	if err != nil {
		return err
	}
	if len(body) < int(n) {
		return io.ErrUnexpectedEOF
	}
	return text.Decode(body, v)
}

// sendFrame writes one frame with descriptors to a non-blocking socket. It waits at most sendLimit.
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
					return err != unix.EAGAIN // after EAGAIN, Write calls this function again when there is room
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

// control reads the control socket in the spawner process. It collects the received descriptors in fds and marks them
// close-on-exec. The caller closes them.
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
			unix.CloseOnExec(fd) // there is no fork in between: the same goroutine reads and forks
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

// WriteAll writes all of p to a blocking descriptor.
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
