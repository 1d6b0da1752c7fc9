package loop_test

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/superloop/superloop/loop"
)

// Drive a loop by hand: ask what is due, tell what came of it, and get the lines
// for the journal.
func Example() {
	now := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	var s loop.State
	tell := func(w loop.Wire, err error) {
		if err != nil {
			fmt.Println(err)
			return
		}
		now = now.Add(time.Minute)
		next, lines, taken, err := loop.Apply(s, w, now)
		if err != nil || !taken {
			fmt.Println("not taken:", w.Event, err)
			return
		}
		for _, l := range lines {
			fmt.Println(l.Timestamp.Format(time.TimeOnly), l.Event)
		}
		s = next
	}

	plan := loop.Plan{SpecFile: "spec.md", Roles: []string{"implementer"}, Promise: "DONE", Tests: "disabled", Attempts: 3}
	start, err := loop.WireOf(loop.Started{Plan: plan, Rules: loop.CurrentRules}, now)
	start.LoopID, start.RunID = "docs", "run-1"
	tell(start, err)

	for {
		e, do := loop.Due(s)
		if do == loop.DoNothing {
			break
		}
		of := loop.To(e)
		switch e.Kind {
		case loop.RunRole:
			tell(loop.WireOf(loop.RoleStarted{Of: of, Role: e.Role, Attempt: e.Attempt}, now))
			tell(loop.WireOf(loop.RoleEnded{Of: of, Role: e.Role, Attempt: e.Attempt, Outcome: loop.OutcomeOK}, now))
		case loop.CheckPromise:
			tell(loop.WireOf(loop.PromiseChecked{Of: of, Expected: "DONE", Matched: true}, now))
		case loop.Report:
			tell(loop.WireOf(loop.Reported{Of: of}, now))
		default:
			fmt.Println("nothing performs", e.Kind)
			return
		}
	}
	fmt.Println(s.Status, s.Reason)
	// Output:
	// 22:00:00 loop_start
	// 22:00:00 iteration_start
	// 22:01:00 role_start
	// 22:02:00 role_end
	// 22:03:00 promise_checked
	// 22:03:00 gates_evaluated
	// 22:04:00 iteration_reported
	// 22:04:00 iteration_end
	// 22:04:00 loop_complete
	// completed promise_and_gates
}

// Replay a journal: fold its lines into the state that they lead to.
func ExampleReplay() {
	file, err := os.Open("testdata/rules1-shell.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	replay := loop.NewReplay()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line, err := loop.ParseLine(lines.Bytes())
		if err == nil {
			err = replay.Add(line)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	s := replay.State
	fmt.Printf("%s after %d iteration(s), %d recovery run by itself\n", s.Status, s.Iteration, s.Recoveries.Used)
	// Output: completed after 1 iteration(s), 1 recovery run by itself
}
