package classify

import (
	"bytes"
	"errors"
	"io"

	"github.com/superloop/superloop/internal/multiscan"
)

// Sift looks for lines that the catalog knows, in output that is too large to be kept. It has the form of proc.Sift:
// it calls keep for each of these lines, with its offset.
func (c *Classifier) Sift(keep func(offset int64, line []byte)) io.WriteCloser {
	return &sieve{sc: c.prog.set.NewScanner(func(h multiscan.Hit) { keep(h.Offset, h.Text) })}
}

type sieve struct{ sc *multiscan.Scanner }

func (s *sieve) Write(p []byte) (int, error) { return s.sc.Write(p) }

// Close returns an error if a budget was spent, so that lines were not looked at.
func (s *sieve) Close() error {
	if err := s.sc.Close(); err != nil {
		return err
	}
	if s.sc.Stats().Skipped > 0 {
		return errors.New("not every line was looked at")
	}
	return nil
}

// unseen reports whether a block of output has the line that stands for bytes at which nothing has looked. A test
// compares it with proc.GapLine.
func unseen(block []byte) bool {
	i := bytes.Index(block, []byte(" bytes left out here]\n"))
	return i > 0 && bytes.LastIndex(block[:i], []byte("[superloop: ")) >= max(0, i-40)
}
