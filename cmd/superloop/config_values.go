package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/schemas"
)

// setting is one value of a configuration.
type setting struct {
	path    string // a JSON pointer with a loop's id in place of its index, as in config.Change
	value   any
	secret  bool
	origins []string // JSON pointers to where the file may state the value; the first that exists counts
}

func (s setting) shown() any {
	if s.secret && s.value != nil {
		return redact.Mark
	}
	return s.value
}

// settings collects the values of a configuration, in no order.
type settings struct {
	doc  *schemas.Document
	list []setting
}

// keyed is a value with its key, such as "tests/mode", below some JSON pointer.
type keyed struct {
	name  string
	value any
}

// settingsOf returns all values of a configuration, including the defaults. doc is the file that the configuration was
// loaded from.
func settingsOf(c *config.Config, doc *schemas.Document) ([]setting, error) {
	section, err := trust.Of(c)
	if err != nil {
		return nil, failf(exitConfig, "superloop validate", "%w", err)
	}
	s := &settings{doc: doc}
	for _, r := range c.Runners {
		s.runner(r)
	}
	s.policy("/recovery", section.Recovery, "/recovery")
	for name, url := range section.Webhooks {
		s.secret("/webhooks"+token(name), url, "/webhooks"+token(name))
	}
	s.escalation(c.Escalation)
	for model := range c.Prices {
		s.raw("/prices"+token(model), "/prices"+token(model))
	}
	for _, l := range c.Loops {
		s.loop(l, section)
	}
	return s.list, nil
}

