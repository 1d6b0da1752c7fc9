package effects

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

func (w *gateWorld) reportFully() string {
	w.t.Helper()
	summary, err := w.gates().WriteReports(w.t.Context(), w.state)
	gateMust(w.t, err)
	return summary
}

func TestReport(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	w.says("<promise>DONE</promise>")
	w.put("@plan.md", "the plan")
	w.put("@approval.json", "{}")
	w.put("@events.jsonl", `{"seq":1,"prev":"","hash":"`+strings.Repeat("ab", 32)+"\"}\n")
	w.state.Gates = loop.Gates{Promise: "true", Tests: "failed", Checklist: "ok"}
	w.state.Stuck = loop.Streak{Count: 1, Threshold: 3}
	w.state.Missing, w.state.IterationAt = []string{"tests=failed"}, gateDay.Add(-time.Minute)
	w.state.Plan.Approval = true
	fact, err := w.gates().Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.Report}, w.state)
	gateMust(t, err)
	v := w.state.Gates
	v.Approval = "skipped"
	n := gate.Iteration{End: gateDay, Promise: gate.Promise("<promise>DONE</promise>", "DONE"), State: loop.State{LoopID: "l", RunID: "r1", Iteration: 3, Gates: v,
		IterationAt: w.state.IterationAt, Plan: loop.Plan{Tests: "every"}, Stuck: loop.Streak{Count: 1, Threshold: 3}, Missing: w.state.Missing}}
	summary := n.Summary()
	gateEqual(t, "the outcome", fact, loop.Fact(loop.Reported{Of: loop.Of{EffectID: "e1"}, Summary: strings.TrimSuffix(summary, "\n")}))
	gateEqual(t, "gate-summary.txt", w.file("gate-summary.txt"), summary)
	gateEqual(t, "iteration_notes.md", w.file("iteration_notes.md"), string(n.Notes()))
	gateEqual(t, "timeline.md", w.file("timeline.md"), gate.TimelineHeader("l")+n.TimelineLine())

	files := map[string]string{}
	for name, file := range summaryFiles {
		files[name] = w.host.Paths.File(file)
	}
	facts, err := gate.FileFacts(t.Context(), w.host.Paths.Repo, files)
	gateMust(t, err)
	// Written after the facts were taken: they are views of the same moment.
	n.Artifacts = facts
	want, err := gate.AddRunEntry(nil, n)
	gateMust(t, err)
	gateEqual(t, "run-summary.json", w.file("run-summary.json"), string(want))
	names := map[string]string{}
	for name, f := range facts {
		names[name] = strings.TrimPrefix(f.Path, ".superloop/loops/l/")
	}
	gateEqual(t, "the files of an entry", names, map[string]string{"plan": "plan.md", "implementer": "implementer.md", "test_report": "test-report.md",
		"reviewer": "review.md", "test_output": "test-output.txt", "test_status": "test-status.json",
		"prerequisites_status": "prerequisites-status.json", "prerequisites_results": "prerequisites-results.json",
		"checklist_status": "checklist-status.json", "checklist_remaining": "checklist-remaining.md", "evidence": "evidence.json",
		"validation_status": "validation-status.json", "validation_results": "validation-results.json",
		"gate_summary": "gate-summary.txt", "iteration_notes": "iteration_notes.md", "events": "events.jsonl",
		"reviewer_packet": "reviewer-packet.md", "approval": "approval.json", "decisions": "decisions.jsonl", "decisions_md": "decisions.md"})
	if e := facts["events"]; e.SHA256 != strings.Repeat("ab", 32) || e.Size == 0 || facts["approval"].Gate != "approval" || !facts["plan"].Exists {
		t.Errorf("%+v", facts)
	}
}

