package trust

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

// base is a configuration with something of everything.
func base() obj {
	return obj{
		"runners": obj{
			"a": obj{"command": "agent -p", "args": []any{"x"}, "env": obj{"K": secretText}, "permissions": "workspace", "pass_env": []any{"X", "Y"}},
			"b": obj{"command": "other"},
		},
		"webhooks": obj{"on_escalation": "https://h/" + secretText},
		"protect":  obj{"paths": []any{"/a", "~/b"}, "allow": []any{"docker", "~/.x"}},
		"recovery": obj{"auto_approve": []any{"npm ci"}},
		"escalation": obj{"remind_after": "5m",
			"channels": obj{"ops": obj{"type": "webhook", "url": "https://ops/" + secretText, "secret_env": "S"}, "mail": obj{"type": "command", "command": "mail " + secretText},
				"desk": obj{"type": "smtp", "url": "smtps://u@h/", "token_env": "P", "from": "a@x", "to": []any{"b@x"}}, "bot": obj{"type": "slack", "token_env": "T", "channel": "C01"},
				"phone": obj{"type": "ntfy", "url": "https://n/" + secretText, "priority": 3}},
			"slack": obj{"app_token_env": "A", "users": []any{"U1", "U2"}}},
		"loops": []any{
			obj{"id": "one", "spec_file": "1.md", "max_iterations": 3,
				"roles":      obj{"implementer": obj{"runner": "a"}, "reviewer": obj{"runner": "a", "permissions": "read-only", "model": "m", "timeout": 60}},
				"tests":      obj{"mode": "on_promise", "commands": []any{"t"}},
				"validation": obj{"enabled": true, "mode": "on_promise", "commands": []any{"v"}},
				"approval":   obj{"enabled": true}, "git": obj{"pre_commit_commands": "f"}},
			obj{"id": "two", "spec_file": "2.md", "roles": obj{"planner": obj{"runner": "b"}}, "recovery": obj{"on_unknown": "deny"}},
		},
	}
}

// set changes the value at a path such as "loops/0/tests/mode"; nil removes it.
func set(t *testing.T, in obj, path string, value any) {
	t.Helper()
	var at any = in
	parts := strings.Split(path, "/")
	for i, p := range parts {
		last := i == len(parts)-1
		switch v := at.(type) {
		case obj:
			if last && value == nil {
				delete(v, p)
			} else if last {
				v[p] = value
			}
			at = v[p]
		case []any:
			at = v[int(p[0]-'0')]
		default:
			t.Fatalf("no %s in %s", p, path)
		}
	}
}

