package cage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

const (
	// probeLimit bounds the trial of a protection; it takes some 20 ms.
	probeLimit = 30 * time.Second
	// shimFiles are the descriptors from orderFD on that are the shim's own.
	shimFiles = 2
)

// agentOrder is an order to the shim to start an agent.
type agentOrder struct {
	Path bytesOf   `json:"path"`
	Argv []bytesOf `json:"argv"`
	Env  []bytesOf `json:"env"`
	Dir  bytesOf   `json:"dir"`
	// Stdin is the file that was opened as standard input, "" if none was.
	Stdin bytesOf `json:"stdin,omitempty"`
	// Files is how many descriptors after ours are the agent's.
	Files int `json:"files,omitempty"`

	ReadOnly []bytesOf `json:"read_only"`
	Writable []bytesOf `json:"writable"`
	Hidden   []bytesOf `json:"hidden"`
	// UserNS: the shim was started in a user namespace of its own.
	UserNS bool `json:"userns"`
	// Probe: everything is done but for executing something.
	Probe bool `json:"probe,omitempty"`
}

// guarded is what Protect returns.
type guarded struct {
	Spawner
	p   Protection
	ns  proc.Namespaces
	exe string
}

// Run starts the command by way of the shim.
func (g *guarded) Run(kill context.Context, spec proc.Spec) (proc.Result, error) {
	fail := func(err error) (proc.Result, error) {
		return proc.Result{Code: -1, Ended: proc.NotStarted, Err: err}, nil
	}
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return g.Spawner.Run(kill, spec) // it says what is wrong
	}
	if len(spec.Files) > proc.MaxFiles-shimFiles {
		return fail(fmt.Errorf("starting %s: %d files to inherit, %d is the most under protection", spec.Argv[0], len(spec.Files), proc.MaxFiles-shimFiles))
	}
	for _, text := range slices.Concat(spec.Argv, spec.Env) {
		if strings.IndexByte(text, 0) >= 0 {
			return g.Spawner.Run(kill, spec)
		}
	}
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return fail(fmt.Errorf("starting %s: working directory: %w", spec.Argv[0], err))
	}
	name := spec.Argv[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	path, err := proc.LookPath(name, spec.Env)
	if err != nil {
		return fail(err)
	}
	o := g.order(spec.Argv, spec.Env, path, dir)
	if spec.Stdin != "" {
		stdin, err := filepath.Abs(spec.Stdin)
		if err != nil {
			return fail(fmt.Errorf("starting %s: standard input: %w", spec.Argv[0], err))
		}
		o.Agent.Stdin = bytesOf(stdin)
	}
	res, _, err := g.start(kill, spec, o)
	return res, err
}

func (g *guarded) order(argv, env []string, path, dir string) *order {
	return &order{Agent: &agentOrder{
		Path: bytesOf(path), Argv: convert[bytesOf](argv), Env: convert[bytesOf](env), Dir: bytesOf(dir),
		ReadOnly: convert[bytesOf](g.p.ReadOnly), Writable: convert[bytesOf](g.p.Writable), Hidden: convert[bytesOf](g.p.Hidden),
		UserNS: g.ns.User,
	}}
}

// start starts the shim with the order, in the place of spec's own command. What
// kept the command from being executed is in Result.Err.
func (g *guarded) start(kill context.Context, spec proc.Spec, o *order) (proc.Result, report, error) {
	res := proc.Result{Code: -1, Ended: proc.NotStarted}
	name := "the protection of agents"
	if len(spec.Argv) > 0 {
		name = spec.Argv[0]
	}
	o.Agent.Files = len(spec.Files)
	wire, err := openLine()
	if err != nil {
		return res, report{}, err
	}
	defer wire.close()
	if err := wire.send(o, nil, nil); err != nil {
		return res, report{}, err
	}
	env := []string{"GOGC=off", "GOMAXPROCS=1"} // it lives for milliseconds, and does one thing at a time
	if slices.Contains(spec.Env, spec.Marker) {
		env = append(env, spec.Marker)
	}
	spec.Argv, spec.Env = []string{g.exe, ShimArg}, env
	spec.Files = append(append([]*os.File{}, wire.theirs...), spec.Files...)
	spec.Namespaces.User = spec.Namespaces.User || g.ns.User
	spec.Namespaces.Mount = true
	res, err = g.Spawner.Run(kill, spec)
	if err != nil {
		return res, report{}, err
	}
	if res.Ended == proc.NotStarted {
		res.Err = notForked(res.Err, g.exe, name)
		return res, report{}, nil
	}
	rep, err := wire.report()
	switch {
	case err != nil && res.Ended == proc.Exited:
		// It reports before it executes anything, so nothing was executed.
		res.Err = fmt.Errorf("starting %s: its protection was not set up: %w; it ended with %d %s and said %q", name, err, res.Code, res.Signal, clip(res.Stderr.Text()))
	case err != nil:
		return res, rep, nil // it was ended before that
	case rep.Errno != 0:
		res.Err = explainExec(name, string(o.Agent.Path), syscall.Errno(rep.Errno))
	case rep.Failure != "":
		res.Err = fmt.Errorf("starting %s: its protection was not set up: %s", name, rep.Text)
	}
	if res.Err != nil && (rep.Failure != "" || err != nil) {
		res.Ended, res.Code, res.Signal = proc.NotStarted, -1, ""
	}
	return res, rep, nil
}

// notForked explains why the shim was not started: by what is wrong with the
// agent's directory or input, or because of the namespaces.
func notForked(err error, exe, name string) error {
	var path *fs.PathError
	var no syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path) || !errors.As(err, &no) || strings.Contains(err.Error(), "working directory"):
		return &renamedError{err, exe, name}
	}
	return fmt.Errorf("starting %s in namespaces of its own: %w", name, no)
}

// renamedError speaks of the agent where the error speaks of the shim.
type renamedError struct {
	err        error
	shim, name string
}

func (e *renamedError) Error() string { return strings.Replace(e.err.Error(), e.shim, e.name, 1) }
func (e *renamedError) Unwrap() error { return e.err }

// explainExec says in words why a program could not be executed.
func explainExec(name, path string, no syscall.Errno) error {
	switch no {
	case syscall.E2BIG:
		return fmt.Errorf("starting %s: arguments and environment are too long for this system: %w; pass the prompt on standard input or as a file (prompt_mode \"stdin\" or \"file\")", name, no)
	case syscall.ENOEXEC:
		return fmt.Errorf("starting %s: %s is not a program for this system, and has no #! line: %w", name, path, no)
	case syscall.ENOENT:
		return fmt.Errorf("starting %s: %s, or the interpreter or loader that it needs, does not exist: %w", name, path, no)
	case syscall.EACCES:
		return fmt.Errorf("starting %s: %s may not be executed (file mode, a file system mounted noexec, or a directory that is hidden from agents): %w", name, path, no)
	}
	return fmt.Errorf("starting %s (%s): %w", name, path, no)
}
