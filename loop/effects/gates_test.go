package effects

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/roles/agent"
)

func (w *gateWorld) gates() *Gates {
	return &Gates{Host: w.host, Tree: &Tree{Host: w.host}}
}

// says has the reviewer's newest attempt end with a text.
func (w *gateWorld) says(text string) {
	w.state.Roles = map[string]loop.RoleResult{"reviewer": {Attempt: 2}, "planner": {Attempt: 1}}
	w.put("@logs/iter-3/reviewer.attempt-2.last-message.md", text)
}

func TestPromise(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	promise := func() (string, error) {
		p, err := w.host.promise(w.state)
		if p.Text == nil {
			return "", err
		}
		if p.Expected != "DONE" || p.Matched != (*p.Text == "DONE") {
			t.Errorf("%+v", p)
		}
		return *p.Text, err
	}
	for _, text := range []string{"DONE", "NO"} {
		w.says("well <promise>" + text + "</promise>")
		if got, err := promise(); got != text || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	w.state.Roles = map[string]loop.RoleResult{"planner": {Attempt: 2}}
	w.put("@logs/iter-3/planner.attempt-2.last-message.md", "<promise>DONE</promise>")
	if got, err := promise(); got != "" || err != nil {
		t.Errorf("only the reviewer can promise: %q, %v", got, err)
	}
	w.says("<promise>DONE</promise>")
	path := w.host.RoleFiles(3, "reviewer", 2).Last
	gateMust(t, os.Rename(path, path+"2"))
	if got, err := promise(); got != "" || err != nil {
		t.Errorf("nothing was said: %q, %v", got, err)
	}
	gateMust(t, os.Symlink(path+"2", path))
	if got, err := promise(); got != "" || err != nil {
		t.Errorf("a link is no message: %q, %v", got, err)
	}
	gateMust(t, os.Remove(path))
	gateMust(t, syscall.Mkfifo(path, 0o644))
	if got, err := promise(); got != "" || err != nil {
		t.Errorf("a pipe is no message: %q, %v", got, err)
	}
	gateMust(t, os.RemoveAll(filepath.Dir(path)))
	gateMust(t, os.WriteFile(filepath.Dir(path), nil, 0o644))
	if got, err := promise(); got != "" || err != nil {
		t.Errorf("below a file is no message: %q, %v", got, err)
	}
	gateMust(t, os.Remove(filepath.Dir(path)))
	big := make([]byte, agent.MaxMessage+10)
	copy(big, "<promise>DONE</promise>")
	w.says(string(big) + "<commit>")
	text, err := w.host.lastMessage(w.state)
	if err != nil || len(text) < agent.MaxMessage || len(text) > agent.MaxMessage+200 || text[:9] != "<promise>" || text[len(text)-8:] != "<commit>" {
		t.Errorf("the beginning and the end of a long message count: %d bytes, %v", len(text), err)
	}
}

func TestChecklists(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.put("a.md", "- [ ] one\n- [x] two\n")
	w.put(".superloop/b.md", "- [ ] three\n- [ ] four\n")
	w.set.Loop.Checklists = []string{"a.md", ".superloop/b.md", "none.md"}
	e := loop.Effect{ID: "e1", Kind: loop.CheckChecklists}
	fact, err := w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	want := loop.GateEnded{Of: loop.Of{EffectID: "e1"}, Gate: "checklist", Status: "remaining", Details: "4 open, the first: - [ ] one", Results: ".superloop/loops/l/checklist-remaining.md"}
	gateEqual(t, "the outcome", fact, loop.Fact(want))
	var res gate.ChecklistResult
	gateMust(t, res.Look(w.host.Repo.Top, w.set.Loop.Checklists))
	gateEqual(t, "status", w.file("checklist-status.json"), string(res.StatusJSON(gateDay)))
	gateEqual(t, "remaining", w.file("checklist-remaining.md"), string(res.RemainingMarkdown()))
	gateEqual(t, "missing", w.file("checklist-missing.md"), string(res.MissingMarkdown()))

	// The same with a work tree of its own: what is below .superloop stays in the repository.
	w.host.Repo.Top = t.TempDir()
	gateMust(t, os.WriteFile(filepath.Join(w.host.Repo.Top, "a.md"), []byte("- [x] one\n"), 0o644))
	fact, err = w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	want.Details = "3 open, the first: - [ ] three"
	gateEqual(t, "its own work tree", fact, loop.Fact(want))
	var work, own gate.ChecklistResult
	gateMust(t, work.Look(w.host.Repo.Top, []string{"a.md", "none.md"}))
	gateMust(t, own.Look(w.host.Paths.Repo, []string{".superloop/b.md"}))
	both := gate.ChecklistResult{Remaining: 3, Files: work.Files + own.Files, Items: own.Items, Missing: work.Missing}
	gateEqual(t, "status of both", w.file("checklist-status.json"), string(both.StatusJSON(gateDay)))
	gateEqual(t, "items of both", w.file("checklist-remaining.md"), string(both.RemainingMarkdown()))
	gateEqual(t, "missing of both", w.file("checklist-missing.md"), string(both.MissingMarkdown()))
	w.set.Loop.Checklists = []string{".superloop/b.md"}
	w.put(".superloop/b.md", "- [x] three\n")
	fact, err = w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	gateEqual(t, "all done", fact, loop.Fact(loop.GateEnded{Of: want.Of, Gate: "checklist", Status: "ok", OK: true, Results: want.Results}))
	w.set.Loop.Checklists = []string{"a.md", ".superloop/b.md"}
	for _, done := range []string{"- [ ] x\n", "- [x] x\n"} {
		gateMust(t, os.WriteFile(filepath.Join(w.host.Repo.Top, "a.md"), []byte(done), 0o644))
		fact, err = w.gates().Perform(t.Context(), e, w.state)
		gateMust(t, err)
		if f := fact.(loop.GateEnded); f.OK != (done == "- [x] x\n") {
			t.Errorf("%q: %+v", done, f)
		}
	}
}

func TestPrerequisites(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.put("a.txt", "x")
	w.put("it-3-l", "x")
	w.put(".superloop/c.txt", "x")
	checks := []config.Check{{ID: "here", Type: "file_exists", Path: "a.txt"}, {ID: "gone", Type: "file_exists", Path: "b.txt"},
		{ID: "named", Type: "file_exists", Path: "it-{iteration}-{loop_id}"}, {ID: "named too", Type: "file_exists", Path: "{repo}/it-3-{loop}"},
		{ID: "own", Type: "file_exists", Path: ".superloop/c.txt"}, {ID: "own gone", Type: "file_exists", Path: ".superloop/d.txt"}}
	w.set.Loop.Prerequisites.Checks = checks
	e := loop.Effect{ID: "e1", Kind: loop.CheckPrerequisites}
	var all []gate.PrerequisiteCheck
	for _, c := range checks {
		all = append(all, gate.PrerequisiteCheck(c))
	}
	look := func(root string, list []gate.PrerequisiteCheck) (res gate.PrerequisitesResult) {
		t.Helper()
		err := res.Look(root, list, map[string]string{"repo": w.host.Repo.Top, "loop_id": "l", "loop": "l", "iteration": "3"})
		gateMust(t, err)
		return res
	}
	res := look(w.host.Repo.Top, all)
	fact, err := w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	file := ".superloop/loops/l/prerequisites-results.json"
	want := loop.GateEnded{Of: loop.Of{EffectID: "e1"}, Gate: "prerequisites", Status: "failed", Results: file,
		Details: "gone (file_not_found b.txt); own gone (file_not_found .superloop/d.txt)"}
	gateEqual(t, "the outcome", fact, loop.Fact(want))
	gateEqual(t, "results", w.file("prerequisites-results.json"), string(res.ResultsJSON(gateDay)))
	gateEqual(t, "status", w.file("prerequisites-status.json"), string(gate.StatusJSON("failed", file, gateDay)))

	w.host.Repo.Top = t.TempDir() // without any file
	fact, err = w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	work, own := look(w.host.Repo.Top, all[:4]), look(w.host.Paths.Repo, all[4:])
	both := gate.PrerequisitesResult{Total: 6, Verified: append(work.Verified, own.Verified...), Failed: append(work.Failed, own.Failed...)}
	gateEqual(t, "results of both", w.file("prerequisites-results.json"), string(both.ResultsJSON(gateDay)))
	if f := fact.(loop.GateEnded); f.OK || f.Status != "failed" {
		t.Errorf("%+v", f)
	}
	w.set.Loop.Prerequisites.Checks = checks[4:5]
	fact, err = w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	gateEqual(t, "all hold", fact, loop.Fact(loop.GateEnded{Of: want.Of, Gate: "prerequisites", Status: "ok", OK: true, Results: file}))
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.put("spec.md", "spec")
	w.put("a.txt", "x")
	w.put(".superloop/own.txt", "y")
	for _, name := range []string{"test-status.json", "checklist-status.json", "validation-status.json", "validation-results.json", "prerequisites-status.json", "prerequisites-results.json"} {
		w.put("@"+name, `{"of":"`+name+`"}`)
	}
	w.put("@test-output.txt", "out")
	w.put("@checklist-remaining.md", "left")
	l := &w.set.Loop
	l.SpecFile, l.Tests, l.Checklists = "spec.md", config.Tests{Mode: "every", Commands: []string{"a"}}, []string{"c.md"}
	l.Evidence.Artifacts = []string{"a.txt", "gone.txt", ".superloop/own.txt"}
	e := loop.Effect{ID: "e1", Kind: loop.CollectEvidence}
	manifest := func(found gate.EvidenceResult) string {
		t.Helper()
		data, err := gate.Manifest(t.Context(), w.host.Paths.Repo, gate.ManifestSpec{LoopID: "l", Iteration: 3, SpecFile: "spec.md", TestsMode: "every",
			TestCommands: []string{"a"}, ChecklistPatterns: []string{"c.md"}, File: w.host.Paths.File}, found, gateDay)
		gateMust(t, err)
		return string(data)
	}
	found := func(root string, list ...string) (res gate.EvidenceResult) {
		t.Helper()
		gateMust(t, res.Look(t.Context(), root, list))
		return res
	}
	fact, err := w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	res := found(w.host.Repo.Top, l.Evidence.Artifacts...)
	want := loop.GateEnded{Of: loop.Of{EffectID: "e1"}, Gate: "evidence", Status: "failed", Details: res.Missing[0], Results: ".superloop/loops/l/evidence.json"}
	gateEqual(t, "the outcome", fact, loop.Fact(want))
	gateEqual(t, "evidence.json", w.file("evidence.json"), manifest(res))

	w.host.Repo.Top = t.TempDir()
	fact, err = w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	work, own := found(w.host.Repo.Top, "a.txt", "gone.txt"), found(w.host.Paths.Repo, ".superloop/own.txt")
	want.Details = work.Missing[0] + "; " + work.Missing[1]
	gateEqual(t, "its own work tree", fact, loop.Fact(want))
	gateEqual(t, "evidence.json of both", w.file("evidence.json"), manifest(gate.EvidenceResult{Artifacts: append(work.Artifacts, own.Artifacts...), Missing: work.Missing}))
	l.Evidence.Artifacts = []string{".superloop/own.txt"}
	fact, err = w.gates().Perform(t.Context(), e, w.state)
	gateMust(t, err)
	gateEqual(t, "all there", fact, loop.Fact(loop.GateEnded{Of: want.Of, Gate: "evidence", Status: "ok", OK: true, Results: want.Results}))
}

// How long a gate took is told to the millisecond.
func TestGatesTellTheirTime(t *testing.T) {
	t.Parallel()
	for _, kind := range []loop.EffectKind{loop.CheckChecklists, loop.CheckPrerequisites, loop.CollectEvidence} {
		w := newGateWorld(t)
		w.host.Clock = func() time.Time { w.now = w.now.Add(7 * time.Millisecond); return w.now }
		fact, err := w.gates().Perform(t.Context(), loop.Effect{Kind: kind}, w.state)
		gateMust(t, err)
		if f := fact.(loop.GateEnded); f.DurationMS != 7 || !f.OK {
			t.Errorf("%s: %+v", kind, f)
		}
	}
}

func TestGatesWithoutARepository(t *testing.T) {
	t.Parallel()
	for _, kind := range []loop.EffectKind{loop.CheckChecklists, loop.CheckPrerequisites, loop.CollectEvidence} {
		w := newGateWorld(t)
		w.put(".superloop/x", "- [x] x\n")
		w.set.Loop.Checklists, w.set.Loop.Evidence.Artifacts = []string{"x", ".superloop/x"}, []string{"x", ".superloop/x"}
		w.set.Loop.Prerequisites.Checks = []config.Check{{ID: "x", Type: "file_exists", Path: "x"}, {ID: "y", Type: "file_exists", Path: ".superloop/x"}}
		w.host.Repo.Top = filepath.Join(w.host.Repo.Top, "gone")
		if fact, err := w.gates().Perform(t.Context(), loop.Effect{Kind: kind}, w.state); err == nil || fact != nil {
			t.Errorf("%s: %v, %v", kind, fact, err)
		}
	}
	w := newGateWorld(t)
	w.host.Paths.Repo = filepath.Join(w.host.Paths.Repo, "gone") // for the manifest and the run summary
	for _, kind := range []loop.EffectKind{loop.CollectEvidence, loop.Report} {
		if fact, err := w.gates().Perform(t.Context(), loop.Effect{Kind: kind}, w.state); err == nil || fact != nil {
			t.Errorf("%s: %v, %v", kind, fact, err)
		}
	}
}

func TestGatesOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, kind := range []loop.EffectKind{loop.CheckChecklists, loop.CheckPrerequisites, loop.CollectEvidence, loop.Report} {
		everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
			w := newGateWorld(t)
			return w, func() error {
				fact, err := w.gates().Perform(t.Context(), loop.Effect{Kind: kind}, w.state)
				if err == nil && fact == nil {
					t.Errorf("%s: no outcome", kind)
				}
				return err
			}
		})
	}
}
