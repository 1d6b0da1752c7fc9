package execute

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/steering"
)

// grace is the time that a command has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// bounds holds the limits of a command.
type bounds struct {
	timeout     time.Duration
	network     sandbox.Network
	required    sandbox.Level
	passthrough []string // variables of the operator's environment that the command gets
	caches      []string // directories outside of the repository that the command may write
}

// boundsOf returns the tightest of the policies' bounds. A command gets only what every policy grants.
func boundsOf(policies []*recovery.Policy, command string) bounds {
	var b bounds
	for i, p := range policies {
		s := p.Settings
		most := cmp.Or(max(0, s.MaxTimeout()), recovery.DefaultTimeout)
		network := sandbox.Network(s.NetworkOf(command))
		if s.Sandbox.Required {
			b.required = sandbox.Landlock
		}
		if i == 0 {
			b.timeout, b.network, b.passthrough, b.caches = most, network, s.EnvPassthrough, s.Sandbox.Caches
			continue
		}
		b.timeout = min(b.timeout, most)
		if network == sandbox.NoNetwork {
			b.network = network
		}
		b.passthrough, b.caches = both(b.passthrough, s.EnvPassthrough), both(b.caches, s.Sandbox.Caches)
	}
	return b
}

// both returns the members of a that are also in b.
func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// spec returns the order for the sandbox.
func (x *Executor) spec(o Order, j Judgement, tmp string) sandbox.Spec {
	b := boundsOf(j.inForce, o.Action.Command)
	timeout := min(cmp.Or(max(0, o.Action.Timeout()), recovery.DefaultTimeout), b.timeout)
	if o.Limit > 0 {
		timeout = min(timeout, o.Limit)
	}
	env := x.environ(b.passthrough, tmp)
	home := variable(x.Environ, "HOME")
	if x.caches == nil {
		x.caches = append([]string{}, sandbox.Caches(home, variable(env, "PATH"))...)
	}
	writable := append([]string{tmp}, x.caches...)
	for _, c := range b.caches {
		if len(c) > 2 && c[:2] == "~/" {
			c = filepath.Join(home, c[2:])
		}
		writable = append(writable, c)
	}
	var ports []uint16
	if x.Ports != nil {
		ports = x.Ports()
	}
	return sandbox.Spec{Ports: ports, Command: o.Action.Command, Place: j.Place, Env: env, Writable: writable,
		Protected: sandbox.Protected(x.Repo), Hidden: append(steering.Sockets(x.Environ, append([]string{x.Repo}, writable...)), x.StateDir),
		Network: b.network, Required: b.required, Timeout: timeout, Grace: grace, Hurry: o.Hurry,
		Output: o.Output, Secrets: sandbox.Secrets(x.Environ), Marker: x.Marker}
}

// environ returns the part of the operator's environment that a command gets.
func (x *Executor) environ(passthrough []string, tmp string) []string {
	return sandbox.Environment(x.Environ, passthrough, x.Repo, tmp)
}

// End says how an execution ended, in the words of the journal's events.
type End string

// These are the ends of an execution.
const (
	Exited      End = "exited" // by itself: with an exit code, or by a signal
	TimedOut    End = "timeout"
	OutputLimit End = "output_limit"
	Killed      End = "killed" // superloop ended the command because superloop had to leave
	NotStarted  End = "not_started"
	// Lost means that the command was begun and nobody knows how it ended. superloop never begins the command again by
	// itself.
	Lost End = "lost"
)

// These bounds limit the part of an output that an event holds, in bytes.
const (
	eventHead = 1 << 10
	eventTail = 3 << 10
)

// outcomeOf makes an Outcome of a run whose time limit was timeout.
func outcomeOf(res sandbox.Result, err error, timeout time.Duration) Outcome {
	o := Outcome{End: End(res.Ended), Code: res.Code, Signal: res.Signal, Duration: res.Duration, Output: res.Output, OutputErr: res.OutputErr,
		Sandbox: res.Sandbox, LeftBehind: res.LeftBehind, Appeared: res.Appeared}
	o.Head, o.Tail = ends(res.Output)
	switch {
	case errors.Is(err, proc.ErrSpawnerLost):
		o.End, o.Code, o.Error = Lost, -1, "nobody knows how it ended: "+err.Error()
	case err != nil:
		o.End, o.Code, o.Error = NotStarted, -1, err.Error()
		var refused *sandbox.RefusedError
		if errors.As(err, &refused) {
			o.Sandbox.Level, o.Sandbox.Notes = refused.Sandbox.Level, refused.Sandbox.Notes
		}
	case o.End == TimedOut:
		o.Error = fmt.Sprintf("timed out after %s", timeout)
	case o.End == OutputLimit:
		o.Error = fmt.Sprintf("stopped: it printed more than %d MiB", sandbox.DefaultOutputLimit>>20)
	case o.End == Killed:
		o.Error = "ended because superloop had to leave"
	case res.Err != nil:
		o.Error = res.Err.Error()
	case res.Code == 126 || res.Code == 127:
		o.Error = fmt.Sprintf("exit code %d: bash found nothing that it could run", res.Code)
	}
	return o
}

// ends returns the beginning and the end of an output, as an event holds them.
func ends(c proc.Capture) (head, tail string) {
	if c.Truncated {
		return string(c.Head[:min(len(c.Head), eventHead)]), string(c.Tail[max(0, len(c.Tail)-eventTail):])
	}
	all := string(c.Head) + string(c.Tail)
	if len(all) <= eventHead+eventTail {
		return "", all
	}
	return all[:eventHead], all[len(all)-eventTail:]
}
