package failures

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	alice = Agent{Runner: "claude", Provider: "anthropic", Model: "sonnet"}
	bob   = Agent{Runner: "codex", Provider: "openai"}
	carol = Agent{Runner: "gemini", Provider: "google"}
	work  = Task{Loop: "main", Role: "implementer", Item: "3"}
)

func outcome(o RoleOutcome) RoleOutcome {
	o.Task, o.Agent, o.At = work, alice, noon
	return o
}

// TestDetect: every way of failing has its kind, its class and its blame.
// Conforms: 003-c1-failed, 003-c1-blocked, 003-c1-error, 003-c1-timeout, 003-c1-event, 003-c1-none, 003-c2.7-pattern
func TestDetect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in       RoleOutcome
		kind     Kind
		class    string
		category string
		blame    Blame
		counted  bool
		severity string
	}{
		"fine":                          {in: RoleOutcome{Outcome: "ok"}},
		"broken off":                    {in: RoleOutcome{Outcome: "interrupted", Class: "overloaded", Impossible: "x"}},
		"no report asked":               {in: RoleOutcome{Outcome: "ok", Output: "missing"}},
		"no change asked":               {in: RoleOutcome{Outcome: "ok", Tree: "a", TreeBefore: "a", Digest: "d", LastDigest: "d"}},
		"changed":                       {in: RoleOutcome{Outcome: "ok", MustChange: true, MustDiffer: true, Tree: "a", TreeBefore: "b", Digest: "d", LastDigest: "e"}},
		"nobody looked":                 {in: RoleOutcome{Outcome: "ok", MustChange: true, MustDiffer: true, MustReport: true}},
		"exit":                          {RoleOutcome{Outcome: "exit", ExitCode: 3}, KindExit, Unknown, "unknown", BlameRunner, true, Blocking},
		"signal":                        {RoleOutcome{Outcome: "signal", Signal: "SIGSEGV"}, KindSignal, Unknown, "unknown", BlameRunner, true, Blocking},
		"memory":                        {RoleOutcome{Outcome: "signal", Signal: "SIGKILL", OOM: true}, KindOOM, Environment, "resources", BlameEnvironment, true, Blocking},
		"timeout":                       {RoleOutcome{Outcome: "timeout"}, KindTimeout, Transient, "timeout", BlameRunner, true, Blocking},
		"timeout while it retried":      {RoleOutcome{Outcome: "timeout", Class: "overloaded"}, KindOverloaded, Transient, "network_error", BlameProvider, false, Blocking},
		"timeout without an end":        {RoleOutcome{Outcome: "timeout", Class: "no_result"}, KindTimeout, Transient, "timeout", BlameRunner, true, Blocking},
		"inactive":                      {RoleOutcome{Outcome: "inactive"}, KindInactive, Transient, "timeout", BlameRunner, true, Blocking},
		"not started":                   {RoleOutcome{Outcome: "not_started", Class: "network"}, KindNotStarted, Usage, "config", BlameSettings, false, Blocking},
		"lost":                          {RoleOutcome{Outcome: "lost"}, KindLost, Transient, "unknown", BlameNobody, false, Blocking},
		"missing":                       {RoleOutcome{Outcome: "ok", MustReport: true, Output: "missing"}, KindMissing, Unknown, "unknown", BlameRunner, true, Blocking},
		"empty":                         {RoleOutcome{Outcome: "ok", MustReport: true, Output: "empty"}, KindEmpty, Unknown, "unknown", BlameRunner, true, Blocking},
		"stale":                         {RoleOutcome{Outcome: "ok", MustReport: true, Output: "stale"}, KindStale, Unknown, "unknown", BlameRunner, true, Degraded},
		"malformed":                     {RoleOutcome{Outcome: "ok", MustReport: true, Output: "fresh", Malformed: "no JSON"}, KindMalformed, Usage, "unknown", BlameRunner, true, Degraded},
		"same again":                    {RoleOutcome{Outcome: "ok", MustDiffer: true, Digest: "d", LastDigest: "d"}, KindSame, Permanent, "unknown", BlameRunner, true, Degraded},
		"no change":                     {RoleOutcome{Outcome: "ok", MustChange: true, Tree: "a", TreeBefore: "a"}, KindNoChange, Permanent, "unknown", BlameRunner, true, Degraded},
		"impossible, though it says ok": {RoleOutcome{Outcome: "ok", Impossible: "no such file"}, KindImpossible, Impossible, "unknown", BlameTask, false, Blocking},
		"limit":                         {RoleOutcome{Outcome: "error", Class: "rate_limited"}, KindLimit, Transient, "rate_limited", BlameProvider, false, Blocking},
		"network":                       {RoleOutcome{Outcome: "exit", Class: "network"}, KindNetwork, Transient, "network_error", BlameProvider, false, Blocking},
		"auth":                          {RoleOutcome{Outcome: "exit", Class: "auth"}, KindAuth, Permanent, "auth", BlameAccount, false, Blocking},
		"billing":                       {RoleOutcome{Outcome: "exit", Class: "billing"}, KindBilling, Permanent, "auth", BlameAccount, false, Blocking},
		"model":                         {RoleOutcome{Outcome: "exit", Class: "bad_model"}, KindModel, Usage, "config", BlameSettings, false, Blocking},
		"settings":                      {RoleOutcome{Outcome: "exit", Class: "config_error"}, KindConfig, Usage, "config", BlameSettings, false, Blocking},
		"context":                       {RoleOutcome{Outcome: "error", Class: "context_overflow"}, KindContext, Usage, "resources", BlameNobody, false, Blocking},
		"turns":                         {RoleOutcome{Outcome: "exit", Class: "max_turns"}, KindTurns, Usage, "unknown", BlameRunner, true, Blocking},
		"budget":                        {RoleOutcome{Outcome: "exit", Class: "budget"}, KindBudget, Permanent, "unknown", BlameTask, false, Blocking},
		"refused":                       {RoleOutcome{Outcome: "error", Class: "refused"}, KindRefused, Permanent, "unknown", BlameTask, true, Blocking},
		"bad request":                   {RoleOutcome{Outcome: "exit", Class: "invalid_request"}, KindRequest, Permanent, "invalid_arguments", BlameRunner, true, Blocking},
		"permission":                    {RoleOutcome{Outcome: "error", Class: "refused_permission"}, KindPermission, Permanent, "unknown", BlameTask, true, Blocking},
		"session":                       {RoleOutcome{Outcome: "exit", Class: "no_session"}, KindSession, Usage, "config", BlameNobody, false, Blocking},
		"no result":                     {RoleOutcome{Outcome: "exit", Class: "no_result"}, KindNoResult, Unknown, "unknown", BlameRunner, true, Blocking},
		"unknown":                       {RoleOutcome{Outcome: "error", Class: "unknown"}, KindUnknown, Unknown, "unknown", BlameRunner, true, Blocking},
		"a class of the future":         {RoleOutcome{Outcome: "exit", Class: "tired"}, KindExit, Unknown, "unknown", BlameRunner, true, Blocking},
		"an outcome of the future":      {RoleOutcome{Outcome: "evaporated"}, KindUnknown, Unknown, "unknown", BlameRunner, true, Blocking},
		"ground": {RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "disk_full", Persistence: Environment, Infra: true, Confidence: 0.9}},
			KindExit, Environment, "disk_full", BlameEnvironment, true, Blocking},
		"ground, mended": {RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "dependency", Persistence: Environment, Infra: true, Confidence: 0.9, Repaired: true}},
			KindExit, Environment, "dependency", BlameEnvironment, false, Blocking},
		"code": {RoleOutcome{Outcome: "exit", Classified: &Classified{Category: "code_bug", Persistence: Permanent, Code: true, Confidence: 0.9}},
			KindExit, Code, "code_bug", BlameRunner, true, Blocking},
		"the class is surer than the ground": {RoleOutcome{Outcome: "exit", Class: "rate_limited", Classified: &Classified{Category: "disk_full", Infra: true, Confidence: 0.9}},
			KindLimit, Transient, "rate_limited", BlameProvider, false, Blocking},
		"words decide nothing": {RoleOutcome{Outcome: "exit", Error: "429 rate limit: not logged in, disk full, impossible"},
			KindExit, Unknown, "unknown", BlameRunner, true, Blocking},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, failed := Detect(outcome(c.in), classify.Signature)
			if failed != (c.kind != "") {
				t.Fatalf("failed %v: %+v", failed, e)
			}
			if !failed {
				return
			}
			if e.Kind != c.kind || e.Class != c.class || e.Category != c.category || e.Blame != c.blame || e.Counted != c.counted || e.Severity != c.severity {
				t.Errorf("got %+v", e)
			}
			if e.Task != work || e.Agent != alice || !e.At.Equal(noon) || e.Signature == "" || e.Why == "" {
				t.Errorf("it does not say whose it is: %+v", e)
			}
		})
	}
}

