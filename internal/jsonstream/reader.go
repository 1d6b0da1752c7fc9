// Package jsonstream reads newline-delimited JSON as it comes and keeps only the values at wanted paths.
//
// A stream may be cut anywhere and a line may be of any length. A Reader holds at most 4 MiB of values, one more of
// each want, and a few times the largest Max and 16 KiB. A line break ends a line in every state, even within a string,
// so whatever a line held, the next one is read right.
//
// What is checked. A line is Broken exactly if encoding/json calls it invalid: tokens, brackets, commas, escapes,
// numbers, raw control bytes in strings and a depth of at most 10,000 are checked everywhere, in skipped parts too.
// Invalid UTF-8 is no error (nor is it to encoding/json) and is not looked for in what is skipped; in a text or key
// that is kept, each invalid byte and each lone surrogate becomes U+FFFD. A raw JSON value ('o', 'a') is kept as it
// came. Duplicate keys are no error: each value is reported.
//
// White space is space, tab, carriage return; a line of nothing else is blank and is not reported. A byte order mark
// before the first line is dropped.
package jsonstream

import (
	"bytes"
	"strings"
)

// state is what a Reader is ready for, between and within tokens.
type state uint8

const (
	stStart    state = iota // a line: only white space of it was read
	stValue                 // a value
	stFirst                 // a value, or the end of an array that began
	stKey                   // a key
	stFirstKey              // a key, or the end of an object that began
	stColon
	stNext   // what follows a value within a container
	stEnd    // only white space: the line's value is complete
	stString // the rest of a string or key
	stNumber
	stWord   // the rest of true, false or null
	stBroken // the line break
)

const (
	maxDepth = 10_000   // as encoding/json has it
	maxHead  = 4 << 10  // bytes of Line.Head
	maxPiece = 16 << 10 // bytes that are read at once
	bom      = "\xef\xbb\xbf"
)

// Reader reads one stream. It is not for concurrent use.
type Reader struct {
	shape *Shape
	each  func(*Line)
	mark  int // bytes of a byte order mark at the stream's begin; len(bom): beyond it

	state state
	part  byte   // of a number: see numbers
	word  string // of true, false or null: what has to follow
	str   str    // a string or key

	stack  []byte  // the open containers, each as its bracket
	levels []level // of the first of them, as deep as wants go
	next   int     // the node of the value that comes next
	top    byte    // the first byte of the line's value

	open  []capture // the wanted values that are no strings and have begun, the outermost first
	carry []byte    // bytes of earlier pieces that open ones need
	off   int64     // position in the line of the first byte of carry, or else of the piece

	counts []count // for each want
	bytes  []byte  // where the values of line are
	keys   []string
	names  names
	line   Line
}

// level is an open container below which something may be wanted.
type level struct {
	node  int
	index int    // of the element that is being read, in an array
	key   []byte // that is being read, in an object, if a "*" may match it
}

// capture is a wanted value that has begun.
type capture struct {
	begin int64 // position in the line
	node  int
	depth int // containers around it
	kind  byte
}

// NewReader makes a reader at the stream's begin that calls each for every line that is not blank, within Write and
// Close. each must not call the reader.
func (s *Shape) NewReader(each func(*Line)) *Reader {
	r := &Reader{shape: s, each: each, levels: make([]level, s.depth), counts: make([]count, len(s.wants))}
	r.line.Head, r.line.names = make([]byte, 0, maxHead), &r.names
	r.beginLine()
	return r
}

// Write takes the next piece of the stream, which may be cut anywhere. It keeps no reference to p. It calls each for
// every line whose line break is in p.
func (r *Reader) Write(p []byte) {
	for len(p) > 0 && r.mark < len(bom) {
		if p[0] != bom[r.mark] {
			r.endMark()
			break
		}
		r.mark++
		p = p[1:]
	}
	r.write(p)
}

// Close ends the stream: it reports the last line if it had no line break. The reader is then at the begin of another
// stream.
func (r *Reader) Close() {
	r.endMark()
	r.endLine()
	r.mark = 0
}

