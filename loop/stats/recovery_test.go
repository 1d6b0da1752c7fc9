package stats

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop/journal"
)

func ptr[T any](v T) *T { return &v }

// mended is a journal of two runs; its events are one second apart.
var mended = []string{
	`r1 0 loop_start {}`,
	`r1 1 iteration_start {}`,
	`r1 1 role_end {"role":"tester","proposal":true,"outcome":"ok"}`,
	`r1 1 recovery_proposed {"n":1,"source":"tester","category":"dependency","verdict":"auto","rule":"auto_approve","digest":"d1"}`,
	`r1 1 recovery_approved {"n":1,"source":"auto","by":"rule"}`,
	`r1 1 recovery_executing {"n":1,"id":"x1","source":"auto"}`,
	`r1 1 recovery_executed {"n":1,"id":"x1","exit_code":0,"duration_ms":700}`,
	`r1 1 tests_rerun_start {"reason":"recovery"}`,
	`r1 1 tests_rerun_end {"status":"ok"}`,
	`r1 1 recovery_verified {"n":1,"id":"x1","result":"verified"}`,
	`r1 2 iteration_start {}`,
	`r1 2 recovery_proposed {"n":2,"source":"tester","category":"dependency","verdict":"auto","digest":"d2"}`,
	`r1 2 recovery_approved {"n":2,"source":"auto"}`,
	`r1 2 recovery_executing {"n":2}`,
	`r1 2 recovery_failed {"n":2,"exit_code":1,"duration_ms":300,"ended":"exited"}`,
	`r1 2 recovery_proposed {"n":3,"source":"tester","category":"network","verdict":"human","rule":"require_human","digest":"d2","fallback":true}`,
	`r1 2 recovery_escalated {"n":3,"type":"recovery_approval_required","escalation_id":"e1"}`,
	`r1 2 recovery_escalated {"n":3,"type":"recovery_approval_required","escalation_id":"e1"}`,
	`r1 2 recovery_resolved {"escalation_id":"e1","method":"approve","by":"ann"}`,
	`r1 2 recovery_approved {"n":3,"source":"human","by":"ann"}`,
	`r1 2 recovery_executing {"n":3}`,
	`r1 2 recovery_executed {"n":3,"exit_code":0,"duration_ms":20}`,
	`r1 2 recovery_verified {"n":3,"result":"harmful"}`,
	`r1 3 iteration_start {}`,
	`r1 3 recovery_proposed {"n":4,"source":"tester","category":"config","verdict":"invalid","digest":"d4"}`,
	`r1 3 recovery_invalid {"problems":[{"message":"no"}],"digest":"d4"}`,
	`r1 3 recovery_invalid {"problems":[{"message":"no"}],"digest":"d5"}`,
	`r1 3 recovery_denied {"rule":"stale","digest":"d1"}`,
	`r1 3 recovery_proposed {"n":5,"source":"tester","category":"dependency","verdict":"deny","digest":"d6"}`,
	`r1 3 recovery_denied {"n":5,"rule":"on_unknown","digest":"d6"}`,
	`r1 3 recovery_escalated {"type":"runner_unavailable","escalation_id":"e2"}`,
	`r1 3 loop_stop {"status":"cancelled"}`,
	`r2 0 loop_start {}`,
	`r2 1 iteration_start {}`,
	`r2 1 recovery_proposed {"n":1,"source":"superloop","category":"dependency","verdict":"auto","digest":"d7"}`,
	`r2 1 recovery_executing {"n":1}`,
	`r2 1 loop_resume {"status":"recovering"}`,
	`r2 1 recovery_escalated {"type":"recovery_failed","escalation_id":"e3"}`,
	`r2 1 loop_stop {"status":"paused"}`,
}

