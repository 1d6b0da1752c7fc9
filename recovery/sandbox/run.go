package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

// Spawner runs a process tree until all of its processes have ended. *proc.Spawner implements it.
type Spawner interface {
	Run(kill context.Context, spec proc.Spec) (proc.Result, error)
	Level() proc.Level
	Notes() []string
	Inside(proc.Launcher) (*proc.Spawner, error)
}

// shellPath lists the directories in which superloop looks for bash. The operator's PATH has no influence.
const shellPath = "/bin:/usr/bin:/usr/local/bin:/run/current-system/sw/bin:/opt/homebrew/bin:/opt/local/bin"

// errFull is the cause for stopping a command that prints too much.
var errFull = errors.New("too much output")

// Run runs the command and returns when none of its processes is left. An error means that the command did not run at
// all (*RefusedError, ErrNoBash, a working directory that was replaced), or that nobody knows how it ended
// (proc.ErrSpawnerLost). Every other end is in the Result. If the best sandbox cannot be set up, Run tries the next
// weaker one, down to Spec.Required. Result.Sandbox says which one was used.
func Run(ctx context.Context, s Spawner, spec Spec) (Result, error) {
	if ctx.Err() != nil { // a short command could end before it is stopped
		res := notRun(s)
		res.Ended = proc.Killed
		return res, fmt.Errorf("running a command: it was stopped before it was executed: %w", context.Cause(ctx))
	}
	err := spec.complete()
	if err == nil {
		err = spec.makeWritable()
	}
	if err != nil {
		return notRun(s), fmt.Errorf("running a command: %w", err)
	}
	missing := slices.DeleteFunc(slices.Clone(spec.Protected), exists)
	o, err := spec.order()
	if err != nil {
		return notRun(s), err
	}
	res, err := try(ctx, s, &spec, o)
	for _, p := range missing {
		if exists(p) {
			res.Appeared = append(res.Appeared, p)
		}
	}
	return res, err
}

// Measure finds out which sandbox is available on this system. It sets up an empty sandbox on harmless paths, which
// takes as long as an empty command, some 20 ms.
func Measure(ctx context.Context, s Spawner, without ...Mechanism) (Sandbox, error) {
	spec := Spec{Place: Place{Repo: "/"}, Network: NoNetwork, Without: without, Timeout: DefaultTimeout, OutputLimit: DefaultOutputLimit}
	o := &order{Probe: true, Landlock: !slices.Contains(without, UseLandlock)}
	res, err := try(ctx, s, &spec, o)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		// Other namespaces may be available without a network namespace.
		spec.Network = FullNetwork
		var again Result
		again, err = try(ctx, s, &spec, o)
		again.Sandbox.Notes = append(refused.Sandbox.Notes, again.Sandbox.Notes...)
		return again.Sandbox, err
	}
	return res.Sandbox, err
}

func (s *Spec) order() (*order, error) {
	shell, err := findBash(shellPath)
	if err != nil {
		return nil, err
	}
	env := slices.Clone(s.Env)
	if s.Marker != "" {
		env = append(env, s.Marker)
	}
	ports := s.Ports
	if s.Network == NoNetwork {
		ports = nil // there is nothing to reach
	}
	return &order{
		Ports: ports,
		Path:  bytesOf(shell), Argv: convert[bytesOf]([]string{"bash", "--noprofile", "--norc", "-o", "pipefail", "-c", "--", s.Command}), Env: convert[bytesOf](env),
		Repo: bytesOf(s.Place.Repo), Dir: bytesOf(s.Place.Dir), RepoID: s.Place.RepoID, DirID: s.Place.DirID,
		Writable: convert[bytesOf](s.Writable), Protected: convert[bytesOf](s.Protected), Hidden: convert[bytesOf](s.Hidden),
		Required: s.Required,
		Landlock: !slices.Contains(s.Without, UseLandlock),
	}, nil
}

func findBash(path string) (string, error) {
	shell, err := proc.LookPath("bash", []string{"PATH=" + path})
	if err != nil {
		return "", fmt.Errorf("%w (looked for in %s)", ErrNoBash, path)
	}
	return shell, nil
}

