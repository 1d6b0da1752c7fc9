package local

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// repoState is .superloop/state.json.
func (w *world) repoState() loop.RepoView {
	w.t.Helper()
	var v loop.RepoView
	data, err := os.ReadFile(filepath.Join(w.paths.Super, "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// second makes l the second of two loops.
func (w *world) second() {
	w.t.Helper()
	text := strings.Replace(w.configText(``), `"loops": [`, `"loops": [{"id": "first", "spec_file": "spec.md", "max_iterations": 1, "completion_promise": "DONE"},`, 1)
	w.write("repo/.superloop/config.json", text)
	w.load()
}

func TestTheRepositorysStateTellsOfAllItsLoops(t *testing.T) {
	t.Parallel()
	for text, others := range map[string]map[string]loop.Status{
		`{"version": 1, "loops": {"first": "completed", "l": "failed"}}`: {"first": loop.Completed},
		`{"version": 1, "loops": null}`:                                  {},
		`{"version":`:                                                    {},
	} {
		w := newWorld(t, agentDone, ``)
		w.second()
		w.write("repo/.superloop/state.json", text)
		s := w.run(t.Context())
		w.ends(s, loop.Completed, loop.ReasonPromiseKept)
		v := w.repoState()
		want := maps.Clone(others)
		want["l"] = loop.Completed
		if v.Version != 1 || v.Active || v.LoopIndex != 1 || v.CurrentLoopID != "l" || v.Iteration != 1 || v.Status != loop.Completed || !v.UpdatedAt.Equal(s.UpdatedAt) ||
			!maps.Equal(v.Loops, want) {
			t.Errorf("after %s: %+v, want the loops %v", text, v, want)
		}
	}
}

// What stands in the views while a role runs: the loop is alive, and its supervisor has a number.
func TestTheViewsOfALoopThatRunsAndOfOneThatStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `cp "$SUPERLOOP_LOOP_DIR/state.json" "${0%/*}/seen.json"; cp "$SUPERLOOP_REPO/.superloop/state.json" "${0%/*}/repo-seen.json"; `+agentDone, `"max_iterations": 1`)
	w.when("role_start", func(journal.Event, loop.State) {
		for w.view().Pending == nil { // the agent is only started when this returns
			pause()
		}
	})
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	var seen loop.View
	var repo loop.RepoView
	for name, into := range map[string]any{"seen.json": &seen, "repo-seen.json": &repo} {
		data, err := os.ReadFile(filepath.Join(w.top, name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen.Status != loop.Running || seen.PID != os.Getpid() || !repo.Active || repo.Status != loop.Running || repo.Loops["l"] != loop.Running {
		t.Errorf("%+v and %+v", seen, repo)
	}
	for path, perm := range map[string]os.FileMode{w.paths.File("state.json"): 0o644, filepath.Join(w.paths.Super, "state.json"): 0o644,
		w.paths.Control(): 0o700, w.paths.Private: 0o700, w.paths.Trees(): 0o700, w.paths.Loop: 0o755, w.paths.Proposals(): 0o755} {
		// A umask may take from what the group and others get.
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^perm != 0 || info.Mode().Perm()&0o700 != perm&0o700 {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, perm)
		}
	}
}

// A view that cannot be written is no loss; a full disk must be told.
func TestAViewThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentDone, ``)
	w.breaks("state:write", errBroken)
	w.ends(w.run(t.Context()), loop.Completed, loop.ReasonPromiseKept)
	if !w.warned("state.json could not be written; the journal is whole") {
		t.Error("nobody was told")
	}
	w.breaks("state:write", errNoRoom)
	w.o.Fresh = true
	_, err := Run(t.Context(), w.o)
	wantError(t, err, "superloop run --loop l", "nothing that was recorded is lost")
}

// state.json never says that the loop waits for an operator before escalation.json is there: where the file cannot be
// written, the views keep the state before the question, also when the supervisor leaves.
// Conforms: 004-3.1-before
func TestTheViewsWaitForTheQuestion(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.breaks("escalation:sync", errBroken)
	if _, err := Run(t.Context(), w.o); err == nil {
		t.Fatal("a question that cannot be shown is no error")
	}
	if exists(w.paths.File("escalation.json")) {
		t.Fatal("escalation.json is there all the same")
	}
	// The journal has the question, and the views have been flushed since.
	fold, err := Fold(w.paths.Events())
	if err != nil || fold.State.Status != loop.AwaitingHuman || fold.State.Human.Question == "" {
		t.Fatalf("%+v, %v", fold.State, err)
	}
	if v := w.stateFile(); v.Status != loop.Running && v.Status != loop.Recovering {
		t.Errorf("state.json says %s, and there is no question to read", v.Status)
	}
	if v := w.repoState(); v.Status == loop.AwaitingHuman {
		t.Errorf("the repository's state says %s", v.Status)
	}
	// The next supervisor finds the record of the question, and shows it.
	w.breaks("escalation:sync", nil)
	s := w.run(t.Context())
	rec, err := w.store().Load()
	if err != nil || rec.Question.ID != s.Human.Question {
		t.Fatalf("%v, %v", rec, err)
	}
	data, err := os.ReadFile(w.paths.File("escalation.json"))
	if err != nil || !strings.Contains(string(data), rec.Question.ID) {
		t.Errorf("%s, %v", data, err)
	}
	if v := w.stateFile(); v.Status != loop.AwaitingHuman || v.Human == nil || v.Human.Question != s.Human.Question {
		t.Errorf("%+v", v)
	}
}

// stateFile is state.json as it stands on the disk.
func (w *world) stateFile() (v loop.View) {
	w.t.Helper()
	data, err := os.ReadFile(w.paths.File("state.json"))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// A supervisor that has to leave between the decision to ask and the question asks first.
func TestLeavesWithAQuestionThatCanBeRead(t *testing.T) {
	t.Parallel()
	w := newBroken(t)
	w.o.ExitOnEscalation = false
	ctx, stop := context.WithCancel(t.Context())
	w.when("recovery_proposed", func(journal.Event, loop.State) { stop() })
	s, err := Run(ctx, w.o)
	if err != nil || s.Status != loop.AwaitingHuman || s.Human.Question == "" {
		t.Fatalf("%s %+v, %v", s.Status, s.Human, err)
	}
	if v := w.stateFile(); v.Status != loop.AwaitingHuman || !exists(w.paths.File("escalation.json")) {
		t.Errorf("%s", v.Status)
	}
}
