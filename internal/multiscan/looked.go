package multiscan

import "bytes"

// maxLooked bounds what is kept of one block that was looked through ahead, in
// bytes; beyond that the rest of the block is scanned when it is its turn.
const maxLooked = 1 << 20

// looked is what the filter found in a block: which patterns are to be tried on
// which texts. It depends on the block alone, so that blocks can be looked through
// at once and in any order; whether patterns are tried then, and what they find, is left
// to the scanner of the stream, since it depends on all that was before.
type looked struct {
	looks        // lines from 1 and offsets from 0 on, where from is
	from, to int // the part of the block that was looked through: whole lines
	lines    int64
	full     bool // something was left out
}

// add notes the gathered patterns of a text, without those that its ends rule
// out.
func (l *looked) add(sc *Scanner, text []byte, cut edges) {
	opened := false
	for _, p := range sc.gathered {
		if !sc.set.patterns[p].ends.allow(text, cut) {
			continue
		}
		if !opened {
			if l.full = l.full || l.size()+len(text)+4*len(sc.gathered)+sizeOfLook > maxLooked; l.full {
				return
			}
			opened = true
			l.open(look{line: sc.line, offset: sc.offset, cut: cut}, text)
		}
		l.patterns = append(l.patterns, p)
	}
}

// look runs the filter over the whole lines of a block. fresh says that the block
// begins with a line, rather than with a part of one.
func (sc *Scanner) look(p []byte, fresh bool, l *looked) {
	l.forget()
	l.from, l.to, l.lines, l.full = 0, 0, 0, false
	if !fresh {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			return
		}
		l.from, l.to = i+1, i+1
	}
	rest := p[l.from:max(l.from, bytes.LastIndexByte(p, '\n')+1)]
	sc.ahead = l
	sc.done, sc.line, sc.everyLine = 0, 1, len(sc.set.every) > 0
	for len(rest) > 0 {
		n, texts := pieceOf(rest), len(l.list)
		sc.part(rest[:n])
		if l.full {
			l.keep(texts)
			break
		}
		rest = rest[n:]
		l.to, l.lines = l.to+n, sc.line-1
	}
	sc.ahead = nil
}

// writeLooked does what Write does with a block that was looked through.
func (sc *Scanner) writeLooked(p []byte, l *looked) {
	_, _ = sc.Write(p[:l.from]) // a scanner takes everything
	if sc.long || len(sc.carry) > 0 {
		_, _ = sc.Write(p[l.from:]) // not the place that was looked through
		return
	}
	line, done := sc.line, sc.done
	for n := range l.list {
		at := &l.list[n]
		text, patterns := l.of(n)
		sc.line, sc.offset = line+at.line-1, done+at.offset
		sc.try(patterns, text, at.cut)
	}
	sc.line, sc.done = line+l.lines, done+int64(l.to-l.from)
	sc.stats.Bytes += int64(l.to - l.from)
	_, _ = sc.Write(p[l.to:])
}
