package failures

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func failed(t Task, sig string, at time.Time) Event {
	return Event{Task: t, Agent: alice, Kind: KindExit, Class: Unknown, Category: "unknown", Blame: BlameRunner, Counted: true,
		Severity: Blocking, Signature: sig, Why: "it ended", At: at}
}

func counted(h History) int { return count(h.Of(work), func(e Entry) bool { return e.Counted }) }

// TestHistoryOutcomes: a failure that is followed by another was not solved, one
// that is followed by a success was, one that was mended does not count.
// Conforms: 003-pipe-history
func TestHistoryOutcomes(t *testing.T) {
	t.Parallel()
	var h History
	h.Add(failed(work, "a", noon), StepReassign)
	h.Add(failed(work, "b", noon.Add(time.Minute)), StepRootCause)
	h.Add(failed(work, "b", noon.Add(2*time.Minute)), StepReassign)
	if n := counted(h); n != 3 {
		t.Errorf("%d count", n)
	}
	if n := h.Repair(work, "b"); n != 2 || counted(h) != 1 {
		t.Errorf("%d repaired, %d count", n, counted(h))
	}
	if n := h.Repair(work, "b"); n != 0 {
		t.Errorf("%d are repaired twice", n)
	}
	h.Add(failed(work, "c", noon.Add(3*time.Minute)), StepReassign)
	h.Succeeded(work)
	var got []string
	for _, e := range h.Of(work) {
		got = append(got, e.Signature+":"+e.Outcome)
	}
	if s := strings.Join(got, " "); s != "a:again b:repaired b:repaired c:solved" {
		t.Error(s)
	}
	mended := failed(work, "d", noon)
	mended.Counted, mended.Repaired = false, true
	h.Add(mended, StepRetry)
	h.Add(failed(work, "e", noon), StepEscalate)
	es := h.Of(work)
	if es[4].Outcome != Repaired || es[5].Outcome != GivenUp {
		t.Errorf("%+v", es[4:])
	}
	h = History{}
	h.Succeeded(work)
	if len(h.Of(work)) != 0 || h.Repair(work, "a") != 0 {
		t.Error("a task that never failed has entries")
	}
}

// TestHistoryBounds: it stays small, the newest stay, and it survives JSON.
// Conforms: 003-c3-count
func TestHistoryBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var h History
		lastOf := map[string]string{}
		for i := range rapid.IntRange(0, 120).Draw(rt, "n") {
			task := Task{Loop: "l", Role: "r", Item: fmt.Sprint(rapid.IntRange(0, MaxTasks+10).Draw(rt, "task"))}
			e := failed(task, fmt.Sprint("s", i), noon.Add(time.Duration(i)*time.Second))
			e.Why = strings.Repeat("\u00e4", rapid.IntRange(0, 400).Draw(rt, "why"))
			before := h.Clone()
			n := len(before.Of(task))
			h.Add(e, StepReassign)
			if es := before.Of(task); len(es) != n || n > 0 && es[n-1].Outcome != Open {
				rt.Fatal("a clone has changed")
			}
			lastOf[task.Key()] = e.Signature
		}
		if len(h.Tasks) > MaxTasks {
			rt.Fatalf("%d tasks", len(h.Tasks))
		}
		for _, th := range h.Tasks {
			if n := len(th.Entries); n == 0 || n > MaxEntries || th.Entries[n-1].Signature != lastOf[th.Task.Key()] {
				rt.Fatalf("%+v", th)
			}
			for _, e := range th.Entries {
				if utf8.RuneCountInString(e.Why) > maxWhy || !utf8.ValidString(e.Why) {
					rt.Fatalf("%d characters: %q", utf8.RuneCountInString(e.Why), e.Why)
				}
			}
		}
		data, err := json.Marshal(h)
		if err != nil {
			rt.Fatal(err)
		}
		var back History
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, h) {
			rt.Fatalf("%v: %+v, was %+v", err, back, h)
		}
	})
}
