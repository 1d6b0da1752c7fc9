package local

import (
	"fmt"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// Conforms: 004-p3.1
func TestAChangedConfigurationHoldsFromTheNextIteration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo nothing`, `"max_iterations": 2`)
	w.when("role_start", func(journal.Event, loop.State) {
		w.configure(`"max_iterations": 3, "completion_promise": "OTHER"`)
	})
	s := w.run(t.Context())
	w.ends(s, loop.LimitReached, loop.ReasonMaxIterations)
	if s.Iteration != 3 || s.Plan.Promise != "OTHER" || s.Plan.MaxIterations != 3 {
		t.Errorf("iteration %d, plan %+v", s.Iteration, s.Plan)
	}
	if f := w.one("config_reloaded"); f["changes"] == nil || f["plan"] == nil {
		t.Errorf("config_reloaded %v", f)
	}
	if f := w.all("promise_checked"); len(f) != 3 || f[0]["expected"] != "DONE" || f[1]["expected"] != "OTHER" {
		t.Errorf("promises %v", f)
	}
}

// unknownKeys is a configuration with nothing but mistakes.
func unknownKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"key%d": 1`, i))
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

// Conforms: 004-p3.2
func TestAWrongConfigurationIsSaidOnceAndTheOldOneStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.when("role_start", func(journal.Event, loop.State) { w.write("repo/.superloop/config.json", unknownKeys(60)) })
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.one("config_rejected"); len(f["problems"].([]any)) != 40 { // as many as an event holds
		t.Errorf("config_rejected %v", f)
	}
}

func TestALooserConfigurationIsHeldUntilAPersonTrustsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, `"tests": {"commands": ["true"]}`)
	w.when("role_start", func(journal.Event, loop.State) { w.configure(`"tests": {"commands": ["echo looser"]}`) })
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	held := w.one("config_change_held")
	if n := len(w.all("config_reloaded")); n != 0 {
		t.Errorf("%d times it was reloaded", n)
	}
	if digest := fmt.Sprint(held["digest"]); len(digest) < 8 || held["next"] != "superloop config trust --digest "+digest[:8] {
		t.Errorf("config_change_held %v", held)
	}
	for _, f := range w.all("tests_start") {
		if !strings.Contains(fmt.Sprint(f["commands"]), "true") {
			t.Errorf("what is held was run: %v", f)
		}
	}
	w.load()
	w.o.Fresh, w.o.TrustConfig, w.o.By = true, true, "ann"
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if f := w.all("tests_start"); !strings.Contains(fmt.Sprint(f[len(f)-1]["commands"]), "echo looser") || len(w.all("config_change_held")) != 1 {
		t.Errorf("what is trusted was not run: %v", f)
	}
}

func TestWhatARunBeginsWithIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``, `"recovery": {"auto_approve": ["true", "true"], "first_aid": false}`)
	w.run(t.Context())
	f := w.one("config_loaded")
	if warnings := fmt.Sprint(f["warnings"]); !strings.Contains(warnings, "stands here twice") || strings.Count(warnings, "code:") != 1 {
		t.Errorf("warnings %s", warnings)
	}
	if f["file"] != ".superloop/config.json" || f["digest"] != w.o.Config.Digest || f["policy_digest"] == nil || f["protection"] != "none" ||
		!strings.Contains(fmt.Sprint(f["protection_notes"]), "--unprotected") {
		t.Errorf("config_loaded %v", f)
	}
}

func TestALoopWorksInAWorkTreeOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `pwd > "${0%/*}/where"; `+agentDone, `"git": {"worktree": true}`)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if !exists(w.repo+"/.superloop/worktrees/l/spec.md") || !exists(w.repo+"/.superloop/worktrees/.gitignore") {
		t.Error("there is no work tree")
	}
	if got := w.git("branch", "--list", "superloop/l"); !strings.Contains(got, "superloop/l") {
		t.Errorf("branches %q", got)
	}
}

// A policy may overlap in a thousand places; an event holds forty.
func TestAFewWarningsAreRecorded(t *testing.T) {
	t.Parallel()
	var lists []string
	for i := range 60 {
		lists = append(lists, fmt.Sprintf("%q", fmt.Sprintf("true %d", i)))
	}
	all := strings.Join(lists, ",")
	w := newWorld(t, agentDone, ``, `"recovery": {"first_aid": false, "auto_approve": [`+all+`], "require_human": [`+all+`]}`)
	w.run(t.Context())
	if f := w.one("config_loaded"); len(f["warnings"].([]any)) != 40 {
		t.Errorf("%d warnings", len(f["warnings"].([]any)))
	}
}
