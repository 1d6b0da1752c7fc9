package effects

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/roles/agent/class"
)

var update = flag.Bool("update", false, "write the golden messages")

// newsPatience lets no question expire while this test is run.
const newsPatience = 200 * 365 * 24 * time.Hour

// newsItem is one message to people: what happens, in the words of the machine, and how the outbox is told of it.
type newsItem struct {
	name string
	tell func(r *recHost)
}

// end is a loop that has ended.
func end(status loop.Status, reason, detail string, change ...func(*loop.State)) newsItem {
	return newsItem{fmt.Sprintf("end %s %s", status, reason), func(r *recHost) {
		s := loop.State{LoopID: "l", RunID: "r1", Status: status, Reason: reason, Detail: detail, Iteration: 3, EndedAt: recStart, At: "role:tester"}
		for _, c := range change {
			c(&s)
		}
		r.noErr(r.outbox.LoopEnded(s, []string{"changed: 2 files, +41 -3 lines: cart.go, cart_test.go", "tests: passed", "cost: $1.5000, 45000 tokens in 12 role runs"}))
	}}
}

// asked is a question to an operator.
func asked(name string, s loop.State) newsItem {
	s.Spent = loop.Spent{Runs: 7, CostUSD: 1.25, Tokens: 45_000}
	return newsItem{fmt.Sprintf("question %s %s %s", s.Human.Type, s.Human.About, strings.TrimSpace(s.Human.Class+" "+name)), func(r *recHost) {
		if s.Human.About == loop.AboutCompletion {
			r.git() // of which the approval notes the commit
		}
		r.opens(s)
	}}
}

// aboutRole is a question about a role, or about what stands in for one.
func aboutRole(change func(*loop.State)) loop.State {
	s := recRole(failures.TypeRole)
	s.Human.Fix, s.Human.Class, s.Human.Text = "", "exit", "exit code 1 in each of 3 runs"
	s.Response.Policy = &failures.State{Runs: 3, Tell: []string{"tester by claude (opus), 3 times: exit code 1"}}
	s.Roles = map[string]loop.RoleResult{"tester": {Attempt: 3}}
	change(&s)
	return s
}

// aboutEnvironment is a question about what a human has to mend.
func aboutEnvironment(about loop.About, class, text, fix string) loop.State {
	return aboutRole(func(s *loop.State) {
		h := s.Human
		h.Type, h.About, h.Class, h.Text, h.Fix = loop.EscalationEnvironment, about, class, text, fix
		s.Response.Policy = nil
		if about == loop.AboutTests {
			h.Role = loop.TestsTask
			s.TestFailures = []loop.TestFailure{{Command: "npm test", ExitCode: 1}}
		}
		if about == loop.AboutCommit {
			h.Role = ""
		}
	})
}

// aboutCommand is a question about a command, with the reason that the policy gives.
func aboutCommand(name, kind, settings string) newsItem {
	const command = "npm ci"
	s := recQuestion(command)
	s.Human.Type = kind
	r := s.Recovery
	r.RootCause, r.Evidence = "node_modules is missing", []string{"test-output.txt:3: Cannot find module 'left-pad'"}
	if kind == loop.EscalationFailed {
		r.Errors = []string{command + ": exit code 1"}
	}
	return newsItem{fmt.Sprintf("question %s recovery %s", kind, name), func(h *recHost) {
		h.config.Recovery = []byte(settings)
		v := recovery.Decide(h.policies.InForce()[0], recovery.Command{Text: command, WorkingDir: "."}, recovery.Facts{Confined: true})
		s.Human.Text, s.Human.Class, s.Recovery.Rule = v.Reason, v.Rule, v.Rule
		if kind == loop.EscalationFailed {
			s.Human.Text = r.Errors[0]
		}
		asked("", s).tell(h)
	}}
}

