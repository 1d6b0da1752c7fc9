package loop

import "time"

// Budget is what a run has spent of the policy's limits, for the verdict on one command. recovery.Budget has the same
// fields.
type Budget struct {
	Used     int       // the automatic recoveries that were begun
	Last     time.Time // when the last of them began; zero if none did
	Rejected int       // how often operators have rejected the command
	Waits    bool      // the cooldown is waited for, and nobody is asked
}

// Budget returns what counts for the verdict on the command with a digest, if it is judged now.
func (s State) Budget(digest string) Budget {
	b := Budget{Used: s.Recoveries.Used, Last: s.Recoveries.Last, Rejected: s.Recoveries.Rejected[digest]}
	if r := s.Recovery; r != nil && r.N > 0 && s.Counted == r.N {
		b.Used, b.Last = b.Used-1, time.Time{} // the fallback is part of the same recovery: it was counted with its first command
	}
	if r := s.Recovery; r != nil && r.Plan != nil {
		b.Waits = true
		if r.Plan.Attempts > 0 {
			b.Last = time.Time{} // the steps of one plan are one recovery: each step counts, but none waits for another
		}
	}
	return b
}
