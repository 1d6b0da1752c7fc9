package jsonstream

// What a Reader is ready for, between and within tokens.
type state uint8

const (
	stStart    state = iota // a line: only white space of it was read
	stValue                 // a value
	stFirst                 // a value or the end of an array that began
	stKey                   // a key
	stFirstKey              // a key or the end of an object that began
	stColon
	stNext // what follows a value within a container
	stEnd  // only white space: the line's value is complete
	// The states from here on see white space too.
	stString  // the rest of a string nobody wants
	stText    // the rest of a wanted string
	stSkipKey // the rest of a key below which nothing is wanted
	stLookKey // the rest of a key below which something may be wanted
	stNumber
	stWord   // the rest of true, false or null
	stBroken // the line break
)

const (
	maxDepth = 10_000 // as encoding/json has it
	maxHead  = 4 << 10
	bom      = "\xef\xbb\xbf"
)

// Reader reads one stream. It is not for concurrent use.
type Reader struct {
	shape *Shape
	each  func(*Line)

	state state
	sub   uint8  // within a number: its part; within a word: letters read
	word  string // which word
	esc   uint8  // within a string: 0, or what of an escape was read
	hex   rune   // the hex digits of \u so far

	inArray bool                    // the innermost container
	depth   int                     // open containers
	arrays  [maxDepth/64 + 1]uint64 // a bit for each: it is an array
	levels  []level                 // of the first containers, as deep as wants go
	node    int                     // of the innermost container
	next    int                     // of the value that comes next
	top     byte                    // the first byte of the line's value
	off     int64                   // where in the line the chunk begins; negative if the line begins later
	seenBOM int                     // bytes of a byte order mark at the stream's begin; len(bom): beyond it
	head    []byte                  // of a line that began in an earlier chunk
	value   text                    // a wanted string
	key     text                    // a key
	keep    keeper                  // wanted values
	line    Line
}

// level is an open container below which something may be wanted.
type level struct {
	node  int
	array bool
	index int    // of the element that is being read, in an array
	key   []byte // that is being read, in an object, if a "*" may match it
}

// NewReader makes a reader at the stream's begin that calls each for every line
// that is not blank, within Write and Close. each must not call the reader.
func (s *Shape) NewReader(each func(*Line)) *Reader {
	r := &Reader{shape: s, each: each, levels: make([]level, s.depth), head: make([]byte, 0, maxHead)}
	r.keep.counts = make([]int, len(s.wants))
	r.line.names = &r.keep.names
	r.beginLine(-1)
	return r
}

// Write takes the next piece of the stream, which may be cut anywhere. It keeps
// no reference to p. It calls each for every line whose line break is in p.
func (r *Reader) Write(p []byte) {
	for r.seenBOM < len(bom) && len(p) > 0 {
		if p[0] == bom[r.seenBOM] {
			r.seenBOM++
			p = p[1:]
			continue
		}
		r.replayBOM()
	}
	r.chunk(p)
}

// Close ends the stream: it reports the last line if it had no line break. The
// reader is then at the begin of another stream.
func (r *Reader) Close() {
	if r.seenBOM < len(bom) {
		r.replayBOM()
	}
	r.chunk([]byte{'\n'})
	r.seenBOM = 0
}

// replayBOM reads what looked like a byte order mark and was none.
func (r *Reader) replayBOM() {
	n := r.seenBOM
	r.seenBOM = len(bom)
	r.chunk([]byte(bom)[:n])
}

func (r *Reader) chunk(p []byte) {
	r.scan(p)
	r.saveHead(p, len(p))
	r.keep.save(r.shape, p, r.off)
	r.off += int64(len(p))
}

// saveHead copies what p[:end] has of the line's head.
func (r *Reader) saveHead(p []byte, end int) {
	begin := max(0, int(-min(r.off, 0)))
	r.head = append(r.head, p[begin:min(end, begin+maxHead-len(r.head))]...)
}

// endLine reports the line that ends before p[i] and begins the next one after
// it.
func (r *Reader) endLine(p []byte, i int) {
	kind := Broken
	switch {
	case r.state == stStart:
		r.beginLine(i)
		return
	case r.state == stEnd && r.top == '{':
		kind = Object
	case r.state == stEnd:
		kind = Other
	}
	l := &r.line
	l.Kind = kind
	l.Bytes = r.off + int64(i)
	if r.off <= 0 {
		begin := int(-r.off)
		l.Head = p[begin:min(i, begin+maxHead)]
	} else {
		r.saveHead(p, i)
		l.Head = r.head
	}
	if n := len(l.Head); int64(n) == l.Bytes && n > 0 && l.Head[n-1] == '\r' {
		l.Head = l.Head[:n-1]
	}
	l.Values, l.Dropped = r.keep.values(), r.keep.dropped
	r.each(l)
	l.Head, l.Values = nil, nil
	r.beginLine(i)
}

func (r *Reader) beginLine(i int) {
	r.state, r.esc, r.depth, r.next = stStart, 0, 0, 1
	r.off = -int64(i + 1)
	r.head = r.head[:0]
	r.keep.clear()
}
