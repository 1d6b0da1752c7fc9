package loop

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestGoldenJournals replays what real runs recorded under earlier builds: a
// change of the rules must not change where they led. Add a journal for every
// new rules version; never change one that is there.
func TestGoldenJournals(t *testing.T) {
	for file, want := range map[string]struct {
		status    Status
		reason    string
		iteration int
	}{
		// Approved, rejected, approved after the tree had changed, over several runs.
		"rules1-completion.jsonl": {LimitReached, ReasonMaxIterations, 3},
		// A limit of a provider, a kick, and a limit that another loop had met.
		"rules1-limit.jsonl": {Completed, ReasonPromiseKept, 1},
		// A login that a human had to mend.
		"rules1-login.jsonl": {Completed, ReasonPromiseKept, 1},
		// Listed commands that fail, fallbacks, and what a human says to them.
		"rules1-recovery.jsonl": {AwaitingHuman, EscalationFailed, 1},
		// A human approves, rejects, mends; a command that only they may run.
		"rules1-human.jsonl": {AwaitingHuman, "require_human", 2},
		// A command with &&, < and >.
		"rules1-shell.jsonl": {Completed, ReasonPromiseKept, 1},
		// Remediation plans: a command that fails, the remedy of its failure, a retry.
		"rules1-remediation.jsonl": {LimitReached, ReasonMaxIterations, 1},
		// A role that fails of the same bug again, up to a human.
		"rules1-role.jsonl": {Completed, ReasonPromiseKept, 1},
		// Two runners that are limited, and the one that is back first.
		"rules1-runners.jsonl": {Completed, ReasonPromiseKept, 1},
		// An environment check that fails, and its remedy.
		"rules1-preflight.jsonl": {Completed, ReasonPromiseKept, 1},
	} {
		t.Run(file, func(t *testing.T) {
			path := "testdata/" + file
			all := goldenLines(t, path)
			r := NewReplay()
			for i, ev := range all {
				if err := r.Add(ev); err != nil {
					t.Fatal(err)
				}
				// Wherever a crash may have cut the journal, what is owed is what
				// follows in it.
				for k, owed := range r.Owed {
					next := all[i+1+k]
					if owed.Event != next.Event || owed.Iteration != next.Iteration || !sameMembers(t, owed.Fields, next.Fields) {
						t.Fatalf("after event %d %s is owed in iteration %d: %s\nthe journal has %s in %d: %s", ev.Seq,
							owed.Event, owed.Iteration, owed.Fields, next.Event, next.Iteration, next.Fields)
					}
				}
			}
			if r.State.Status != want.status || r.State.Reason != want.reason || r.State.Iteration != want.iteration || len(r.Owed) > 0 {
				t.Fatalf("%s/%s in iteration %d, %d owed", r.State.Status, r.State.Reason, r.State.Iteration, len(r.Owed))
			}
		})
	}
}

// sameMembers reports whether a line holds the members of fields, and but for the
// envelope no others.
func sameMembers(t *testing.T, fields, line json.RawMessage) bool {
	t.Helper()
	var a, b map[string]any
	if err := json.Unmarshal(line, &b); err != nil {
		t.Fatal(err)
	}
	if len(fields) > 0 {
		if err := json.Unmarshal(fields, &a); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"seq", "timestamp", "event", "loop_id", "run_id", "iteration", "prev", "hash"} {
		delete(b, key)
	}
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

func goldenLines(t *testing.T, path string) []Line {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []Line
	for raw := range bytes.Lines(data) {
		line, err := ParseLine(bytes.TrimRight(raw, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}
