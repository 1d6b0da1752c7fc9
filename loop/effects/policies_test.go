package effects

import (
	"strings"
	"sync"
	"testing"
	"time"

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
	r.next = r.config
	if got := listed("make deps"); len(got) != 1 {
		t.Error("the same configuration counts twice", got)
	}
	r.next = &config.Config{Recovery: []byte(`{"auto_approve": ["make"]}`)}
	if got := listed("make deps"); len(got) != 2 || !got[0] || got[1] {
		t.Error(got)
	}
	r.config, r.next = r.next, nil // the next iteration has begun
	if got := listed("make"); len(got) != 1 || !got[0] {
		t.Error(got)
	}
}

// A policy that cannot be read lists nothing, and says so; one that is not there lists nothing.
func TestPolicyCannotBeRead(t *testing.T) {
	t.Parallel()
	for text, said := range map[string]int{`{"auto_approve": 1}`: 1, "": 0} {
		r := newRecHost(t)
		r.config = &config.Config{}
		if text != "" {
			r.config.Recovery = []byte(text)
		}
		all := r.policies.InForce()
		if len(all) != 1 || all[0] == nil || all[0].Settings.Enabled || len(all[0].Settings.AutoApprove) != 0 || r.logged.FilterMessageSnippet("cannot be read").Len() != said {
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

func TestPlanOfHoldsWhatTheMachineNeeds(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{}
	l := config.Loop{SpecFile: "s", MaxIterations: 4, MaxWallTime: 2 * time.Second, CompletionPromise: "P", Checklists: []string{"c"}, MaxCostUSD: 2, MaxTokens: 7}
	l.Tests.Mode = "every"
	l.Retry.Attempts, l.Retry.Backoff = 3, time.Second
	l.Prerequisites.RequireOnCompletion, l.Evidence.RequireOnCompletion, l.Approval.RequireOnCompletion = true, true, true
	l.Validation.Enabled, l.Validation.Mode = true, "every"
	l.Stuck.Threshold = 5
	l.Git.CommitStrategy = "never"
	l.Roles = []config.Role{{Name: "planner"}, {Name: "tester"}}
	p := PlanOf(cfg, l)
	if p.SpecFile != "s" || p.MaxIterations != 4 || p.MaxWallMS != 2000 || p.Promise != "P" || !p.Checklists || p.MaxCostUSD != 2 || p.MaxTokens != 7 ||
		p.Tests != "every" || p.Attempts != 3 || p.BackoffMS != 1000 || strings.Join(p.Roles, " ") != "planner tester" {
		t.Errorf("%+v", p)
	}
	if p.Prerequisites || p.RequirePrerequisites || p.Evidence || p.RequireEvidence || p.Approval || p.Validation != "" || p.StuckThreshold != 0 || p.Commit != "" || p.Respond != nil {
		t.Errorf("what is switched off is in the plan: %+v", p)
	}
	l.Prerequisites.Enabled, l.Evidence.Enabled, l.Approval.Enabled, l.Stuck.Enabled, l.Respond.Enabled = true, true, true, true, true
	l.Validation.Commands, l.Validation.RequireOnCompletion, l.Git.CommitStrategy, l.Checklists = []string{"x"}, true, "per_iteration", nil
	l.Respond.MaxRuns, l.Respond.MaxTime, l.Respond.FallOver = 1, time.Minute, true
	p = PlanOf(cfg, l)
	if !p.Prerequisites || !p.RequirePrerequisites || !p.Evidence || !p.RequireEvidence || !p.Approval || p.Validation != "every" || !p.RequireValidation ||
		p.StuckThreshold != 5 || p.Commit != "per_iteration" || p.Checklists {
		t.Errorf("what is switched on is not in the plan: %+v", p)
	}
	if r := p.Respond; r == nil || r.Limits.Runs != 3 || r.Limits.Failures != 3 || r.Limits.WallMS != 60000 || !r.Limits.FallOver {
		t.Errorf("respond %+v", r)
	}
	if p.Recovery || p.Remediation {
		t.Errorf("recovery without a policy: %+v", p)
	}
	cfg.Recovery = []byte(`{"auto_approve": ["make deps"], "first_aid": true}`)
	if p := PlanOf(cfg, l); !p.Recovery || !p.Remediation {
		t.Errorf("recovery %v, automatic remediation %v", p.Recovery, p.Remediation)
	}
	cfg.Recovery = []byte(`{"auto_approve": ["make deps"], "first_aid": false}`)
	if p := PlanOf(cfg, l); !p.Recovery || p.Remediation {
		t.Errorf("recovery %v, automatic remediation %v", p.Recovery, p.Remediation)
	}
}
