package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/journal"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// story makes events of lines "run iteration event fields".
func story(t testing.TB, lines ...string) *Fold {
	t.Helper()
	f := New()
	for i, line := range lines {
		p := strings.SplitN(line, " ", 4)
		iteration, err := strconv.Atoi(p[1])
		if err != nil {
			t.Fatal(err)
		}
		ev := journal.Event{Seq: int64(i + 1), Timestamp: began.Add(time.Duration(i) * time.Second), Event: p[2], LoopID: "demo", RunID: p[0],
			Iteration: iteration, Fields: json.RawMessage(p[3])}
		if err := f.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func someFigures(runs, failures int, ms int64) Figures {
	return Figures{Runs: runs, Failures: failures, DurationMS: ms}
}

func known[T int64 | float64](n T, unknown int) Sum[T] { return Sum[T]{Known: &n, Unknown: unknown} }

func TestReport(t *testing.T) {
	t.Parallel()
	f := story(t,
		`r1 0 loop_start {"plan":{"roles":["planner","reviewer"]}}`,
		`r1 1 role_start {"role":"planner","runner":"claude","model":"opus"}`,
		`r1 1 role_end {"role":"planner","runner":"claude","model":"claude-opus-5","outcome":"ok","duration_ms":1500,"cost_usd":0.1,"cost_source":"runner","usage":{"input_tokens":10,"output_tokens":20,"cache_read_input_tokens":30,"cache_creation_input_tokens":40,"reasoning_output_tokens":5}}`,
		`r1 1 role_start {"role":"reviewer","runner":"codex"}`,
		`r1 1 role_failed {"role":"reviewer","runner":"codex","outcome":"exit","duration_ms":500,"usage":{"input_tokens":1,"output_tokens":2},"cost_usd":0.2,"cost_source":"prices 0.1.8 of 2026-09-23"}`,
		`r1 1 role_start {"role":"reviewer","runner":"codex"}`,
		`r1 1 loop_resume {"plan":{}}`,
		`r1 1 role_start {"role":"reviewer","runner":"codex"}`,
		`r1 1 role_failed {"role":"reviewer","runner":"codex","outcome":"interrupted","duration_ms":7,"cost_usd":null,"usage":null}`,
		`r1 2 role_timeout {"role":"planner","runner":"claude","outcome":"timeout","duration_ms":1000}`,
		`r1 2 role_failed {"role":"planner","runner":"claude","outcome":"not_started","duration_ms":0}`,
		`r2 0 loop_start {}`,
		`r2 1 role_start {"role":"planner","runner":"claude"}`,
	)
	r := f.Report()
	if r.LoopID != "demo" || len(r.Runs) != 2 || r.Runs[0].RunID != "r1" || r.Runs[1].RunID != "r2" || !r.Runs[1].From.Equal(began.Add(11*time.Second)) {
		t.Fatalf("the report is %+v", r)
	}
	one := r.Runs[0]
	want := someFigures(6, 4, 3007)
	want.Interrupted = 1
	want.Tokens = Tokens{Input: known[int64](11, 3), Output: known[int64](22, 3), CacheRead: known[int64](30, 4), CacheWrite: known[int64](40, 4),
		Reasoning: known[int64](5, 4), Total: known[int64](103, 3)}
	want.Cost, want.CostComputed = known(0.3, 3), 1
	if !reflect.DeepEqual(one.Total, want) || !reflect.DeepEqual(r.All.Total, want) {
		t.Errorf("the total is\n%s\nwant\n%s", jsonOf(t, one.Total), jsonOf(t, want))
	}
	if !one.To.Equal(began.Add(10*time.Second)) || !r.All.From.Equal(began) || !r.All.To.Equal(began.Add(12*time.Second)) {
		t.Errorf("it went from %v to %v", one.From, one.To)
	}
	for name, groups := range map[string][]Group{
		"planner reviewer": one.ByRole, "claude-opus-5 -": one.ByModel, "claude codex": one.ByRunner, "1 2": one.ByIteration,
	} {
		var got []string
		for _, g := range groups {
			if g.Name == "" {
				g.Name = "-"
			}
			got = append(got, g.Name)
		}
		if strings.Join(got, " ") != name {
			t.Errorf("got %q, want %s", got, name)
		}
	}
	if g := one.ByRole[1]; g.Runs != 3 || g.Failures != 2 || g.Cost.Unknown != 2 || *g.Cost.Known != 0.2 {
		t.Errorf("the reviewer: %s", jsonOf(t, g))
	}
	if g := one.ByIteration[1]; g.Runs != 2 || g.Cost.Known != nil || g.Cost.Unknown != 1 {
		t.Errorf("iteration 2: %s", jsonOf(t, g))
	}
	open := &Open{Role: "planner", Runner: "claude", Iteration: 1, Since: began.Add(12 * time.Second)}
	if one.Open != nil || !reflect.DeepEqual(r.Runs[1].Open, open) || !reflect.DeepEqual(r.All.Open, open) || r.Runs[1].Total.Runs != 0 {
		t.Errorf("open is %+v, %+v", one.Open, r.Runs[1].Open)
	}
	if len(r.All.ByIteration) != 0 {
		t.Error("iterations over all runs")
	}
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	f := story(t, `r 1 role_end {"role":"planner","runner":"x","outcome":"ok","duration_ms":5,"cost_usd":0.015232500000000001}`)
	got := jsonOf(t, f.Report())
	for _, want := range []string{
		`{"loop_id":"demo","all":{"from":"2026-11-21T12:00:00Z"`, `"cost_usd":{"known":0.0152325,"unknown_runs":0}`,
		`"input":{"known":null,"unknown_runs":1}`, `"by_iteration":[{"name":"1","runs":1,"failures":0,`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
	if got := jsonOf(t, New().Report()); !strings.Contains(got, `"runs":[]`) || strings.Contains(got, "from") {
		t.Errorf("an empty report is %s", got)
	}
}

// TestNotTold: what is no count or no cost is unknown, never 0.
func TestNotTold(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{
		`{}`, `{"usage":{}}`, `{"usage":null,"cost_usd":null}`, `{"usage":7,"cost_usd":"1"}`, `{"usage":{"input_tokens":-1,"output_tokens":"2"},"cost_usd":-0.1}`,
		`{"usage":{"input_tokens":1.5,"output_tokens":null},"cost_usd":1e300}`, `{"usage":[],"cost_usd":{},"duration_ms":"x"}`, `{"duration_ms":-5}`,
	} {
		got := story(t, `r 1 role_end `+fields).Report().All.Total
		one := Sum[int64]{Unknown: 1}
		want := Figures{Runs: 1, Failures: 1, Tokens: Tokens{one, one, one, one, one, one}, Cost: Sum[float64]{Unknown: 1}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", fields, jsonOf(t, got))
		}
	}
	// A known 0 is one.
	got := story(t, `r 1 role_end {"outcome":"ok","cost_usd":0,"usage":{"input_tokens":0}}`).Report().All.Total
	if got.Cost.Known == nil || *got.Cost.Known != 0 || got.Cost.Unknown != 0 || *got.Tokens.Input.Known != 0 || got.Tokens.Total.Unknown != 0 {
		t.Errorf("a known 0: %s", jsonOf(t, got))
	}
	if got := story(t, `r 1 role_end {"usage":{"input_tokens":9223372036854775807}}`, `r 1 role_end {"usage":{"input_tokens":9}}`).Report().All.Total; *got.Tokens.Input.Known != 1<<63-1 {
		t.Errorf("a sum wraps: %s", jsonOf(t, got))
	}
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	f := story(t, `r 1 role_start {"role":"planner"}`)
	for _, event := range []string{"role_start", "role_end", "role_failed", "role_timeout"} {
		err := f.Add(journal.Event{Seq: 7, Event: event, RunID: "r", Timestamp: began, Fields: json.RawMessage(`{"role":7}`)})
		if err == nil || !strings.Contains(err.Error(), "event 7 ("+event+")") {
			t.Errorf("%s: %v", event, err)
		}
	}
	if r := f.Report(); r.All.Total.Runs != 0 || r.All.Open == nil {
		t.Errorf("something was added: %s", jsonOf(t, r))
	}
}

// TestLost: an attempt whose end nobody saw has cost something that nobody knows.
func TestLost(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"resume":    {`r 1 role_start {"role":"planner","runner":"x","model":"m"}`, `r 1 loop_resume {}`},
		"next role": {`r 1 role_start {"role":"planner","runner":"x","model":"m"}`, `r 1 role_start {"role":"reviewer"}`},
		"next run":  {`r 1 role_start {"role":"planner","runner":"x","model":"m"}`, `s 0 loop_start {}`},
	} {
		got := story(t, lines...).Report().Runs[0]
		if got.Total.Runs != 1 || got.Total.Failures != 1 || got.Total.Cost.Unknown != 1 || got.Total.Tokens.Total.Unknown != 1 || got.ByModel[0].Name != "m" {
			t.Errorf("%s: %s", name, jsonOf(t, got))
		}
	}
}

// TestSums: every grouping of a run adds up to its total and the runs to the
// whole, to the last nanodollar, whatever the order; a report that was given does
// not change.
func TestSums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := New()
		exact := new(big.Rat)
		told := 0
		for i := range rapid.IntRange(0, 40).Draw(t, "events") {
			e := map[string]any{"role": rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "role"), "model": rapid.SampledFrom([]string{"m", "n", ""}).Draw(t, "model"),
				"runner": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "runner"), "duration_ms": rapid.IntRange(0, 1000).Draw(t, "ms"),
				"outcome": rapid.SampledFrom([]string{"ok", "exit", "interrupted"}).Draw(t, "outcome")}
			if rapid.Bool().Draw(t, "costs") {
				nano := rapid.Int64Range(0, 5e12).Draw(t, "nano")
				e["cost_usd"] = float64(nano) / 1e9
				exact.Add(exact, big.NewRat(nano, 1e9))
				told++
			}
			if rapid.Bool().Draw(t, "tokens") {
				e["usage"] = map[string]any{"input_tokens": rapid.IntRange(0, 1e6).Draw(t, "in"), "cache_read_input_tokens": rapid.IntRange(0, 1e6).Draw(t, "read")}
			}
			fields, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Add(journal.Event{Seq: int64(i + 1), Timestamp: began, Event: "role_end", RunID: rapid.SampledFrom([]string{"r", "s"}).Draw(t, "run"),
				Iteration: rapid.IntRange(0, 12).Draw(t, "iteration"), Fields: fields}); err != nil {
				t.Fatal(err)
			}
		}
		r := f.Report()
		before := fmt.Sprintf("%+v", *r.All.Total.clone())
		if want, _ := exact.Float64(); told > 0 && *r.All.Total.Cost.Known != want || told == 0 && r.All.Total.Cost.Known != nil {
			t.Fatalf("the cost is %v, want %v", r.All.Total.Cost, want)
		}
		var runs []Group
		for _, s := range r.Runs {
			for _, groups := range [][]Group{s.ByRole, s.ByModel, s.ByRunner, s.ByIteration} {
				same(t, groups, s.Total)
			}
			runs = append(runs, Group{Figures: s.Total})
		}
		same(t, runs, r.All.Total)
		for _, groups := range [][]Group{r.All.ByRole, r.All.ByModel, r.All.ByRunner} {
			same(t, groups, r.All.Total)
		}
		_ = f.Add(journal.Event{Seq: 99, Timestamp: began, Event: "role_end", RunID: "r", Fields: json.RawMessage(`{"cost_usd":1,"usage":{"input_tokens":1}}`)})
		if after := fmt.Sprintf("%+v", *r.All.Total.clone()); before != after {
			t.Fatalf("the report has changed from %s to %s", before, after)
		}
	})
}

