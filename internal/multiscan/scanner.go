package multiscan

import "bytes"

const (
	// maxPiece is how much text is worked on at a time: it stays in the
	// processor's cache from one pass to the next.
	maxPiece = 128 << 10
	// maxCarry is how much of an unfinished line is kept as it came; a longer
	// one is cut into units while it comes.
	maxCarry = 64 << 10
)

// Scanner matches one stream, in memory that depends on the number of
// patterns only. It is not safe for concurrent use.
type Scanner struct {
	set   *Set
	found func(Hit)
	ahead *looked // the patterns are not tried: what there is to be tried goes here
	dry   bool    // count the lines that would be confirmed, run nothing
	stats Stats

	carry []byte // an unfinished line
	long  bool   // the unfinished line is being cut into units
	units units

	done   int64 // bytes of the lines that are finished
	line   int64 // number of the line at hand
	offset int64 // its place in the stream

	clean     []byte  // a stretch of lines without control sequences
	raw       rawText // what it was made of
	tried     []trial
	total     int64 // work spent on confirming
	late      late
	gathered  []int32
	mark      []uint32 // the generation that gathered the pattern
	seen      []uint32 // the same for literals
	gen       uint32
	has       uint64   // which of the bytes asked for the piece at hand may hold
	outer     cursor   // over a block
	inner     cursor   // over a unit of a line
	hay       haystack // the text at hand
	everyLine bool
}

// Reset makes the scanner ready for another stream.
func (sc *Scanner) Reset(found func(Hit)) {
	sc.found = found
	sc.stats = Stats{}
	sc.carry, sc.long = sc.carry[:0], false
	sc.units.reset()
	sc.done, sc.line, sc.offset, sc.total = 0, 1, 0, 0
	clear(sc.tried)
	sc.late.forget()
	sc.late.unit = 0
	clear(sc.mark)
	clear(sc.seen)
	sc.gen = 0
	sc.everyLine = len(sc.set.every) > 0
}

// Stats returns the counts so far; lines are counted when they end.
func (sc *Scanner) Stats() Stats {
	s := sc.stats
	s.Lines = sc.line - 1
	return s
}

// Write takes the next bytes of the stream, which may be cut anywhere. It
// finds the hits of the lines that end in p, and never fails.
func (sc *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	sc.stats.Bytes += int64(n)
	if sc.long || len(sc.carry) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			sc.keep(p)
			return n, nil
		}
		sc.keep(p[:i])
		sc.endLine()
		p = p[i+1:]
	}
	if last := bytes.LastIndexByte(p, '\n'); last >= 0 {
		sc.lines(p[:last+1])
		p = p[last+1:]
	}
	sc.keep(p)
	return n, nil
}

// Close matches a last line that has no "\n", and the last of the lines on which
// patterns were not tried any more. It never fails.
func (sc *Scanner) Close() error {
	if sc.long || len(sc.carry) > 0 {
		sc.endLine()
	}
	if len(sc.late.list) > 0 {
		sc.finish()
	}
	return nil
}

// keep takes a part of an unfinished line.
func (sc *Scanner) keep(p []byte) {
	if !sc.long && len(sc.carry)+len(p) > maxCarry {
		sc.long = true
		sc.offset = sc.done
		sc.units.feed(sc.carry, sc)
		sc.done += int64(len(sc.carry))
		sc.carry = sc.carry[:0]
	}
	if sc.long {
		sc.units.feed(p, sc)
		sc.done += int64(len(p))
		return
	}
	sc.carry = append(sc.carry, p...)
}

// endLine finishes the line of which parts were kept.
func (sc *Scanner) endLine() {
	if sc.long {
		sc.units.endLine(sc)
		sc.long = false
		sc.done++
		sc.line++
		return
	}
	sc.carry = append(sc.carry, '\n')
	sc.lines(sc.carry)
	sc.carry = sc.carry[:0]
}

// lines takes whole lines, each with its "\n".
func (sc *Scanner) lines(p []byte) {
	for len(p) > 0 {
		n := pieceOf(p)
		sc.part(p[:n])
		p = p[n:]
	}
}

// pieceOf gives how many bytes of whole lines are worked on at a time: at most
// maxPiece, or one line that is longer.
func pieceOf(p []byte) int {
	if len(p) <= maxPiece {
		return len(p)
	}
	end := bytes.LastIndexByte(p[:maxPiece], '\n')
	if end < 0 {
		end = bytes.IndexByte(p, '\n')
	}
	return end + 1
}

// part takes what pieceOf gave.
func (sc *Scanner) part(p []byte) {
	if len(p) > maxPiece {
		sc.longLine(p[:len(p)-1])
		return
	}
	sc.piece(p)
}

// longLine cuts a line into units; p is without its "\n".
func (sc *Scanner) longLine(p []byte) {
	sc.offset = sc.done
	sc.units.feed(p, sc)
	sc.units.endLine(sc)
	sc.done += int64(len(p)) + 1
	sc.line++
}
