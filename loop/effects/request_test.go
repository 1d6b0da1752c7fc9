package effects

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

func (r *recHost) question(s loop.State) escalation.Question {
	r.t.Helper()
	q, err := r.approvals.question(r.t.Context(), s)
	r.noErr(err)
	return q
}

func TestQuestionAboutACommand(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.now = recStart.Add(1234567 * time.Nanosecond)
	r.config.Recovery = []byte(`{"require_human": ["npm *", "*"], "auto_approve": ["npm i"], "network": "none"}`)
	s := recQuestion("npm ci")
	s.Recovery.Errors = []string{"npm i: exit code 1"}
	fallback := recAction("npm i --force")
	s.Recovery.Else, s.Recovery.ProposedAt = &fallback, recStart
	s.Recoveries = loop.Recoveries{Used: 2, Last: recStart, Rejected: map[string]int{s.Recovery.Attempt.Digest: 1}}
	option := func(id string, a string) plan.Choice {
		return plan.Choice{ID: id, Label: "label " + id, Draft: recDraft(a)}
	}
	s.Diagnosis = &loop.Diagnosis{Options: []plan.Choice{option("same", "npm ci"), option("other", "npm update")}}
	q := r.question(s)
	p := r.policies.InForce()[0]
	at := recStart.Add(time.Millisecond)
	want := escalation.Question{ID: q.ID, Loop: "l", Run: "run-1", Iteration: 3, Type: escalation.RecoveryApproval, Repo: r.Paths.Repo, Reason: "no list names it",
		Rule: "on_unknown", Errors: []string{"npm i: exit code 1"}, Created: at, Expires: at.Add(24 * time.Hour),
		Options: []escalation.Option{{ID: "other", Label: "label other", Command: "npm update"}, {ID: "fallback", Label: "the proposal's fallback", Command: "npm i --force"}}}
	want.Command = &escalation.Command{Text: []byte("npm ci"), WorkingDir: ".", Binding: escalation.Binding{Dev: 1, Ino: 2, PolicyDigest: p.Digest, InputsDigest: "in-1"},
		TimeoutMS: 60_000, Network: "none", Source: "tester", Role: "tester", Category: "dependency", Severity: "blocking", ErrorPattern: "pattern", RootCause: "cause",
		Evidence: []string{"line 1"}, ExpectedOutcome: "it works", Confidence: "high", ProposedAt: recStart, Fallback: &fallback, Hits: q.Command.Hits, Near: &escalation.Near{Text: "npm i"}, GuardDiff: "the diff"}
	if !reflect.DeepEqual(q, want) || len(q.ID) != 32 || len(q.Command.Hits) != 2 {
		t.Errorf("%+v %+v\nwant %+v %+v", q, q.Command, want, want.Command)
	}
	if b := r.executor.budgets[0]; b != (recovery.Budget{Used: 2, Last: recStart, Rejected: 1}) {
		t.Errorf("%+v", b)
	}
}

// A long list of changes is cut, and the digest in the journal is that of the
// record whatever was cut.
func TestQuestionIsCut(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.executor.change = func(j *execute.Judgement) { j.Diff = strings.Repeat("x", 40<<10) }
	s := recQuestion("npm ci")
	s.Human.Text = strings.Repeat("why ", 4<<10)
	if q := r.question(s); len(q.Command.GuardDiff) != 32<<10 {
		t.Error(len(q.Command.GuardDiff))
	}
	s = r.opens(s)
	if rec := r.record(); rec.Digest != s.Human.Digest || len(rec.Question.Reason) > 4<<10 {
		t.Errorf("%s, the journal has %s", rec.Digest, s.Human.Digest)
	}
}

