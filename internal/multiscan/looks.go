package multiscan

// looks are texts with the patterns that are to be tried on them, in three
// slices that are used again.
type looks struct {
	list     []look
	text     []byte
	patterns []int32
}

// look is one text.
type look struct {
	line, offset, unit int64
	text               int // where it begins, and ends with that of the next one
	patterns           int // likewise
	cut                edges
}

const sizeOfLook = 48

// open begins the look at a text, of which a copy is kept; its patterns are
// appended after that.
func (l *looks) open(at look, text []byte) {
	at.text, at.patterns = len(l.text), len(l.patterns)
	l.list = append(l.list, at)
	l.text = append(l.text, text...)
}

// of gives a text and the patterns that are to be tried on it.
func (l *looks) of(n int) (text []byte, patterns []int32) {
	at := &l.list[n]
	if n+1 == len(l.list) {
		return l.text[at.text:], l.patterns[at.patterns:]
	}
	next := &l.list[n+1]
	return l.text[at.text:next.text], l.patterns[at.patterns:next.patterns]
}

// size is how many bytes are in use.
func (l *looks) size() int { return len(l.text) + 4*len(l.patterns) + sizeOfLook*len(l.list) }

func (l *looks) forget() { l.list, l.text, l.patterns = l.list[:0], l.text[:0], l.patterns[:0] }

// keep forgets all but the first n texts.
func (l *looks) keep(n int) {
	if n < len(l.list) {
		at := l.list[n]
		l.list, l.text, l.patterns = l.list[:n], l.text[:at.text], l.patterns[:at.patterns]
	}
}