// What is said of each kind of change beside those of a policy's keys.
func TestCompareConfigs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change map[string]any
		says   string
	}{
		"command written as a list": {obj{"runners/a/command": []any{"agent", "-p"}}, ``},
		"command":                   {obj{"runners/a/command": "agent -x"}, `+ /runners/a/command [agent -p]>[agent -x]`},
		"permissions": {obj{"permissions": obj{"mode": "enforce", "auto_approve": []any{"a"}, "auto_approve_programs": []any{"go"}, "deny": []any{"x"}, "on_unknown": "deny", "paths": obj{"secret": []any{"k"}}, "wait": "9m"}},
			`- /permissions/deny >x | - /permissions/mode off>enforce | - /permissions/on_unknown escalate>deny | - /permissions/paths/secret >k | + /permissions/auto_approve >a | + /permissions/auto_approve_programs >go`},
		"permissions off":            {obj{"permissions": obj{"mode": "off", "on_unknown": "escalate", "max_open": 4}}, ``},
		"protect paths":              {obj{"protect/paths": []any{"/c", "/a"}}, `- /protect/paths >/c | + /protect/paths ~/b>`},
		"protect allow":              {obj{"protect/allow": []any{"docker", "npm"}}, `- /protect/allow ~/.x> | + /protect/allow >npm`},
		"protect gone":               {obj{"protect": nil}, `- /protect/allow docker> | - /protect/allow ~/.x> | + /protect/paths /a> | + /protect/paths ~/b>`},
		"args":                       {obj{"runners/a/args": nil}, `+ /runners/a/args [x]>[]`},
		"fast_args":                  {obj{"runners/a/fast_args": []any{}}, `+ /runners/a/fast_args >[]`},
		"env value":                  {obj{"runners/a/env/K": secretText + "x"}, `+ /runners/a/env/K <secret>><secret>`},
		"env more":                   {obj{"runners/a/env/PATH": "./evil"}, `+ /runners/a/env/PATH ><secret>`},
		"env less":                   {obj{"runners/a/env/K": nil}, `+ /runners/a/env/K <secret>>`},
		"adapter":                    {obj{"runners/a/adapter": "claude"}, `+ /runners/a/adapter >claude`},
		"prompt mode":                {obj{"runners/a/prompt_mode": "arg"}, `+ /runners/a/prompt_mode stdin>arg`},
		"rights less":                {obj{"runners/a/permissions": "read-only"}, `- /runners/a/permissions workspace>read-only`},
		"rights more":                {obj{"runners/a/permissions": "full"}, `+ /runners/a/permissions workspace>full`},
		"rights by the command":      {obj{"runners/a/permissions": nil}, `+ /runners/a/permissions workspace>`},
		"rights of a role":           {obj{"loops/0/roles/implementer/permissions": "full"}, `+ /loops/one/roles/implementer/permissions workspace>full`},
		"rights of a role by runner": {obj{"loops/0/roles/implementer/permissions": "workspace"}, ``},
		"pass_env":                   {obj{"runners/a/pass_env": []any{"Y", "Z"}}, `- /runners/a/pass_env X> | + /runners/a/pass_env >Z`},
		"pass_env all":               {obj{"runners/a/pass_env": nil}, `+ /runners/a/pass_env [X Y]>`},
		"pass_env none of all":       {obj{"runners/b/pass_env": []any{}}, `- /runners/b/pass_env >[]`},
		"pass_env some of all":       {obj{"runners/b/pass_env": []any{"ANTHROPIC_API_KEY"}}, `+ /runners/b/pass_env >[ANTHROPIC_API_KEY]`},
		"another runner":             {obj{"loops/0/roles/implementer/runner": "b"}, `+ /loops/one/roles/implementer/permissions workspace> | + /loops/one/roles/implementer/runner a>b`},
		"more runners":               {obj{"loops/0/roles/reviewer": obj{"permissions": "read-only", "runners": []any{"a", "b"}}}, `+ /loops/one/roles/reviewer/runners >b`},
		"the same with models":       {obj{"loops/0/roles/reviewer": obj{"permissions": "read-only", "runners": []any{obj{"runner": "a", "model": "x", "tier": 1}, "a"}}}, ``},
		"another first":              {obj{"loops/0/roles/reviewer": obj{"permissions": "read-only", "runners": []any{"b", "a"}}}, `+ /loops/one/roles/reviewer/runner a>b`},
		"diagnostician":              {obj{"respond": obj{"diagnostician": "a"}}, `+ /loops/one/respond/diagnostician >a | + /loops/two/respond/diagnostician >a`},
		"what follows a failure":     {obj{"respond": obj{"enabled": false, "fall_over": true, "max_runs": 100, "preflight": obj{"checks": []any{obj{"kind": "tool", "name": "git"}}}}}, ``},
		"role gone":                  {obj{"loops/0/roles/reviewer": nil}, `+ /loops/one/roles [implementer reviewer]>[implementer]`},
		"role more": {obj{"loops/0/roles/tester": obj{"runner": "b"}},
			`+ /loops/one/roles [implementer reviewer]>[implementer tester reviewer] | + /loops/one/roles/tester >map[name:tester permissions: runner:b]`},
		"tests always":           {obj{"loops/0/tests/mode": "every"}, `- /loops/one/tests/mode on_promise>every`},
		"a checkout":             {obj{"loops/0/gates": obj{"final": "checkout"}}, `- /loops/one/gates/final >checkout`},
		"its setup":              {obj{"loops/0/gates": obj{"final": "checkout", "setup": []any{"npm ci"}}}, `- /loops/one/gates/final >checkout | + /loops/one/gates/setup >[npm ci]`},
		"tests write":            {obj{"loops/0/tests/outputs": []any{"out/"}}, `+ /loops/one/tests/outputs >[out/]`},
		"tests off":              {obj{"loops/0/tests/mode": "disabled"}, `+ /loops/one/tests/mode on_promise>disabled`},
		"tests other":            {obj{"loops/0/tests": obj{"mode": "every", "commands": []any{"t", "u"}}}, `+ /loops/one/tests/commands [t]>[t u] | + /loops/one/tests/mode on_promise>every`},
		"validation wanted":      {obj{"loops/0/validation/require_on_completion": true}, `- /loops/one/validation/require_on_completion false>true`},
		"validation off":         {obj{"loops/0/validation/enabled": false}, `+ /loops/one/validation/enabled true>false`},
		"validation always":      {obj{"loops/0/validation/mode": "every"}, `- /loops/one/validation/mode on_promise>every`},
		"validation other":       {obj{"loops/0/validation/commands": []any{"w"}, "loops/0/validation/mode": "every"}, `+ /loops/one/validation/commands [v]>[w] | + /loops/one/validation/mode on_promise>every`},
		"approval off":           {obj{"loops/0/approval/enabled": false}, `+ /loops/one/approval/enabled true>false`},
		"change not needed":      {obj{"loops/0/completion": obj{"require_change": false}}, `+ /loops/one/completion/require_change true>false`},
		"a test is needed":       {obj{"loops/0/completion": obj{"require_test_change": true}}, `- /loops/one/completion/require_test_change false>true`},
		"ungated":                {obj{"loops/0/completion": obj{"allow_ungated": true}}, `+ /loops/one/completion/allow_ungated false>true`},
		"other reports":          {obj{"loops/0/completion": obj{"require_reports": []any{"plan"}}}, `- /loops/one/completion/require_reports >plan | + /loops/one/completion/require_reports review>`},
		"approval wanted":        {obj{"loops/0/approval/require_on_completion": true}, `- /loops/one/approval/require_on_completion false>true`},
		"before a commit":        {obj{"loops/0/git/pre_commit_commands": []any{"f", "g"}}, `+ /loops/one/git/pre_commit_commands [f]>[f g]`},
		"webhook":                {obj{"webhooks/on_escalation": "https://evil/"}, `+ /webhooks/on_escalation <secret>><secret>`},
		"webhook gone":           {obj{"webhooks": nil}, `+ /webhooks/on_escalation <secret>>`},
		"channel more":           {obj{"escalation/channels/new": obj{"type": "command", "command": "evil " + secretText}}, `+ /escalation/channels/new >map[command:<secret> tell:[escalation resolution reminder config alert end] timeout_ns:30000000000 type:command]`},
		"channel less":           {obj{"escalation/channels/mail": nil}, `+ /escalation/channels/mail map[command:<secret> tell:[escalation resolution reminder config alert end] timeout_ns:30000000000 type:command]>`},
		"channel elsewhere":      {obj{"escalation/channels/ops/url": "https://evil/"}, `+ /escalation/channels/ops/url <secret>><secret>`},
		"channel by env":         {obj{"escalation/channels/ops/url": nil, "escalation/channels/ops/url_env": "E"}, `+ /escalation/channels/ops/url <secret>> | + /escalation/channels/ops/url_env >E`},
		"channel unsigned":       {obj{"escalation/channels/ops/secret_env": nil}, `+ /escalation/channels/ops/secret_env S>`},
		"channel runs":           {obj{"escalation/channels/mail/command": "evil"}, `+ /escalation/channels/mail/command <secret>><secret>`},
		"channel told less":      {obj{"escalation/channels/mail/tell": []any{"config"}, "escalation/channels/mail/second": true, "escalation/channels/mail/timeout": 1}, `+ /escalation/channels/mail/second false>true | + /escalation/channels/mail/tell [escalation resolution reminder config alert end]>[config] | + /escalation/channels/mail/timeout 30s>1s`},
		"mail to another":        {obj{"escalation/channels/desk/to": []any{"b@x", "evil@x"}, "escalation/channels/desk/from": "c@x"}, `+ /escalation/channels/desk/from a@x>c@x | + /escalation/channels/desk/to [b@x]>[b@x evil@x]`},
		"mail elsewhere":         {obj{"escalation/channels/desk/url": "smtp://evil/", "escalation/channels/desk/token_env": "Q"}, `+ /escalation/channels/desk/token_env P>Q | + /escalation/channels/desk/url <secret>><secret>`},
		"bot elsewhere":          {obj{"escalation/channels/bot/channel": "C02", "escalation/channels/bot/token_env": "U"}, `+ /escalation/channels/bot/channel C01>C02 | + /escalation/channels/bot/token_env T>U`},
		"phone quieter":          {obj{"escalation/channels/phone/priority": 1}, `+ /escalation/channels/phone/priority 3>1`},
		"user more":              {obj{"escalation/slack/users": []any{"U9", "U2", "U1"}}, `+ /escalation/slack/users >U9`},
		"user less":              {obj{"escalation/slack/users": []any{"U2"}}, `- /escalation/slack/users U1>`},
		"user other":             {obj{"escalation/slack/users": []any{"U9", "U2"}}, `- /escalation/slack/users U1> | + /escalation/slack/users >U9`},
		"team":                   {obj{"escalation/slack/teams": []any{"T1"}}, `+ /escalation/slack/teams []>[T1]`},
		"token":                  {obj{"escalation/slack/app_token_env": "B"}, `+ /escalation/slack/app_token_env A>B`},
		"endpoint":               {obj{"escalation/slack/listen": "127.0.0.1:1", "escalation/slack/signing_secret_env": "E"}, `+ /escalation/slack/listen >127.0.0.1:1 | + /escalation/slack/signing_secret_env >E`},
		"escalation gone":        {obj{"escalation/slack": nil, "escalation/channels/mail": nil}, `- /escalation/slack/users U1> | - /escalation/slack/users U2> | + /escalation/channels/mail map[command:<secret> tell:[escalation resolution reminder config alert end] timeout_ns:30000000000 type:command]> | + /escalation/slack/app_token_env A>`},
		"times":                  {obj{"escalation/remind_after": "1m", "escalation/expires_after": 60}, ``},
		"free keys":              {obj{"loops/0/max_iterations": 9, "loops/0/roles/reviewer/model": "n", "loops/0/roles/reviewer/timeout": 0, "prices": obj{"m": obj{"input": 0, "output": 0}}}, ``},
		"the policy of all":      {obj{"recovery/auto_approve": []any{"x"}}, `- /loops/two/recovery/auto_approve npm ci> | - /recovery/auto_approve npm ci> | + /loops/two/recovery/auto_approve >x | + /recovery/auto_approve >x`},
		"an override comes":      {obj{"loops/0/recovery": obj{"cooldown_seconds": 1}}, `+ /loops/one/recovery/cooldown_seconds 60>1`},
		"an override goes":       {obj{"loops/1/recovery": nil}, `+ /loops/two/recovery/on_unknown deny>escalate`},
		"an override is nothing": {obj{"loops/0/recovery": obj{}}, ``},
		"recovery goes":          {obj{"recovery": nil}, `- /loops/two/recovery/auto_approve npm ci> | - /recovery/auto_approve npm ci> | - /recovery/enabled true>false`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pinned, now := base(), base()
			for path, v := range c.change {
				set(t, now, path, v)
			}
			p, n := section(t, loaded(t, pinned)), section(t, loaded(t, now))
			if got := said(Compare(p, n), ""); got != c.says {
				t.Errorf("said\n%s\nwant\n%s", got, c.says)
			}
			if same := p.Digest() == n.Digest(); same != (c.says == "") {
				t.Errorf("the digests are the same: %v", same)
			}
		})
	}
}

