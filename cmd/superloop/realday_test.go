package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/loop"
)

// situation is a day with a real CLI: what its model does, what goes wrong, and how a person wants it to end.
type situation struct {
	name  string
	green bool // the tests pass before anything is done
	// does returns the command that the model runs in a role, and what it says afterwards. run counts the runs of the role
	// that came so far, from 1. nil: good work, at once.
	does func(d *day, role string, run int) (command, says string)
	// trouble is what the provider does instead of answering a request; nil: it answers. nth counts the requests, from 1.
	trouble func(d *day, nth int) *mockapi.Reply
	code    int
	ends    string         // the status of the loop at the end
	runs    int            // its iterations; 0: any number
	events  map[string]int // how often these are in the journal; -1: at least once
	result  string         // a pattern that result.md holds
	check   func(d *day)
}

// day is one situation with one CLI.
type day struct {
	*testEnv
	cli   string
	team  bool // four roles, as init writes them; otherwise run --prompt
	began time.Time
	nap   string // the number of seconds that a child left behind sleeps; no other process has it as an argument
	until time.Time
}

var allCLIs = map[string]struct {
	api      mockapi.API
	overload int
	start    time.Duration // it prints nothing for that long on a busy machine, although all goes well
	pause    time.Duration // the least wait that it leaves to superloop when a provider asks for one
}{
	"claude":   {mockapi.Anthropic, 529, 15 * time.Second, 10 * time.Second},
	"codex":    {mockapi.OpenAI, 503, 15 * time.Second, 61 * time.Second},
	"gemini":   {mockapi.Gemini, 503, 30 * time.Second, 65 * time.Second},
	"opencode": {mockapi.Anthropic, 529, 30 * time.Second, 100 * time.Second},
	"pi":       {mockapi.Anthropic, 529, 30 * time.Second, 100 * time.Second},
}

const promised = "All is there. <promise>SUPERLOOP_COMPLETE</promise>"

// report is a command that leaves the report of a role.
func (d *day) report(role string, run int, text string) string {
	file := map[string]string{"planner": "plan.md", "implementer": "implementer.md", "tester": "test-report.md", "reviewer": "review.md"}[role]
	if file == "" {
		return "true" // the agent of run --prompt owes none
	}
	return fmt.Sprintf("printf '%%s\\n' '- [x] %s, run %d: %s' > .superloop/loops/l/%s", role, run, text, file)
}

// says is what a role says at the end when it holds that all is done.
func says(role string) string {
	if role == "reviewer" || role == "alone" {
		return promised
	}
	return "The " + role + " is done."
}

func works(d *day, role string, run int) (string, string) {
	command := d.report(role, run, "it greets")
	if role == "implementer" || role == "alone" {
		command = "echo hello > hello.txt && " + command
	}
	return command, says(role)
}

// reworks does half of it at first, and the rest when it is told.
func reworks(d *day, role string, run int) (string, string) {
	command, said := works(d, role, run)
	if run == 1 {
		command, said = strings.Replace(command, "echo hello", "echo hell", 1), "Not yet: hello.txt says hell."
	}
	return command, said
}

// lies reports that all is done, and does nothing.
func lies(d *day, role string, run int) (string, string) {
	return d.report(role, run, "all is done"), says(role)
}

// leaks starts children that are to outlive it in every way that a shell has.
func leaks(d *day, role string, run int) (string, string) {
	command, said := works(d, role, run)
	sleep := "sleep " + d.nap + " >/dev/null 2>&1 </dev/null &"
	return command + "; " + sleep + " nohup " + sleep + " setsid " + sleep + " env -i PATH=\"$PATH\" setsid nohup " + sleep + " echo started", said
}

