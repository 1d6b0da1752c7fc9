package execute

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/steering"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	loose := policy(t, func(s *recovery.Settings) {
		s.EnvPassthrough, s.Sandbox.Caches = []string{"EXTRA", "OTHER"}, []string{"/var/cache/a", "~/b"}
		s.Entries = map[string]recovery.EntrySettings{"offline": {Network: recovery.NetworkNone}}
	}, "x", "offline")
	tight := policy(t, func(s *recovery.Settings) {
		s.MaxTimeoutSeconds, s.Network, s.Sandbox.Required = 60, recovery.NetworkNone, true
		s.EnvPassthrough, s.Sandbox.Caches = []string{"OTHER", "MORE"}, []string{"~/b", "~/c"}
	}, "x", "offline")
	none, _ := recovery.Compile(recovery.Settings{})
	both := bounds{time.Minute, sandbox.NoNetwork, sandbox.Landlock, []string{"OTHER"}, []string{"~/b"}}
	for name, c := range map[string]struct {
		in      []*recovery.Policy
		command string
		want    bounds
	}{
		"loose":                {[]*recovery.Policy{loose}, "x", bounds{15 * time.Minute, sandbox.FullNetwork, "", []string{"EXTRA", "OTHER"}, []string{"/var/cache/a", "~/b"}}},
		"of one entry":         {[]*recovery.Policy{loose}, "offline", bounds{15 * time.Minute, sandbox.NoNetwork, "", []string{"EXTRA", "OTHER"}, []string{"/var/cache/a", "~/b"}}},
		"tight":                {[]*recovery.Policy{tight}, "x", bounds{time.Minute, sandbox.NoNetwork, sandbox.Landlock, []string{"OTHER", "MORE"}, []string{"~/b", "~/c"}}},
		"both":                 {[]*recovery.Policy{loose, tight}, "x", both},
		"the other way around": {[]*recovery.Policy{tight, loose}, "x", both},
		"without a section":    {[]*recovery.Policy{none}, "x", bounds{2 * time.Minute, "", "", nil, nil}},
	} {
		got := boundsOf(c.in, c.command)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := loose.Settings.EnvPassthrough; !slices.Equal(got, []string{"EXTRA", "OTHER"}) {
		t.Errorf("a policy was changed: %q", got)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, most, left, want time.Duration }{
		{time.Minute, 0, 0, time.Minute},
		{0, 0, 0, 2 * time.Minute},
		{0, 30 * time.Second, 0, 30 * time.Second},
		{time.Hour, 0, 0, 15 * time.Minute},
		{time.Hour, 2 * time.Second, 0, 2 * time.Second},
		{time.Minute, 0, time.Second, time.Second},
		{time.Second, 0, time.Minute, time.Second},
		{time.Minute, 0, -time.Second, time.Minute},
	} {
		e, _ := ready(t, func(s *recovery.Settings) {
			if c.most > 0 {
				s.MaxTimeoutSeconds = int(c.most.Seconds())
			}
		})
		o := e.order(action.Draft{Command: "rm -f old", WorkingDir: ".", TimeoutMS: c.own.Milliseconds()}.Action())
		o.Limit = c.left
		e.execute(o)
		if e.spec.Timeout != c.want || e.intent.Timeout != c.want {
			t.Errorf("%+v: %s, and %s in the intent", c, e.spec.Timeout, e.intent.Timeout)
		}
	}
}

func TestWhatTheSandboxGets(t *testing.T) {
	t.Parallel()
	e, a := ready(t, func(s *recovery.Settings) {
		s.EnvPassthrough, s.Sandbox.Caches, s.Network = []string{"EXTRA"}, []string{"/var/cache/a", "~/b", "~/"}, recovery.NetworkNone
	})
	home := variable(e.Environ, "HOME")
	if err := os.MkdirAll(filepath.Join(home, ".npm"), 0o700); err != nil {
		t.Fatal(err)
	}
	e.put(".git/hooks/x", "x")
	o := e.order(a)
	out := e.execute(o)
	s := e.spec
	if s.Command != "rm -f old" || s.Place != out.Now.Place || s.Place == (sandbox.Place{}) || s.Marker != "MARK=1" || s.Grace != 5*time.Second ||
		s.Network != sandbox.NoNetwork || e.intent.Network != sandbox.NoNetwork || s.Required != "" || s.Without != nil {
		t.Errorf("%+v", s)
	}
	tmp := s.Writable[0]
	if want := sandbox.Environment(e.Environ, []string{"EXTRA"}, e.Repo, tmp); !slices.Equal(s.Env, want) || !slices.Contains(s.Env, "EXTRA=1") || slices.Contains(s.Env, "OTHER=2") || !slices.Contains(s.Env, "TMPDIR="+tmp) {
		t.Errorf("%q, want %q", s.Env, want)
	}
	caches := sandbox.Caches(home, variable(s.Env, "PATH"))
	if want := slices.Concat([]string{tmp}, caches, []string{"/var/cache/a", filepath.Join(home, "b"), "~/"}); !slices.Equal(s.Writable, want) || !slices.Contains(s.Writable, filepath.Join(home, ".npm")) {
		t.Errorf("%q, want %q", s.Writable, want)
	}
	if want := sandbox.Protected(e.Repo); !slices.Equal(s.Protected, want) || !slices.Contains(s.Protected, filepath.Join(e.Repo, ".git/hooks")) {
		t.Errorf("%q, want %q", s.Protected, want)
	}
	if want := append(steering.Sockets(e.Environ, append([]string{e.Repo}, s.Writable...)), e.StateDir); !slices.Equal(s.Hidden, want) {
		t.Errorf("%q, want %q", s.Hidden, want)
	}

	// The caches are looked for once.
	if err := os.MkdirAll(filepath.Join(home, ".cargo/registry"), 0o700); err != nil {
		t.Fatal(err)
	}
	e.caches = []string{"/only"}
	e.execute(o)
	if s.Writable[0] == e.spec.Writable[0] || e.spec.Writable[1] != "/only" || len(e.spec.Writable) != 5 {
		t.Errorf("%q", e.spec.Writable)
	}

	// Required is what the policy says.
	e, a = ready(t, requires)
	e.execute(e.order(a))
	if e.spec.Required != sandbox.Landlock || e.spec.Network != sandbox.FullNetwork {
		t.Errorf("%+v", e.spec)
	}
	if strings.Contains(strings.Join(e.spec.Env, "\n"), "EXTRA") {
		t.Errorf("%q", e.spec.Env)
	}
}

// A newer policy that lists the command as well tightens its bounds at once.
func TestATighterPolicyBoundsAtOnce(t *testing.T) {
	t.Parallel()
	e, a := ready(t, nil)
	o := e.order(a)
	e.policies = append(e.policies, policy(t, func(s *recovery.Settings) { s.Network, s.MaxTimeoutSeconds = recovery.NetworkNone, 5 }, "rm -f old"))
	if out := e.execute(o); !out.OK() || e.spec.Network != sandbox.NoNetwork || e.spec.Timeout != 5*time.Second {
		t.Errorf("%+v %+v", out, e.spec)
	}
}