// makeWritable makes the writable directories that do not exist. The confined command could not make them itself.
func (s *Spec) makeWritable() error {
	for _, w := range s.Writable {
		if !exists(w) {
			if err := durable.OS().MkdirAll("sandbox", w, 0o700); err != nil {
				return fmt.Errorf("making a writable place: %w", err)
			}
		}
	}
	return nil
}

// try starts the command with the best namespaces, and with the next weaker ones if they are not available.
func try(ctx context.Context, s Spawner, spec *Spec, o *order) (Result, error) {
	ways, notes := spec.ways()
	for _, ns := range ways {
		o.Mount = ns.Mount
		res, rep, err := attempt(ctx, s, spec, o, ns)
		if failed := (*namespaceError)(nil); errors.As(err, &failed) {
			notes = append(notes, failed.Error())
			continue
		}
		res.Sandbox = Sandbox{
			Level: cmp.Or(rep.Level, None), LandlockABI: rep.LandlockABI, Walled: rep.Walled, Notes: slices.Concat(notes, rep.Notes),
			MountNS: ns.Mount, UserNS: ns.User, NetNS: ns.Network, Tree: s.Level(), Cgroup: s.Level() == proc.Cgroup,
		}
		if rep.Failure == tooWeak {
			err = &RefusedError{Required: spec.Required, Sandbox: res.Sandbox}
		}
		return res, err
	}
	// The last way fails only if it needs a network namespace.
	res := notRun(s)
	res.Sandbox.Notes = notes
	return res, &RefusedError{Required: spec.Required, Network: NoNetwork, Sandbox: res.Sandbox}
}

// namespaceError says that the command was not started because its namespaces are not available, or because their
// mounts could not be made.
type namespaceError struct {
	ns  proc.Namespaces
	err error
}

func (e *namespaceError) Error() string {
	var names []string
	for name, had := range map[string]bool{"user": e.ns.User, "mount": e.ns.Mount, "network": e.ns.Network} {
		if had {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("no namespaces for %s: %v", strings.Join(names, ", "), e.err)
}

func (e *namespaceError) Unwrap() error { return e.err }

// errTimeout is the cause for stopping a command that takes too long.
var errTimeout = errors.New("its time is over")

// attempt starts the shim once, with the given namespaces.
func attempt(ctx context.Context, s Spawner, spec *Spec, o *order, ns proc.Namespaces) (Result, report, error) {
	exe, err := shimExe()
	if err != nil {
		return notRun(s), report{}, err
	}
	wire, err := openLine(o)
	if err != nil {
		return notRun(s), report{}, err
	}
	defer wire.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	late := time.AfterFunc(spec.Timeout, func() { stop(errTimeout) })
	defer late.Stop()
	out := newOutput(spec, func() { stop(errFull) })
	env := []string{"GOGC=off", "GOMAXPROCS=1"} // the shim is single-threaded and lives for milliseconds
	if spec.Marker != "" {
		env = append(env, spec.Marker)
	}
	got, lost := s.Run(ctx, proc.Spec{
		Argv: []string{exe, ShimArg}, Dir: "/", Env: env, Marker: spec.Marker, Files: wire.theirs, Namespaces: ns,
		Grace: spec.Grace, Hurry: spec.Hurry, HeadTail: -1, Stdout: out.out.take, Stderr: out.err.take,
	})
	res := Result{
		Code: got.Code, Signal: got.Signal, Ended: got.Ended, Err: got.Err, Duration: got.Duration,
		UserTime: got.UserTime, SystemTime: got.SystemTime, LeftBehind: got.LeftBehind,
	}
	if res.Ended == proc.Killed {
		switch context.Cause(ctx) {
		case errFull:
			res.Ended = OutputLimit
		case errTimeout:
			res.Ended = proc.TimedOut
		}
	}
	out.into(&res)
	rep, err := wire.report() // also for a command whose end is unknown: its sandbox is known
	switch {
	case lost != nil:
		return res, rep, fmt.Errorf("running a command: %w", lost)
	case got.Ended == proc.NotStarted && ns != (proc.Namespaces{}):
		err := got.Err
		if no := syscall.Errno(0); errors.As(err, &no) {
			err = no // the rest of the message names the superloop binary
		}
		return res, report{}, &namespaceError{ns, err}
	case got.Ended == proc.NotStarted:
		return res, report{}, fmt.Errorf("running a command: %w", got.Err)
	case err != nil && res.Ended != proc.Exited:
		return res, rep, fmt.Errorf("running a command: it was stopped (%s) before it was executed", res.Ended)
	case err != nil:
		return res, rep, fmt.Errorf("running a command: %w; it ended with %d %s and said %q", err, res.Code, res.Signal, clip(res.Stderr.Text()))
	case rep.Failure == noMount:
		return res, rep, &namespaceError{ns, errors.New(rep.Text)}
	case rep.Failure != "":
		res.Ended = proc.NotStarted
		return res, rep, fmt.Errorf("the command was not executed: %s", rep.Text)
	}
	return res, rep, nil
}

// shimExe returns the path of the running superloop binary, which is also the shim.
func shimExe() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // the running binary, even if its file was replaced
	}
	return os.Executable()
}