// clone is what the figures show, without pointers.
func (f Figures) clone() *map[string]any {
	out := map[string]any{"figures": [4]int64{int64(f.Runs), int64(f.Failures), int64(f.Interrupted), f.DurationMS}}
	if f.Cost.Known != nil {
		out["cost"] = *f.Cost.Known
	}
	if f.Tokens.Total.Known != nil {
		out["tokens"] = *f.Tokens.Total.Known
	}
	return &out
}

func nanoOf(f Figures) int64 {
	if f.Cost.Known == nil {
		return 0
	}
	return int64(math.Round(*f.Cost.Known * 1e9))
}

func same(t *rapid.T, groups []Group, total Figures) {
	var sum Figures
	var nano int64
	for _, g := range groups {
		sum.Runs += g.Runs
		sum.Failures += g.Failures
		sum.Interrupted += g.Interrupted
		sum.DurationMS += g.DurationMS
		nano += nanoOf(g.Figures)
		sum.Cost.Unknown += g.Cost.Unknown
		sum.Tokens.Total.Unknown += g.Tokens.Total.Unknown
		if n := g.Tokens.Total.Known; n != nil {
			if known := sum.Tokens.Total.Known; known != nil {
				*known += *n
			} else {
				sum.Tokens.Total.Known = new(int64)
				*sum.Tokens.Total.Known = *n
			}
		}
	}
	if sum.Runs != total.Runs || sum.Failures != total.Failures || sum.Interrupted != total.Interrupted || sum.DurationMS != total.DurationMS ||
		nano != nanoOf(total) || sum.Cost.Unknown != total.Cost.Unknown || !reflect.DeepEqual(sum.Tokens.Total, total.Tokens.Total) {
		t.Fatalf("the groups give %+v, the total is %+v", sum, total)
	}
}