// Conforms: 003-mgr-block, 003-mgr-alert
func TestQuestionAboutARole(t *testing.T) {
	t.Parallel()
	cause := &loop.Cause{Role: "tester", Type: "config", By: "rules", Confidence: 0.9, Sure: true, Summary: "no token", Location: "a.go:3", Fix: "person", Instruction: "set it",
		Evidence: []string{"line 7", "line 8"}}
	const seeLog = "Its log: superloop logs --repo REPO --loop l --role tester\n"
	const aCause = "Cause (config, by rules, confidence 0.9): no token (a.go:3)\nTo do about it (person): set it\n  line 7\n  line 8\nAll of it: .superloop/loops/l/root-cause.json\n"
	const tail = "What it said last:\nit ends\n"
	with := func(kind string, change func(*loop.State)) loop.State {
		s := recRole(kind)
		s.Roles = map[string]loop.RoleResult{"tester": {Attempt: 2}}
		change(&s)
		return s
	}
	same := func(*loop.State) {}
	for name, c := range map[string]struct {
		s               loop.State
		log             string
		reason, details string
		errors          []string
		manual          string
	}{
		"a role":          {with(failures.TypeRole, same), " it ends\n\n", "The tester has failed twice in iteration 3: not logged in.", tail + seeLog, []string{"it said no"}, "claude /login"},
		"a silent role":   {with(failures.TypeRole, same), " \n", "The tester has failed twice in iteration 3: not logged in.", seeLog, []string{"it said no"}, "claude /login"},
		"its first run":   {with(failures.TypeRole, func(s *loop.State) { s.Response.Policy.Runs = 0 }), "", "The tester has failed once in iteration 3: not logged in.", seeLog, []string{"it said no"}, "claude /login"},
		"its third run":   {with(failures.TypeRole, func(s *loop.State) { s.Response.Policy.Runs = 3 }), "", "The tester has failed 3 times in iteration 3: not logged in.", seeLog, []string{"it said no"}, "claude /login"},
		"a cause":         {with(failures.TypeRole, func(s *loop.State) { s.Response.Cause = cause }), "", "The tester has failed twice in iteration 3: not logged in.", aCause + seeLog, []string{"it said no"}, "claude /login"},
		"another's cause": {with(failures.TypeRole, func(s *loop.State) { c := *cause; c.Role = "planner"; s.Response.Cause = &c }), "", "The tester has failed twice in iteration 3: not logged in.", seeLog, []string{"it said no"}, "claude /login"},
		"no cause": {with(failures.TypeRole, func(s *loop.State) { c := *cause; c.Type = string(failures.CauseUnknown); s.Response.Cause = &c }), "",
			"The tester has failed twice in iteration 3: not logged in.", seeLog, []string{"it said no"}, "claude /login"},
		"a guess": {with(failures.TypeRole, func(s *loop.State) {
			s.Response.Cause = &loop.Cause{Role: "tester", Type: "code", By: "rules", Confidence: 0.4, Summary: "typo"}
		}), "", "The tester has failed twice in iteration 3: not logged in.", "Cause (code, by rules, confidence 0.4): possibly: typo\nAll of it: .superloop/loops/l/root-cause.json\n" + seeLog, []string{"it said no"}, "claude /login"},
		"a runner":              {with(loop.EscalationRunner, same), "it ends", "The tester cannot run: runner claude, login.", seeLog, []string{"not logged in", "it said no"}, "claude /login"},
		"a runner says nothing": {with(loop.EscalationRunner, func(s *loop.State) { s.Human.Text = "" }), "", "The tester cannot run: runner claude, login.", seeLog, []string{"it said no"}, "claude /login"},
		"nobody responds":       {with(failures.TypeRole, func(s *loop.State) { s.Response.Policy = nil }), "it ends", "not logged in", seeLog, nil, "claude /login"},
		"the tests' own task": {with(failures.TypeRole, func(s *loop.State) { s.Human.Role = loop.TestsTask }), "it ends", "The " + loop.TestsTask + " has failed twice in iteration 3: not logged in.", "",
			[]string{"it said no"}, "claude /login"},
		"no role": {with(loop.EscalationRunner, func(s *loop.State) { s.Human.Role, s.Response.Policy = "", nil }), "", "The  cannot run: runner claude, login.", "", []string{"not logged in"}, "claude /login"},
		"the environment": {with(failures.TypeRole, func(s *loop.State) { s.Human.About, s.Response.Policy = loop.AboutPreflight, nil }), "", "The iteration cannot begin: not logged in.",
			"", nil, "superloop doctor --repo REPO --checks --loop l"},
		"a learned check": {with(failures.TypeRole, func(s *loop.State) {
			s.Human.About, s.Response.Policy = loop.AboutPreflight, nil
			s.Response.Environment = &loop.EnvironmentState{Findings: []failures.Finding{{ID: "disk-1"}, {ID: "tool-1", Learned: true}}}
		}), "", "The iteration cannot begin: not logged in.",
			"Check tool-1 was learned from a failure. If it is wrong: superloop doctor --repo REPO --retire tool-1\n", nil, "superloop doctor --repo REPO --checks --loop l"},
		"the same tests": {with(failures.TypeRole, func(s *loop.State) {
			s.Human.About, s.Human.Role, s.Response.Policy = loop.AboutTests, "", nil
			s.TestFailures = []loop.TestFailure{{Command: "make test", ExitCode: 2}}
		}), "", "It comes back: not logged in.", "", []string{"make test: exit code 2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			if c.log != "" {
				r.put(filepath.Join(r.Paths.Logs(3), "tester.attempt-2.log"), c.log)
			}
			q := r.question(c.s)
			repo := text.Paste(r.Paths.Repo)
			q.Details, q.Manual = strings.ReplaceAll(q.Details, repo, "REPO"), strings.ReplaceAll(q.Manual, repo, "REPO")
			if q.Reason != c.reason || q.Details != c.details || !reflect.DeepEqual(q.Errors, c.errors) || q.Manual != c.manual || q.Rule != "login" || q.Command != nil {
				t.Errorf("%+v", q)
			}
		})
	}
}

