package local

import "github.com/superloop/superloop/loop"

// tallyRecovery writes the line of usage.jsonl of a recovery that the loop has
// just left.
func (d *driver) tallyRecovery(before loop.State, fact loop.Fact) error {
	u, left := loop.RecoveryUsageOf(before, d.state, fact)
	if !left {
		return nil
	}
	line, err := u.Line()
	if err != nil {
		return err
	}
	return d.appendUsage(line)
}