// TestKinds: each kind has a rule of its own, with a category that the catalog has.
func TestKinds(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	classes := []string{Transient, Environment, Permanent, Code, Usage, Impossible, Unknown}
	said := map[string]Kind{}
	for _, k := range Kinds() {
		r := ruleOf(k)
		if c, ok := cat.Category(r.category); !ok || c.ID != r.category {
			t.Errorf("%s: no category %q", k, r.category)
		}
		if !slices.Contains(classes, r.class) {
			t.Errorf("%s: no class %q", k, r.class)
		}
		if other, twice := said[r.says]; twice {
			t.Errorf("%s says the same as %s", k, other)
		}
		said[r.says] = k
		if r.counted && (r.blame == BlameProvider || r.blame == BlameAccount || r.blame == BlameSettings || r.blame == BlameNobody) {
			t.Errorf("%s counts, though it is the fault of %s", k, r.blame)
		}
	}
}

// TestUntil: only what time fixes has an end.
func TestUntil(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Hour)
	if e, _ := Detect(outcome(RoleOutcome{Outcome: "error", Class: "rate_limited", Until: later}), classify.Signature); !e.Until.Equal(later) || !e.Waits() {
		t.Errorf("%+v", e)
	}
	if e, _ := Detect(outcome(RoleOutcome{Outcome: "exit", Until: later}), classify.Signature); !e.Until.IsZero() || e.Waits() {
		t.Errorf("%+v", e)
	}
}