// endMark reads the beginning of a byte order mark that did not go on.
func (r *Reader) endMark() {
	if n := r.mark; n < len(bom) {
		r.mark = len(bom)
		r.write([]byte(bom[:n]))
	}
}

func (r *Reader) write(p []byte) {
	for len(p) > 0 {
		piece := p[:min(len(p), maxPiece)]
		n := bytes.IndexByte(piece, '\n')
		if n < 0 {
			r.piece(piece)
			p = p[len(piece):]
			continue
		}
		r.piece(p[:n])
		r.endLine()
		p = p[n+1:]
	}
}

// piece reads a part of a line.
func (r *Reader) piece(p []byte) {
	r.line.Bytes += int64(len(p))
	r.line.Head = append(r.line.Head, p[:min(len(p), maxHead-len(r.line.Head))]...)
	from := len(r.carry)
	if from > 0 {
		r.carry = append(r.carry, p...)
		p = r.carry
	}
	r.scan(p, from)
	keep := len(p)
	for _, c := range r.open {
		if r.line.Bytes-c.begin <= int64(r.shape.nodes[c.node].max) {
			keep = int(c.begin - r.off)
			break
		}
	}
	r.carry = append(r.carry[:0], p[keep:]...)
	r.off += int64(keep)
}

// endLine reports the line and begins the next one.
func (r *Reader) endLine() {
	if len(r.stack) == 0 && r.complete() {
		r.endValue(r.carry, len(r.carry))
	}
	l := &r.line
	switch {
	case r.state == stStart:
		r.beginLine()
		return
	case r.state != stEnd:
		l.Kind = Broken
	case r.top == '{':
		l.Kind = Object
	default:
		l.Kind = Other
	}
	if n := len(l.Head); int64(n) == l.Bytes && n > 0 && l.Head[n-1] == '\r' {
		l.Head = l.Head[:n-1]
	}
	sortValues(l.Values)
	r.each(l)
	r.beginLine()
}

func (r *Reader) beginLine() {
	r.state, r.next, r.off, r.str.esc = stStart, 1, 0, 0
	r.stack, r.open, r.carry = r.stack[:0], r.open[:0], r.carry[:0]
	r.bytes, r.keys = r.bytes[:0], r.keys[:0]
	clear(r.counts)
	l := &r.line
	l.Bytes, l.Dropped, l.Head, l.Values = 0, 0, l.Head[:0], l.Values[:0]
}

// scan reads p from p[i] on. It can stop at any byte, where p ends, and goes on there with the next piece: r.state says
// where that is.
func (r *Reader) scan(p []byte, i int) {
	for i < len(p) {
		c := p[i]
		switch r.state {
		case stBroken:
			return
		case stString:
			i = r.readString(p, i)
			continue
		case stNumber, stWord:
			if r.scalar(c) {
				i++
				continue
			}
			// A value may have been cut where something follows that cannot.
			if !r.complete() || strings.IndexByte(",]} \t\r", c) < 0 {
				r.state = stBroken
				return
			}
			r.endValue(p, i)
		}
		if c != ' ' && c != '\t' && c != '\r' {
			r.token(p, i)
		}
		i++
	}
}

// token takes p[i], which is a token or begins one.
func (r *Reader) token(p []byte, i int) {
	around := byte(0)
	if n := len(r.stack); n > 0 {
		around = r.stack[n-1]
	}
	switch c, s := p[i], r.state; {
	case s == stNext && c == ',' && around == '{':
		r.state = stKey
	case s == stNext && c == ',':
		r.state = stValue
		if l := r.level(); l != nil {
			r.next = r.shape.nodes[l.node].any
			l.index++
		}
	case c == '}' && (s == stFirstKey || s == stNext && around == '{'), c == ']' && (s == stFirst || s == stNext && around == '['):
		r.stack = r.stack[:len(r.stack)-1]
		r.endValue(p, i+1)
	case s == stColon && c == ':':
		r.state = stValue
	case c == '"' && (s == stKey || s == stFirstKey):
		r.next = 0
		l := r.level()
		r.beginString(l != nil && r.shape.nodes[l.node].inner(), true, maxKeyKept)
	case s == stStart || s == stValue || s == stFirst:
		if s == stStart {
			r.top = c
		}
		r.beginValue(c, r.off+int64(i))
	default:
		r.state = stBroken
	}
}