// wanted is a question of an agent that asks to use a tool.
func wanted() newsItem {
	return newsItem{"question tool_permission", func(r *recHost) {
		x := &permits{Permits: &Permits{Host: r.Host, Outbox: r.outbox}, state: loop.State{RunID: "r1", Iteration: 3}, role: config.Role{Name: "implementer", Runner: "claude"}, limits: permit.Defaults()}
		q := x.question(permit.Request{Kind: permit.Command, Tool: "Bash", Command: "make deploy", Input: []byte(`{"command":"make deploy"}`), Exact: true, Dir: filepath.Join(r.Paths.Repo, "web")},
			permit.Verdict{Rule: permit.RuleUnknown, Reason: `no list has it, and auto_approve_programs does not grant it: no entry has the first words of "make deploy"`}, nil)
		r.outbox.Opened(escalation.Record{Question: q, Digest: strings.Repeat("0", 64), State: escalation.Pending}, loop.State{})
	}}
}

// unanswered is a question that nobody has answered for a minute.
func unanswered(name string, set func(*config.Escalation)) newsItem {
	return newsItem{name, func(r *recHost) {
		set(&r.config.Escalation)
		r.now = recStart.Add(time.Minute)
		r.outbox.channels.First[notify.Opened] = nil // they were told then
		q := escalation.Question{ID: escalation.NewID(), Loop: "l", Repo: r.Paths.Repo, Iteration: 3, Type: escalation.RoleFailure, Reason: "The tester has failed 3 times in iteration 3: exit code 1.",
			Created: recStart, Expires: recStart.Add(newsPatience)}
		r.outbox.Opened(escalation.Record{Question: q, Digest: strings.Repeat("0", 64), State: escalation.Pending}, loop.State{})
	}}
}

// answered is what became of a question.
func answered(state escalation.State, by string) newsItem {
	return newsItem{"answer " + string(state), func(r *recHost) {
		rec := escalation.Record{Question: escalation.Question{ID: escalation.NewID(), Loop: "l", Run: "r1", Iteration: 3, Repo: r.Paths.Repo, Type: escalation.RecoveryApproval,
			Reason: "no list names it", Created: recStart, Command: &escalation.Command{Text: []byte("npm ci"), WorkingDir: "."}}, State: state}
		if by != "" {
			rec.Answer = &escalation.Answer{By: escalation.By{Channel: escalation.CLI, User: by}, At: recStart, Note: "as last week"}
		} else {
			rec.Why = "the loop is cancelled"
		}
		r.outbox.Ended(rec)
	}}
}

func alerted(name string, tell func(before, after *loop.State, f *loop.RoleEnded)) newsItem {
	return newsItem{"alert " + name, func(r *recHost) {
		before, after, f := recFailed()
		tell(&before, &after, &f)
		r.outbox.Alerts(before, after, f)
	}}
}

func trouble(trigger string) newsItem {
	return alerted(trigger, func(_, _ *loop.State, f *loop.RoleEnded) {
		f.Failure = nil
		f.Alerts = []failures.Alert{{Trigger: trigger, Severity: "critical", Category: "network", Runs: 9, Failures: 7, Since: recStart.Add(-time.Hour), At: recStart,
			Cause: "the proxy does not answer", Loops: []string{"l", "m"}}}
	})
}