// TestSignatures: numbers, paths and who had it do not change a signature; what
// was said does, and so does the kind.
func TestSignatures(t *testing.T) {
	t.Parallel()
	sig := func(o RoleOutcome) string {
		e, ok := Detect(o, classify.Signature)
		if !ok {
			t.Fatalf("%+v is no failure", o)
		}
		return e.Signature
	}
	a := sig(RoleOutcome{Outcome: "exit", ExitCode: 1, Error: "cannot open /tmp/x81/store.db after 31 ms", Agent: alice})
	if b := sig(RoleOutcome{Outcome: "exit", ExitCode: 2, Error: "cannot open /var/y/store.db after 5 ms", Agent: bob}); a != b {
		t.Errorf("%s and %s", a, b)
	}
	for _, o := range []RoleOutcome{{Outcome: "exit", Error: "cannot read the store"}, {Outcome: "signal", Error: "cannot open /tmp/x81/store.db after 31 ms"}} {
		if b := sig(o); a == b {
			t.Errorf("%+v has the same", o)
		}
	}
	if s := sig(RoleOutcome{Outcome: "exit", Error: "secret words"}); strings.Contains(s, "secret") {
		t.Errorf("a signature tells the text: %s", s)
	}
}

// TestDetectAnything: whatever the facts are, words decide nothing, and a failure
// always has a kind that is known.
// Conforms: 003-req-silent
func TestDetectAnything(t *testing.T) {
	t.Parallel()
	kinds := Kinds()
	rapid.Check(t, func(rt *rapid.T) {
		o := anyOutcome(rt)
		e, failed := Detect(o, classify.Signature)
		loud := o
		loud.Error = rapid.String().Draw(rt, "text")
		e2, failed2 := Detect(loud, classify.Signature)
		if failed != failed2 || e.Kind != e2.Kind || e.Class != e2.Class || e.Counted != e2.Counted || e.Blame != e2.Blame || e.Category != e2.Category {
			rt.Fatalf("%+v and with another text %+v", e, e2)
		}
		if failed && (!slices.Contains(kinds, e.Kind) || e.Class == "" || e.Category == "" || e.Severity == "") {
			rt.Fatalf("%+v", e)
		}
		if o.Outcome != "ok" && o.Outcome != "interrupted" && !failed {
			rt.Fatalf("%+v is not taken for a failure", o)
		}
	})
}

func anyOutcome(rt *rapid.T) RoleOutcome {
	o := RoleOutcome{Task: work, Agent: rapid.SampledFrom([]Agent{alice, bob, carol}).Draw(rt, "agent"), At: noon,
		Outcome:  rapid.SampledFrom([]string{"ok", "exit", "signal", "timeout", "inactive", "not_started", "lost", "interrupted", "error", "?"}).Draw(rt, "outcome"),
		ExitCode: rapid.IntRange(0, 255).Draw(rt, "code"), Signal: rapid.SampledFrom([]string{"", "SIGKILL"}).Draw(rt, "signal"),
		OOM:    rapid.Bool().Draw(rt, "oom"),
		Class:  rapid.SampledFrom([]string{"", "rate_limited", "overloaded", "network", "auth", "billing", "bad_model", "context_overflow", "config_error", "max_turns", "budget", "refused", "invalid_request", "no_session", "no_result", "unknown"}).Draw(rt, "class"),
		Output: rapid.SampledFrom([]string{"", "fresh", "stale", "missing", "empty"}).Draw(rt, "output"), MustReport: rapid.Bool().Draw(rt, "report"),
		MustChange: rapid.Bool().Draw(rt, "change"), Tree: "a", TreeBefore: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "tree")}
	if rapid.IntRange(0, 9).Draw(rt, "impossible") == 0 {
		o.Impossible = "there is no such thing"
	}
	if rapid.Bool().Draw(rt, "ground") {
		o.Classified = &Classified{Category: rapid.SampledFrom([]string{"dependency", "disk_full", "code_bug"}).Draw(rt, "category"), Persistence: Environment,
			Infra: rapid.Bool().Draw(rt, "infra"), Repaired: rapid.Bool().Draw(rt, "repaired"), Signature: rapid.SampledFrom([]string{"x-1", "y-2"}).Draw(rt, "sig")}
	}
	return o
}
