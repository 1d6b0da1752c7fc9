package execute

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/sandbox"
)

// grace is what a command has between TERM and KILL.
const grace = 5 * time.Second

// bounds is what a command gets at most.
type bounds struct {
	timeout     time.Duration
	network     sandbox.Network
	required    sandbox.Level
	passthrough []string // of the operator's environment
	caches      []string // outside of the repository that it may write
}

// boundsOf are the tightest of the policies' bounds: what one of them does not give, a command does not get.
func boundsOf(policies []*recovery.Policy, command string) bounds {
	var b bounds
	for i, p := range policies {
		s := p.Settings
		most := s.MaxTimeout()
		if most <= 0 {
			most = recovery.DefaultTimeout
		}
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

// both are the members of a that are in b.
func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// spec is the order for the sandbox.
func (x *Executor) spec(o Order, j Judgement, tmp string) sandbox.Spec {
	b := boundsOf(j.inForce, o.Action.Command)
	timeout := o.Action.Timeout()
	if timeout <= 0 {
		timeout = recovery.DefaultTimeout
	}
	timeout = min(timeout, b.timeout)
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
	return sandbox.Spec{Command: o.Action.Command, Place: j.Place, Env: env, Writable: writable,
		Protected: sandbox.Protected(x.Repo), Hidden: append(sandbox.Sockets(), x.StateDir),
		Network: b.network, Required: b.required, Timeout: timeout, Grace: grace, Hurry: o.Hurry,
		Output: o.Output, Secrets: sandbox.Secrets(x.Environ), Marker: x.Marker}
}

// environ is what a command sees of the environment.
func (x *Executor) environ(passthrough []string, tmp string) []string {
	return sandbox.Environment(x.Environ, passthrough, x.Repo, tmp)
}
