package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// try goes through the namespaces that may be had, the best first.
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
			Level: cmp.Or(rep.Level, None), LandlockABI: rep.LandlockABI, Notes: slices.Concat(notes, rep.Notes),
			MountNS: ns.Mount, UserNS: ns.User, NetNS: ns.Network, Tree: s.Level(), Cgroup: s.Level() == proc.Cgroup,
		}
		if rep.Failure == tooWeak {
			err = &RefusedError{Required: spec.Required, Sandbox: res.Sandbox}
		}
		return res, err
	}
	// The last way has no namespace but the network's.
	res := notRun(s)
	res.Sandbox.Notes = notes
	return res, &RefusedError{Required: spec.Required, Network: NoNetwork, Sandbox: res.Sandbox}
}

// namespaceError: the command was not started because its namespaces cannot be had, or not be furnished.
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

// errTimeout is the cause of ending a command that takes too long.
var errTimeout = errors.New("its time is over")

// attempt is one start of the shim.
func attempt(ctx context.Context, s Spawner, spec *Spec, o *order, ns proc.Namespaces) (Result, report, error) {
	exe, err := shimExe(spec.Exe)
	if err != nil {
		return notRun(s), report{}, err
	}
	wire, err := openLine()
	if err != nil {
		return notRun(s), report{}, err
	}
	defer wire.close()
	if err := wire.send(o); err != nil {
		return notRun(s), report{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	late := time.AfterFunc(spec.Timeout, func() { stop(errTimeout) })
	defer late.Stop()
	out := newOutput(spec, func() { stop(errFull) })
	env := []string{"GOGC=off", "GOMAXPROCS=1"} // it lives for milliseconds, and does one thing at a time
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
	rep, err := wire.report() // also of a lost command: under what it ran
	switch {
	case lost != nil:
		return res, rep, fmt.Errorf("running a command: %w", lost)
	case got.Ended == proc.NotStarted && ns != (proc.Namespaces{}):
		err := got.Err
		if no := syscall.Errno(0); errors.As(err, &no) {
			err = no // the rest of the sentence names our own binary
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

// shimExe is the binary that is the shim.
func shimExe(exe string) (string, error) {
	switch {
	case exe != "":
		return filepath.Abs(exe)
	case runtime.GOOS == "linux":
		return "/proc/self/exe", nil // the very file that runs, even if it was replaced since
	}
	return os.Executable()
}

func notRun(s Spawner) Result {
	return Result{Code: -1, Ended: proc.NotStarted, Sandbox: Sandbox{Level: None, Tree: s.Level(), Cgroup: s.Level() == proc.Cgroup}}
}
