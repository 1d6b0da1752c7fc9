package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

// Spawner runs a tree of processes to its end; *proc.Spawner is one.
type Spawner interface {
	Run(kill context.Context, spec proc.Spec) (proc.Result, error)
	Level() proc.Level
	Notes() []string
	Inside(proc.Launcher) (*proc.Spawner, error)
}

// shellPath is where bash is looked for: the operator's PATH has no say in it.
const shellPath = "/bin:/usr/bin:/usr/local/bin:/run/current-system/sw/bin:/opt/homebrew/bin:/opt/local/bin"

// errFull is the cause of stopping a command that prints too much.
var errFull = errors.New("too much output")

// Run runs the command and returns when nothing of it is left. An error means that it was not run at all
// (*RefusedError, ErrNoBash, a place that is not the one that was decided on), or that nobody knows how it ended
// (proc.ErrSpawnerLost); however it ended itself is in the Result. Where the best sandbox cannot be set up, the next
// one down to Required is tried, and Result.Sandbox tells.
func Run(ctx context.Context, s Spawner, spec Spec) (Result, error) {
	if ctx.Err() != nil { // a command of some milliseconds could be over before it is stopped
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
	missing := spec.missing()
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

// Measure finds out what the sandbox would be here, by setting it up for nothing on harmless places. It takes as long
// as an empty command, some 20 ms.
func Measure(ctx context.Context, s Spawner, without ...Mechanism) (Sandbox, error) {
	spec := Spec{Place: Place{Repo: "/"}, Network: NoNetwork, Without: without, Timeout: DefaultTimeout, OutputLimit: DefaultOutputLimit}
	o := &order{Probe: true, Landlock: !slices.Contains(without, UseLandlock)}
	res, err := try(ctx, s, &spec, o)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		// Without a network namespace there may still be the others.
		spec.Network = FullNetwork
		var again Result
		again, err = try(ctx, s, &spec, o)
		again.Sandbox.Notes = append(refused.Sandbox.Notes, again.Sandbox.Notes...)
		return again.Sandbox, err
	}
	return res.Sandbox, err
}

// order is what the shim is told.
func (s *Spec) order() (*order, error) {
	shell, err := findBash(shellPath)
	if err != nil {
		return nil, err
	}
	env := slices.Clone(s.Env)
	if s.Marker != "" {
		env = append(env, s.Marker)
	}
	return &order{
		Command: bytesOf(s.Command), Shell: bytesOf(shell), Env: convert[bytesOf](env),
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

// makeWritable makes the places that the command may write to and that do not exist: it could not do so itself.
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

func (s *Spec) missing() []string { return slices.DeleteFunc(slices.Clone(s.Protected), exists) }
