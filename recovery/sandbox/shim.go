package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

const umask = 0o077

// ShimMain is the complete program of the shim. main calls it first of all if os.Args[1] is ShimArg, and exits with its
// result. On success ShimMain does not return, except for a probe: the process has become bash, or the process that
// starts agents (see Protect). ShimMain reports its work through the pipe reportFD.
func ShimMain() int {
	// The restrictions apply to this thread, and bash inherits them from this thread.
	runtime.LockOSThread()
	if !proc.IsOf(orderFD, unix.S_IFIFO) || !proc.IsOf(reportFD, unix.S_IFIFO) {
		fmt.Fprintf(os.Stderr, "%s is started by superloop itself, not by hand\n", ShimArg)
		return 2
	}
	keepOpen(2)
	rep, back, kind := report{Level: None}, reportFD, broken
	o, err := readOrder()
	switch {
	case err != nil:
	case o.Agent != nil:
		back, kind, err = o.prepareAgents(&rep)
	default:
		kind, err = o.prepare(&rep)
	}
	if err != nil {
		rep.fail(kind, err)
	}
	if say(back, rep) != nil || err != nil {
		return 1
	}
	if o.Probe {
		return 0
	}
	err = syscall.Exec(string(o.Path), convert[string](o.Argv), convert[string](o.Env))
	rep.fail(broken, fmt.Errorf("executing %s: %w", o.Path, err))
	_ = say(back, rep) // without a reader the message is not needed
	return 1
}

// readOrder reads the order, one line of JSON. It rejects an order without the final newline, because the sender has
// died.
func readOrder() (*order, error) {
	line, err := bufio.NewReader(io.LimitReader(os.NewFile(orderFD, "order"), maxOrder+2)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("reading the order: %w", err)
	}
	if len(line) > maxOrder+1 {
		return nil, fmt.Errorf("an order of more than %d bytes", maxOrder)
	}
	var o order
	if err := text.Decode(line, &o); err != nil {
		return nil, fmt.Errorf("reading the order: %w", err)
	}
	return &o, nil
}

func say(fd int, rep report) error {
	text, err := json.Marshal(rep)
	if err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	if err := proc.WriteAll(fd, text); err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	return nil
}

// prepare takes away the rights that the command must not have. The order of the steps matters. The working directory
// is looked up in the mounts that the command will see, and all files are opened before opening is forbidden.
func (o *order) prepare(rep *report) (kind string, err error) {
	unix.Umask(umask)
	if err := limit(); err != nil {
		return broken, err
	}
	return o.confine(rep)
}

// enter changes to the working directory if repository and directory are still those that were approved. The caller
// closes the descriptors.
func (o *order) enter() (opened, error) {
	p, fds, err := open(string(o.Repo), string(o.Dir))
	if err != nil {
		return fds, err
	}
	switch {
	case p.RepoID != o.RepoID:
		err = fmt.Errorf("the repository %s was replaced by another directory since this was decided", o.Repo)
	case p.DirID != o.DirID:
		err = fmt.Errorf("the working directory %q was replaced by another one since this was decided", o.Dir)
	default:
		if err = unix.Fchdir(int(fds.dir.Fd())); err != nil {
			err = fmt.Errorf("entering the working directory %q: %w", o.Dir, err)
		}
	}
	if err != nil {
		fds.close()
	}
	return fds, err
}

// limit sets the soft and the hard resource limits of the command and of each process that it starts. It raises no hard
// limit.
func limit() error {
	for _, l := range []struct {
		name string
		what int
		most uint64
	}{
		{"core size", unix.RLIMIT_CORE, 0}, // core files contain memory, and lie in the repository
		// Enough for any package manager. A program that leaks descriptors cannot fill the table of the system.
		{"open files", unix.RLIMIT_NOFILE, 4096},
		{"file size", unix.RLIMIT_FSIZE, 16 << 30}, // bytes; SIGXFSZ ends a program that fills the disk with one file
		// All processes and threads of the user count, not only those of the command. In a user namespace only those
		// inside count. The kernel does not apply this limit to root; for root only the timeout stops a fork bomb.
		{"processes", unix.RLIMIT_NPROC, 8192},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("limiting %s: %w", l.name, err)
		}
		most := min(now.Max, l.most)
		// Setrlimit must be that of package syscall. Otherwise syscall.Exec would restore the limit of open files with
		// which this process started.
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limiting %s to %d: %w", l.name, most, err)
		}
	}
	return nil
}

// The shim reads the order as one line of JSON from descriptor 3, and writes its report to descriptor 4: one JSON value
// before it executes bash, and a second one if the exec fails. Both pipes are closed at the exec.

const (
	// ShimArg is the hidden first argument that makes the superloop binary act as the shim. main (and TestMain of every
	// package whose tests run recoveries) checks for it before anything else and calls ShimMain.
	ShimArg = "__exec"

	orderFD  = 3
	reportFD = 4

	maxOrder   = 16 << 20
	maxReport  = 64 << 10 // the capacity of a pipe: the shim must not wait for its reader
	reportWait = 2 * time.Second
	maxNote    = 400 // bytes
	maxNotes   = 40
)