func allNews() []newsItem {
	limit := func(reason, detail string) newsItem { return end(loop.LimitReached, reason, detail) }
	runner := func(c class.Class, text, fix string) newsItem {
		return asked("", aboutRole(func(s *loop.State) {
			h := s.Human
			h.Type, h.Class, h.Text, h.Fix = loop.EscalationRunner, string(c), text, fix
			s.Response.Policy = nil
		}))
	}
	remedy := aboutEnvironment(loop.AboutTests, loop.ClassRemedy, "the packages of package.json are not installed", "npm ci")
	remedy.Diagnosis = &loop.Diagnosis{Options: []plan.Choice{{Draft: recDraft("npm ci")}}, Evidence: []string{"test-output.txt:3: Cannot find module 'left-pad'"}}
	remedy.Diagnosis.Options[0].WorkingDir = "web"
	return []newsItem{
		end(loop.Completed, loop.ReasonPromiseKept, ""),
		end(loop.Completed, loop.ReasonApproved, ""),
		end(loop.StuckEnd, loop.ReasonStuck, "2 iterations without a change outside the ignore list"),
		end(loop.StuckEnd, loop.ReasonSameRed, "npm test ends with exit code 1 in 2 iterations, and no file has changed"),
		limit(loop.ReasonMaxIterations, "3 of 3 iterations are used"),
		limit(loop.ReasonMaxWallTime, "active for 1h0m1s, the limit is 1h0m0s"),
		limit(loop.ReasonMaxCost, "$1.50 of $1.60 are spent, and the tester lately took $0.20"),
		limit(loop.ReasonMaxTokens, "45000 tokens of 45000 tokens are spent"),
		limit(loop.ReasonCostUnknown, "the tester (runner claude) told no cost, so the budget cannot be kept; put the model's price into prices, or take the bound away"),
		end(loop.Failed, loop.ReasonRoleFailed, "tester failed 3 times, last: it ended with a failure: exit code 1"),
		end(loop.Failed, loop.ReasonNotStarted, "tester: the program claude was not found"),
		end(loop.Failed, loop.ReasonMisconfigured, "tester (runner claude): unknown option --modle"),
		end(loop.Failed, loop.ReasonRefused, "cli:ada (uid 1000) does not want the runner tried again"),
		end(loop.Cancelled, loop.ReasonCancelled, "wrong spec"),

		aboutCommand("unlisted", loop.EscalationApproval, `{"auto_approve": ["npm install"]}`),
		aboutCommand("require_human", loop.EscalationApproval, `{"require_human": ["npm *"]}`),
		aboutCommand("exit", loop.EscalationFailed, `{}`),
		asked("", aboutRole(func(s *loop.State) {
			s.Response.Cause = &loop.Cause{Role: "tester", Type: "config", By: "rules", Confidence: 0.9, Sure: true, Summary: "API_TOKEN is not set", Location: "test.sh:3", Fix: "person",
				Instruction: "set API_TOKEN", Evidence: []string{"tester.log:7: API_TOKEN: unbound variable"}}
		})),
		runner(class.Auth, "Invalid API key - Please run /login", "claude auth login"),
		runner(class.Billing, "Credit balance is too low", ""),
		runner(class.Repository, "the role has left no git repository", ""),
		asked("", aboutEnvironment(loop.AboutPreflight, loop.ClassEnvironment, "postgres does not answer at localhost:5432", "superloop doctor --checks")),
		asked("", aboutEnvironment(loop.AboutTests, loop.ClassUnreadable, "npm test && (: syntax error near unexpected token", "")),
		asked("", remedy),
		asked("", aboutEnvironment(loop.AboutCommit, loop.ClassCommit, "git: unable to write new index file", "git status")),
		asked("", aboutRole(func(s *loop.State) {
			*s = aboutEnvironment(loop.AboutTests, loop.ClassSameTests, "the tests have failed in the same way in 3 iterations in a row", "")
			s.Human.Type = failures.TypeRole
		})),
		asked("", recCompletion()),
		wanted(),
		unanswered("reminder", func(e *config.Escalation) { e.RemindAfter = time.Minute }),
		unanswered("aged", func(e *config.Escalation) { e.EscalateAfter = time.Minute }),
		answered(escalation.Approved, "ada"),
		answered(escalation.Rejected, "ada"),
		answered(escalation.Resolved, "ada"),
		answered(escalation.Superseded, ""),
		{"held", func(r *recHost) { r.outbox.Held(loop.State{Iteration: 3}, "0123456789abcdef", 2) }},
		trouble(failures.TriggerRate), trouble(failures.TriggerCategory), trouble(failures.TriggerSilence),
		alerted("runner unfit", func(_, _ *loop.State, _ *loop.RoleEnded) {}),
		alerted("nobody fit", func(_, after *loop.State, f *loop.RoleEnded) {
			after.Response.Policy = &failures.State{Alerted: true, Until: recStart.Add(time.Hour)}
			f.Fix = ""
		}),
	}
}

// newsNames are the names of the messages that there must be: for each end of a loop with its reasons, each type, subject
// and class of a question, each answer, each alert. It reads them from the source, so that a new one has no message here
// until it has a row.
func newsNames(t *testing.T) (want []string) {
	t.Helper()
	for _, c := range constants(t, "../*.go", "Reason") {
		for _, status := range []loop.Status{loop.Completed, loop.StuckEnd, loop.LimitReached, loop.Failed, loop.Cancelled} {
			if about, _, _ := strings.Cut(c.comment, " "); strings.TrimRight(about, ":,\n") == string(status) {
				want = append(want, fmt.Sprintf("end %s %s", status, c.value))
			}
		}
	}
	for _, c := range constants(t, "../../escalation/question.go", "") {
		if c.kind == "Type" && c.value != string(escalation.PolicyChange) { // that is held
			want = append(want, "question "+c.value)
		}
	}
	for _, c := range constants(t, "../state.go", "About") {
		want = append(want, " "+c.value)
	}
	for _, c := range constants(t, "../*.go", "Class") {
		want = append(want, " "+c.value)
	}
	for _, c := range constants(t, "../../roles/agent/class/*.go", "") {
		if class.Class(c.value).NeedsPerson() {
			want = append(want, "question runner_unavailable role "+c.value)
		}
	}
	for _, c := range constants(t, "../../recovery/failures/systemic.go", "Trigger") {
		want = append(want, "alert "+c.value)
	}
	return want
}

