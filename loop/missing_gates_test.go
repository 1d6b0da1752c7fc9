package loop

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A gate that is asked for is passed by its one good word alone.
func TestMissingGates(t *testing.T) {
	t.Parallel()
	all := Plan{Tests: "every", RequireValidation: true, RequirePrerequisites: true, RequireEvidence: true}
	good := Gates{Promise: "true", Tests: "ok", Checklist: "ok", Validation: "skipped", Prerequisites: "skipped", Evidence: "ok"}
	changing := Plan{Tests: "every", Completion: &Completion{Change: true}}
	withChange := func(g Gates, change string) Gates { g.Change = change; return g }
	for _, tt := range []struct {
		name    string
		plan    Plan
		gates   Gates
		missing string
	}{
		{"all pass", all, Gates{"true", "ok", "ok", "ok", "ok", "ok", "pending", "", "", "", "ok", "ok"}, ""},
		{"nothing but promise and checklist", Plan{Tests: "disabled"}, Gates{Promise: "true", Checklist: "ok", Tests: "skipped"}, ""},
		{"nothing looked at", all, Gates{}, "promise=unknown tests=unknown validation=unknown prerequisites=unknown checklist=unknown evidence=unknown"},
		{"failing tests count even if not asked for", Plan{Tests: "disabled"}, Gates{Promise: "true", Checklist: "ok", Tests: "failed"}, "tests=failed"},
		{"skipped is not passed", Plan{Tests: "every", RequireValidation: true, RequireEvidence: true}, good, "validation=skipped"},
		{"a promise without a change", changing, withChange(good, ChangeNone), "change=none"},
		{"with white space alone", changing, withChange(good, ChangeSpace), "change=whitespace"},
		{"the tree before is lost", changing, withChange(good, ChangeUnknown), "change=unknown"},
		{"with a change", changing, withChange(good, ChangeOK), ""},
		{"nobody looked without a promise", changing, Gates{Promise: "false", Tests: "ok", Checklist: "ok"}, "promise=false"},
		{"no test changed", Plan{Tests: "every", Completion: &Completion{TestChange: true}}, Gates{Promise: "true", Tests: "ok", Checklist: "ok", TestChange: ChangeNone}, "test_change=none"},
		{"a test changed", Plan{Tests: "every", Completion: &Completion{TestChange: true}}, Gates{Promise: "true", Tests: "ok", Checklist: "ok", TestChange: ChangeOK}, ""},
		{"a change is not asked for", Plan{Tests: "every", Completion: &Completion{}}, good, ""},
		{"no gate at all", Plan{Tests: "disabled", Completion: &Completion{Ungated: true}}, Gates{Promise: "true", Checklist: "ok", Tests: "skipped"}, "gates=none"},
		{"not required", Plan{Tests: "every"}, Gates{"true", "ok", "ok", "failed", "failed", "failed", "", "", "", "", "", ""}, ""},
	} {
		if got := strings.Join(State{Plan: tt.plan, Gates: tt.gates}.MissingGates(), " "); got != tt.missing {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}

// Nothing is missing exactly when every gate that is asked for says its one good
// word.
func TestMissingGatesProperty(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"", "ok", "failed", "skipped", "true", "false", "remaining"})
	rapid.Check(t, func(t *rapid.T) {
		g := Gates{word.Draw(t, "promise"), word.Draw(t, "tests"), word.Draw(t, "checklist"), word.Draw(t, "validation"),
			word.Draw(t, "prerequisites"), word.Draw(t, "evidence"), word.Draw(t, "approval"), rapid.SampledFrom([]string{"", "ok", "none", "whitespace", "unknown"}).Draw(t, "change"),
			rapid.SampledFrom([]string{"", "ok", "review.md:missing"}).Draw(t, "reports"), rapid.SampledFrom([]string{"", "ok", "none"}).Draw(t, "test change"),
			rapid.SampledFrom([]string{"", "ok", "changed", "unseen"}).Draw(t, "tree"), rapid.SampledFrom([]string{"", "ok", "failed"}).Draw(t, "final")}
		p := Plan{Tests: rapid.SampledFrom([]string{"every", "on_promise", "disabled"}).Draw(t, "t"), RequireValidation: rapid.Bool().Draw(t, "v"),
			RequirePrerequisites: rapid.Bool().Draw(t, "p"), RequireEvidence: rapid.Bool().Draw(t, "e")}
		if rapid.Bool().Draw(t, "new") {
			p.Completion = &Completion{Change: rapid.Bool().Draw(t, "change wanted"), TestChange: rapid.Bool().Draw(t, "test change wanted"), Reports: rapid.SampledFrom([][]string{nil, {"reviewer"}}).Draw(t, "reports wanted")}
		}
		want := g.Promise == "true" && g.Checklist == "ok" && g.Tests != "failed" && (p.Tests == "disabled" || g.Tests == "ok") &&
			(!p.RequireValidation || g.Validation == "ok") && (!p.RequirePrerequisites || g.Prerequisites == "ok") &&
			(!p.RequireEvidence || g.Evidence == "ok") && (p.Completion == nil || !p.Completion.Change || g.Change == "ok") &&
			(p.Completion == nil || p.Completion.Reports == nil || g.Reports == "ok") &&
			(p.Completion == nil || !p.Completion.TestChange || g.TestChange == "ok") && (g.Tree == "" || g.Tree == "ok") && g.Final != "failed"
		if missing := (State{Plan: p, Gates: g}).MissingGates(); want != (len(missing) == 0) {
			t.Fatalf("%+v %+v: got %v", p, g, missing)
		}
	})
}

