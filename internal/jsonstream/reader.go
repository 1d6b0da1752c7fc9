// Package jsonstream reads newline-delimited JSON from a stream and keeps only the values at wanted paths.
//
// A stream may be cut anywhere and a line may be of any length. A Reader holds at most 4 MiB of values, one more value
// of each want, and a few times the largest Max and 16 KiB. A line break ends a line in every state, even within a
// string. So the Reader reads a line correctly whatever the line before it contains.
//
// A line is Broken exactly if encoding/json calls it invalid. The Reader checks tokens, brackets, commas, escapes,
// numbers, raw control bytes in strings, and a depth of at most 10,000, also in the parts that it skips. Invalid UTF-8
// is no error, as in encoding/json. In a kept text or key, each invalid byte and each lone surrogate becomes U+FFFD. A
// raw JSON value ('o', 'a') keeps its bytes unchanged. Duplicate keys are no error: the Reader reports each value.
//
// White space is space, tab and carriage return. The Reader does not report a line that has only white space. It drops
// a byte order mark before the first line.
package jsonstream

import (
	"bytes"
	"strings"
)

// state says which input a Reader expects next, between tokens or within one.
type state uint8

const (
	stStart    state = iota // the value of the line, of which the Reader has read only white space
	stValue                 // a value
	stFirst                 // the first value of an array, or the end of the array
	stKey                   // a key
	stFirstKey              // the first key of an object, or the end of the object
	stColon
	stNext   // a comma or the end of the container, after a value in it
	stEnd    // only white space, because the line's value is complete
	stString // the rest of a string or key
	stNumber
	stWord   // the rest of true, false or null
	stBroken // the line break, because the line is not valid JSON
)

const (
	maxDepth = 10_000   // containers in one another; encoding/json has the same bound
	maxHead  = 4 << 10  // bytes of Line.Head
	maxPiece = 16 << 10 // bytes that the Reader reads at once
	bom      = "\xef\xbb\xbf"
)

// Reader reads one stream. It is not safe for concurrent use.
type Reader struct {
	shape *Shape
	each  func(*Line)
	mark  int // bytes read of a byte order mark at the beginning of the stream; len(bom): the Reader is past it

	state state
	part  byte   // the part of the current number, see numbers
	word  string // the bytes of true, false or null that must still follow
	str   str    // the current string or key

	stack  []byte  // the open containers, each as its bracket
	levels []level // the outermost open containers, as deep as the paths of the wants go
	next   int     // the node of the next value
	top    byte    // the first byte of the line's value

	open  []capture // the wanted values that have begun and are no strings, the outermost first
	carry []byte    // the bytes of earlier pieces that the values in open need
	off   int64     // position in the line of the first byte of carry, or of the piece if carry is empty

	counts []count // by want
	bytes  []byte  // holds the bytes of the line's values
	keys   []string
	names  names
	line   Line
}

// level is an open container that may contain wanted values.
type level struct {
	node  int
	index int    // in an array: the index of the current element
	key   []byte // in an object: the current key, if a want may match it
}

// capture is a wanted value that has begun.
type capture struct {
	begin int64 // position in the line
	node  int
	depth int // number of containers around the value
	kind  byte
}

// NewReader returns a reader at the beginning of a stream. Write and Close call each for every line that is not blank.
// The function each must not call the reader.
func (s *Shape) NewReader(each func(*Line)) *Reader {
	r := &Reader{shape: s, each: each, levels: make([]level, s.depth), counts: make([]count, len(s.wants))}
	r.line.Head, r.line.names = make([]byte, 0, maxHead), &r.names
	r.beginLine()
	return r
}

// Write takes the next piece of the stream, which may be cut anywhere. It keeps no reference to p. It reports every
// line whose line break is in p.
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

// Close ends the stream. It reports the last line if that has no line break. After Close the reader can read another
// stream.
func (r *Reader) Close() {
	r.endMark()
	r.endLine()
	r.mark = 0
}

// endMark reads the first bytes of a byte order mark as part of the line if the rest of the mark did not follow.
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

// scan reads p from p[i] on. The piece may end at any byte. r.state then says how to read the next piece.
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
			// The number or word ends here: it must be complete, and c must be a byte that can follow a value.
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

// token reads p[i], which is a token or the first byte of one.
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

// level returns the level of the innermost open container, or nil if no want reaches so deep.
func (r *Reader) level() *level {
	if n := len(r.stack); n > 0 && n <= len(r.levels) {
		return &r.levels[n-1]
	}
	return nil
}

// beginValue reads the first byte of a value, at position at of the line.
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

// endValue ends a value before p[i]. It stores the value if the value is wanted and is no string.
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

// numbers is a table of states. For each part of a number it has one character for each of numberBytes: the part to
// which this byte leads, or a space if the byte is not allowed. The parts are: b the beginning, m the minus, z a
// leading zero, i the integer, d the dot, f the fraction, e the e, s the sign of the exponent, x the exponent.
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

// scalar reads c if it can belong to the current number or word. It returns false if it cannot.
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

// complete reports whether the Reader is in a number or word that may end here.
func (r *Reader) complete() bool {
	return r.state == stNumber && strings.IndexByte("zifx", r.part) >= 0 || r.state == stWord && r.word == ""
}