// bytesOf holds a path or a text as bytes. JSON strings would replace bytes that are not valid UTF-8.
type bytesOf []byte

// order says what the shim has to do.
type order struct {
	Path bytesOf   `json:"path"` // the program that is executed at the end
	Argv []bytesOf `json:"argv"`
	Env  []bytesOf `json:"env"`

	Writable  []bytesOf `json:"writable"`
	Protected []bytesOf `json:"protected"`
	Hidden    []bytesOf `json:"hidden"`
	Links     []bytesOf `json:"links,omitempty"`   // see Protection; only with Agent
	Private   []bytesOf `json:"private,omitempty"` // see Protection; only with Agent
	// Agent is not nil if the shim has to prepare the mounts for agents instead of a recovery command. The fields below
	// Ports are then unused.
	Agent *agentOrder `json:"agent,omitempty"`

	Ports []uint16 `json:"ports,omitempty"` // the TCP ports in front of which the wall is built; none: no wall

	Repo   bytesOf `json:"repo"`
	Dir    bytesOf `json:"dir"`
	RepoID FileID  `json:"repo_id"`
	DirID  FileID  `json:"dir_id"`

	Required Level `json:"required,omitempty"`
	// Landlock is false if Landlock must not be used. Mount says that the shim was started in a mount namespace of its
	// own, in which it has to make the mounts.
	Landlock bool `json:"landlock"`
	Mount    bool `json:"mount"`
	Probe    bool `json:"probe,omitempty"` // a trial of all mechanisms on harmless paths; nothing is executed
}

// The kinds of failure of the shim.
const (
	badPlace = "place" // the working directory is not the approved one
	tooWeak  = "level" // the level is below Required
	noMount  = "mount" // the mounts cannot be made; the command may run without them
	broken   = "setup"
)

// report says what the shim has done.
type report struct {
	Level       Level    `json:"level"`
	LandlockABI int      `json:"landlock_abi"`
	Walled      []uint16 `json:"walled,omitempty"` // order.Ports, if the wall stands
	Notes       []string `json:"notes,omitempty"`
	// Failure is the kind of failure because of which nothing was executed, or "" if bash is about to be executed. Text
	// describes the failure for the operator.
	Failure string `json:"failure,omitempty"`
	Text    string `json:"text,omitempty"`
}

func (r *report) note(format string, args ...any) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, clip(fmt.Sprintf(format, args...)))
	}
}

func (r *report) fail(kind string, err error) { r.Failure, r.Text = kind, clip(err.Error()) }

func clip(s string) string { return text.Cut(s, maxNote) }

func convert[To, From ~string | ~[]byte](in []From) []To {
	out := make([]To, 0, len(in))
	for _, s := range in {
		out = append(out, To(s))
	}
	return out
}

// line holds the two pipes between superloop and the shim.
type line struct {
	theirs []*os.File // the shim's ends: order, report
	back   *os.File
	sent   chan struct{} // closed when the order is sent, or the shim has died
}

// openLine makes the pipes and starts to send the order.
func openLine(o *order) (*line, error) {
	in, send, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("writing the shim's order: %w", err)
	}
	back, out, err := os.Pipe()
	if err != nil {
		in.Close()
		send.Close()
		return nil, fmt.Errorf("writing the shim's order: %w", err)
	}
	l := &line{theirs: []*os.File{in, out}, back: back, sent: make(chan struct{})}
	text, _ := json.Marshal(o) // an order contains only types that JSON can represent
	go func() {
		defer close(l.sent)
		_, _ = send.Write(append(text, '\n')) // fails only if the shim has died, which report finds out
		send.Close()
	}()
	return l, nil
}

// report returns the report of the shim.
func (l *line) report() (report, error) {
	l.theirs[1].Close() // otherwise the read would never end
	return readReport(l.back)
}

// close closes all pipes and waits until nothing is being sent.
func (l *line) close() {
	for _, f := range append(l.theirs, l.back) {
		f.Close()
	}
	<-l.sent
}

// readReport reads the last report that the shim wrote. If there is none, the shim has died.
func readReport(r *os.File) (report, error) {
	var rep report
	if err := r.SetReadDeadline(time.Now().Add(reportWait)); err != nil {
		return rep, fmt.Errorf("reading the shim's report: %w", err)
	}
	d := json.NewDecoder(io.LimitReader(r, 2*maxReport))
	said := false
	for {
		var next report
		err := text.Reason(d.Decode(&next))
		switch {
		case errors.Is(err, io.EOF) && said:
			return rep, nil
		case errors.Is(err, io.EOF):
			return rep, errors.New("the shim said nothing")
		case err != nil:
			return rep, fmt.Errorf("reading the shim's report: %w", err)
		}
		rep, said = next, true
	}
}