// A set that the file writes in another order is the same set.
func TestTheOrderOfASetIsNoChange(t *testing.T) {
	t.Parallel()
	pinned, now := base(), base()
	set(t, pinned, "loops/0/completion", obj{"require_reports": []any{"review", "plan"}})
	set(t, now, "loops/0/completion", obj{"require_reports": []any{"plan", "review"}})
	p, n := section(t, loaded(t, pinned)), section(t, loaded(t, now))
	if d := Compare(p, n); !d.Empty() || p.Digest() != n.Digest() || Effective(p, p).Digest() != p.Digest() {
		t.Errorf("%v", d)
	}
}

// Whole loops and runners come, go, and stay where they are needed.
func TestLoopsAndRunners(t *testing.T) {
	t.Parallel()
	now := base()
	now["loops"] = append(now["loops"].([]any)[:1], obj{"id": "new", "spec_file": "n.md", "roles": obj{"planner": obj{"runner": "c"}}})
	now["runners"] = obj{"c": obj{"command": "evil", "env": obj{"S": secretText}}}
	set(t, now, "loops/0/roles/implementer/runner", "c")
	set(t, now, "loops/0/roles/reviewer", nil)
	c := loaded(t, now)
	p, n := section(t, loaded(t, base())), section(t, c)
	d := Compare(p, n)
	paths := func(list []Change) string {
		var out []string
		for _, c := range list {
			out = append(out, c.Path)
		}
		return strings.Join(out, " ")
	}
	if got := paths(d.Tightening); got != "/loops/two /runners/b" {
		t.Errorf("tightened: %s", got)
	}
	if got := paths(d.Loosening); got != "/loops/new /loops/one/roles /loops/one/roles/implementer/permissions /loops/one/roles/implementer/runner /runners/a /runners/c" {
		t.Errorf("loosened: %s", got)
	}
	text, err := json.Marshal(d)
	if err != nil || strings.Contains(string(text), secretText) || strings.Count(string(text), redact.Mark) != 0 && !strings.Contains(string(text), `"S"`) {
		t.Errorf("%s, %v", text, err)
	}
	cfg, err := Apply(c, Effective(p, n))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Loops) != 1 || len(cfg.Runners) != 1 || cfg.Runners["a"].Command[0] != "agent" || cfg.Runners["a"].Env["K"] != secretText {
		t.Fatalf("in force: %+v", cfg)
	}
	roles := cfg.Loops[0].Roles
	if len(roles) != 2 || roles[1].Name != "reviewer" || roles[1].Model != "m" || roles[1].Timeout != time.Minute || roles[1].Permissions != "read-only" || roles[0].Runner != "a" {
		t.Errorf("the roles are %+v", roles)
	}
	if string(cfg.Webhooks) != `{"on_escalation":"https://h/`+secretText+`"}` {
		t.Errorf("webhooks: %s", cfg.Webhooks)
	}
}

// A Section that does not belong to the configuration is refused.
func TestApplyRefusesForeign(t *testing.T) {
	t.Parallel()
	c := loaded(t, base())
	s := section(t, c)
	s.Loops["other"] = s.Loops["one"]
	if _, err := Apply(c, s); err == nil || !strings.Contains(err.Error(), "3 loops, of which") {
		t.Errorf("got %v", err)
	}
	delete(s.Loops, "other")
	delete(s.Runners, "a")
	if _, err := Apply(c, s); err == nil || !strings.Contains(err.Error(), `no runner "a"`) {
		t.Errorf("got %v", err)
	}
}

// A pin that was made before there was an escalation section keeps its digest.
func TestNoEscalationIsNothing(t *testing.T) {
	t.Parallel()
	for _, said := range []any{nil, obj{}, obj{"channels": obj{}, "slack": obj{"users": []any{}}, "expires_after": "1h"}} {
		v := base()
		set(t, v, "escalation", said)
		if text := string(canonical(section(t, loaded(t, v)))); strings.Contains(text, `"escalation"`) {
			t.Errorf("%v: %s", said, text)
		}
	}
}
