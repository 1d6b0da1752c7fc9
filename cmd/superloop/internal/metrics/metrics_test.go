package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/failures"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// book is a journal that a test writes.
type book struct {
	path string
	seq  int64
	prev string
}

func newBook(t testing.TB) *book {
	return &book{path: filepath.Join(t.TempDir(), "events.jsonl")}
}

// write appends events, each "name fields", a second after the one before.
func (b *book) write(t testing.TB, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, line := range lines {
		name, fields, _ := strings.Cut(line, " ")
		b.seq++
		raw, err := journal.AppendLine(nil, journal.Event{Seq: b.seq, Timestamp: began.Add(time.Duration(b.seq) * time.Second), Event: name,
			LoopID: "one", RunID: "r", Iteration: 1, Fields: json.RawMessage(fields), Prev: b.prev})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(raw); err != nil {
			t.Fatal(err)
		}
		end := len(raw) - len("\"}\n")
		b.prev = string(raw[end-64 : end])
	}
}

// scrape gives the samples of a collector as they stand in the text format.
func scrape(t testing.TB, c *Collector) map[string]float64 {
	t.Helper()
	return flat(t, c.Text())
}

// flat gives the samples of an answer, as Prometheus's own parser reads it.
func flat(t rapid.TB, answer []byte) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(answer))
	if err != nil {
		t.Fatalf("%v in\n%s", err, answer)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			name := strings.TrimPrefix(f.GetName(), "superloop_") + "{" + strings.Join(labels, ",") + "}"
			if h := m.GetHistogram(); h != nil {
				out[name+" count"], out[name+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				for _, b := range h.GetBucket() {
					out[fmt.Sprintf("%s le %v", name, b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
				continue
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// night has an event of each kind that is counted.
func testEnv() []string {
	return []string{
		`loop_start {"plan":{"roles":["implementer"],"attempts":3},"rules":1}`,
		`iteration_start {"started_at":"2026-11-21T12:00:00Z"}`,
		`role_failed {"role":"implementer","runner":"claude","outcome":"exit","duration_ms":20000,"cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":20,"cache_read_input_tokens":30,"reasoning_output_tokens":5}}`,
		`failure_detected {"task_key":"one/implementer","role":"implementer","runner":"claude","kind":"exit","class":"unknown","category":"dependency","counted":true,"rung":"reassign","detect_ms":3,"respond_us":40}`,
		`runner_tripped {"runner":"claude","kind":"exit"}`,
		`runner_reassigned {"role":"implementer","rung":"reassign"}`,
		`role_failed {"role":"implementer","runner":"codex","outcome":"exit"}`,
		`failure_detected {"role":"implementer","runner":"codex","kind":"never heard of","class":"unknown","category":"dependency","counted":false,"rung":"root_cause","detect_ms":4,"respond_us":50}`,
		`root_cause_analysed {"role":"implementer","type":"dependency","fix":"environment","sure":true,"command":{"command":"npm ci"},"by":"claude","runner":"claude","cost_usd":0.75,"usage":{"input_tokens":7}}`,
		`prevention_added {"id":"path-1"}`,
		`prevention_retired {"id":"path-1"}`,
		`preflight_failed {"findings":[]}`,
		`systemic_alert {"severity":"critical"}`,
		`failure_classified {"infra":true}`,
		`recovery_executing {"id":"x","source":"auto"}`,
		`recovery_executed {"id":"x","command":"npm ci","exit_code":0}`,
		`recovery_verified {"id":"x","result":"verified"}`,
		`verify_self_repaired {"tool":"jq","result":"repaired","method":"fallback_h","time_saved_ms":1500}`,
		`verify_self_repair_failed {"tool":"jq","result":"doubtful"}`,
		`chain_closed {"chain_id":"c","status":"done"}`,
		`recovery_escalated {"type":"role_failure"}`,
		`recovery_resolved {"method":"manual"}`,
		`permission_answered {"id":"p","decision":"approved","waited_ms":90000}`,
		`permission_answered {"id":"q","decision":"never heard of","waited_ms":-1}`,
		`role_end {"role":"implementer","runner":"claude","outcome":"ok","duration_ms":1000,"permission_tools":{"Bash":{"auto":7,"human":1,"deny":0},"x\u001b[2J":{"auto":2},"mcp":{"deny":3}}}`,
	}
}

func envSays() map[string]float64 {
	return map[string]float64{
		`role_runs_total{loop="one",outcome="exit",role="implementer",runner="claude"}`: 1,
		`role_runs_total{loop="one",outcome="ok",role="implementer",runner="claude"}`:   1,
		`role_runs_total{loop="one",outcome="exit",role="implementer",runner="codex"}`:  1,
		`role_duration_seconds{loop="one",role="implementer",runner="claude"} count`:    2,
		`role_duration_seconds{loop="one",role="implementer",runner="claude"} sum`:      21,
		`role_duration_seconds{loop="one",role="implementer",runner="claude"} le 1`:     1,
		`role_duration_seconds{loop="one",role="implementer",runner="claude"} le 15`:    1,
		`role_duration_seconds{loop="one",role="implementer",runner="claude"} le 30`:    2,

		`role_failures_total{category="dependency",class="unknown",counted="true",kind="exit",loop="one",role="implementer",runner="claude"}`:  1,
		`role_failures_total{category="dependency",class="unknown",counted="false",kind="other",loop="one",role="implementer",runner="codex"}`: 1,
		`failure_responses_total{loop="one",rung="reassign"}`:                           1,
		`failure_responses_total{loop="one",rung="root_cause"}`:                         1,
		`detection_seconds{loop="one"} count`:                                           2,
		`detection_seconds{loop="one"} sum`:                                             0.007,
		`response_seconds{loop="one"} sum`:                                              0.00009,
		`recovery_seconds{loop="one"} count`:                                            1,
		`recovery_seconds{loop="one"} sum`:                                              21,
		`reassignments_total{loop="one",role="implementer",rung="reassign"}`:            1,
		`first_reassignments_total{loop="one",result="helped"}`:                         0,
		`first_reassignments_total{loop="one",result="did_not_help"}`:                   1,
		`fixes_total{loop="one",result="helped"}`:                                       1,
		`fixes_total{loop="one",result="did_not_help"}`:                                 0,
		`preventions_retired_total{loop="one"}`:                                         1,
		`cost_usd_total{loop="one",role="implementer",runner="claude"}`:                 0.25,
		`cost_unknown_runs_total{loop="one",role="implementer",runner="claude"}`:        1,
		`cost_unknown_runs_total{loop="one",role="implementer",runner="codex"}`:         1,
		`tokens_total{kind="input",loop="one",role="implementer",runner="claude"}`:      10,
		`tokens_total{kind="cache_read",loop="one",role="implementer",runner="claude"}`: 30,
		`cost_usd_total{loop="one",role="diagnostician",runner="claude"}`:               0.75,
		`tokens_total{kind="input",loop="one",role="diagnostician",runner="claude"}`:    7,
		`iterations_total{loop="one"}`:                                                  1,
		`recoveries_total{loop="one",result="executed",source="auto"}`:                  1,
		`recovery_verifications_total{loop="one",result="verified"}`:                    1,
		`first_aid_classified_total{loop="one",verdict="infra"}`:                        1,
		`first_aid_total{loop="one",status="done"}`:                                     1,
		`escalations_total{loop="one",type="role_failure"}`:                             1,
		`escalations_resolved_total{loop="one",method="manual"}`:                        1,
		`permissions_total{loop="one",tool="Bash",verdict="auto"}`:                      7,
		`permissions_total{loop="one",tool="Bash",verdict="human"}`:                     1,
		`permissions_total{loop="one",tool="mcp",verdict="deny"}`:                       3,
		`permissions_total{loop="one",tool="other",verdict="auto"}`:                     2,
		`permission_wait_seconds{decision="approved",loop="one"} sum`:                   90,
		`permission_wait_seconds{decision="approved",loop="one"} le 120`:                1,
		`permission_wait_seconds{decision="approved",loop="one"} le 60`:                 0,
		`preflight_stops_total{loop="one"}`:                                             1,
		`preventions_added_total{loop="one"}`:                                           1,
		`root_cause_analyses_total{loop="one",type="dependency"}`:                       1,
		`runner_trips_total{loop="one",runner="claude"}`:                                1,
		`systemic_alerts_total{loop="one",severity="critical"}`:                         1,
		`journal_readable{loop="one"}`:                                                  1,
		`journal_last_event_timestamp_seconds{loop="one"}`:                              float64(began.Unix() + 25),
		`loop_status{loop="one",status="completed"}`:                                    0,

		`verify_self_repair_total{loop="one",method="fallback_h",result="repaired",tool="jq"}`: 1,
		`verify_self_repair_total{loop="one",method="unknown",result="doubtful",tool="jq"}`:    1,
		`verify_self_repair_saved_seconds_total{loop="one",tool="jq"}`:                         1.5,
	}
}

// TestNight: each scrape reads on, and gives what one that reads everything gives.
// Conforms: 003-metric-recovery
func TestNight(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	sources := []Source{{"one", b.path}, {"two", filepath.Join(t.TempDir(), "events.jsonl")}}
	c := NewCollector(sources)
	if got := scrape(t, c); got[`loop_status{loop="one",status="pending"}`] != 1 || got[`journal_readable{loop="one"}`] != 1 || len(got) != 2*(12+1) {
		t.Fatalf("of loops that never ran: %v", got)
	}
	var last map[string]float64
	for _, line := range testEnv() {
		b.write(t, line)
		now := scrape(t, c)
		for name, v := range last {
			if strings.Contains(name, "_total") && now[name] < v {
				t.Errorf("%s went from %v to %v", name, v, now[name])
			}
		}
		last = now
	}
	for name, want := range envSays() {
		if got, ok := last[name]; !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	states := 0.0
	for name, v := range last {
		if strings.HasPrefix(name, `loop_status{loop="one"`) {
			states += v
		}
	}
	if states != 1 {
		t.Errorf("the loop is in %v states", states)
	}
	again := scrape(t, NewCollector(sources))
	if fmt.Sprint(again) != fmt.Sprint(last) {
		t.Errorf("after a restart it is\n%v\nbefore it was\n%v", again, last)
	}
	if fmt.Sprint(scrape(t, c)) != fmt.Sprint(last) {
		t.Error("a scrape without news changes something")
	}
}

// TestAnotherJournal: a journal that is replaced, shortened or gone is counted from
// its own beginning; one that is broken is counted up to there, and says so.
func TestAnotherJournal(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := NewCollector([]Source{{"one", b.path}})
	iterations := func() string {
		got := scrape(t, c)
		n, ok := got[`iterations_total{loop="one"}`]
		return fmt.Sprint(n, ok, got[`journal_readable{loop="one"}`])
	}
	expect := func(want string) {
		t.Helper()
		if got := iterations(); got != want {
			t.Fatalf("it is %s, want %s", got, want)
		}
	}
	b.write(t, "iteration_start", "iteration_start", "iteration_start")
	expect("3 true 1")
	whole, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(b.path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := strings.SplitAfter(string(whole), "\n")
	put([]byte(first[0])) // shorter
	expect("1 true 1")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	expect("0 false 1")
	put(whole)
	expect("3 true 1")
	fresh := &book{path: b.path}
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	fresh.write(t, "tests_start {}", "tests_start {}", "tests_start {}", "iteration_start") // as long, and another one
	expect("1 true 1")
	put(append(whole, "half a li"...))
	expect("3 true 1")
	put([]byte(strings.Join(first, "") + "no event\n"))
	expect("3 true 0")
	put([]byte(first[0] + strings.Replace(first[1], `"seq":2`, `"seq":7`, 1) + first[2])) // broken before what was read
	expect("3 true 0")
}

// TestOddFields: what is of another type is not told, and the rest is; a loop whose
// journal this build cannot replay has no status, and its other metrics.
func TestOddFields(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := NewCollector([]Source{{"one", b.path}})
	b.write(t, testEnv()[:3]...)
	if got := scrape(t, c); got[`loop_status{loop="one",status="running"}`] != 1 {
		t.Errorf("it is %v", got)
	}
	b.write(t, `role_failed {"role":"tester","runner":7,"outcome":"exit","duration_ms":"long","cost_usd":"much","usage":[1]}`, `iteration_start {}`)
	got := scrape(t, c)
	for name, want := range map[string]float64{`role_runs_total{loop="one",outcome="exit",role="tester",runner="unknown"}`: 1, `iterations_total{loop="one"}`: 2,
		`cost_unknown_runs_total{loop="one",role="tester",runner="unknown"}`: 1, `journal_readable{loop="one"}`: 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "loop_status") || strings.Contains(name, "duration_seconds") && strings.Contains(name, "tester") {
			t.Errorf("%s is told", name)
		}
	}
}

// TestAnything: there are as many as failures.Fold finds in the same journal, and
// nothing in a journal makes more series than the bounds allow, or a label that
// Prometheus would not take.
func TestAnything(t *testing.T) {
	t.Parallel()
	names := []string{"loop_start", "role_end", "role_failed", "role_timeout", failures.EventDetected, failures.EventTripped, failures.EventSystemic,
		failures.EventAnalysed, "recovery_escalated", "recovery_executing", "recovery_failed", "failure_classified", "chain_closed"}
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "implementer", "tester", "ok", "exit", "interrupted", "escalate", "reassign", "a\x00b", strings.Repeat("x", 200)}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		tally := newTally()
		var fold failures.Fold
		for i := range rapid.IntRange(0, 60).Draw(t, "events") {
			fields := map[string]any{}
			for _, name := range []string{"role", "runner", "outcome", "rung", "kind", "category", "type", "severity", "source", "status", "id"} {
				fields[name] = word.Draw(t, name)
			}
			fields["cost_usd"] = rapid.Float64().Draw(t, "cost")
			fields["duration_ms"] = rapid.Int64().Draw(t, "ms")
			fields["usage"] = map[string]any{"input_tokens": rapid.Int64().Draw(t, "tokens")}
			raw, err := json.Marshal(fields)
			if err != nil {
				t.Skip("no JSON")
			}
			ev := journal.Event{Event: rapid.SampledFrom(names).Draw(t, "event"), LoopID: "one", Timestamp: began.Add(time.Duration(i) * time.Second), Fields: raw}
			tally.add(ev)
			fold.Add(failures.Record{Event: ev.Event, LoopID: ev.LoopID, At: ev.Timestamp, Fields: raw})
		}
		want := fold.Figures().Recovery.Count
		got := 0
		for _, s := range tally.of("recovery_seconds").series {
			got += int(s.count)
		}
		if got != want {
			t.Fatalf("%d times of recovery, want %d", got, want)
		}
		for _, f := range tally.families {
			if len(f.series) > maxSeries+1 {
				t.Fatalf("%s has %d series", f.name, len(f.series))
			}
			var out text
			out.head(f.metric)
			f.told(&out, "one")
			if n := len(flat(t, out.Bytes())); n < len(f.series) {
				t.Fatalf("%s has %d series, and %d are told", f.name, len(f.series), n)
			}
			for _, s := range f.series {
				for _, l := range s.labels {
					if l == "" || !plain(l) {
						t.Fatalf("%s has the label %q", f.name, l)
					}
				}
			}
		}
	})
}

// TestBounds: a flood of names ends in "other".
func TestBounds(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf(`failure_detected {"role":"role %d","runner":"r%d","kind":"exit","class":"odd%d","category":"c%d","rung":"moon","counted":%v}`, i%40, i%200, i, i/7, i%2 == 0))
	}
	lines = append(lines, `runner_tripped {"runner":"\u202e\u0000evil"}`, `runner_tripped {"runner":"`+strings.Repeat("long", 40)+`"}`, `runner_tripped {}`, `runner_tripped {"runner":"r1"}`)
	b.write(t, lines...)
	got := scrape(t, NewCollector([]Source{{"one", b.path}}))
	n, sum := 0, 0.0
	for name, v := range got {
		if strings.HasPrefix(name, "role_failures_total") {
			n++
			sum += v
		}
	}
	if n > maxSeries+1 || n < 100 || sum != 3000 {
		t.Errorf("%d series with %v failures", n, sum)
	}
	for name, want := range map[string]float64{`failure_responses_total{loop="one",rung="other"}`: 3000, `runner_trips_total{loop="one",runner="other"}`: 2,
		`runner_trips_total{loop="one",runner="unknown"}`: 1, `runner_trips_total{loop="one",runner="r1"}`: 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
