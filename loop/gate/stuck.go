package gate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// ReasonNoChange is why a streak grew.
const ReasonNoChange = "no_code_changes"

// StuckState is stuck.json. Streak counts the iterations in a row that changed
// nothing outside the ignore list; SinceIteration is the first of them, 0 when
// there is none. TestSignature is always empty: the original's compared the
// hash of an empty string with itself and stopped loops that made progress.
type StuckState struct {
	CodeSignature  string    `json:"code_signature"`
	TestSignature  string    `json:"test_signature"`
	Streak         int       `json:"streak"`
	Threshold      int       `json:"threshold"`
	Reason         string    `json:"reason"` // "" or ReasonNoChange
	UpdatedAt      time.Time `json:"updated_at"`
	SinceIteration int       `json:"since_iteration"`
	RunID          string    `json:"run_id,omitempty"`
	Iteration      int       `json:"iteration,omitempty"`
}

// JSON is the file.
func (s StuckState) JSON() []byte { return pretty(s) }

// ParseStuck reads stuck.json, the original's too; no content is no streak.
func ParseStuck(data []byte) (StuckState, error) {
	var s StuckState
	if len(data) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return StuckState{}, fmt.Errorf("reading stuck.json: %w", err)
	}
	return s, nil
}

// StuckInput is one iteration as the stuck gate sees it.
type StuckInput struct {
	RunID     string
	Iteration int
	Changed   []string // paths that the iteration changed, outside the ignore list
	Signature string   // of the tree after it; recorded, not compared
	Threshold int      // iterations; below 1 the gate only counts
	At        time.Time
}

// StuckVerdict is the gate's answer. The loop stops when it is triggered.
type StuckVerdict struct {
	Streak    int
	Threshold int
	Triggered bool
	Reason    string
}

// Status is "streak/threshold", or "n/a" without a threshold.
func (v StuckVerdict) Status() string { return StuckStatus(v.Streak, v.Threshold) }

// StuckStatus is the stuck value of a gate summary.
func StuckStatus(streak, threshold int) string {
	if threshold < 1 {
		return "n/a"
	}
	return strconv.Itoa(streak) + "/" + strconv.Itoa(threshold)
}

// Stuck counts an iteration. Asked again about the iteration that prev already
// counts, as after a crash, it does not count it twice.
func Stuck(prev StuckState, in StuckInput) (StuckState, StuckVerdict) {
	next := StuckState{
		CodeSignature: in.Signature, Threshold: max(0, in.Threshold),
		UpdatedAt: in.At.UTC().Truncate(time.Second), RunID: in.RunID, Iteration: in.Iteration,
	}
	if len(in.Changed) == 0 {
		again := prev.Iteration == in.Iteration && prev.RunID == in.RunID && prev.Streak > 0
		next.Reason = ReasonNoChange
		next.Streak, next.SinceIteration = prev.Streak+1, prev.SinceIteration
		if again {
			next.Streak = prev.Streak
		}
		if next.SinceIteration == 0 {
			next.SinceIteration = in.Iteration
		}
	}
	return next, StuckVerdict{
		Streak: next.Streak, Threshold: next.Threshold, Reason: next.Reason,
		Triggered: next.Threshold > 0 && next.Streak >= next.Threshold,
	}
}