func notRun(s Spawner) Result {
	return Result{Code: -1, Ended: proc.NotStarted, Sandbox: Sandbox{Level: None, Tree: s.Level(), Cgroup: s.Level() == proc.Cgroup}}
}

// longLine is the most bytes of an unfinished line that a channel holds back.
const longLine = 16 << 10

// output receives what the command prints:
//
//	stdout --> redactor --> stdout's beginning and end, lines --+--> sink --> Spec.Output,
//	stderr --> redactor --> stderr's beginning and end, lines --+             beginning and end of both
//
// The redactors come first, while every secret is still in one piece.
type output struct {
	sink     *sink
	out, err *channel
}

func newOutput(s *Spec, full func()) *output {
	keep := max(s.Keep, 0)
	o := &output{sink: &sink{w: s.Output, room: s.OutputLimit, keep: proc.NewHeadTail(keep), full: full}}
	for _, c := range []**channel{&o.out, &o.err} {
		*c = &channel{keep: proc.NewHeadTail(keep), sink: o.sink}
		(*c).first = s.Secrets.Writer(*c)
	}
	return o
}

// into fills in the Result after the command has ended.
func (o *output) into(res *Result) {
	o.out.end()
	o.err.end()
	res.Output, res.Stdout, res.Stderr = o.sink.keep.Capture(), o.out.keep.Capture(), o.err.keep.Capture()
	res.Dropped, res.OutputErr = o.sink.dropped, o.sink.err
}

// channel is standard output or standard error. Only one goroutine at a time uses it.
type channel struct {
	first io.WriteCloser // the redactor, which writes to the channel
	keep  *proc.HeadTail
	held  []byte // the beginning of an unfinished line
	sink  *sink
}

// take is the callback for proc.Spec. The writers behind it never fail.
func (c *channel) take(p []byte) { _, _ = c.first.Write(p) }

func (c *channel) end() {
	_ = c.first.Close() // cannot fail, see take
	c.sink.put(c.held)
}

// Write receives the redacted text. It passes on whole lines, so that lines of the two streams do not mix.
func (c *channel) Write(p []byte) (int, error) {
	_, _ = c.keep.Write(p)
	whole := bytes.LastIndexByte(p, '\n') + 1
	if len(c.held)+len(p)-whole > longLine {
		whole = len(p)
	}
	if whole > 0 {
		if len(c.held) > 0 {
			c.sink.put(append(c.held, p[:whole]...))
			c.held = c.held[:0]
		} else {
			c.sink.put(p[:whole])
		}
	}
	c.held = append(c.held, p[whole:]...)
	return len(p), nil
}

// sink writes up to room bytes to w, and calls full when there are more. It counts the bytes that did not fit or could
// not be written. It passes all bytes to keep.
type sink struct {
	full func()

	mu      sync.Mutex // guards the following fields
	w       io.Writer
	room    int64
	keep    *proc.HeadTail
	over    bool
	dropped int64
	err     error
}

func (s *sink) put(p []byte) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.keep.Write(p)
	fits := p[:min(int64(len(p)), s.room)]
	s.room -= int64(len(fits))
	s.dropped += int64(len(p) - len(fits))
	if len(fits) < len(p) && !s.over {
		s.over = true
		s.full()
	}
	if s.w == nil || len(fits) == 0 {
		return
	}
	n := 0
	if s.err == nil {
		if n, s.err = s.w.Write(fits); s.err == nil && n < len(fits) {
			s.err = io.ErrShortWrite
		}
	}
	if s.err != nil {
		s.dropped += int64(len(fits) - max(0, min(n, len(fits))))
	}
}
