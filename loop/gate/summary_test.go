package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop"
)

var allGood = loop.Gates{Promise: "true", Tests: "ok", Checklist: "ok", Validation: "skipped", Prerequisites: "skipped", Evidence: "ok"}

func TestSummaryLines(t *testing.T) {
	t.Parallel()
	equal(t, "gate-summary.txt", Iteration{State: loop.State{Gates: allGood, Stuck: loop.Streak{Threshold: 3}}}.Summary(),
		"promise=true tests=ok validation=skipped prerequisites=skipped checklist=ok evidence=ok lifecycle=skipped stuck=0/3 approval=skipped\n")
	equal(t, "nothing asked", Iteration{}.Summary(),
		"promise=unknown tests=unknown validation=skipped prerequisites=skipped checklist=unknown evidence=skipped lifecycle=skipped stuck=n/a approval=skipped\n")
	equal(t, "timeline.md", TimelineHeader("t")+Iteration{End: noon, State: loop.State{RunID: "20261121T120000Z", Iteration: 4, Gates: allGood, Stuck: loop.Streak{Threshold: 3}}}.TimelineLine(),
		"# Timeline\n\nLoop: t\n\n- 2026-11-21T12:00:00Z run=20261121T120000Z iter=4 promise=true tests=ok validation=skipped prerequisites=skipped "+
			"checklist=ok evidence=ok lifecycle=skipped approval=skipped stuck=0/3 completion=true\n")
}

func TestNotes(t *testing.T) {
	t.Parallel()
	n := Iteration{End: noon, State: loop.State{LoopID: "t", Iteration: 2, Gates: loop.Gates{Promise: "false", Tests: "failed", Checklist: "remaining", Evidence: "ok"},
		Plan: loop.Plan{Tests: "every"}, Stuck: loop.Streak{Count: 1, Threshold: 3}, Missing: []string{"promise=false", "tests=failed", "checklist=remaining"}}}
	equal(t, "iteration_notes.md", string(n.Notes()), `Iteration: 2
Loop: t
Promise matched: false
Tests: failed (mode: every)
Validation: skipped
Prerequisites: skipped
Checklist: remaining
Evidence: ok
Lifecycle: skipped
Approval: skipped
Stuck streak: 1/3
Generated at: 2026-11-21T12:00:00Z

Next steps:
- promise=false: read the reviewer's findings in review.md.
- tests=failed: read test-output.txt and test-status.json and fix the first failing command.
- checklist=remaining: do the items of checklist-remaining.md; files that are missing are in checklist-missing.md.
`)
	n.Response.Incidents = []loop.Incident{{Role: "tester", Failures: 2, Last: "b: it ended", Cause: "possibly: x (code)", Guess: true, Became: "solved by a"},
		{Role: "tests", Failures: 3, Last: "make ends", Cause: "a \"nil\" map", Fix: "make it (code)"}}
	if notes := string(n.Notes()); !strings.Contains(notes, "\nWhat failed:\n- tester failed twice, last: b: it ended; solved by a\n- tests failed 3 times, last: make ends; cause: a \"nil\" map; to do about it: make it (code)\n\nNext steps:\n") {
		t.Error(notes)
	}
	if line := n.TimelineLine(); !strings.HasSuffix(line, ` failed=tester:2 cause="possibly: x (code)" failed=tests:3 cause="a \"nil\" map"`+"\n") {
		t.Error(line)
	}
	n.Response.Incidents = nil
	n.Missing = []string{"validation=failed", "prerequisites=failed", "evidence=failed", "other=x"}
	for _, file := range []string{"validation-results.json", "prerequisites-results.json", "evidence.json", "gate-summary.txt"} {
		if !strings.Contains(string(n.Notes()), file) {
			t.Errorf("no word of %s", file)
		}
	}
	n.Missing = nil
	if !strings.HasSuffix(string(n.Notes()), "- None: every gate is passed.\n") {
		t.Error("nothing missing is not said")
	}
}

func TestReviewerPacket(t *testing.T) {
	t.Parallel()
	root := repo(t, map[string]string{
		"gate-summary.txt": "promise=false", "test-status.json": "{\"ok\":true}\n", "evidence.json": "", "validation-results.json": "{\"preflight\":null}\n",
		"test-report.md": "head" + strings.Repeat("x", maxPacketSection) + "tail", "validation-status.json": "{}\n", "out": "-> /etc/hostname",
	})
	packet, err := ReviewerPacket(root, Packet{LoopID: "t", Iteration: 3, GatesOf: 2, File: func(name string) string {
		switch name {
		case "test-status.json":
			return root + "/" + name
		case "checklist-status.json":
			return "out"
		}
		return name
	}}, noon)
	must(t, err)
	got := string(packet)
	long := strings.Repeat("x", maxPacketSection/2-4)
	equal(t, "packet", strings.ReplaceAll(got, long, "~"), `# Reviewer Packet

Loop: t
Iteration: 3
Generated at: 2026-11-21T12:00:00Z
Gates: gate summary, checklists, evidence and validation are those of iteration 2.

## Gate Summary
promise=false

## Test Status
{"ok":true}

## Test Report
head~
... 8 bytes left out ...
~tail

## Checklist Status
Missing checklist status.

## Checklist Remaining
Missing checklist remaining list.

## Evidence

## Validation
{}

{"preflight":null}
`)
	packet, err = ReviewerPacket(root, Packet{LoopID: "t", Iteration: 1, File: func(string) string { return "" }}, noon)
	must(t, err)
	if !strings.Contains(string(packet), "Gates: not judged yet") || strings.Count(string(packet), "Missing ") != 7 {
		t.Errorf("first iteration:\n%s", packet)
	}
}