// Each rule that keeps a promise from completing says which key turns it off.
func TestWhyMissing(t *testing.T) {
	t.Parallel()
	for _, tree := range []string{TreeChanged, TreeUnseen} {
		if why := WhyMissing([]string{"tree=" + tree}); len(why) != 1 || !strings.Contains(why[0], "tests.outputs") {
			t.Errorf("%s: %q", tree, why)
		}
	}
	for _, change := range []string{ChangeNone, ChangeSpace, ChangeUnknown} {
		why := WhyMissing([]string{"tests=failed", "change=" + change})
		if len(why) != 1 || !strings.Contains(why[0], `"completion": {"require_change": false}`) || strings.HasPrefix(why[0], ";") {
			t.Errorf("%s: %q", change, why)
		}
	}
	if why := strings.Join(WhyMissing([]string{"test_change=none"}), ""); !strings.Contains(why, `"completion": {"require_test_change": false}`) {
		t.Errorf("%q", why)
	}
	for _, how := range []string{"missing", "stale", "empty", ReportRepeated} {
		why := strings.Join(WhyMissing([]string{"reports=plan.md:" + how}), "")
		if !strings.HasPrefix(why, "plan.md "+reportWords[how]+"; ") || !strings.Contains(why, `"completion": {"require_reports": []}`) || reportWords[how] == "" {
			t.Errorf("%s: %q", how, why)
		}
	}
}

// The reports of earlier iterations are known, those of this one are not, and their number is bounded.
func TestKeepReports(t *testing.T) {
	t.Parallel()
	p := basicPlan()
	p.MaxIterations, p.Completion = 0, &Completion{Reports: []string{"reviewer"}}
	b := newBench(t, p)
	for b.s.Iteration <= earlierReports+5 {
		n := b.s.Iteration - 1 // iterations that have ended
		if len(b.s.Reports) != min(n, earlierReports) || n > 0 && b.s.Reports[len(b.s.Reports)-1] != fmt.Sprintf("d%d", n) {
			t.Fatalf("iteration %d: %v", n+1, b.s.Reports)
		}
		f := goodFact(b.s, false)
		if r, ok := f.(RoleEnded); ok {
			r.Digest = map[string]string{"reviewer": fmt.Sprintf("d%d", n+1), "planner": "p"}[r.Role]
			f = r
		}
		b.do(f)
	}
}