func situations() []situation {
	first := func(r mockapi.Reply) func(*day, int) *mockapi.Reply {
		return func(_ *day, nth int) *mockapi.Reply {
			if nth == 1 {
				return &r
			}
			return nil
		}
	}
	const completed = `(?i)completed`
	return []situation{
		{name: "limited", runs: 1, ends: "completed", result: completed, trouble: limited, check: waitedOnce,
			events: map[string]int{"rate_limit_wait": -1, "role_retry_wait": 0, "role_timeout": 0, "role_failed": 1}},
		{name: "hangs", runs: 1, ends: "completed", result: completed, trouble: first(mockapi.Reply{Text: "I begin.", Hang: mockapi.HangMidStream}),
			events: map[string]int{"role_timeout": 1, "role_failed": 0, "rate_limit_wait": 0}},
		{name: "liar, green", green: true, does: lies, code: exitStuck, ends: "stuck", result: `(?i)stuck`,
			events: map[string]int{"loop_complete": 0}},
		{name: "rework", does: reworks, runs: 2, ends: "completed", result: completed, events: map[string]int{"role_failed": 0, "role_timeout": 0}},
		{name: "liar, red", does: lies, code: exitStuck, ends: "stuck", result: `(?i)stuck`, events: map[string]int{"loop_complete": 0}},
		{name: "outage", runs: 1, ends: "completed", result: completed, check: uncounted,
			trouble: func(d *day, _ int) *mockapi.Reply {
				if time.Since(d.began) < 8*time.Second {
					return &mockapi.Reply{Status: allCLIs[d.cli].overload}
				}
				return nil
			},
			events: map[string]int{"role_timeout": 0, "role_retry_wait": 0}},
		{name: "happy", runs: 1, ends: "completed", result: completed,
			events: map[string]int{"role_failed": 0, "role_timeout": 0, "role_retry_wait": 0, "rate_limit_wait": 0}},
		{name: "leaves children", does: leaks, runs: 1, ends: "completed", result: completed, check: sweptAway, events: map[string]int{"role_failed": 0}},
		{name: "refused", code: exitHuman, ends: "awaiting_human", check: askedAtOnce,
			trouble: func(*day, int) *mockapi.Reply { return &mockapi.Reply{Status: 401} }},
	}
}

// limited is a limit as the provider of the CLI tells it, of which the CLI can tell when it ends.
func limited(d *day, _ int) *mockapi.Reply {
	cli := allCLIs[d.cli]
	if d.until.IsZero() {
		d.until = time.Now().Add(cli.pause)
	}
	if !time.Now().Before(d.until) {
		return nil
	}
	r := mockapi.Reply{Status: 429, RetryAfter: time.Until(d.until)}
	if d.cli == "claude" {
		r = mockapi.Limit(cli.api, d.until)
	}
	return &r
}

// waitedOnce: the role that met the limit is the only one that was paid twice, after the limit, and no failure is counted.
func waitedOnce(d *day) {
	var limit loop.Limited
	var seen time.Time
	for _, ev := range d.events() {
		if ev.Event == "rate_limit_wait" && seen.IsZero() {
			seen = ev.Timestamp
			if err := json.Unmarshal(ev.Fields, &limit); err != nil {
				d.t.Error(err)
			}
		}
	}
	if told := d.cli != "opencode" && d.cli != "pi"; limit.Provider == "" || limit.ResetsAt.IsZero() == told || told && limit.Until.Before(d.until.Add(-2*time.Second)) {
		d.t.Errorf("it waited for %+v, and the limit ended %s", limit, d.until)
	}
	// It is recognised within a minute, whether the CLI tells of it or sleeps in silence.
	if took := seen.Sub(d.began); limit.Class != "rate_limited" || took > time.Minute {
		d.t.Errorf("it was recognised as %q after %s", limit.Class, took)
	}
	uncounted(d)
}

func uncounted(d *day) {
	for _, ev := range d.events() {
		if ev.Event == "failure_detected" && strings.Contains(string(ev.Fields), `"counted":true`) {
			d.t.Errorf("a wait counts as a failure: %s", ev.Fields)
		}
	}
}

// sweptAway: superloop has ended the children, unless the CLI had done so; that none is left is checked always.
func sweptAway(d *day) {
	n := 0
	for _, r := range d.roleEnds() {
		n += r.LeftBehind
	}
	if n == 0 && d.cli != "codex" {
		d.t.Error("no role has left a child behind")
	}
}

// askedAtOnce: a refused key asks an operator at the first refusal, and not after the CLI's minutes of retries.
func askedAtOnce(d *day) {
	ends := d.roleEnds()
	if len(ends) != 1 || ends[0].Class != "auth" || ends[0].Fix == "" || ends[0].DurationMS > 90_000 {
		d.t.Errorf("%+v", ends)
	}
}

// TestRealDay takes each of the real CLIs through what happens to it in a night. Its model and its provider are played;
// the CLI, superloop, the repository and the processes are real.
func TestRealDay(t *testing.T) {
	for _, s := range situations() {
		for _, cli := range []string{"opencode", "gemini", "pi", "codex", "claude"} {
			t.Run(s.name+" "+cli, func(t *testing.T) {
				realCLIs(t, cli)
				t.Parallel()
				newDay(t, cli, s).pass(s)
			})
		}
	}
}

func newDay(t *testing.T, cli string, s situation) *day {
	d := &day{testEnv: &testEnv{t: t, root: t.TempDir()}, cli: cli, nap: fmt.Sprint(1e8 + rand.IntN(1e8)),
		team: cli == "codex" || cli == "claude" && slices.Contains([]string{"happy", "rework", "limited"}, s.name)}
	server := d.play(d.model(s))
	d.at(server, s.name == "limited", cli)
	d.write("repo/test.sh", "grep -q hello hello.txt\n")
	d.write("repo/PROMPT.md", "hello.txt has to say hello.\n")
	if s.green {
		d.write("repo/hello.txt", "hello\n")
	}
	d.git("init", "-q")
	d.git("add", "-A")
	d.git("commit", "-q", "-m", "start")
	return d
}