// level is that of the innermost container; nil if nothing is wanted so deep.
func (r *Reader) level() *level {
	if n := len(r.stack); n > 0 && n <= len(r.levels) {
		return &r.levels[n-1]
	}
	return nil
}

// beginValue takes the first byte of a value, which is at the position at.
func (r *Reader) beginValue(c byte, at int64) {
	v := capture{at, r.next, len(r.stack), 'b'}
	n := &r.shape.nodes[v.node]
	switch c {
	case '"':
		r.str.begin = at
		r.beginString(len(n.ends) > 0, false, n.max)
		return
	case '{', '[':
		if v.kind = 'o'; c == '[' {
			v.kind = 'a'
		}
		r.openContainer(c)
	case 't':
		r.state, r.word = stWord, "rue"
	case 'f':
		r.state, r.word = stWord, "alse"
	case 'n':
		v.kind, r.state, r.word = '0', stWord, "ull"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		v.kind, r.state, r.part = 'n', stNumber, 'b'
		r.scalar(c)
	default:
		r.state = stBroken
	}
	if len(n.ends) > 0 {
		r.open = append(r.open, v)
	}
}

func (r *Reader) openContainer(c byte) {
	if len(r.stack) == maxDepth {
		r.state = stBroken
		return
	}
	n := r.next
	r.stack = append(r.stack, c)
	if l := r.level(); l != nil {
		l.node, l.index = n, 0
	}
	r.state, r.next = stFirstKey, 0
	if c == '[' {
		r.state, r.next = stFirst, r.shape.nodes[n].any
	}
}

// endValue goes on behind a value that ends before p[i], and stores it if it is wanted and no string.
func (r *Reader) endValue(p []byte, i int) {
	r.state = stNext
	if len(r.stack) == 0 {
		r.state = stEnd
	}
	n := len(r.open) - 1
	if n < 0 || r.open[n].depth != len(r.stack) {
		return
	}
	c := r.open[n]
	r.open = r.open[:n]
	size := r.off + int64(i) - c.begin
	for _, w := range r.shape.nodes[c.node].ends {
		v := Value{Want: w, Type: c.kind, begin: c.begin}
		if size > int64(r.shape.wants[w].max) {
			v.Cut = size
			r.store(v, nil, nil)
		} else {
			r.store(v, p[c.begin-r.off:i], nil)
		}
	}
}

const numberBytes = "-+0123456789.eE"

// numbers says for each part of a number which part each of numberBytes leads to: b is its begin, m the minus, z a zero
// in front, i the integer, d the dot, f the fraction, e the e, s its sign, x the exponent.
var numbers = [...]string{
	'b': "m ziiiiiiiii   ",
	'm': "  ziiiiiiiii   ",
	'z': "            dee",
	'i': "  iiiiiiiiiidee",
	'd': "  ffffffffff   ",
	'f': "  ffffffffff ee",
	'e': "ssxxxxxxxxxx   ",
	's': "  xxxxxxxxxx   ",
	'x': "  xxxxxxxxxx   ",
	' ': "               ",
}

// scalar takes c if it goes on with the number or word that is being read.
func (r *Reader) scalar(c byte) bool {
	if r.state == stNumber {
		at := strings.IndexByte(numberBytes, c)
		if at >= 0 {
			r.part = numbers[r.part][at]
		}
		return at >= 0
	}
	if r.word == "" || c != r.word[0] {
		return false
	}
	r.word = r.word[1:]
	return true
}

// complete reports whether a number or word is being read and may end.
func (r *Reader) complete() bool {
	return r.state == stNumber && strings.IndexByte("zifx", r.part) >= 0 || r.state == stWord && r.word == ""
}
