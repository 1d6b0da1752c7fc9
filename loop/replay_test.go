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
		// A failed planner, a rejection, resumes, and an approval after the tree had
		// changed.
		"rules1-approval.jsonl": {Completed, ReasonApproved, 3},
		// A limit, a refused login and a kick, a spent budget, a session that was
		// resumed, and a cost that nobody knew.
		"rules2-limits.jsonl": {LimitReached, ReasonCostUnknown, 2},
		// A listed command that failed, its fallback that a person approved while no
		// supervisor was alive, and a second proposal that cured the tests.
		"rules3-recovery.jsonl": {Completed, ReasonPromiseKept, 2},
		// A cure that failed, the cure of its own failure, and the first one again;
		// later two that the guard put before a person, so that the roles went on.
		"rules4-first-aid.jsonl": {Completed, ReasonPromiseKept, 3},
		// A cured ground, a ladder up to a person, tests that failed in the same way up to
		// a person, broken ground up to a person.
		"rules5-ladder.jsonl": {Completed, ReasonPromiseKept, 5},
	} {
		t.Run(file, func(t *testing.T) {
			path := "testdata/" + file
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
			r := NewReplay()
			for i, ev := range all {
				if err := r.Add(ev); err != nil {
					t.Fatal(err)
				}
				// Wherever a crash may have cut the journal, what is owed is what
				// follows in it.
				r.Finish()
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
