package roles

import (
	"strings"
	"testing"
)

// The only role of a loop with one prompt reads that prompt first and unchanged, and behind it a few lines: notes, what
// failed, and the promise, never in the form that counts.
func TestBeside(t *testing.T) {
	t.Parallel()
	first := firstTurn(t, Implementer)
	first.Template, first.Notes, first.Promises = "Fix the tests.\n", loopDir+"/notes.md", true
	got, err := Render(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Fix the tests.\n\n---\n", "run 1 of at most 20", loopDir + "/notes.md", "```\nSUPERLOOP_COMPLETE\n```"} {
		if !strings.Contains(got, want) {
			t.Errorf("the prompt lacks %q:\n%s", want, got)
		}
	}
	if len(got) > 1500 || strings.Contains(got, "<promise>") || strings.Contains(got, "Rules of this loop") || strings.Contains(got, "### Gates") {
		t.Errorf("the first prompt has %d bytes:\n%s", len(got), got)
	}

	later := fullTurn(t, Implementer)
	later.Template, later.Notes, later.Promises = "Fix the tests.", loopDir+"/notes.md", true
	later.Gates = [][2]string{{"promise", "true"}, {"tests", "failed"}, {"approval", "skipped"}, {"change", "nothing"}}
	if got, err = Render(later); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"superloop saw otherwise: tests (failed), change (nothing).", "does not match binary version", "The last attempt", "still describes the old flag"} {
		if !strings.Contains(got, want) {
			t.Errorf("a later prompt lacks %q:\n%s", want, got)
		}
	}
	later.Gates[0][1] = "false"
	later.Promise = ""
	if got, err = Render(later); err != nil || strings.Contains(got, "saw otherwise") || !strings.Contains(got, "Do not write an XML-style element") {
		t.Errorf("without a promise: %v\n%s", err, got)
	}
}

// A role that promises although it is no reviewer is told how; another one that it must not.
func TestWhoPromises(t *testing.T) {
	t.Parallel()
	for _, promises := range []bool{false, true} {
		in := firstTurn(t, Implementer)
		in.Promises = promises
		got, err := Render(in)
		if err != nil || strings.Contains(got, "SUPERLOOP_COMPLETE") != promises || strings.Contains(got, "Only the reviewer decides") == promises {
			t.Errorf("promises %v: %v\n%s", promises, err, got)
		}
	}
}
