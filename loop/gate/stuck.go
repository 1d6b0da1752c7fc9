package gate

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
)

const ReasonNoChange = "no_code_changes" // the reason why the streak grew

// StuckState is the content of stuck.json. Streak is the number of successive iterations that changed nothing outside
// the ignore list. SinceIteration is the first of them, or 0 if there is none. TestSignature is always empty. The
// original compared the hash of an empty string with itself, and so stopped loops that made progress.
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

// JSON returns the content of stuck.json.
func (s StuckState) JSON() []byte { return pretty(s) }

// ParseStuck reads the stuck.json of superloop or of the original. Empty data gives the zero StuckState.
func ParseStuck(data []byte) (StuckState, error) {
	var s StuckState
	if len(data) == 0 {
		return s, nil
	}
	err := text.Decode(data, &s)
	if err == nil && s.Streak < 0 {
		err = fmt.Errorf("a streak of %d iterations", s.Streak)
	}
	if err != nil {
		return StuckState{}, fmt.Errorf("reading stuck.json: %w", err)
	}
	return s, nil
}

// Triggered reports whether the streak has reached the threshold, at which the loop stops.
func (s StuckState) Triggered() bool { return s.Threshold > 0 && s.Streak >= s.Threshold }

// stuckStatus returns the stuck value of a gate summary: "streak/threshold", or "n/a" without a threshold.
func stuckStatus(streak, threshold int) string {
	if threshold < 1 {
		return "n/a"
	}
	return fmt.Sprintf("%d/%d", streak, threshold)
}

// Stuck counts an iteration and returns the next state. From now it takes the run, the iteration, the time, the
// threshold in iterations (below 1 the gate only counts) and the signature of the tree after the iteration, which it
// records and does not compare. changed holds the paths outside the ignore list that the iteration changed. If prev
// already counts this iteration, as after a crash, Stuck does not count it again.
func Stuck(prev, now StuckState, changed []string) StuckState {
	now.Threshold, now.UpdatedAt = max(0, now.Threshold), now.UpdatedAt.UTC().Truncate(time.Second)
	if len(changed) > 0 {
		return now
	}
	now.Reason, now.SinceIteration = ReasonNoChange, cmp.Or(prev.SinceIteration, now.Iteration)
	if now.Streak = prev.Streak; now.Streak == 0 || prev.Iteration != now.Iteration || prev.RunID != now.RunID {
		now.Streak++
	}
	return now
}

const maxReported = 50 // bounds each list of a report, in entries

// StuckReport holds the facts of stuck-report.md.
type StuckReport struct {
	LoopID   string
	State    StuckState
	Ignored  []string // changed paths that the ignore list covers
	Patterns []string // the ignore list
	Missing  []string // the verdicts that completion lacks, such as "tests=failed"
	// Tests are the test commands that fail, and Red is how many iterations in a row they failed in the same way while no
	// file changed. Known is what rules say about it, or "".
	Tests []string
	Red   int
	Known string
	At    time.Time
}

// Markdown returns the content of stuck-report.md: what has not changed and since when, which changes do not count, and
// what the operator can do.
func (r StuckReport) Markdown() []byte {
	var b bytes.Buffer
	s := r.State
	fmt.Fprintf(&b, "# Stuck Report\n\nLoop: %s\n", r.LoopID)
	if s.RunID != "" {
		fmt.Fprintf(&b, "Run: %s\n", s.RunID)
	}
	fmt.Fprintf(&b, "Generated at: %s\n\n", stamp(r.At))
	if r.Red > 1 {
		fmt.Fprintf(&b, "The tests failed in the same way in %s in a row, and no file changed in between, but those that git ignores.\n\n", plural(r.Red, "iteration"))
	}
	if s.Threshold > 0 {
		fmt.Fprintf(&b, "No progress in %s (threshold %d).\n\n", plural(s.Streak, "iteration"), s.Threshold)
	}
	if len(r.Tests) > 0 {
		b.WriteString("## What fails\n\n")
		list(&b, r.Tests)
		if r.Known != "" {
			fmt.Fprintf(&b, "\nWhat superloop knows about it: %s\n", oneLine(r.Known, maxItem))
		}
		b.WriteString("\n")
	}

	b.WriteString("## What did not change\n\n")
	if s.SinceIteration == 0 { // the last iteration did change something, and the tests did not see it
		b.WriteString("No file but those that git ignores.\n")
	} else {
		fmt.Fprintf(&b, "No file outside the ignore list was added, changed or deleted, and no commit changed content, "+
			"from iteration %d to iteration %d.\n", s.SinceIteration, s.Iteration)
	}
	if s.SinceIteration > 1 {
		fmt.Fprintf(&b, "The last change was made in iteration %d.\n", s.SinceIteration-1)
	} else if s.SinceIteration == 1 {
		b.WriteString("Nothing was changed since the loop began.\n")
	}
	fmt.Fprintf(&b, "Signature of the tree: %s\n\n", s.CodeSignature)

	b.WriteString("## What did change, but is ignored\n\n")
	if len(r.Ignored) == 0 {
		b.WriteString("Nothing.\n")
	}
	list(&b, r.Ignored)
	b.WriteString("\nIgnore list (`stuck.ignore`):\n\n")
	if len(r.Patterns) == 0 {
		b.WriteString("- (empty)\n")
	}
	list(&b, r.Patterns)

	b.WriteString("\n## What completion still lacks\n\n")
	if len(r.Missing) == 0 {
		b.WriteString("Not known.\n")
	}
	list(&b, r.Missing)

	fmt.Fprintf(&b, `
## What you can do

- Read review.md and test-report.md of this loop: they say what the roles could not get past.
- Make the specification or plan.md more exact, or take the obstacle away by hand.
- If the work is in ignored paths, shorten `+"`stuck.ignore`"+`; if iterations without changes are to be
  expected, raise `+"`stuck.threshold`"+`, or `+"`stuck.tests_threshold`"+` if tests fail, in .superloop/config.json.
- Then go on: `+"`superloop run --loop %s`"+`. The count begins anew; no file has to be edited for that.
`, r.LoopID)
	return b.Bytes()
}

// list writes one bullet for each entry, for at most maxReported entries.
func list(b *bytes.Buffer, entries []string) {
	for i, e := range entries {
		if i == maxReported {
			fmt.Fprintf(b, "- ... and %d more\n", len(entries)-i)
			return
		}
		fmt.Fprintf(b, "- %s\n", oneLine(pathText(e), maxItem))
	}
}