func token(s string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// value adds a value that is not secret. origins are the JSON pointers to where the file may state it.
func (s *settings) value(path string, value any, origins ...string) {
	s.list = append(s.list, setting{path: path, value: value, origins: origins})
}

func (s *settings) secret(path string, value any, origin string) {
	s.list = append(s.list, setting{path, value, true, []string{origin}})
}

// values adds several values below path. The file may state each of them under the same key below each pointer of at.
func (s *settings) values(path string, list []keyed, at ...string) {
	for _, k := range list {
		origins := make([]string, len(at))
		for i := range at {
			origins[i] = at[i] + "/" + k.name
		}
		s.value(path+"/"+k.name, k.value, origins...)
	}
}

// raw adds the value at ptr exactly as the file has it. It adds nothing if the file has no such value.
func (s *settings) raw(path, ptr string) {
	var v any
	if raw := s.doc.Raw(ptr, nil); raw != nil && json.Unmarshal(raw, &v) == nil {
		s.value(path, v, ptr)
	}
}

func (s *settings) runner(r config.Runner) {
	path := "/runners" + token(r.Name)
	at := path
	if _, _, ok := s.doc.Position(at); !ok {
		at = "/runner" // the oldest syntax has a single runner, under this key
	}
	s.values(path, []keyed{
		{"command", r.Command}, {"args", orEmpty(r.Args)}, {"fast_args", r.FastArgs}, {"prompt_mode", r.PromptMode},
		{"adapter", orNone(r.Adapter)}, {"permissions", orNone(r.Permissions)}, {"pass_env", r.PassEnv},
	}, at)
	for name, value := range r.Env {
		s.secret(path+"/env"+token(name), value, at+"/env"+token(name))
	}
}

// escalation adds the times of reminders, the channels of notifications and the settings of Slack.
func (s *settings) escalation(e config.Escalation) {
	list := []keyed{{"remind_after", long(e.RemindAfter)}, {"escalate_after", long(e.EscalateAfter)}, {"expires_after", long(e.ExpiresAfter)}}
	for _, ch := range e.Channels {
		at := "channels" + token(ch.Name)
		list = append(list, keyed{at + "/type", ch.Type}, keyed{at + "/timeout", long(ch.Timeout)}, keyed{at + "/tell", ch.Tell}, keyed{at + "/second", ch.Second})
		for key, name := range map[string]string{"/url_env": ch.URLEnv, "/secret_env": ch.SecretEnv, "/token_env": ch.TokenEnv, "/channel": ch.SlackID, "/from": ch.From} {
			if name != "" {
				list = append(list, keyed{at + key, name})
			}
		}
		if ch.Priority != 0 {
			list = append(list, keyed{at + "/priority", ch.Priority})
		}
		if ch.To != nil {
			list = append(list, keyed{at + "/to", ch.To})
		}
		for key, secret := range map[string]redact.Secret{"/url": ch.URL, "/command": ch.Command} {
			if secret != "" {
				s.secret("/escalation/"+at+key, secret.Reveal(), "/escalation/"+at+key)
			}
		}
	}
	if w := e.Slack; w.AppTokenEnv != "" || w.Listen != "" || len(w.Users) > 0 {
		list = append(list, keyed{"slack/app_token_env", orNone(w.AppTokenEnv)}, keyed{"slack/signing_secret_env", orNone(w.SigningSecretEnv)},
			keyed{"slack/listen", orNone(w.Listen)}, keyed{"slack/users", orEmpty(w.Users)}, keyed{"slack/teams", orEmpty(w.Teams)})
	}
	s.values("/escalation", list, "/escalation")
}

func orNone(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// policy adds all values of a recovery policy. sections are JSON pointers to the sections that may state them.
func (s *settings) policy(path string, p trust.Policy, sections ...string) {
	var walk func(below string, m map[string]any)
	walk = func(below string, m map[string]any) {
		for k, value := range m {
			at := below + token(k)
			if sub, ok := value.(map[string]any); ok && len(sub) > 0 {
				walk(at, sub)
				continue
			}
			var origins []string
			for _, section := range sections {
				origins = append(origins, section+at)
			}
			if at == "/enabled" { // a section without this key is enabled because it exists
				origins = append(origins, sections...)
			}
			s.value(path+at, value, origins...)
		}
	}
	walk("", p.Full())
}

func (s *settings) loop(l config.Loop, section trust.Section) {
	path, at := "/loops"+token(l.ID), s.place(l.ID)
	s.values(path, []keyed{
		{"spec_file", l.SpecFile}, {"max_iterations", l.MaxIterations}, {"max_wall_time", long(l.MaxWallTime)}, {"max_cost_usd", l.MaxCostUSD},
		{"max_tokens", l.MaxTokens}, {"completion_promise", l.CompletionPromise}, {"checklists", orEmpty(l.Checklists)},
		{"completion/require_change", l.Completion.RequireChange}, {"completion/allow_ungated", l.Completion.AllowUngated},
		{"completion/tests_baseline", l.Completion.TestsBaseline}, {"completion/require_test_change", l.Completion.RequireTestChange},
		{"completion/require_reports", orEmpty(l.Completion.RequireReports)},
		{"tests/mode", l.Tests.Mode}, {"tests/commands", orEmpty(l.Tests.Commands)}, {"tests/timeout", long(l.Tests.Timeout)},
		{"tests/outputs", orEmpty(l.Tests.Outputs)},
		{"validation/enabled", l.Validation.Enabled}, {"validation/mode", l.Validation.Mode}, {"validation/commands", orEmpty(l.Validation.Commands)},
		{"validation/require_on_completion", l.Validation.RequireOnCompletion}, {"validation/timeout", long(l.Validation.Timeout)},
		{"prerequisites/enabled", l.Prerequisites.Enabled}, {"prerequisites/require_on_completion", l.Prerequisites.RequireOnCompletion},
		{"evidence/enabled", l.Evidence.Enabled}, {"evidence/require_on_completion", l.Evidence.RequireOnCompletion}, {"evidence/artifacts", orEmpty(l.Evidence.Artifacts)},
		{"approval/enabled", l.Approval.Enabled}, {"approval/require_on_completion", l.Approval.RequireOnCompletion},
		{"gates/final", cmp.Or(l.Gates.Final, "tree")}, {"gates/setup", orEmpty(l.Gates.Setup)},
		{"reviewer_packet/enabled", l.ReviewerPacket},
		{"stuck/enabled", l.Stuck.Enabled}, {"stuck/threshold", l.Stuck.Threshold}, {"stuck/tests_threshold", l.Stuck.TestsThreshold}, {"stuck/action", l.Stuck.Action}, {"stuck/ignore", orEmpty(l.Stuck.Ignore)},
		{"git/commit_strategy", l.Git.CommitStrategy}, {"git/pre_commit_commands", orEmpty(l.Git.PreCommitCommands)},
		{"git/commit_message/max_subject_length", l.Git.MaxSubjectLength}, {"git/worktree", l.Git.Worktree},
		{"retry/attempts", l.Retry.Attempts}, {"retry/backoff_seconds", long(l.Retry.Backoff)},
	}, at)
	for _, key := range []string{"/prerequisites/checks", "/validation/preflight"} {
		s.raw(path+key, at+key)
	}
	for _, r := range l.Roles {
		s.role(path, at, l, r)
	}
	s.respond(path+"/respond", at+"/respond", l.Respond)
	if own := section.Loops[l.ID].Recovery; own != nil {
		s.policy(path+"/recovery", own, at+"/recovery", "/recovery")
	}
}

// place returns the JSON pointer to a loop in the file.
func (s *settings) place(id string) string {
	var loops []struct{ ID string }
	_ = json.Unmarshal(s.doc.Raw("/loops", nil), &loops) // the configuration was loaded from this document
	return fmt.Sprintf("/loops/%d", slices.IndexFunc(loops, func(l struct{ ID string }) bool { return l.ID == id }))
}

// role adds the values of a role of a loop. The file may state each in several places: in the loop's role, in the
// loop's timeouts, in role_defaults.
func (s *settings) role(path, at string, l config.Loop, r config.Role) {
	own, def := at+"/roles"+token(r.Name), "/role_defaults"+token(r.Name)
	session := "fresh"
	if r.Resume {
		session = "resume"
	}
	bounds := func(key string, names ...string) []string {
		out := []string{own + key}
		if string(s.doc.Raw(at+"/timeouts/enabled", nil)) == "true" {
			for _, n := range names {
				if raw := string(s.doc.Raw(at+"/timeouts/"+n, nil)); raw != "" && raw != "0" {
					out = append(out, at+"/timeouts/"+n)
				}
			}
		}
		return append(out, def+key)
	}
	put := func(name string, value any, origins ...string) {
		s.value(path+"/roles"+token(r.Name)+"/"+name, value, origins...)
	}
	put("runner", r.Runner, own+"/runner", own+"/runners/0", def+"/runner", def+"/runners/0")
	put("runners", choices(r.Runners), own+"/runners", own+"/runner", def+"/runners", def+"/runner")
	put("model", orNone(r.Model), own+"/model", def+"/model")
	put("thinking", orNone(r.Thinking), own+"/thinking", def+"/thinking")
	put("timeout", long(r.Timeout), bounds("/timeout", r.Name, "default")...)
	put("inactivity", long(r.Inactivity), bounds("/inactivity", "inactivity")...)
	put("session", session, own+"/session", def+"/session")
	put("permissions", orNone(r.Permissions), own+"/permissions", def+"/permissions", "/runners"+token(r.Runner)+"/permissions")
}

// long returns a duration in the syntax of the file. 0 stands for no bound.
func long(d time.Duration) any {
	if d == 0 {
		return 0
	}
	return d.String()
}

// choices returns the runners of a role in the syntax of the file: NAME, or NAME:MODEL.
func choices(all []config.Choice) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.Runner
		if c.Model != "" {
			out[i] += ":" + c.Model
		}
	}
	return out
}

