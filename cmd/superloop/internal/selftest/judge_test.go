package selftest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

func n(v int64) *int64 { return &v }

func usd(v float64) *float64 { return &v }

// good is what a case shows when all is as it should be.
func good(name string) Seen {
	reset := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := Seen{Wall: 2 * time.Second, Bound: time.Minute, ResetsAt: reset, Session: "5e55", Calls: []mockapi.Record{
		{N: 1, Outcome: mockapi.Told, Side: true, Usage: mockapi.Usage{Input: 1000, Output: 1}},
		{N: 2, Outcome: mockapi.Told, Usage: mockapi.Usage{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40, Reasoning: 4}},
		{N: 3, Outcome: mockapi.Failed, Usage: mockapi.Usage{Input: 500}},
	}}
	s.Result.Structured = true
	s.Result.Proc.Ended = proc.Exited
	well := func() {
		s.Result.Done, s.Result.FinalMessage, s.Result.SessionID, s.Result.CostUSD = true, done, "5e55", usd(0.1)
		s.Result.Usage = agent.Usage{Input: n(10), CacheRead: n(20), CacheWrite: n(30), Output: n(40), Reasoning: n(4)}
	}
	bad := func(c class.Class) {
		s.Result.Class, s.Result.ErrorText, s.Result.Proc.Code = c, "no", 1
	}
	switch name {
	case "success":
		well()
	case "tools":
		well()
		s.Written, s.ToolOutput = written, "<output>\n"+written+"</output>"
	case "refused key (401)":
		bad(class.Auth)
	case "limit (429)":
		bad(class.Limit)
		s.Result.Limit = &agent.Limit{ResetsAt: reset.Add(time.Minute)}
	case "overload (529 or 503)":
		bad(class.Overloaded)
	case "hang":
		s.Result.Proc = proc.Result{Ended: proc.Inactive, Code: -1, Signal: "SIGTERM"}
	case "kill":
		s.Result.Proc = proc.Result{Ended: proc.Killed, Code: -1, Signal: "SIGTERM"}
		s.ToolRan = true
	case "secrets":
		well()
		s.Result.FinalMessage = "The key is <secret>, if I may say so."
	}
	return s
}

func find(t *testing.T, name string) scenario {
	t.Helper()
	for _, sc := range scenarios() {
		if sc.name == name {
			return sc
		}
	}
	t.Fatalf("no case %q", name)
	return scenario{}
}

