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

// ShimMain is the whole life of the shim: main calls it first thing when os.Args[1] is ShimArg, and exits with what it
// returns, if it returns: when all goes well this process is bash then, or the one that starts agents (see Protect). On
// the wire it says what it did.
func ShimMain() int {
	// What is restricted is this thread, and bash gets what this thread has.
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
	_ = say(back, rep) // if nobody listens nobody will miss it
	return 1
}

// readOrder reads the order, a line of JSON. An order without its end is refused: who sent it has died.
func readOrder() (*order, error) {
	text, err := bufio.NewReader(io.LimitReader(os.NewFile(orderFD, "order"), maxOrder+2)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("reading the order: %w", err)
	}
	if len(text) > maxOrder+1 {
		return nil, fmt.Errorf("an order of more than %d bytes", maxOrder)
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
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

// prepare takes away what the command must not have. Each step can only be done before the next one: the working
// directory is looked for in the mounts that the command will see, and everything is opened before it is forbidden.
func (o *order) prepare(rep *report) (kind string, err error) {
	unix.Umask(umask)
	if err := limit(); err != nil {
		return broken, err
	}
	return o.confine(rep)
}

// enter goes to the working directory, if it still is the one that was decided on. The descriptors are to be closed.
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

// limit sets the resource limits of the command and of each process that it starts, hard and soft. None is raised.
func limit() error {
	for _, l := range []struct {
		name string
		what int
		most uint64
	}{
		{"core size", unix.RLIMIT_CORE, 0}, // core files hold the memory, and lie in the repository
		// Enough for any package manager. One that leaks descriptors does not fill the system's table.
		{"open files", unix.RLIMIT_NOFILE, 4096},
		{"file size", unix.RLIMIT_FSIZE, 16 << 30}, // in bytes: SIGXFSZ ends a program that fills the disk by one file
		// Processes and threads of the user, all of them, not only the command's; in a user namespace of its own those in
		// there. The kernel does not apply it to root: there the timeout bounds a fork bomb.
		{"processes", unix.RLIMIT_NPROC, 8192},
	} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("limiting %s: %w", l.name, err)
		}
		most := min(now.Max, l.most)
		// Of package syscall, so that its Exec does not put the limit of open files back to what this process started
		// with.
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limiting %s to %d: %w", l.name, most, err)
		}
	}
	return nil
}

// The order goes to the shim as one JSON value on descriptor 3, the report comes back on descriptor 4: one JSON value
// before bash is executed, and a second one if that fails. Both pipes end with the exec.

const (
	// ShimArg is the hidden first argument that makes our binary the shim. main (and TestMain of every package whose
	// tests run recoveries) looks for it before anything else and calls ShimMain.
	ShimArg = "__exec"

	orderFD  = 3
	reportFD = 4

	maxOrder   = 16 << 20
	maxReport  = 64 << 10 // what a pipe holds: the shim must not wait for its reader
	reportWait = 2 * time.Second
	maxNote    = 400 // bytes
	maxNotes   = 40
)

// bytesOf is for paths and texts: JSON would replace what is not UTF-8.
type bytesOf []byte

// order is what the shim is to do.
type order struct {
	Path bytesOf   `json:"path"` // what is executed at the end
	Argv []bytesOf `json:"argv"`
	Env  []bytesOf `json:"env"`

	Writable  []bytesOf `json:"writable"`
	Protected []bytesOf `json:"protected"`
	Hidden    []bytesOf `json:"hidden"`
	// Agent is not nil if what agents see is to be prepared, and no recovery run. Nothing below counts then.
	Agent *agentOrder `json:"agent,omitempty"`

	Repo   bytesOf `json:"repo"`
	Dir    bytesOf `json:"dir"`
	RepoID FileID  `json:"repo_id"`
	DirID  FileID  `json:"dir_id"`

	Required Level `json:"required,omitempty"`
	// Landlock is false if it is not to be used. Mount: the shim was started in a mount namespace of its own, to be
	// furnished.
	Landlock bool `json:"landlock"`
	Mount    bool `json:"mount"`
	Probe    bool `json:"probe,omitempty"` // everything is tried on harmless places, and nothing executed
}

// Kinds of failure.
const (
	badPlace = "place" // the working directory is another one than was decided on
	tooWeak  = "level" // Required is not met
	noMount  = "mount" // the mount namespace cannot be furnished; without one it may work
	broken   = "setup"
)

// report is what the shim did.
type report struct {
	Level       Level    `json:"level"`
	LandlockABI int      `json:"landlock_abi"`
	Notes       []string `json:"notes,omitempty"`
	// Failure is why nothing was executed, one of the kinds, "" if it is about to be; Text says it for the user.
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

// line is the two pipes between Run and the shim.
type line struct {
	theirs []*os.File // the shim's ends: order, report
	back   *os.File
	sent   chan struct{} // closed when the order is sent, or the shim has died
}

// openLine makes the pipes, and begins to send the order.
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
	text, _ := json.Marshal(o) // it holds nothing that JSON has no form for
	go func() {
		defer close(l.sent)
		_, _ = send.Write(append(text, '\n')) // this fails only if the shim died, which is found out elsewhere
		send.Close()
	}()
	return l, nil
}

// report is what the shim said.
func (l *line) report() (report, error) {
	l.theirs[1].Close() // else it would not end
	return readReport(l.back)
}

// close returns when nothing is sent any more.
func (l *line) close() {
	for _, f := range append(l.theirs, l.back) {
		f.Close()
	}
	<-l.sent
}

// readReport reads what the shim said, when it has ended. No report means that it died.
func readReport(r *os.File) (report, error) {
	var rep report
	if err := r.SetReadDeadline(time.Now().Add(reportWait)); err != nil {
		return rep, fmt.Errorf("reading the shim's report: %w", err)
	}
	d := json.NewDecoder(io.LimitReader(r, 2*maxReport))
	said := false
	for {
		var next report
		err := d.Decode(&next)
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