// Conforms: 004-metric-proposals, 004-metric-success, 004-metric-escalations, 004-metric-time, 004-metric-categories
func TestRecovery(t *testing.T) {
	t.Parallel()
	r := story(t, mended...).Report()
	one, two := r.Runs[0].Recovery, r.Runs[1].Recovery
	want := Proposals{Proposed: 7, ToRun: 2, ToHuman: 1, Denied: 1, Invalid: 2, Stale: 1, Fallbacks: 1, Executed: 3, Verified: 1}
	if one.Proposals != want {
		t.Errorf("the proposals are %s", jsonOf(t, one.Proposals))
	}
	if got := names(one.ByCategory); got != "dependency:3 :2 network:1 config:1" {
		t.Errorf("the categories are %s", got)
	}
	if got := names(r.All.Recovery.BySource); got != "tester:5 :2 superloop:1" {
		t.Errorf("the sources are %s", got)
	}
	if dep := one.ByCategory[0]; dep.Executed != 2 || dep.Verified != 1 || dep.Denied != 1 {
		t.Errorf("the dependencies are %s", jsonOf(t, dep))
	}
	auto := Executions{Executed: 2, Succeeded: 1, Verified: 1, Failed: 1, SuccessRate: ptr(0.5), DurationMS: 1000,
		ToStart: Spread{2, ptr[int64](2000), ptr[int64](2000), ptr[int64](2000)}, ToVerified: Spread{1, ptr[int64](6000), ptr[int64](6000), ptr[int64](6000)}}
	if !reflect.DeepEqual(one.Auto, auto) {
		t.Errorf("the automatic ones are %s", jsonOf(t, one.Auto))
	}
	approved := Executions{Executed: 1, Succeeded: 1, Harmful: 1, SuccessRate: ptr(0.0), DurationMS: 20,
		ToStart: Spread{1, ptr[int64](5000), ptr[int64](5000), ptr[int64](5000)}, ToVerified: Spread{1, ptr[int64](7000), ptr[int64](7000), ptr[int64](7000)}}
	if !reflect.DeepEqual(one.Approved, approved) {
		t.Errorf("the approved ones are %s", jsonOf(t, one.Approved))
	}
	// Active: from the start (0 s) to the first question (16 s), and from its answer
	// (18 s) to the next (30 s). Asked twice under one id is asked once.
	e := Escalations{Opened: 2, Resolved: 1, Dropped: 1, ByType: []Count{{"recovery_approval_required", 1}, {"runner_unavailable", 1}},
		ByMethod: []Count{{"approve", 1}}, Iterations: 3, ActiveMS: 28000, PerIteration: ptr(2.0 / 3), PerActiveHour: ptr(2 / (28.0 / 3600)),
		Resolution: Spread{1, ptr[int64](2000), ptr[int64](2000), ptr[int64](2000)}}
	if !reflect.DeepEqual(one.Escalations, e) {
		t.Errorf("the questions are %s\nwant %s", jsonOf(t, one.Escalations), jsonOf(t, e))
	}
	// Nobody has recorded how the command ended, and the question waits.
	if two.Auto.Open != 1 || two.Auto.SuccessRate != nil || two.Auto.ToVerified.MedianMS != nil || two.Escalations.Open != 1 || two.Escalations.Opened != 1 {
		t.Errorf("the second run is %s", jsonOf(t, two))
	}
	if two.Escalations.ActiveMS != 4000 { // not the second before loop_resume
		t.Errorf("the second run was active for %d ms", two.Escalations.ActiveMS)
	}
	if all := r.All.Recovery; all.Proposed != 8 || all.Executed != 4 || all.Escalations.Opened != 3 || all.Escalations.Iterations != 4 || all.Escalations.ActiveMS != 32000 {
		t.Errorf("all is %s", jsonOf(t, all))
	}
}

func names(groups []ProposalGroup) string {
	var out []string
	for _, g := range groups {
		out = append(out, fmt.Sprintf("%s:%d", g.Name, g.Proposed))
	}
	return strings.Join(out, " ")
}

// TestRecoveryOutcomes: what the tests say counts more than the exit code, and
// what they do not say changes nothing.
// Conforms: 004-metric-success
func TestRecoveryOutcomes(t *testing.T) {
	t.Parallel()
	base := []string{`r 1 recovery_proposed {"n":1,"verdict":"auto"}`, `r 1 recovery_executing {"n":1,"id":"x"}`}
	for _, tt := range []struct {
		name  string
		lines []string
		want  Executions
	}{
		{"ran, not judged", []string{`r 1 recovery_executed {"n":1,"id":"x","exit_code":0}`}, Executions{Succeeded: 1, Unknown: 1}},
		{"judged as unknown", []string{`r 1 recovery_executed {"n":1,"id":"x"}`, `r 1 recovery_verified {"n":1,"id":"x","result":"unknown"}`}, Executions{Succeeded: 1, Unknown: 1}},
		{"no end", nil, Executions{Open: 1}},
		{"failed, and gone all the same", []string{`r 1 recovery_failed {"n":1,"id":"x"}`, `r 1 recovery_verified {"n":1,"id":"x","result":"verified"}`},
			Executions{Verified: 1, SuccessRate: ptr(1.0)}},
		{"ineffective", []string{`r 1 recovery_executed {"n":1,"id":"x"}`, `r 1 recovery_verified {"n":1,"id":"x","result":"ineffective"}`},
			Executions{Succeeded: 1, Ineffective: 1, SuccessRate: ptr(0.0)}},
		{"mended by hand after it failed", []string{`r 1 recovery_failed {"n":1,"id":"x"}`, `r 1 recovery_verified {"n":1,"result":"verified"}`},
			Executions{Failed: 1, SuccessRate: ptr(0.0)}},
		{"ended by the supervisor", []string{`r 1 recovery_failed {"n":1,"id":"x","ended":"killed"}`}, Executions{Unknown: 1}},
		{"told twice", []string{`r 1 recovery_executing {"n":1,"id":"x"}`, `r 1 recovery_executed {"n":1,"id":"x"}`, `r 1 recovery_executed {"n":1,"id":"x"}`}, Executions{Succeeded: 1, Unknown: 1}},
		{"odd exit code", []string{`r 1 recovery_executed {"n":1,"id":"x","exit_code":3}`}, Executions{Failed: 1, SuccessRate: ptr(0.0)}},
		{"odd types", []string{`r 1 recovery_executed {"n":1,"id":"x","exit_code":"x","duration_ms":[]}`, `r 1 recovery_verified {"n":1,"id":"x","result":7}`}, Executions{Succeeded: 1, Unknown: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := story(t, append(append([]string{}, base...), tt.lines...)...).Report().All.Recovery
			got := r.Auto
			got.ToStart, got.ToVerified = Spread{}, Spread{}
			tt.want.Executed = 1
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %s, want %s", jsonOf(t, got), jsonOf(t, tt.want))
			}
			if r.Verified != tt.want.Verified || r.Executed != 1 {
				t.Errorf("the proposals say %s", jsonOf(t, r.Proposals))
			}
		})
	}
	r := story(t, `r 1 recovery_failed {"n":9,"category":"config","ended":"not_started"}`, `r 1 recovery_verified {"n":8,"result":"verified"}`, `r 1 recovery_resolved {"escalation_id":"x"}`).Report().All.Recovery
	if r.Proposed != 0 || r.Auto.Failed != 1 || r.Auto.Verified != 0 || r.Escalations.Resolved != 0 {
		t.Errorf("what has no beginning: %s", jsonOf(t, r))
	}
}

