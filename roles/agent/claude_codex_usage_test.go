package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

// The recorded sessions of three runs that used 1, 2 and 5 times the same: each
// run counts by itself, whether the CLI counts by session or not.
func TestRecordedSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cli, release string }{{"claude", ""}, {"claude", nextClaude}, {"codex", ""}} {
		var session *Session
		for _, n := range []int64{1, 2, 5} {
			stdout, _, end := replayAt(t, c.cli, fmt.Sprintf("%sresume-%d", c.release, n))
			s := streamOf(c.cli, session)
			s.Stdout(stdout)
			got := s.Finish(end)
			if kinds(got.Usage) != [4]int64{1000 * n, 50 * n, 100 * n, 10 * n} || got.Totals == nil {
				t.Errorf("%s%s, run %d: %+v", c.release, c.cli, n, got)
			}
			if want := float64(n) * 0.0038175; c.cli == "claude" && (got.CostUSD == nil || *got.CostUSD < want-1e-9 || *got.CostUSD > want+1e-9) {
				t.Errorf("%s%s, run %d costs %v, want %v", c.release, c.cli, n, got.CostUSD, want)
			}
			if session != nil && got.SessionID != session.ID {
				t.Errorf("%s%s: session %s, want %s", c.release, c.cli, got.SessionID, session.ID)
			}
			if session != nil && c.cli == "codex" { // without what was before, nothing is known
				s := streamOf(c.cli, &Session{ID: session.ID})
				s.Stdout(stdout)
				if got := s.Finish(end); got.Usage != (Usage{}) || got.Totals == nil {
					t.Errorf("without totals: %+v", got)
				}
				s = streamOf(c.cli, &Session{ID: "zzz", Totals: session.Totals}) // a new thread after all
				s.Stdout(stdout)
				if got := s.Finish(end); kinds(got.Usage) != kinds(got.Totals.Usage) {
					t.Errorf("a new thread: %+v", got)
				}
			}
			session = &Session{ID: got.SessionID, Totals: got.Totals}
		}
	}
}