func TestReportedApproval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gate     string
		approval bool
		missing  []string
		want     string
	}{
		"decided":    {"rejected", true, nil, "rejected"},
		"next":       {"", true, nil, "pending"},
		"not yet":    {"", true, []string{"x"}, "skipped"},
		"not wanted": {"", false, nil, "skipped"},
	} {
		w := newGateWorld(t)
		w.state.Gates.Approval, w.state.Plan.Approval, w.state.Missing = c.gate, c.approval, c.missing
		if summary := w.reportFully(); !strings.Contains(summary, " approval="+c.want+"\n") {
			t.Errorf("%s: %s", name, summary)
		}
		complete := fmt.Sprintf("completion=%t\n", len(c.missing) == 0)
		var sum struct {
			Entries []struct {
				CompletionOK bool `json:"completion_ok"`
			}
		}
		gateMust(t, json.Unmarshal([]byte(w.file("run-summary.json")), &sum))
		if !strings.HasSuffix(w.file("timeline.md"), complete) || sum.Entries[0].CompletionOK != (len(c.missing) == 0) {
			t.Errorf("%s: %s", name, w.file("timeline.md"))
		}
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	line := func(iteration int) string {
		return gate.Iteration{End: w.now, State: loop.State{RunID: w.state.RunID, Iteration: iteration, Gates: reportVerdicts(w.state)}}.TimelineLine()
	}
	want := gate.TimelineHeader("l")
	steps := func(name string, rewritten bool) {
		t.Helper()
		again := false
		for _, s := range w.steps {
			again = again || s == "timeline:rename"
		}
		if again != rewritten {
			t.Errorf("%s: written anew: %t, want %t", name, again, rewritten)
		}
		gateEqual(t, name, w.file("timeline.md"), want)
		w.steps = nil
	}
	for i := 1; i <= 3; i++ {
		w.state.Iteration = i
		w.reportFully()
		want += line(i)
		steps(fmt.Sprintf("iteration %d", i), i == 1)
	}
	w.now = w.now.Add(time.Minute) // reported again, as after a crash
	w.reportFully()
	want = want[:strings.LastIndex(want, "- 2026")] + line(3)
	steps("the same again", true)

	w.state.RunID = "r2" // the same iteration of another run is another one
	w.reportFully()
	want += line(3)
	steps("another run", false)

	w.put("@timeline.md", want+"- torn")
	w.state.Iteration = 4
	w.reportFully()
	want += "- torn" + line(4)
	steps("a torn end", true)
}

// Only the end of a long timeline is looked at, and that far it is.
func TestTimelineIsSearchedFromItsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after     int
		rewritten bool
	}{"near": {8<<10 - 20, true}, "far": {8<<10 + 20, false}} {
		w := newGateWorld(t)
		old := "- run=r1 iter=3 x\n"
		text := old + strings.Repeat("y", c.after-len(old)-1) + "\n"
		w.put("@timeline.md", text)
		w.reportFully()
		if got := strings.Contains(w.file("timeline.md"), old); got == c.rewritten {
			t.Errorf("%s: the old line is there: %t", name, got)
		}
	}
}

// A loop's directory belongs to agents as well: nothing is read or written through
// what they have put in the way.
func TestTimelineInTheWay(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	path := w.host.Paths.File("timeline.md")
	line := gate.Iteration{End: gateDay, State: loop.State{RunID: "r1", Iteration: 3, Gates: reportVerdicts(w.state)}}.TimelineLine()
	other := w.put("other.md", "theirs\n")
	for name, c := range map[string]struct {
		put  func() error
		want string
	}{
		"a link":       {func() error { return os.Symlink(other, path) }, gate.TimelineHeader("l") + line},
		"a pipe":       {func() error { return syscall.Mkfifo(path, 0o644) }, gate.TimelineHeader("l") + line},
		"another name": {func() error { return os.Link(other, path) }, "theirs\n" + line},
		"empty":        {func() error { return os.WriteFile(path, nil, 0o644) }, gate.TimelineHeader("l") + line},
	} {
		_ = os.Remove(path)
		gateMust(t, c.put())
		w.reportFully()
		gateEqual(t, name, w.file("timeline.md"), c.want)
		data, err := os.ReadFile(other)
		if err != nil || string(data) != "theirs\n" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	gateMust(t, os.Remove(path))
	gateMust(t, os.Mkdir(path, 0o755))
	if _, err := w.gates().WriteReports(t.Context(), w.state); err == nil {
		t.Error("a directory cannot be replaced")
	}
	w.host.Paths.Loop = other
	if err := w.gates().writeTimeline(w.state, line); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("what cannot be read is not begun anew: %v", err)
	}
}

func TestRunSummary(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	entries := func() (n int) {
		t.Helper()
		var sum struct{ Entries []json.RawMessage }
		gateMust(t, json.Unmarshal([]byte(w.file("run-summary.json")), &sum))
		return len(sum.Entries)
	}
	for i := range 3 {
		w.state.Iteration = i + 1
		w.reportFully()
	}
	w.reportFully()
	gateEqual(t, "entries", entries(), 3)
	w.put("@run-summary.json", "garbage")
	w.reportFully()
	gateEqual(t, "begun anew", entries(), 1)
	gateMust(t, os.Remove(w.host.Paths.File("run-summary.json")))
	gateMust(t, os.Mkdir(w.host.Paths.File("run-summary.json"), 0o755))
	w.host.Disk = w.host.Disk.Clearing(func(string, string) {}, w.host.Paths.Super)
	w.reportFully()
	gateEqual(t, "begun anew beside a directory", entries(), 1)
}

func TestReportsThatAreAddedOnAFullDisk(t *testing.T) {
	t.Parallel()
	everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
		w := newGateWorld(t)
		w.reportFully()
		w.state.Iteration++
		return w, func() error { _, err := w.gates().WriteReports(t.Context(), w.state); return err }
	})
}