// bigJournal is a real journal of a run with n events, a fifth of them outcomes of roles.
func bigJournal(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j, err := journal.Open(durable.OS(), path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i := 0; i < n; i += 10 {
		var evs []journal.Event
		for k := range 10 {
			ev := journal.Event{Timestamp: began, Event: "promise_checked", LoopID: "demo", RunID: "r", Iteration: i/50 + 1,
				Fields: json.RawMessage(`{"expected":"DONE","text":null,"matched":false,"tree":"0123456789abcdef0123456789abcdef0123456789abcdef"}`)}
			switch k % 5 {
			case 0:
				ev.Event, ev.Fields = "role_start", json.RawMessage(`{"role":"planner","runner":"claude","attempt":1,"prompt_file":".superloop/loops/demo/logs/iter-1/planner.prompt.md"}`)
			case 1:
				ev.Event, ev.Fields = "role_end", json.RawMessage(`{"role":"planner","runner":"claude","model":"claude-opus-5","attempt":1,"outcome":"ok","exit_code":0,"duration_ms":1234,`+
					`"usage":{"input_tokens":100,"output_tokens":200,"cache_read_input_tokens":3000,"cache_creation_input_tokens":400},"cost_usd":0.0123,"cost_source":"runner","session_id":"0b8a9c1e-7a5e-4f55-8f0c-000000000000"}`)
			}
			evs = append(evs, ev)
		}
		if _, err := j.Append(false, evs...); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestMemory: the events do not stay in memory.
func TestMemory(t *testing.T) {
	path := bigJournal(t, 20000)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	f := New()
	for range 3 {
		if err := journal.Read(path, 0, f.Add); err != nil {
			t.Fatal(err)
		}
	}
	// 400 iterations; the three passes are 17 MB of lines.
	if grown := int64(heap()) - int64(before); grown > 2<<20 {
		t.Errorf("60,000 events keep %d bytes", grown)
	}
	if got := f.Report().All.Total; got.Runs != 12000 || *got.Cost.Known != 147.6 {
		t.Errorf("the total is %s", jsonOf(t, got))
	}
}

func BenchmarkFold200000(b *testing.B) {
	path := bigJournal(b, 200000)
	for b.Loop() {
		f := New()
		if err := journal.Read(path, 0, f.Add); err != nil {
			b.Fatal(err)
		}
		if f.Report().All.Total.Runs != 40000 {
			b.Fatal("wrong")
		}
	}
}
