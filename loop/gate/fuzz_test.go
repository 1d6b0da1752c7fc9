package gate

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
)

func valid(f *testing.F, name string) []byte {
	data, err := os.ReadFile("../../schemas/testdata/valid/" + name)
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzApproval: approval.json says one of three things, and is written again as it was read.
func FuzzApproval(f *testing.F) {
	testkit.Seed(f, valid(f, "approval.approved.json"), []byte(`{"status":"`+string(bytes.Repeat([]byte("x"), 5000))+`"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !door.Shallow(data) {
			return // door.ReadJSON refuses it
		}
		a, ok := testkit.Decoder[Approval]{Decode: ParseApproval, Encode: func(a Approval) ([]byte, error) { return a.JSON(), nil }}.Check(t, data)
		if !ok {
			return
		}
		d := Decision{Status: StatusRejected, By: "ada", Note: "n", At: time.Unix(1, 0)}
		if decided, err := a.Decide(d); (err == nil) != (a.Status == StatusPending) || err == nil && decided.Status != StatusRejected {
			t.Fatalf("%s became %s, %v", a.Status, decided.Status, err)
		}
		if line := a.LogLine(d); !json.Valid(line) || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("no line of JSON: %q", line)
		}
		a.LogMarkdown(d)
	})
}

// FuzzStuck: whatever stuck.json says, the next iteration without a change adds one, and one with a change begins anew.
func FuzzStuck(f *testing.F) {
	testkit.Seed(f, StuckState{Streak: 2, Threshold: 3, Reason: ReasonNoChange, SinceIteration: 4, RunID: "r", Iteration: 5}.JSON())
	f.Add([]byte(`{"streak":-5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := testkit.Decoder[StuckState]{Decode: ParseStuck, Encode: func(s StuckState) ([]byte, error) { return s.JSON(), nil }}.Check(t, data)
		if !ok {
			return
		}
		now := StuckState{Threshold: 3, RunID: "next", Iteration: 9, UpdatedAt: time.Unix(1, 0)}
		if next := Stuck(s, now, []string{"a.go"}); next.Streak != 0 || next.Triggered() {
			t.Fatalf("%+v after a change: %+v", s, next)
		}
		if next := Stuck(s, now, nil); s.Streak < 1<<62 && next.Streak != s.Streak+1 {
			t.Fatalf("%+v after no change: %+v", s, next)
		}
	})
}

// FuzzSummary: whatever stands in run-summary.json, an entry is added to it, once, and the file stays JSON of at most 50
// entries, or it is refused.
func FuzzSummary(f *testing.F) {
	testkit.Seed(f, valid(f, "run-summary.one.json"), []byte(`{"version":1,"entries":[null,{"run_id":"r","iteration":1},[1,
"x"]],"dropped":-1,"entries":[]}`))
	f.Fuzz(func(t *testing.T, prev []byte) {
		if !door.Shallow(prev) {
			return // door.ReadJSON refuses it
		}
		e := Iteration{State: loop.State{LoopID: "l", RunID: "r", Iteration: 1}, End: time.Unix(1, 0)}
		next, ok := testkit.Decoder[[]byte]{Decode: func(prev []byte) ([]byte, error) { return AddRunEntry(prev, e) }}.Check(t, prev)
		if !ok {
			return
		}
		var sum struct {
			Entries []json.RawMessage `json:"entries"`
		}
		if err := json.Unmarshal(next, &sum); err != nil || len(sum.Entries) < 1 || len(sum.Entries) > maxEntries {
			t.Fatalf("%d entries, %v:\n%s", len(sum.Entries), err, next)
		}
		if again, err := AddRunEntry(next, e); err != nil || !bytes.Equal(again, next) {
			t.Fatalf("added twice (%v):\n%s\n%s", err, next, again)
		}
	})
}
