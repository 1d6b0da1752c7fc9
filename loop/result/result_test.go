package result

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

var update = flag.Bool("update", false, "write the golden files")

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// story folds lines "run iteration event fields", a second apart.
func story(t testing.TB, lines ...string) Result {
	t.Helper()
	f := New()
	for i, line := range lines {
		p := strings.SplitN(line, " ", 4)
		iteration, err := strconv.Atoi(p[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(journal.Event{Seq: int64(i + 1), Timestamp: began.Add(time.Duration(i) * time.Second), Event: p[2], LoopID: "demo", RunID: p[0],
			Iteration: iteration, Fields: json.RawMessage(p[3])}); err != nil {
			t.Fatal(err)
		}
	}
	r, ok := f.Result()
	if !ok {
		t.Fatal("there is no run")
	}
	return r
}

// nights is a run before, and one with a failure, a recovery, a question and an approval.
var nights = []string{
	`r0 0 loop_start {"plan":{"roles":["planner"]}}`,
	`r0 1 recovery_proposed {"n":1,"command":"of an earlier run"}`,
	`r1 0 loop_start {"plan":{"roles":["implementer","reviewer"],"spec_file":"spec.md","max_iterations":5},"version":"1.2"}`,
	`r1 1 iteration_start {}`,
	`r1 1 tests_start {"commands":["npm test"],"reason":"baseline"}`,
	`r1 1 tests_baseline {"status":"green","exit_code":0,"duration_ms":900}`,
	`r1 1 role_start {"role":"implementer","runner":"claude","attempt":1}`,
	`r1 1 role_end {"role":"implementer","runner":"claude","model":"opus","attempt":1,"outcome":"ok","duration_ms":61000,"cost_usd":0.25,"usage":{"input_tokens":1000,"output_tokens":200}}`,
	`r1 1 tests_start {"commands":["npm test"],"reason":"iteration"}`,
	`r1 1 tests_end {"status":"failed","exit_code":2,"failed_command":"npm test","duration_ms":1500}`,
	`r1 1 role_start {"role":"reviewer","runner":"codex","attempt":1}`,
	`r1 1 role_failed {"role":"reviewer","runner":"codex","attempt":1,"outcome":"exit","error":"it ` + "`broke`" + ` <b>","duration_ms":500}`,
	`r1 1 recovery_proposed {"n":1,"source":"tester","category":"dependency","command":"npm ci | tee log","root_cause":"esbuild is ` + "``old``" + `","evidence":["test-output.txt:3: Host version"],"verdict":"human","rule":"on_unknown","reason":"no list names it"}`,
	`r1 1 recovery_escalated {"n":1,"type":"recovery_approval_required","escalation_id":"q1","command":"npm ci | tee log"}`,
	`r1 1 recovery_resolved {"escalation_id":"q1","by":"cli:ann (uid 1000)","method":"approve","note":"fine"}`,
	`r1 1 recovery_approved {"n":1,"source":"human","by":"cli:ann (uid 1000)","rule":"human","command":"npm ci | tee log"}`,
	`r1 1 recovery_executing {"n":1,"id":"x","command":"npm ci | tee log"}`,
	`r1 1 recovery_executed {"n":1,"id":"x","command":"npm ci | tee log","exit_code":0,"duration_ms":2500}`,
	`r1 1 recovery_verified {"n":1,"id":"x","result":"verified"}`,
	`r1 1 gates_evaluated {"promise":"false","tests":"failed","evidence":"skipped","stuck":"0/3","complete":false,"missing":["tests=failed"]}`,
	`r1 1 auto_commit_success {"sha":"0123456789abcdef","subject":"First <step> @ann"}`,
	`r1 2 iteration_start {}`,
	`r1 2 tests_start {"commands":["npm test"],"reason":"iteration"}`,
	`r1 2 tests_end {"status":"ok","exit_code":0,"duration_ms":1200}`,
	`r1 2 recovery_escalated {"type":"role_failure","escalation_id":"q2","role":"reviewer","error":"gone"}`,
	`r1 2 gates_evaluated {"promise":"true","tests":"ok","evidence":"skipped","stuck":"0/3","complete":true,"note":"nothing that the tests see has changed"}`,
	`r1 2 loop_complete {"status":"completed","reason":"promise_and_gates","active_ms":95000,"iterations":2}`,
}

// works is what a repository adds.
func works(r Result) Result {
	r.Work = Work{Branch: "superloop/demo", Own: true, Review: "It is good.\n```\nfenced\n```\x1b[31m\n",
		Changes: []Change{{"a|b.go", Changed, 3, 1}, {"logo.png", Added, -1, -1}, {"old.go", Removed, 0, 9}}}
	return r
}

func TestResultMarkdownIsGolden(t *testing.T) {
	t.Parallel()
	r := works(story(t, nights...))
	subject, body := r.Message()
	for name, got := range map[string]string{"result.md": string(r.Markdown()), "body.md": r.Body(), "short.txt": strings.Join(r.Short(), "\n") + "\n", "message.txt": subject + "\n\n" + body + "\n"} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s (%v) is\n%s", name, err, got)
		}
	}
}

