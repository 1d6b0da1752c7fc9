package effects

import (
	"sync"
	"testing"

	"github.com/superloop/superloop/loop/config"
)

func TestPoliciesInForce(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	listed := func(command string) (out []bool) {
		t.Helper()
		for _, p := range r.policies.InForce() {
			_, ok := p.Listed(command)
			out = append(out, ok)
		}
		return out
	}
	if got := listed("make deps"); len(got) != 1 || !got[0] {
		t.Error(got)
	}
	first := r.policies.InForce()[0]
	if r.policies.InForce()[0] != first {
		t.Error("it is compiled each time")
	}
	r.next = r.config
	if got := listed("make deps"); len(got) != 1 {
		t.Error("the same configuration counts twice", got)
	}
	r.next = &config.Config{Recovery: []byte(`{"auto_approve": ["make"]}`)}
	if got := listed("make deps"); len(got) != 2 || !got[0] || got[1] {
		t.Error(got)
	}
	second := r.policies.InForce()[1]
	r.config, r.next = r.next, nil // the next iteration has begun
	if got := r.policies.InForce(); len(got) != 1 || got[0] != second || len(r.policies.made) != 1 {
		t.Errorf("%v, %d are kept", got, len(r.policies.made))
	}
}

// A policy that cannot be read lists nothing, and says so; so does one that is
// not there.
func TestPolicyCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"auto_approve": 1}`, ""} {
		r := newRecHost(t)
		r.config = &config.Config{}
		if text != "" {
			r.config.Recovery = []byte(text)
		}
		all := r.policies.InForce()
		if len(all) != 1 || all[0] == nil || all[0].Settings.Enabled || len(all[0].Settings.AutoApprove) != 0 || r.logged.FilterMessageSnippet("cannot be read").Len() != 1 {
			t.Errorf("%q: %+v %v", text, all, r.logged.All())
		}
	}
}

// A loop's own section counts for that loop.
func TestPolicyOfTheLoop(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.config.Loops = []config.Loop{{ID: "other", Recovery: []byte(`{"auto_approve": ["a"]}`)}, {ID: "l", Recovery: []byte(`{"auto_approve": ["b"]}`)}}
	p := r.policies.InForce()[0]
	if _, ok := p.Listed("b"); !ok {
		t.Errorf("%+v", p.Settings)
	}
	if _, ok := p.Listed("a"); ok {
		t.Errorf("%+v", p.Settings)
	}
}

func TestPoliciesAreForSeveralGoroutines(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { r.policies.InForce() })
	}
	all.Wait()
}