// respond adds the failure policy of a loop. The top-level section states the values that the loop does not.
func (s *settings) respond(path, at string, r config.Respond) {
	diagnostician := any(nil)
	if d := r.Diagnostician; d != nil {
		diagnostician = choices([]config.Choice{{Runner: d.Runner, Model: d.Model}})[0]
	}
	s.values(path, []keyed{
		{"enabled", r.Enabled}, {"fall_over", r.FallOver}, {"insist", r.Insist}, {"same_failure", r.SameFailure}, {"same_tests", r.SameTests},
		{"max_runs", r.MaxRuns}, {"max_time", long(r.MaxTime)}, {"analysis_time", long(r.AnalysisTime)}, {"max_wait", long(r.MaxWait)},
		{"breaker/failures", r.Breaker.Failures}, {"breaker/first", long(r.Breaker.First)}, {"breaker/most", long(r.Breaker.Most)},
		{"systemic/window", long(r.Systemic.Window)}, {"systemic/min_runs", r.Systemic.MinRuns}, {"systemic/warn_rate", r.Systemic.WarnRate},
		{"systemic/critical_rate", r.Systemic.CriticalRate}, {"systemic/same_category", r.Systemic.SameCategory},
		{"systemic/silent_runs", r.Systemic.SilentRuns}, {"diagnostician", diagnostician}, {"preflight/enabled", r.Preflight.Enabled},
	}, at, "/respond")
	for _, origin := range []string{at, "/respond"} {
		if s.doc.Raw(origin+"/preflight/checks", nil) != nil {
			s.raw(path+"/preflight/checks", origin+"/preflight/checks")
			return
		}
	}
}