type constant struct{ kind, value, comment string }

// constants are the string constants of these files whose names begin so.
func constants(t *testing.T, pattern, prefix string) (out []constant) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				kind, _ := spec.Type.(*ast.Ident)
				c := constant{value: value, comment: spec.Comment.Text()}
				if kind != nil {
					c.kind = kind.Name
				}
				out = append(out, c)
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("no constants %s* in %s", prefix, pattern)
	}
	return out
}

var newsHex = regexp.MustCompile(`\b[0-9a-f]{16,64}\b`)

// Every end of a loop, every class of a question and what became of it, every alert: each is really sent to a channel of
// each type, and what arrives is read in testdata/news. Nothing else is sent.
// Conforms: 004-3.3-slack
func TestEveryNews(t *testing.T) {
	t.Parallel()
	c := newNewsChannels(t)
	for _, kind := range constants(t, "../config/escalation.go", "Channel") {
		if kind.value != config.ChannelByURL && c.got[kind.value] == nil {
			t.Errorf("no channel is of the type %q", kind.value)
		}
	}
	var names []string
	for _, item := range allNews() {
		names = append(names, item.name)
		for _, b := range c.got {
			fmt.Fprintf(b, "\n===== %s\n", item.name)
		}
		r := newRecHostAt(t, plainDir(t))
		r.config.Path = filepath.Join(r.Paths.Repo, ".superloop", "config.json")
		r.config.Escalation.ExpiresAfter = newsPatience
		r.outbox.Channels = func(*config.Config) Channels {
			set := recChannels(nil, nil)(nil)
			set.All = c.all
			for _, kind := range recKinds {
				for _, n := range c.all {
					set.First[kind] = append(set.First[kind], n.Name())
				}
			}
			set.Second[notify.Aged] = set.First[notify.Aged]
			return set
		}
		news := r.outbox.News()
		r.outbox.Configure()
		item.tell(r)
		for len(r.journal.records) < len(c.all) {
			<-news
			r.noErr(r.outbox.TellDeliveries())
		}
		r.outbox.Close()
		if slices.ContainsFunc(r.journal.records, func(e string) bool { return e != notify.EventSent }) || len(r.journal.records) != len(c.all) {
			t.Fatalf("%s: %v %+v", item.name, r.journal.records, r.journal.fields)
		}
		told, err := os.ReadFile(c.file)
		r.noErr(err)
		r.noErr(os.Remove(c.file))
		c.got["command"].Write(told)
		newsOfMail(t, c.got["smtp"], c.mails.Mails())
		for name, b := range c.got {
			text := newsHex.ReplaceAllString(strings.ReplaceAll(b.String(), r.Paths.Repo, "/srv/shop"), "HEX")
			c.got[name] = bytes.NewBufferString(text)
		}
	}
	for _, want := range newsNames(t) {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name+" ", want+" ") }) {
			t.Errorf("no message is about %q", want)
		}
	}
	for _, kind := range constants(t, "../../escalation/notify/message.go", "") {
		if kind.kind == "Kind" && kind.value != string(notify.Test) && !strings.Contains(c.got["webhook"].String(), fmt.Sprintf("%q: %q", "event", kind.value)) {
			t.Errorf("no message is of the kind %q", kind.value)
		}
	}
	for name, b := range c.got {
		path := filepath.Join("testdata", "news", strings.ReplaceAll(name, " ", "_")+".txt")
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, b.Bytes()) {
			t.Errorf("%s is another one (go test ./loop/effects -run EveryNews -update writes it): %v\n%s", path, err, b)
		}
	}
}
