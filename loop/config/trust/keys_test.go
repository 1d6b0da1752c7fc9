package trust

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/schemas"
)

// policy makes a policy of JSON, through the front door of a section.
func policy(t *testing.T, raw string) Policy {
	t.Helper()
	m, err := object(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return policyOf(m, true)
}

// Each key of a policy: what is said of a change, and what is in force then.
func TestPolicyKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pinned, now, says, force string }{
		{`{}`, `{"enabled":false}`, `- enabled true>false`, `{}`},
		{`{"enabled":false}`, `{}`, `+ enabled false>true`, `{}`},
		{`{"auto_approve":["a","b"]}`, `{"auto_approve":["c","b","b"]}`, `- auto_approve a> | + auto_approve >c`, `{"auto_approve":["b"],"enabled":true}`},
		{`{"auto_approve":["b","a"]}`, `{"auto_approve":["a","b"]}`, ``, `{"auto_approve":["a","b"],"enabled":true}`},
		{`{}`, `{"require_human":["*","x"]}`, `- require_human >x`, `{"enabled":true,"require_human":["*","x"]}`},
		{`{"require_human":["y"]}`, `{"require_human":["x"]}`, `- require_human >x | + require_human y>`, `{"enabled":true,"require_human":["x","y"]}`},
		{`{}`, `{"require_human":[]}`, `+ require_human *>`, `{"enabled":true}`},
		{`{}`, `{"on_unknown":"deny"}`, `- on_unknown escalate>deny`, `{"enabled":true,"on_unknown":"deny"}`},
		{`{}`, `{"on_unknown":"allow"}`, `+ on_unknown escalate>allow`, `{"enabled":true}`},
		{`{"on_unknown":"allow"}`, `{}`, `- on_unknown allow>escalate`, `{"enabled":true}`},
		{`{"on_unknown":"odd"}`, `{"on_unknown":"deny"}`, `+ on_unknown odd>deny`, `{"enabled":true,"on_unknown":"odd"}`},
		{`{}`, `{"strict_require_human":true}`, `- strict_require_human false>true`, `{"enabled":true,"strict_require_human":true}`},
		{`{"strict_require_human":true}`, `{}`, `+ strict_require_human true>false`, `{"enabled":true,"strict_require_human":true}`},
		{`{}`, `{"max_auto_recoveries_per_run":2}`, `- max_auto_recoveries_per_run 3>2`, `{"enabled":true,"max_auto_recoveries_per_run":2}`},
		{`{}`, `{"max_auto_recoveries_per_run":4}`, `+ max_auto_recoveries_per_run 3>4`, `{"enabled":true}`},
		{`{}`, `{"cooldown_seconds":100}`, `- cooldown_seconds 60>100`, `{"cooldown_seconds":100,"enabled":true}`},
		{`{}`, `{"cooldown_seconds":9}`, `+ cooldown_seconds 60>9`, `{"enabled":true}`},
		{`{}`, `{"cooldown_seconds":1.5}`, `+ cooldown_seconds 60>1.5`, `{"enabled":true}`},
		{`{}`, `{"ask_below_confidence":"low"}`, `+ ask_below_confidence medium>low`, `{"enabled":true}`},
		{`{"ask_below_confidence":"medium"}`, `{"ask_below_confidence":"high"}`, `- ask_below_confidence medium>high`, `{"ask_below_confidence":"high","enabled":true}`},
		{`{}`, `{"on_cooldown":"wait"}`, `+ on_cooldown escalate>wait`, `{"enabled":true}`},
		{`{"on_cooldown":"wait"}`, `{}`, `- on_cooldown wait>escalate`, `{"enabled":true}`},
		{`{}`, `{"max_timeout_seconds":1000}`, `+ max_timeout_seconds 900>1000`, `{"enabled":true}`},
		{`{}`, `{"max_timeout_seconds":10}`, `- max_timeout_seconds 900>10`, `{"enabled":true,"max_timeout_seconds":10}`},
		{`{}`, `{"allow_privileged":true}`, `+ allow_privileged false>true`, `{"enabled":true}`},
		{`{"allow_privileged":true}`, `{}`, `- allow_privileged true>false`, `{"enabled":true}`},
		{`{}`, `{"allow_other_devices":true}`, `+ allow_other_devices false>true`, `{"enabled":true}`},
		{`{}`, `{"guard":"strict"}`, `- guard scripts>strict`, `{"enabled":true,"guard":"strict"}`},
		{`{}`, `{"guard":"off"}`, `+ guard scripts>off`, `{"enabled":true}`},
		{`{}`, `{"network":"none"}`, `- network full>none`, `{"enabled":true,"network":"none"}`},
		{`{"network":"none"}`, `{}`, `+ network none>full`, `{"enabled":true,"network":"none"}`},
		{`{"env_passthrough":["A","B"]}`, `{"env_passthrough":["B","C"]}`, `- env_passthrough A> | + env_passthrough >C`, `{"enabled":true,"env_passthrough":["B"]}`},
		{`{}`, `{"sandbox":{"required":true}}`, `- sandbox/required false>true`, `{"enabled":true,"sandbox":{"required":true}}`},
		{`{"sandbox":{"required":true}}`, `{}`, `+ sandbox/required true>false`, `{"enabled":true,"sandbox":{"required":true}}`},
		{`{"sandbox":{"caches":["/a","/b"]}}`, `{"sandbox":{"caches":["/b","/c"]}}`, `- sandbox/caches /a> | + sandbox/caches >/c`, `{"enabled":true,"sandbox":{"caches":["/b"]}}`},
		{`{}`, `{"sandbox":{"read_roots":["/a"]}}`, `- sandbox/read_roots []>[/a]`, `{"enabled":true,"sandbox":{"read_roots":["/a"]}}`},
		{`{"sandbox":{"read_roots":["/a"]}}`, `{}`, `+ sandbox/read_roots [/a]>[]`, `{"enabled":true,"sandbox":{"read_roots":["/a"]}}`},
		{`{"sandbox":{"read_roots":["/a","/b"]}}`, `{"sandbox":{"read_roots":["/b"]}}`, `- sandbox/read_roots /a>`, `{"enabled":true,"sandbox":{"read_roots":["/b"]}}`},
		{`{"sandbox":{"read_roots":["/a"]}}`, `{"sandbox":{"read_roots":["/a/b"]}}`, `- sandbox/read_roots /a> | + sandbox/read_roots >/a/b`, `{"enabled":true,"sandbox":{"read_roots":["/dev/null"]}}`},
		{`{}`, `{"sandbox":{"odd":1}}`, `+ sandbox/odd >1`, `{"enabled":true}`},
		{`{"sandbox":{"odd":1}}`, `{}`, `+ sandbox/odd 1>`, `{"enabled":true,"sandbox":{"odd":1}}`},
		{`{"odd":{"a":1}}`, `{"odd":{"a":2}}`, `+ odd map[a:1]>map[a:2]`, `{"enabled":true,"odd":{"a":1}}`},
		{`{}`, `{"tests":[{"command":"x","expect":"auto"}]}`, ``, `{"enabled":true}`},
		{`{"entries":{"a":{"network":"full"}}}`, `{}`, ``, `{"enabled":true}`},
		{`{}`, `{"entries":{"a/b":{"network":"none"}}}`, `- entries/a~1b/network full>none`, `{"enabled":true,"entries":{"a/b":{"network":"none"}}}`},
		{`{"entries":{"a":{"network":"none"}}}`, `{}`, `+ entries/a/network none>full`, `{"enabled":true,"entries":{"a":{"network":"none"}}}`},
		{`{"network":"none","entries":{"a":{"network":"full"}}}`, `{"network":"none"}`, `- entries/a/network full>none`, `{"enabled":true,"network":"none"}`},
		{`{"entries":{"a":{"network":"none"}}}`, `{"network":"none"}`, `- network full>none`, `{"enabled":true,"network":"none"}`},
		{`{}`, `{"entries":{"a":{"odd":1}}}`, `+ entries/a/odd >1`, `{"enabled":true}`},
		{`{"entries":{"a":{"odd":1}}}`, `{}`, `+ entries/a/odd 1>`, `{"enabled":true,"entries":{"a":{"odd":1}}}`},
		{`{"entries":{"a":1}}`, `{"entries":{"a":2}}`, `+ entries map[a:1]>map[a:2]`, `{"enabled":true,"entries":{"a":1}}`},
	} {
		t.Run(c.pinned+" "+c.now, func(t *testing.T) {
			t.Parallel()
			pinned, now := Section{Recovery: policy(t, c.pinned)}, Section{Recovery: policy(t, c.now)}
			if got := said(Compare(pinned, now), "/recovery/"); got != c.says {
				t.Errorf("said %q, want %q", got, c.says)
			}
			if got := string(canonical(Effective(pinned, now).Recovery)); got != c.force {
				t.Errorf("in force is %s, want %s", got, c.force)
			}
		})
	}
}

