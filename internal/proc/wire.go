package proc

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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

// unpack undoes pack.
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

// readFrame reads one frame into v.
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

// writeAll writes p to a blocking descriptor.
func writeAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		if err != nil && err != unix.EINTR {
			return err
		}
		p = p[max(n, 0):]
	}
	return nil
}