// TestRecoveryAgain: a command may be judged, and run, more than once.
func TestRecoveryAgain(t *testing.T) {
	t.Parallel()
	r := story(t, `r 1 recovery_proposed {"n":1,"source":"tester","category":"config","verdict":"auto"}`, // a cooldown
		`r 1 recovery_proposed {"n":1,"source":"tester","category":"config","verdict":"human"}`,
		`r 1 recovery_executing {"n":1,"id":"x1","source":"human"}`, `r 1 recovery_failed {"n":1,"id":"x1","ended":"exited","exit_code":2}`,
		`r 1 recovery_executing {"n":1,"id":"x2","source":"human"}`, `r 1 recovery_executed {"n":1,"id":"x2"}`, `r 1 recovery_verified {"n":1,"id":"x2","result":"verified"}`,
		`r 1 recovery_proposed {"n":1,"source":"tester","category":"config","verdict":"auto","fallback":true}`,
		`r 1 recovery_executing {"n":1,"id":"x3","source":"auto"}`).Report().All.Recovery
	if want := (Proposals{Proposed: 2, ToRun: 1, ToHuman: 1, Fallbacks: 1, Executed: 3, Verified: 1}); r.Proposals != want || r.ByCategory[0].Proposals != want {
		t.Errorf("the proposals are %s", jsonOf(t, r))
	}
	if a := r.Approved; a.Executed != 2 || a.Failed != 1 || a.Verified != 1 || *a.ToStart.MaxMS != 4000 {
		t.Errorf("the approved ones are %s", jsonOf(t, a))
	}
	if a := r.Auto; a.Executed != 1 || a.Open != 1 || *a.ToStart.MaxMS != 1000 {
		t.Errorf("the automatic ones are %s", jsonOf(t, a))
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 50).Draw(t, "ms")
		s := spread(ms)
		within := func(limit int64) (n int) {
			for _, v := range ms {
				if v <= limit {
					n++
				}
			}
			return n
		}
		if s.Count != len(ms) || within(*s.MaxMS) != len(ms) || 10*within(*s.P90MS) < 9*len(ms) || 2*within(*s.MedianMS) < len(ms) || 2*(within(*s.MedianMS-1)) >= len(ms) {
			t.Fatalf("%v: median %d, 90 %%: %d, max %d", ms, *s.MedianMS, *s.P90MS, *s.MaxMS)
		}
	})
}