// said writes a Diff shortly: "-" tightens, "+" loosens.
func said(d Diff, prefix string) string {
	var out []string
	for sign, list := range map[string][]Change{"-": d.Tightening, "+": d.Loosening} {
		for _, c := range list {
			value := func(v any) string {
				if v == nil {
					return ""
				}
				return fmt.Sprint(v)
			}
			if c.Why == "" {
				out = append(out, "no reason: ")
			}
			out = append(out, fmt.Sprintf("%s %s %s>%s", sign, strings.TrimPrefix(c.Path, prefix), value(c.From), value(c.To)))
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return -strings.Compare(a[:1], b[:1]) })
	return strings.Join(out, " | ")
}

// Every key that the schema has, and every one that the decision reads, is one
// that is understood, with its default. Whoever adds one says here, and in the
// package comment, what tighter means for it.
func TestEveryKeyIsKnown(t *testing.T) {
	t.Parallel()
	var root struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Default    any
				Properties map[string]struct{ Default any }
			}
		} `json:"$defs"`
	}
	dec := json.NewDecoder(strings.NewReader(string(schemas.Source(schemas.Config))))
	dec.UseNumber()
	if err := dec.Decode(&root); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{}
	for _, k := range keys() {
		defaults[k.name] = k.def
	}
	check := func(from, name string, def any) {
		switch want, known := defaults[name]; {
		case name == keyEnabled || name == keyTests || name == keyEntries:
		case !known:
			t.Errorf("%s has the key %s, which is not understood", from, name)
		case def != nil && !same(def, want):
			t.Errorf("%s: the default of %s is %v, and not %v", from, name, def, want)
		}
	}
	properties := root.Defs["recovery"].Properties
	if len(properties) < 10 {
		t.Fatalf("the schema has only %d keys", len(properties))
	}
	for name, p := range properties {
		if name == keySandbox {
			for sub, p := range p.Properties {
				check("the schema", name+"/"+sub, p.Default)
			}
			continue
		}
		check("the schema", name, p.Default)
	}
	data, err := json.Marshal(recovery.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	settings, err := object(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range Policy(settings).flat() {
		check("recovery.Settings", name, v)
	}
}

// Every field of a configuration is either pinned or known to be free. A new one
// fails here until somebody has thought about it.
func TestEveryFieldIsKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of           any
		pinned, free string
	}{
		{config.Config{}, "Runners Loops Recovery Webhooks Escalation Protect Permissions", "Path Digest Prices Warnings doc"},
		{config.Runner{}, "Command Args FastArgs PromptMode Env Adapter Permissions PassEnv", "Name"},
		{config.Loop{}, "Tests Gates Validation Approval Git Roles Recovery Respond",
			"ID SpecFile PromptOnly MaxIterations MaxWallTime MaxCostUSD MaxTokens CompletionPromise Completion Checklists Prerequisites Evidence ReviewerPacket Stuck Retry"},
		{config.Role{}, "Name Runner Permissions Runners", "Model Thinking Timeout Inactivity Resume"},
		{config.Choice{}, "Runner Permissions", "Model Tier"},
		{config.Respond{}, "Diagnostician", "Enabled FallOver Insist SameFailure SameTests MaxRuns MaxTime AnalysisTime MaxWait Breaker Systemic Preflight"},
		{config.Diagnostician{}, "Runner", "Model Timeout"},
		{config.Environment{}, "", "Enabled Checks"},
		{config.EnvironmentCheck{}, "", "Kind Path Want Manager FreeMB Port Name Address"},
		{config.Tests{}, "Mode Commands Outputs", "Timeout"},
		{config.Validation{}, "Enabled Mode RequireOnCompletion Commands", "Timeout Preflight"},
		{config.Gates{}, "Final Setup", ""},
		{config.Approval{}, "Enabled RequireOnCompletion", ""},
		{config.Escalation{}, "Channels Slack", "RemindAfter EscalateAfter ExpiresAfter"},
		{config.Channel{}, "Name Type URL URLEnv SecretEnv TokenEnv SlackID Priority From To Command Timeout Tell Second", ""},
		{config.Slack{}, "AppTokenEnv SigningSecretEnv Listen Users Teams", ""},
		{config.Protect{}, "Paths Allow", ""},
		{permit.Settings{}, "Mode AutoApprove Programs Deny RequireHuman OnUnknown Paths Hosts Tools", "Wait MaxOpen"},
		{Permissions{}, "Mode AutoApprove Programs Deny RequireHuman OnUnknown Paths Hosts Tools", ""},
		{permit.Paths{}, "Deny Secret", ""},
		{config.Git{}, "PreCommitCommands", "CommitStrategy MaxSubjectLength Worktree"},
	} {
		typ := reflect.TypeOf(c.of)
		known := strings.Fields(c.pinned + " " + c.free)
		for f := range typ.Fields() {
			if !slices.Contains(known, f.Name) {
				t.Errorf("%s.%s is neither pinned nor free", typ, f.Name)
			}
		}
		if len(known) != typ.NumField() {
			t.Errorf("%s has %d fields, %d are known", typ, typ.NumField(), len(known))
		}
	}
}

// The size of a Section is bounded although each override repeats the policy.
func TestHugeSection(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60_000)
	entries := []string{}
	for i := range 12 {
		entries = append(entries, fmt.Sprint(long, i))
	}
	loops := []any{}
	for i := range 13 {
		loops = append(loops, obj{"id": fmt.Sprint("l", i), "spec_file": "s", "recovery": obj{"cooldown_seconds": i}})
	}
	c := loaded(t, obj{"runners": obj{"a": obj{"command": "a"}}, "loops": loops, "recovery": obj{"auto_approve": entries}})
	if _, err := Of(c); err == nil || !strings.Contains(err.Error(), "8 MiB") {
		t.Errorf("got %v", err)
	}
	c.Loops = c.Loops[:3]
	if _, err := Of(c); err != nil {
		t.Error(err)
	}
}