// claudeEnds is a run with one answer and these results.
func claudeEnds(results ...string) []byte {
	lines := []string{
		`{"type":"system","subtype":"init","session_id":"s","model":"m[1m]"}`,
		`{"type":"assistant","message":{"id":"1","model":"m","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}},"session_id":"s"}`,
		`{"type":"assistant","message":{"id":"1","model":"m","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}},"session_id":"s"}`,
	}
	for _, r := range results {
		lines = append(lines, `{"type":"result","subtype":"success","is_error":false,"result":"x",`+r+`}`)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func claudeUsed(name string, n [4]int, cost string) string {
	return fmt.Sprintf(`%q:{"m[1m]":{"inputTokens":%d,"outputTokens":%d,"cacheReadInputTokens":%d,"cacheCreationInputTokens":%d%s}}`, name, n[0], n[1], n[2], n[3], cost)
}

func TestClaudeUsage(t *testing.T) {
	t.Parallel()
	turn := func(in, out, read, written int) string {
		return fmt.Sprintf(`"usage":{"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d}`, in, out, read, written)
	}
	n := func(v int64) *int64 { return &v }
	usd := func(v float64) *float64 { return &v }
	before := &Session{ID: "s", Totals: &Totals{Usage: Usage{Input: n(100), Output: n(100), CacheRead: n(100), CacheWrite: n(100)}, CostUSD: usd(1)}}
	for name, c := range map[string]struct {
		session *Session
		results []string
		want    string
		cost    string
		totals  string
	}{
		"killed":              {want: "10+5r+2w>?(?)", cost: "?", totals: "?"},
		"killed, resumed":     {session: before, want: "10+5r+2w>?(?)", cost: "?", totals: "100+100r+100w>100(?)"},
		"by models":           {results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":0.5,` + claudeUsed("modelUsage", [4]int{30, 40, 15, 12}, "")}, want: "30+15r+12w>40(?)", cost: "0.5", totals: "30+15r+12w>40(?)"},
		"of an unknown price": {results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":0.5,` + claudeUsed("modelUsage", [4]int{30, 40, 15, 12}, `,"costBasis":"unknown"`)}, want: "30+15r+12w>40(?)", cost: "?", totals: "30+15r+12w>40(?)"},
		"unknown before, known since": {
			session: before, results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":1.5,` + claudeUsed("modelUsage", [4]int{130, 140, 115, 112}, `,"costBasis":"unknown"`) + "," + claudeUsed("model_usage_since_last_result", [4]int{30, 40, 15, 12}, `,"costUSD":0.25`)},
			want: "30+15r+12w>40(?)", cost: "0.25", totals: "130+115r+112w>140(?)",
		},
		"without models": {results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":0.5`}, want: "10+5r+2w>20(?)", cost: "0.5", totals: "?"},
		"no cost":        {results: []string{turn(10, 20, 5, 2)}, want: "10+5r+2w>20(?)", cost: "?", totals: "?"},
		"since": {
			session: before,
			results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":1.5,` + claudeUsed("modelUsage", [4]int{130, 140, 115, 112}, "") + "," + claudeUsed("model_usage_since_last_result", [4]int{30, 40, 15, 12}, `,"costUSD":0.25,"thinkingTokens":7`)},
			want:    "30+15r+12w>40(7)", cost: "0.25", totals: "130+115r+112w>140(?)",
		},
		"since, of an unknown price": {
			results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":1.5,` + claudeUsed("model_usage_since_last_result", [4]int{30, 40, 15, 12}, `,"costUSD":0.25,"costBasis":"unknown"`)},
			want:    "30+15r+12w>40(?)", cost: "?", totals: "?",
		},
		"since, nothing": {session: before, results: []string{turn(0, 0, 0, 0) + `,"total_cost_usd":1,` + claudeUsed("modelUsage", [4]int{100, 100, 100, 100}, "") + `,"model_usage_since_last_result":{}`}, want: "0+0r+0w>0(?)", cost: "0", totals: "100+100r+100w>100(?)"},
		"since, twice": {
			results: []string{
				turn(10, 20, 5, 2) + `,"total_cost_usd":0.5,` + claudeUsed("modelUsage", [4]int{30, 40, 15, 12}, "") + "," + claudeUsed("model_usage_since_last_result", [4]int{30, 40, 15, 12}, `,"costUSD":0.5`),
				turn(1, 2, 3, 4) + `,"total_cost_usd":0.75,` + claudeUsed("modelUsage", [4]int{31, 42, 18, 16}, "") + "," + claudeUsed("model_usage_since_last_result", [4]int{1, 2, 3, 4}, `,"costUSD":0.25`),
			}, want: "31+18r+16w>42(?)", cost: "0.75", totals: "31+18r+16w>42(?)",
		},
		"by the session": {
			session: before, results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":1.5,` + claudeUsed("modelUsage", [4]int{130, 140, 115, 112}, "")},
			want: "30+15r+12w>40(?)", cost: "0.5", totals: "130+115r+112w>140(?)",
		},
		"by the run, resumed": {
			session: before, results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":0.5,` + claudeUsed("modelUsage", [4]int{10, 20, 5, 2}, "")},
			want: "10+5r+2w>20(?)", cost: "0.5", totals: "10+5r+2w>20(?)",
		},
		"by the run, with a sub-agent": {
			session: before, results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":0.5,` + claudeUsed("modelUsage", [4]int{150, 20, 5, 2}, "")},
			want: "150+5r+2w>20(?)", cost: "0.5", totals: "150+5r+2w>20(?)",
		},
		"nobody knows": {
			session: &Session{ID: "s"}, results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":1.5,` + claudeUsed("modelUsage", [4]int{130, 140, 115, 112}, "")},
			want: "10+5r+2w>20(?)", cost: "?", totals: "130+115r+112w>140(?)",
		},
		"by the run, nothing known before": {
			session: &Session{ID: "s"}, results: []string{turn(10, 20, 5, 2) + `,"total_cost_usd":0.5,` + claudeUsed("modelUsage", [4]int{10, 20, 5, 2}, "")},
			want: "10+5r+2w>20(?)", cost: "0.5", totals: "10+5r+2w>20(?)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := streamOf("claude", c.session)
			s.Stdout(claudeEnds(c.results...))
			got := s.Finish(proc.Result{Ended: proc.Exited})
			cost, totals := "?", "?"
			if got.CostUSD != nil {
				cost = fmt.Sprint(*got.CostUSD)
			}
			if got.Totals != nil {
				totals = usageWord(got.Totals.Usage)
			}
			if usageWord(got.Usage) != c.want || cost != c.cost || totals != c.totals || got.Model != "m" {
				t.Errorf("usage %s, cost %s, totals %s, model %s\nwant  %s, cost %s, totals %s", usageWord(got.Usage), cost, totals, got.Model, c.want, c.cost, c.totals)
			}
		})
	}
	// Of several models it is that of the most output, by its canonical name.
	s := streamOf("claude", nil)
	s.Stdout(claudeEnds(`"usage":{},"modelUsage":{"small":{"outputTokens":5},"big[1m]":{"outputTokens":9},"dated":{"outputTokens":9,"canonicalModel":"a-model"}}`))
	if got := s.Finish(proc.Result{}); got.Model != "a-model" {
		t.Errorf("model %q", got.Model)
	}
}

// However many answers and models there are, what is held is bounded.
func TestClaudeHoldsLittle(t *testing.T) {
	t.Parallel()
	s := claude{}.Stream(Request{}).(*claudeStream)
	for i := range 5000 {
		_, _ = fmt.Fprintf(writer(s.Stdout), `{"type":"assistant","message":{"id":"m%d","model":"m%d","content":[],"usage":{"input_tokens":1}},"session_id":"s"}
{"type":"system","subtype":"task_started","task_id":"t%d"}
{"type":"result","is_error":false,"subtype":"success","model_usage_since_last_result":{"m%d":{"inputTokens":1}},"modelUsage":{"m%d":{"inputTokens":1}}}
`, i, i, i, i, i)
	}
	if len(s.tasks) > maxTasks || len(s.counts.messages) > maxIDs || len(s.counts.since) > maxModels {
		t.Errorf("%d tasks, %d messages, %d models", len(s.tasks), len(s.counts.messages), len(s.counts.since))
	}
	if n := deref(s.counts.started.Input); n != 5000 {
		t.Errorf("%d", n)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