func TestGoodIsOK(t *testing.T) {
	for _, sc := range scenarios() {
		if c := judge(sc, good(sc.name), TraitsOf("claude")); c.Status != OK {
			t.Errorf("%s: %+v", sc.name, c)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what, name string
		spoil      func(*Seen)
		status     Status
		check      string // that says so
	}{
		{"exit code", "success", func(s *Seen) { s.Result.Proc.Code = 1 }, Failed, "outcome"},
		{"a class although done", "success", func(s *Seen) { s.Result.Class = class.Unknown }, Failed, "outcome"},
		{"not made", "success", func(s *Seen) { s.Err = errors.New("no command") }, Failed, "outcome"},
		{"other message", "success", func(s *Seen) { s.Result.FinalMessage = "There is not much" }, Failed, "final message"},
		{"plain text", "success", func(s *Seen) { s.Result.Structured = false }, Differs, "stream"},
		{"usage unknown", "success", func(s *Seen) { s.Result.Usage = agent.Usage{} }, Differs, "usage"},
		{"off by one token", "success", func(s *Seen) { s.Result.Usage.Output = n(41) }, Failed, "usage"},
		{"cache counted twice", "success", func(s *Seen) { s.Result.Usage.Input = n(30) }, Failed, "usage"},
		{"a kind is missing", "success", func(s *Seen) { s.Result.Usage.CacheRead = nil }, Failed, "usage"},
		{"wrong reasoning", "success", func(s *Seen) { s.Result.Usage.Reasoning = n(5) }, Failed, "usage"},
		{"reasoning not told", "success", func(s *Seen) { s.Result.Usage.Reasoning = nil }, OK, ""},
		{"with the side requests", "success", func(s *Seen) { s.Result.Usage.Input, s.Result.Usage.Output = n(1010), n(41) }, Differs, "usage"},
		{"no cost", "success", func(s *Seen) { s.Result.CostUSD = nil }, Differs, "cost"},
		{"a cost of nothing", "success", func(s *Seen) { s.Result.CostUSD = usd(0) }, Differs, "cost"},
		{"other session", "success", func(s *Seen) { s.Result.SessionID = "0ther" }, Failed, "session"},
		{"own session", "success", func(s *Seen) { s.Session = "" }, OK, ""},
		{"no session", "success", func(s *Seen) { s.Session, s.Result.SessionID = "", "" }, Differs, "session"},
		{"mock's complaint", "success", func(s *Seen) { s.Calls[0].Error = "no tool fits" }, Failed, "requests"},
		{"left over", "success", func(s *Seen) { s.Left = []string{"sleep (1)"} }, Failed, "processes"},
		{"too long", "success", func(s *Seen) { s.Wall = time.Hour }, Failed, "time"},
		{"no table", "success", func(s *Seen) { s.Blind = true }, OK, ""},
		{"no file", "tools", func(s *Seen) { s.Written = "" }, Failed, "file"},
		{"other file", "tools", func(s *Seen) { s.Written = strings.TrimSpace(written) }, Failed, "file"},
		{"denied", "tools", func(s *Seen) { s.ToolOutput = "permission denied" }, Failed, "command"},
		{"only the first line", "tools", func(s *Seen) { s.ToolOutput = "one line" }, Failed, "command"},
		{"taken for done", "refused key (401)", func(s *Seen) { s.Result = good("success").Result }, Failed, "outcome"},
		{"taken for a limit", "refused key (401)", func(s *Seen) { s.Result.Class = class.Limit }, Failed, "class"},
		{"taken for billing", "refused key (401)", func(s *Seen) { s.Result.Class = class.Billing }, Differs, "class"},
		{"no class", "refused key (401)", func(s *Seen) { s.Result.Class = "" }, Failed, "class"},
		{"hopeless", "refused key (401)", func(s *Seen) { s.Result.Proc.Ended, s.Result.Cut = proc.Killed, agent.CutHopeless }, OK, ""},
		{"out of time", "refused key (401)", func(s *Seen) { s.Result.Proc.Ended = proc.TimedOut }, Differs, "end"},
		{"tokens out of nothing", "refused key (401)", func(s *Seen) { s.Result.Usage.Input = n(1) }, Failed, "usage"},
		{"a usage of nothing", "refused key (401)", func(s *Seen) { s.Result.Usage = agent.Usage{Input: n(0), Output: n(0)} }, OK, ""},
		{"no reset", "limit (429)", func(s *Seen) { s.Result.Limit = nil }, Differs, "reset"},
		{"reset of zero", "limit (429)", func(s *Seen) { s.Result.Limit.ResetsAt = time.Time{} }, Differs, "reset"},
		{"wrong reset", "limit (429)", func(s *Seen) { s.Result.Limit.ResetsAt = s.ResetsAt.Add(-time.Hour) }, Failed, "reset"},
		{"silent limit", "limit (429)", func(s *Seen) { s.Result = good("hang").Result }, Failed, "class"},
		{"taken for overload", "limit (429)", func(s *Seen) { s.Result.Class = class.Overloaded }, Differs, "class"},
		{"taken for auth", "overload (529 or 503)", func(s *Seen) { s.Result.Class = class.Auth }, Failed, "class"},
		{"hang that ended", "hang", func(s *Seen) { s.Result = good("success").Result }, Failed, "end"},
		{"hang timed out", "hang", func(s *Seen) { s.Result.Proc.Ended = proc.TimedOut }, Failed, "end"},
		{"never asked", "hang", func(s *Seen) { s.Calls = nil }, Differs, "request"},
		{"never began", "kill", func(s *Seen) { s.ToolRan = false }, Failed, "command"},
		{"survivor", "kill", func(s *Seen) { s.Left = []string{"sleep (1)"} }, Failed, "processes"},
		{"ended before", "kill", func(s *Seen) { s.Result = good("success").Result }, Failed, "end"},
		{"in the log", "secrets", func(s *Seen) { s.Leaks = []string{"log"} }, Failed, "key in output"},
		{"in a log elsewhere", "success", func(s *Seen) { s.Leaks = []string{"log"} }, Failed, "key in output"},
		{"bare", "secrets", func(s *Seen) { s.Bare = []string{"curl"} }, Failed, "key among arguments"},
		{"not said", "secrets", func(s *Seen) { s.Result.FinalMessage = "" }, Failed, "final message"},
	} {
		s := good(c.name)
		c.spoil(&s)
		got := judge(find(t, c.name), s, TraitsOf("claude"))
		if got.Status != c.status {
			t.Errorf("%s of %s: %s, want %s: %+v", c.what, c.name, got.Status, c.status, got.Checks)
		}
		for _, k := range got.Checks {
			if k.What == c.check && k.Status != c.status {
				t.Errorf("%s of %s: the check %s is %s, want %s", c.what, c.name, k.What, k.Status, c.status)
			}
			if k.Status != OK && k.Expected == k.Seen {
				t.Errorf("%s of %s: %s expected what it saw: %q", c.what, c.name, k.What, k.Seen)
			}
		}
	}
}

// TestTraits: what is right for one CLI is a difference in another.
func TestTraits(t *testing.T) {
	spoil := func(name string, f func(*Seen)) Seen {
		s := good(name)
		f(&s)
		return s
	}
	for _, c := range []struct {
		what, name string
		seen       Seen
		traits     Traits
		status     Status
	}{
		{"codex tells no cost", "success", spoil("success", func(s *Seen) { s.Result.CostUSD = nil }), TraitsOf("codex"), OK},
		{"codex begins to tell a cost", "success", good("success"), TraitsOf("codex"), Differs},
		{"gemini counts all requests", "success", spoil("success", func(s *Seen) {
			s.Result.CostUSD, s.Result.Usage.Input, s.Result.Usage.Output = nil, n(1010), n(41)
		}), TraitsOf("gemini"), OK},
		{"gemini counts some", "success", spoil("success", func(s *Seen) { s.Result.CostUSD = nil }), TraitsOf("gemini"), Differs},
		{"no reset", "limit (429)", spoil("limit (429)", func(s *Seen) { s.Result.Limit = nil }), Traits{}, OK},
		{"wrong reset", "limit (429)", spoil("limit (429)", func(s *Seen) { s.Result.Limit.ResetsAt = time.Unix(1, 0) }), Traits{}, Failed},
		{"opencode sleeps", "limit (429)", good("hang"), TraitsOf("opencode"), OK},
		{"opencode sleeps, and that is called a limit", "limit (429)", spoil("hang", func(s *Seen) { s.Result.Class = class.Limit }), TraitsOf("opencode"), OK},
		{"opencode sleeps, and that is called a refusal", "limit (429)", spoil("hang", func(s *Seen) { s.Result.Class = class.Auth }), TraitsOf("opencode"), Failed},
		{"gemini goes on trying", "overload (529 or 503)", spoil("overload (529 or 503)", func(s *Seen) { s.Result.Proc.Ended = proc.TimedOut }), TraitsOf("gemini"), OK},
		{"claude goes on trying", "overload (529 or 503)", spoil("overload (529 or 503)", func(s *Seen) { s.Result.Proc.Ended = proc.TimedOut }), TraitsOf("claude"), Differs},
		{"gemini goes on, nobody knows why", "overload (529 or 503)", spoil("overload (529 or 503)", func(s *Seen) { s.Result.Proc.Ended, s.Result.Class = proc.TimedOut, "" }), TraitsOf("gemini"), Failed},
		{"opencode is done", "limit (429)", good("success"), TraitsOf("opencode"), Failed},
	} {
		if got := judge(find(t, c.name), c.seen, c.traits); got.Status != c.status {
			t.Errorf("%s: %s, want %s: %+v", c.what, got.Status, c.status, got.Checks)
		}
	}
}

func TestVerdict(t *testing.T) {
	ok, differs, failed := Case{Status: OK}, Case{Status: Differs}, Case{Status: Failed}
	for _, c := range []struct {
		card   Card
		status Status
		want   string
	}{
		{Card{}, Failed, "x was not tested"},
		{Card{Version: "1.2", Cases: []Case{ok, ok}}, OK, "x (1.2) works with superloop: 2 of 2 cases ok"},
		{Card{Cases: []Case{ok, differs}}, Differs, "x works, but not all is as expected: 1 of 2 cases ok"},
		{Card{Cases: []Case{ok, ok}, MissingFlags: []string{"--new"}}, Differs, "x works, but not all is as expected: 2 of 2 cases ok"},
		{Card{Cases: []Case{failed, differs, ok}}, Failed, "x does not work as superloop needs it: 1 of 3 cases failed"},
	} {
		c.card.CLI = "x"
		c.card.conclude()
		if c.card.Status != c.status || c.card.Verdict != c.want {
			t.Errorf("%s %q, want %s %q", c.card.Status, c.card.Verdict, c.status, c.want)
		}
	}
}

func TestText(t *testing.T) {
	s := good("success")
	s.Result.FinalMessage = "something\nelse \x1b[31m"
	var b strings.Builder
	Head(&b, "claude", "/bin/claude")
	Line(&b, judge(find(t, "success"), s, TraitsOf("claude")))
	Line(&b, judge(find(t, "hang"), good("hang"), TraitsOf("claude")))
	card := Card{CLI: "claude", Cases: []Case{{Status: OK}}, MissingFlags: []string{"--a", "--b"}}
	card.conclude()
	Tail(&b, card)
	want := `claude at /bin/claude
  failed   success                  2.0s  exit code 0; usage right to the token; cost 0.100000 USD
           final message: failed
             expected  The work is done.\n\n<promise>SELFTEST</promise>
             saw       something\nelse [31m
  ok       hang                     2.0s  ended by superloop, as silent
  differs  flags that its help does not know: --a, --b
claude works, but not all is as expected: 1 of 1 cases ok
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