// model plays the provider and the model of a situation.
func (d *day) model(s situation) mockapi.Script {
	does, runs, nth, role := s.does, map[string]int{}, 0, ""
	if does == nil {
		does = works
	}
	return func(c mockapi.Call) mockapi.Reply {
		if d.began.IsZero() {
			d.began = time.Now()
		}
		if c.Side && s.trouble == nil {
			return mockapi.Reply{Text: c.SmallTalk()}
		}
		nth++
		if s.trouble != nil {
			if r := s.trouble(d, nth); r != nil {
				return *r
			}
		}
		if c.Side {
			return mockapi.Reply{Text: c.SmallTalk()}
		}
		if !c.HasToolResult {
			role = "alone"
			for _, r := range []string{"planner", "implementer", "tester", "reviewer"} {
				if d.team && strings.Contains(string(c.Body), "# Role: "+r) {
					role = r
				}
			}
			runs[role]++
		}
		command, said := does(d, role, runs[role])
		if c.HasToolResult {
			return mockapi.Reply{Text: said}
		}
		return mockapi.Reply{Tools: []mockapi.Tool{{Shell: "cd " + d.path("repo") + " && " + command}}}
	}
}

// pass runs superloop, as a person would, and looks at what it leaves.
func (d *day) pass(s situation) {
	d.t.Helper()
	args := []string{"run", "--loop", "l", "--prompt", "PROMPT.md", "--test", "sh test.sh", "--exit-on-escalation"}
	silence := 15 * time.Minute
	if s.events["role_timeout"] > 0 {
		silence = allCLIs[d.cli].start
	}
	if d.team {
		if code, out := d.superloop(nil, "init", "--yes", "--loop", "l", "--runner", d.cli, "--test", "sh test.sh"); code != 0 {
			d.t.Fatalf("init gave %d\n%s", code, out)
		}
		d.write("repo/.superloop/specs/l.md", "# A greeting\n\nhello.txt says hello.\n")
		config, err := os.ReadFile(d.path("repo/.superloop/config.json"))
		if err != nil {
			d.t.Fatal(err)
		}
		d.write("repo/.superloop/config.json", strings.Replace(string(config), `"inactivity": 900`, fmt.Sprintf(`"inactivity": %.0f`, silence.Seconds()), 1))
		args = []string{"run", "--loop", "l", "--exit-on-escalation"}
	} else {
		args = append(args, "--max-silence", silence.String(), "--", d.cli)
	}
	code, out := d.superloop(nil, args...)
	if _, err := os.Stat(d.path("repo/.superloop/loops/l/events.jsonl")); err != nil {
		d.t.Fatalf("exit code %d, and it has not begun\n%s", code, out)
	}
	if code != s.code {
		d.t.Errorf("exit code %d, want %d", code, s.code)
	}
	status, shown := d.superloop(nil, "status", "--loop", "l")
	if !strings.HasPrefix(shown, "l: "+s.ends) {
		d.t.Errorf("status (exit code %d) says\n%s", status, shown)
	}
	result, err := os.ReadFile(d.path("repo/.superloop/loops/l/result.md"))
	if s.result != "" && !regexp.MustCompile(s.result).Match(result) {
		d.t.Errorf("result.md has no %s (%v)\n%s", s.result, err, result)
	}
	if n := d.count("iteration_start"); s.runs > 0 && n != s.runs {
		d.t.Errorf("%d iterations, want %d", n, s.runs)
	}
	for event, want := range s.events {
		if got := d.count(event); got != want && (want >= 0 || got == 0) {
			d.t.Errorf("%d events %s, want %d", got, event, want)
		}
	}
	if s.check != nil {
		s.check(d)
	}
	d.nothingLeft()
	d.noSecrets()
	if d.t.Failed() {
		_, events := d.superloop(nil, "events", "--loop", "l")
		d.t.Logf("%s\n%s\n%s\n%s", out, events, shown, d.logs())
	}
}

// nothingLeft looks for processes of the run, also for those that have no mark of it any more.
func (d *day) nothingLeft() {
	d.t.Helper()
	if left := proc.Sweep("SUPERLOOP_MARK=" + d.events()[0].RunID); len(left) > 0 {
		d.t.Errorf("processes %v were left", left)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, file := range files {
		if args, err := os.ReadFile(file); err == nil && bytes.Contains(args, []byte(d.nap)) {
			d.t.Errorf("%s was left: %q", file, args)
		}
	}
}
