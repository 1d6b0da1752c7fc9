package loop

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A gate that is asked for is passed by its one good word alone.
func TestMissingGates(t *testing.T) {
	t.Parallel()
	all := Plan{Tests: "every", RequireValidation: true, RequirePrerequisites: true, RequireEvidence: true}
	good := Gates{Promise: "true", Tests: "ok", Checklist: "ok", Validation: "skipped", Prerequisites: "skipped", Evidence: "ok"}
	for _, tt := range []struct {
		name    string
		plan    Plan
		gates   Gates
		missing string
	}{
		{"all pass", all, Gates{"true", "ok", "ok", "ok", "ok", "ok", "pending"}, ""},
		{"nothing but promise and checklist", Plan{Tests: "disabled"}, Gates{Promise: "true", Checklist: "ok", Tests: "skipped"}, ""},
		{"nothing looked at", all, Gates{}, "promise=unknown tests=unknown validation=unknown prerequisites=unknown checklist=unknown evidence=unknown"},
		{"failing tests count even if not asked for", Plan{Tests: "disabled"}, Gates{Promise: "true", Checklist: "ok", Tests: "failed"}, "tests=failed"},
		{"skipped is not passed", Plan{Tests: "every", RequireValidation: true, RequireEvidence: true}, good, "validation=skipped"},
		{"not required", Plan{Tests: "every"}, Gates{"true", "ok", "ok", "failed", "failed", "failed", ""}, ""},
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
			word.Draw(t, "prerequisites"), word.Draw(t, "evidence"), word.Draw(t, "approval")}
		p := Plan{Tests: rapid.SampledFrom([]string{"every", "on_promise", "disabled"}).Draw(t, "t"), RequireValidation: rapid.Bool().Draw(t, "v"),
			RequirePrerequisites: rapid.Bool().Draw(t, "p"), RequireEvidence: rapid.Bool().Draw(t, "e")}
		want := g.Promise == "true" && g.Checklist == "ok" && g.Tests != "failed" && (p.Tests == "disabled" || g.Tests == "ok") &&
			(!p.RequireValidation || g.Validation == "ok") && (!p.RequirePrerequisites || g.Prerequisites == "ok") &&
			(!p.RequireEvidence || g.Evidence == "ok")
		if missing := (State{Plan: p, Gates: g}).MissingGates(); want != (len(missing) == 0) {
			t.Fatalf("%+v %+v: got %v", p, g, missing)
		}
	})
}