func TestDetailsAreCut(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recRole(failures.TypeRole)
	s.Roles = map[string]loop.RoleResult{"tester": {Attempt: 1}}
	r.put(filepath.Join(r.Paths.Logs(3), "tester.log"), "begin"+strings.Repeat("y", 10<<10)+"end")
	q := r.question(s)
	if n := strings.Count(q.Details, "y"); n < 2<<10-10 || n > 2<<10 || strings.Contains(q.Details, "begin") {
		t.Errorf("%d bytes of the log", n)
	}
	s.Response.Cause = &loop.Cause{Role: "tester", Type: "code", Summary: "e" + strings.Repeat("\u00e9", 8<<10)}
	if q = r.question(s); len(q.Details) > 8<<10 || len(q.Details) < 8<<10-1 || strings.Contains(q.Details, "\ufffd") {
		t.Error(len(q.Details))
	}
}

// What a role said last is its last message, or what it printed for people, and never the JSON of its stream.
func TestLastWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ last, log, want string }{
		"the message":       {"I am stuck.\n\nNo token.", "noise", "I am stuck.\nNo token."},
		"what it printed":   {"", "{\"type\":\"init\"}\nfatal: no token\n", "fatal: no token"},
		"only a stream":     {"", strings.Repeat("{\"type\":\"init\",\"tools\":[1,2,3]}\n", 500), ""},
		"a cut line before": {"", strings.Repeat("x", maxTail) + "\",\"a\":1}\nfatal\n", "fatal"},
		"code":              {"", "if x {\n  y\n}\n", "if x {\ny\n}"},
		"nothing":           {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			last, log := filepath.Join(r.Paths.Repo, "last"), filepath.Join(r.Paths.Repo, "log")
			r.put(last, c.last)
			r.put(log, c.log)
			if got := lastWords(last, log); got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
}