func entry(run string, iteration int) Iteration {
	return Iteration{State: loop.State{LoopID: "t", RunID: run, Iteration: iteration, IterationAt: noon.Add(-time.Minute), Gates: allGood,
		Plan: loop.Plan{Tests: "every"}, Stuck: loop.Streak{Threshold: 3}}, End: noon, Promise: Promise("", "DONE"), Artifacts: map[string]FileFact{"plan": {Path: "plan.md"}}}
}

func TestAddRunEntry(t *testing.T) {
	t.Parallel()
	data, err := AddRunEntry(nil, entry("r", 1))
	must(t, err)
	m := decode(t, data)
	keys(t, m, "version loop_id updated_at dropped entries")
	e := m["entries"].([]any)[0].(map[string]any)
	keys(t, e, "run_id iteration started_at ended_at promise gates tests_mode stuck completion_ok missing why note artifacts")
	keys(t, e["gates"].(map[string]any), "tests validation prerequisites checklist evidence lifecycle approval")
	keys(t, e["promise"].(map[string]any), "expected text matched")
	equal(t, "started_at", e["started_at"].(string), "2026-11-21T11:59:00Z")

	again, err := AddRunEntry(data, entry("r", 1))
	must(t, err)
	equal(t, "the same iteration twice", string(again), string(data))

	// An entry of the original keeps what superloop does not know.
	old := `{"version":1,"loop_id":"t","updated_at":"x","entries":[{"run_id":"o","iteration":9,"delegation":{"enabled":true},"gates":{}}]}`
	data, err = AddRunEntry([]byte(old), entry("r", 1))
	must(t, err)
	first := decode(t, data)["entries"].([]any)[0].(map[string]any)
	if first["delegation"].(map[string]any)["enabled"] != true || first["iteration"] != 9.0 {
		t.Errorf("got %v", first)
	}
	for _, bad := range []string{"{", `{"version":2}`, `[]`} {
		if _, err := AddRunEntry([]byte(bad), entry("r", 1)); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}

func TestRunSummaryIsBounded(t *testing.T) {
	t.Parallel()
	var before []string
	for i := 1; i <= maxEntries-3; i++ {
		before = append(before, fmt.Sprintf(`{"iteration":%d}`, i))
	}
	data := []byte(`{"version":1,"entries":[` + strings.Join(before, ",") + `]}`)
	var err error
	for i := maxEntries - 2; i <= maxEntries+7; i++ {
		data, err = AddRunEntry(data, entry("r", i))
		must(t, err)
	}
	var sum struct {
		Dropped int
		Entries []struct{ Iteration int }
	}
	must(t, json.Unmarshal(data, &sum))
	if sum.Dropped != 7 || len(sum.Entries) != maxEntries || sum.Entries[0].Iteration != 8 || sum.Entries[maxEntries-1].Iteration != maxEntries+7 {
		t.Errorf("dropped %d, %d entries from %d", sum.Dropped, len(sum.Entries), sum.Entries[0].Iteration)
	}
}

// The journal grows with the loop: its end stands for all of it.
func TestFileFactsOfTheJournal(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0f", 32)
	line := `{"seq":1,"prev":"","hash":"` + sum + `"}` + "\n"
	for name, c := range map[string]struct{ text, sum string }{
		"whole":             {line + line, sum},
		"one line":          {line, sum},
		"only the end":      {`,"hash":"` + sum + `"}` + "\n", sum},
		"torn":              {line + `{"seq":2`, ""},
		"no hash":           {strings.Repeat("x", 200) + "\n", ""},
		"no digits":         {strings.ReplaceAll(line, "0f", "0g"), ""},
		"another key":       {strings.ReplaceAll(line, "hash", "bash"), ""},
		"no end of line":    {line[:len(line)-1] + " ", ""},
		"shorter than that": {"{}\n", ""},
		"empty":             {"", ""},
	} {
		root := repo(t, map[string]string{"events.jsonl": c.text})
		got, err := FileFacts(t.Context(), root, map[string]string{"events": root + "/events.jsonl"})
		must(t, err)
		e := got["events"]
		if e.Path != "events.jsonl" || !e.Exists || e.SHA256 != c.sum || e.MTime == 0 || e.Size != int64(len(c.text)) || e.Gate != "" {
			t.Errorf("%s: %+v, want the hash %q", name, e, c.sum)
		}
	}
	for name, want := range map[string]FileFact{"gone.jsonl": {Path: "gone.jsonl"}, "/etc/passwd": {Path: "/etc/passwd"}} {
		got, err := FileFacts(t.Context(), repo(t, nil), map[string]string{"events": name})
		must(t, err)
		if got["events"] != want {
			t.Errorf("%s: %+v", name, got["events"])
		}
	}
}

func TestFileFacts(t *testing.T) {
	t.Parallel()
	root := repo(t, map[string]string{"plan.md": "p", "approval.json": "{}"})
	got, err := FileFacts(t.Context(), root, map[string]string{"plan": root + "/plan.md", "approval": "approval.json", "review": "review.md", "out": "/etc/passwd"})
	must(t, err)
	if p := got["plan"]; p.Path != "plan.md" || !p.Exists || p.SHA256 != sha("p") || p.MTime == 0 || p.Gate != "" {
		t.Errorf("plan: %+v", p)
	}
	if a := got["approval"]; a.Gate != "approval" || !a.Exists {
		t.Errorf("approval: %+v", a)
	}
	if r := got["review"]; r != (FileFact{Path: "review.md"}) {
		t.Errorf("review: %+v", r)
	}
	if o := got["out"]; o.Exists || o.SHA256 != "" {
		t.Errorf("a file outside the repository is told: %+v", o)
	}
}

func TestApproval(t *testing.T) {
	t.Parallel()
	a := Approval{LoopID: "t", RunID: "r", Iteration: 2, Files: ApprovalFiles{GateSummary: "l/gate-summary.txt"}, Tree: "abc"}.
		Pending(Promise("<promise>DONE</promise>", "DONE"), allGood, noon, noon.Add(-time.Hour), noon)
	m := decode(t, a.JSON())
	keys(t, m, "status loop_id run_id iteration requested_at iteration_started_at iteration_ended_at candidate files tree")
	keys(t, m["files"].(map[string]any), "gate_summary evidence reviewer_report test_report plan iteration_notes")
	candidate := m["candidate"].(map[string]any)
	keys(t, candidate["gates"].(map[string]any), "tests validation prerequisites checklist evidence lifecycle")
	equal(t, "status", m["status"].(string), "pending")

	back, err := ParseApproval(a.JSON())
	must(t, err)
	d := Decision{Status: "approved", By: "ada", Note: "looks\ngood", At: noon.Add(time.Hour), File: ".superloop/loops/t/approval.json"}
	done, err := back.Decide(d)
	must(t, err)
	m = decode(t, done.JSON())
	decision := m["decision"].(map[string]any)
	keys(t, decision, "status by note at")
	if m["status"] != "approved" || decision["by"] != "ada" || m["decided_by"] != "ada" || m["decided_note"] != "looks\ngood" ||
		m["decided_at"] != "2026-11-21T13:00:00Z" || m["tree"] != "abc" {
		t.Errorf("got %v", m)
	}
	if again, err := done.Decide(Decision{By: "eve"}); !errors.Is(err, ErrNotPending) || again.Status != "approved" {
		t.Errorf("decided twice: %+v %v", again, err)
	}
	equal(t, "decisions.jsonl", string(done.LogLine(d)), `{"timestamp":"2026-11-21T13:00:00Z","loop_id":"t","run_id":"r","iteration":2,`+
		`"decision":"approved","by":"ada","note":"looks\ngood","approval_file":".superloop/loops/t/approval.json"}`+"\n")
	equal(t, "decisions.md", string(done.LogMarkdown(d)), "## 2026-11-21T13:00:00Z approved\n\n- Loop: t\n- Run: r\n- Iteration: 2\n- Decision: approved\n"+
		"- By: ada\n- Note: looks good\n- Approval file: .superloop/loops/t/approval.json\n\n")

	no, err := back.Decide(Decision{Status: "rejected", By: "ada", At: noon})
	must(t, err)
	if m := decode(t, no.JSON()); m["status"] != "rejected" || m["decision"].(map[string]any)["note"] != nil {
		t.Errorf("rejected: %v", m)
	}
	if strings.Contains(string(no.LogLine(Decision{By: "ada"})), "note") {
		t.Error("a note that is not there is told")
	}
	for _, bad := range []string{"", "{", `{"status":"maybe"}`, "[]"} {
		if _, err := ParseApproval([]byte(bad)); err == nil {
			t.Errorf("%q is an approval", bad)
		}
	}
	if a, err := ParseApproval([]byte(`{"loop_id":"t","decided_note":null}`)); err != nil || a.Status != "pending" {
		t.Errorf("got %+v %v", a, err)
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "limit")
		got := oneLine(s, limit)
		if strings.ContainsAny(got, "\n\r\t\x00\x1b") || len([]rune(got)) > limit+3 {
			t.Fatalf("%q became %q", s, got)
		}
		if p := pathText(s); strings.ContainsAny(p, "\n\r\x00") {
			t.Fatalf("%q became %q", s, p)
		}
	})
	equal(t, "bad UTF-8", oneLine("a\xffb", 10), "a\ufffdb")
	equal(t, "cut", oneLine("abcdef", 3), "abc...")
	equal(t, "plural", fmt.Sprint(plural(1, "file"), plural(2, "file"), plural(0, "file")), "1 file2 files0 files")
}