// A run that ends in another way says so, with what is missing and what to type.
func TestEachEndIsSaid(t *testing.T) {
	t.Parallel()
	start := `r1 0 loop_start {"plan":{"roles":["implementer"]}}`
	gates := `r1 1 gates_evaluated {"promise":"false","tests":"failed","complete":false,"missing":["promise","tests=failed"]}`
	for want, lines := range map[string][]string{
		"demo stuck after 1 iteration":                          {start, gates, `r1 1 loop_stop {"status":"stuck","reason":"no_change","detail":"nothing changed"}`},
		"demo limit reached after 1 iteration":                  {start, gates, `r1 1 loop_stop {"status":"limit_reached","reason":"max_iterations"}`},
		"demo failed after 1 iteration":                         {start, gates, `r1 1 loop_stop {"status":"failed","reason":"role_failed"}`},
		"demo cancelled after 1 iteration":                      {start, gates, `r1 1 loop_stop {"status":"cancelled","reason":"cancelled","by":"ann","note":"enough"}`},
		"demo cancelled after 0 iterations":                     {start, `r1 0 loop_stop {"status":"cancelled","reason":"cancelled","by":"ann"}`},
		"demo running after 1 iteration":                        {start, gates, `r1 1 loop_stop {"status":"limit_reached","reason":"max_iterations"}`, `r1 1 loop_resume {"plan":{"roles":["implementer"]}}`},
		"demo completed after 1 iteration, 5.0s of work: every": {start, gates, `r1 1 loop_complete {"status":"completed","reason":"approved","active_ms":5000}`},
	} {
		r := story(t, lines...)
		short := r.Short()
		if got := r.How(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if len(lines) == 3 && r.Status != loop.Completed && !strings.Contains(strings.Join(short, "\n"), "missing: promise, tests=failed") {
			t.Errorf("%s: %q", want, short)
		}
		if next := r.Next(); next != "superloop diff --loop demo" {
			t.Errorf("%s: %q", want, next)
		}

	}
}

func TestAJournalWithoutARunHasNoResult(t *testing.T) {
	t.Parallel()
	f := New()
	if err := f.Add(journal.Event{Seq: 1, Timestamp: began, Event: "role_end", RunID: "r", Fields: json.RawMessage(`{"role":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Result(); ok {
		t.Error("there is one")
	}
}

// Whatever an agent has written, the result stays a few lines without control characters, and its Markdown opens no code
// that it does not close.
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		evil := rapid.StringOf(rapid.SampledFrom([]rune("`|\n\r\x1b\u202e<>@#*_[]()!\\ a\x00é"))).Draw(t, "evil")
		quoted, err := json.Marshal(evil)
		if err != nil {
			t.Fatal(err)
		}
		q := string(quoted)
		f := New()
		for i, line := range []string{`loop_start {"plan":{"roles":["reviewer"]}}`, `tests_end {"status":"failed","failed_command":` + q + `}`,
			`recovery_proposed {"n":1,"command":` + q + `,"root_cause":` + q + `,"source":` + q + `}`, `recovery_escalated {"escalation_id":"q","type":` + q + `,"error":` + q + `}`,
			`recovery_resolved {"escalation_id":"q","by":` + q + `,"method":` + q + `,"note":` + q + `}`, `auto_commit_success {"sha":` + q + `,"subject":` + q + `}`,
			`gates_evaluated {"tests":` + q + `,"missing":[` + q + `],"why":[` + q + `],"note":` + q + `}`, `loop_stop {"status":"failed","detail":` + q + `,"by":` + q + `,"note":` + q + `}`} {
			event, fields, _ := strings.Cut(line, " ")
			if err := f.Add(journal.Event{Seq: int64(i + 1), Timestamp: began, Event: event, LoopID: "l", RunID: "r", Fields: json.RawMessage(fields)}); err != nil {
				t.Fatal(err)
			}
		}
		r, _ := f.Result()
		r.Work = Work{Changes: []Change{{evil, Changed, 1, 1}}, Branch: evil, Review: evil}
		short := r.Short()
		if len(short) > MaxShort {
			t.Fatalf("%d lines: %q", len(short), short)
		}
		subject, body := r.Message()
		for _, s := range append(short, subject, body, string(r.Markdown()), r.Body()) {
			if strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) }) {
				t.Fatalf("a control character in %q", s)
			}
		}
		for line := range strings.Lines(string(r.Markdown())) {
			if len([]rune(line)) > 8*maxText {
				t.Fatalf("a long line: %q", line)
			}
		}
		if got := code(evil); strings.Contains(got, "\n") || ticks(strings.Trim(got, "`")) >= len(got)-len(strings.TrimLeft(got, "`")) {
			t.Fatalf("%q ends its code early", got)
		}
	})
}
