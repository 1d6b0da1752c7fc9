package journal

import (
	"fmt"

	"github.com/superloop/superloop/internal/durable"
)

// Report is what Verify found.
type Report struct {
	// Events is the number of good lines before the first bad one.
	Events int64
	// FirstBad is nil if every line is good.
	FirstBad *CorruptError
	// LastSeq and LastHash are those of the last good line.
	LastSeq  int64
	LastHash string
}

// Verify checks every line of a journal: its form, its number, its hash, and that
// it follows the line before. It only reads, and needs no lock; the torn end of
// a journal that is just being written is reported with FirstBad.Torn. The error
// is one of reading the file.
//
// Verify cannot see that lines are missing at the end: CheckHead can.
func Verify(path string) (Report, error) {
	f, err := durable.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("verifying a journal: %w", err)
	}
	defer f.Close()
	s, err := check(f, path, 0, chain{})
	if err != nil {
		return Report{}, fmt.Errorf("verifying a journal: %w", err)
	}
	return Report{Events: s.events, FirstBad: s.bad, LastSeq: s.seq, LastHash: s.last()}, nil
}
