package proc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The control socket carries frames: 4 bytes of length, big endian, then that many bytes of JSON. The
// descriptors of a run request travel with the first byte of its frame.

// maxFrame bounds one frame. Linux refuses to exec with more than 6 MiB of arguments and environment, which is
// 8 MiB in base64; a longer request must still arrive, so that the kernel's own E2BIG is what the user reads.
const maxFrame = 64 << 20

// Operations that the supervisor asks for.
const (
	opRun  = "run"
	opTerm = "term" // SIGTERM to the whole tree, once
	opKill = "kill" // the sure end of the whole tree
)

// request goes from the supervisor to the spawner process. Strings that end in exec are bytes, because
// JSON would replace what is not UTF-8.
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
	// KillLimitMS bounds the sure kill, in milliseconds. What still lives then cannot be killed (a process
	// in uninterruptible sleep) and is reported as stuck.
	KillLimitMS int64 `json:"kill_limit_ms,omitempty"`
}

// Kinds of event.
const (
	evReady      = "ready"       // Cgroups; or Text says why the spawner process could not be set up
	evStarted    = "started"     // PID
	evNotStarted = "not_started" // Errno of fork or exec
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
	MaxRSS   int64  `json:"max_rss,omitempty"`   // bytes, the largest single process
	Left     int    `json:"left,omitempty"`
	Stuck    int    `json:"stuck,omitempty"`
}

// pack joins strings that hold no NUL byte, each with a NUL after it.
func pack(list []string) []byte {
	n := 0
	for _, s := range list {
		n += len(s) + 1
	}
	out := make([]byte, 0, n)
	for _, s := range list {
		out = append(append(out, s...), 0)
	}
	return out
}

// unpack undoes pack.
func unpack(p []byte) []string {
	list := make([]string, 0, bytes.Count(p, []byte{0}))
	for len(p) > 0 {
		s, rest, _ := bytes.Cut(p, []byte{0})
		list, p = append(list, string(s)), rest
	}
	return list
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// frame encodes v, ready to be sent.
func frame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("a message of %d bytes is longer than the %d bytes that may be sent: %w", len(body), maxFrame, unix.E2BIG)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...), nil
}

// sendFrame writes one frame with descriptors to a non-blocking socket, waiting at most limit.
func sendFrame(f *os.File, msg []byte, fds []int, limit time.Duration) error {
	if err := f.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("sending to the spawner process: %w", err)
	}
	rc, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("sending to the spawner process: %w", err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	var n int
	var failed error
	err = rc.Write(func(fd uintptr) bool {
		n, failed = unix.SendmsgN(int(fd), msg, rights, nil, 0)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("sending to the spawner process: %w", err)
	}
	if n < len(msg) {
		if _, err := f.Write(msg[n:]); err != nil {
			return fmt.Errorf("sending to the spawner process: %w", err)
		}
	}
	return nil
}

// readEvent reads one event from the control socket.
func readEvent(r io.Reader) (event, error) {
	var ev event
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return ev, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return ev, fmt.Errorf("an event of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return ev, err
	}
	return ev, json.Unmarshal(body, &ev)
}

// readRequest reads one request and its descriptors from a blocking socket. The descriptors are
// close-on-exec and belong to the caller, also when an error is returned.
func readRequest(sock int) (request, []int, error) {
	var req request
	var head [4]byte
	fds, err := readRights(sock, head[:])
	if err != nil {
		return req, fds, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return req, fds, fmt.Errorf("a request of %d bytes", n)
	}
	body := make([]byte, n)
	if err := readAll(sock, body); err != nil {
		return req, fds, err
	}
	return req, fds, json.Unmarshal(body, &req)
}

// readRights fills p and returns the descriptors that came with its first bytes.
func readRights(sock int, p []byte) ([]int, error) {
	oob := make([]byte, unix.CmsgSpace((3+MaxFiles)*4))
	n, oobn, err := recvRights(sock, p, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	var fds []int
	if oobn > 0 {
		msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, fmt.Errorf("reading descriptors: %w", err)
		}
		for i := range msgs {
			got, err := unix.ParseUnixRights(&msgs[i])
			if err != nil {
				return fds, fmt.Errorf("reading descriptors: %w", err)
			}
			fds = append(fds, got...)
		}
	}
	return fds, readAll(sock, p[n:])
}

// readAll fills p from a blocking descriptor.
func readAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Read(fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			p = p[n:]
		}
	}
	return nil
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