// TestRecoverySums: whatever the journal, each command has one outcome, each
// proposal one verdict, each question one state, and the runs add up to all.
func TestRecoverySums(t *testing.T) {
	t.Parallel()
	kinds := []string{"loop_start", "loop_resume", "loop_stop", "iteration_start", "role_start", "recovery_proposed", "recovery_invalid", "recovery_denied", "recovery_approved",
		"recovery_executing", "recovery_executed", "recovery_failed", "recovery_verified", "recovery_escalated", "recovery_resolved"}
	rapid.Check(t, func(t *rapid.T) {
		f := New()
		pick := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
		var steps int64
		for i := range rapid.IntRange(0, 60).Draw(t, "events") {
			fields, err := json.Marshal(map[string]any{"n": rapid.IntRange(1, 3).Draw(t, "n"), "source": pick("source", "auto", "human", "tester"), "category": pick("category", "a", "b"),
				"verdict": pick("verdict", "auto", "human", "deny", "invalid", "?"), "rule": pick("rule", "stale", "x"), "digest": pick("digest", "d", "e"),
				"result": pick("result", "verified", "ineffective", "harmful", "unknown"), "exit_code": rapid.IntRange(0, 1).Draw(t, "exit"), "id": pick("execution", "x", "y"), "fallback": rapid.Bool().Draw(t, "fallback"),
				"ended":         pick("ended", "exited", "killed"),
				"escalation_id": pick("id", "", "1", "2"), "type": pick("type", "policy_change", "t"), "status": pick("status", "paused", "failed")})
			if err != nil {
				t.Fatal(err)
			}
			ms := rapid.Int64Range(0, 5000).Draw(t, "step")
			steps += ms
			if err := f.Add(journal.Event{Seq: int64(i + 1), Timestamp: began.Add(time.Duration(steps) * time.Millisecond), Event: rapid.SampledFrom(kinds).Draw(t, "event"),
				RunID: pick("run", "r", "s"), Fields: fields}); err != nil {
				t.Fatal(err)
			}
		}
		r := f.Report()
		var sum Proposals
		var asked Escalations
		for _, s := range append(r.Runs, r.All) {
			got := s.Recovery
			if p := got.Proposals; p.Proposed != p.ToRun+p.ToHuman+p.Denied+p.Invalid+p.Stale || p.Executed != got.Auto.Executed+got.Approved.Executed {
				t.Fatalf("the proposals are %+v", p)
			}
			for _, e := range []Executions{got.Auto, got.Approved} {
				if e.Executed != e.Verified+e.Ineffective+e.Harmful+e.Unknown+e.Failed+e.Open || e.Succeeded > e.Executed || e.ToStart.Count != e.Executed {
					t.Fatalf("the commands are %+v", e)
				}
			}
			if e := got.Escalations; e.Opened != e.Resolved+e.Open+e.Dropped || e.Resolution.Count != e.Resolved || e.ActiveMS > steps {
				t.Fatalf("the questions are %+v", e)
			}
			for _, groups := range [][]ProposalGroup{got.ByCategory, got.BySource} {
				var total Proposals
				for _, g := range groups {
					total = addProposals(total, g.Proposals)
				}
				if total != got.Proposals {
					t.Fatalf("the groups give %+v, the total is %+v", total, got.Proposals)
				}
			}
			if s.RunID != "" {
				sum = addProposals(sum, got.Proposals)
				asked.Opened += got.Escalations.Opened
				asked.ActiveMS += got.Escalations.ActiveMS
				asked.Dropped += got.Escalations.Dropped
			}
		}
		if all := r.All.Recovery; sum != all.Proposals || asked.Opened != all.Escalations.Opened || asked.ActiveMS != all.Escalations.ActiveMS || asked.Dropped != all.Escalations.Dropped {
			t.Fatalf("the runs give %+v, all are %+v", sum, all.Proposals)
		}
	})
}

func addProposals(a, b Proposals) Proposals {
	addNumbers(&a, b)
	return a
}

// TestMerge: two loops together are what one loop with both journals would be,
// and what was merged stays as it was.
func TestMerge(t *testing.T) {
	t.Parallel()
	a, b := story(t, mended...), story(t, mended[:10]...)
	before := jsonOf(t, a.Report())
	got := Merge(a, b, New())
	if got.Proposed != 9 || got.Auto.Executed != 4 || got.Auto.ToStart.Count != 4 || *got.Auto.ToStart.MedianMS != 2000 || *got.Auto.SuccessRate != 2.0/3 ||
		got.Escalations.Opened != 3 || got.Escalations.Iterations != 5 || got.Escalations.ActiveMS != 41000 || got.ByCategory[0].Proposed != 5 ||
		got.Escalations.ByMethod[0].Count != 1 || len(got.Escalations.ByType) != 3 {
		t.Errorf("together they are %s", jsonOf(t, got))
	}
	if after := jsonOf(t, a.Report()); after != before {
		t.Errorf("a loop was changed to %s", after)
	}
	if one := Merge(a); jsonOf(t, one) != jsonOf(t, a.Report().All.Recovery) {
		t.Errorf("one loop alone is %s", jsonOf(t, one))
	}
	if none := jsonOf(t, Merge()); !strings.Contains(none, `"by_category":[]`) || !strings.Contains(none, `"success_rate":null`) {
		t.Errorf("nothing is %s", none)
	}
}
