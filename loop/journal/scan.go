package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
)

// scanBuffer is the most that one read takes: large enough that the cost of read(2) does not matter.
const scanBuffer = 64 << 10

// place is the place of a line in the journal. The next line begins at end. The zero value is the beginning of the
// journal. Offsets count the bytes of all lines: the first line of the active file has the offset at which the last
// segment ends.
type place struct {
	seq        int64
	begin, end int64  // the offset of its first byte, and the offset behind its newline
	hash       string // "" before the first line
	// any says that only end is known, because the reading did not begin at the start of the file. Any line may follow.
	any bool
}

// line returns the number of the next line, 0 if it is not known. The number of a line is that of its event.
func (p *place) line() int64 {
	if p.any {
		return 0
	}
	return p.seq + 1
}

// follower returns what the next line has to know of the place.
func (p place) follower() place { return place{seq: p.seq, end: p.end, hash: p.hash} }

// lines reads a journal event by event, in constant memory.
type lines struct {
	path string
	in   *bufio.Scanner
	last place // the last good line
	h    header
}

// newLines returns a reader of the lines behind a place, with which from begins. left is how many bytes from is known to
// have: who follows a journal reads a line at a time, and a buffer of scanBuffer for each would be most of what it takes.
func newLines(path string, from io.Reader, behind place, left int64) *lines {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, max(1, min(scanBuffer, left+1))), MaxLine+1) // one byte more, so that the end is found without a larger one
	in.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n := bytes.IndexByte(data, '\n') + 1
		if n == 0 && atEOF {
			n = len(data)
		}
		if n == 0 {
			return 0, nil, nil
		}
		return n, data[:n], nil
	})
	return &lines{path: path, in: in, last: behind}
}

// next reads a line into h and last. At the end the error is io.EOF. For a bad line it is a *CorruptError, with Torn if
// the line is the end of the file and has no newline. With hashes, next also checks the line's hash, and a last line
// with NUL bytes counts as torn.
func (l *lines) next(hashes bool) error {
	begin := l.last.end
	if more, err := l.in.Scan(), l.in.Err(); err != bufio.ErrTooLong && (!more || err != nil && !bytes.HasSuffix(l.in.Bytes(), []byte("\n"))) {
		return cmp.Or(err, io.EOF) // what was read before an error may be a part of a line
	}
	size := int64(len(l.in.Bytes()))
	line, whole := bytes.CutSuffix(l.in.Bytes(), []byte("\n"))
	l.h.seq = 0
	bad := &CorruptError{Path: l.path, Line: l.last.line(), Offset: begin}
	switch {
	case l.in.Err() == bufio.ErrTooLong:
		bad.Why = "it is longer than 16 MiB"
	case !whole:
		bad.Why, bad.Torn = "the file ends in the middle of the line", true
	default:
		if bad.Why = l.h.parse(line); bad.Why == "" && hashes && !l.h.hashMatches() {
			bad.Why = "its hash is not the hash of its bytes"
		}
		if bad.Why == "" {
			bad.Why = l.follows()
		}
		if bad.Why != "" && hashes && bytes.IndexByte(line, 0) >= 0 {
			bad.Why = "a part of it never reached the disk: it has NUL bytes"
			bad.Torn = !l.in.Scan() && l.in.Err() == nil // no line follows it
		}
	}
	if bad.Why != "" {
		bad.Seq = l.h.seq
		return bad
	}
	l.last = place{seq: l.h.seq, begin: begin, end: begin + size, hash: string(l.h.hash)}
	return nil
}

// follows returns the reason why the line in h cannot follow the last one, or "".
func (l *lines) follows() string {
	switch {
	case l.last.any:
	case l.h.seq != l.last.seq+1:
		return "its sequence number does not follow the one before"
	case string(l.h.prev) != l.last.hash:
		return "its prev is not the hash of the line before"
	}
	return ""
}

// scan is the result of a check of a journal.
type scan struct {
	place  // the last good line
	bad    *CorruptError
	copied bool // the active file has all lines of files.copied
}

// check reads a journal to its end or to the first bad line, which it returns in scan.bad. It takes the first known
// segments as they are. An error is a failure to read.
func (l *files) check(known int) (s scan, err error) {
	from := place{}
	var blocks []block
	for i, seg := range l.sealed {
		some, err := seg.blocks()
		if err != nil {
			s.bad, _ = errors.AsType[*CorruptError](err)
			return s, nil
		}
		if i < known {
			from = some[len(some)-1].place
			continue
		}
		blocks = append(blocks, some...)
	}
	in := l.stream(from.end)
	defer in.close()
	return l.checkLines(newLines(l.path, in, from, scanBuffer), blocks)
}

// checkLines is check for the lines of r, which are those of the blocks and then those of the active file.
func (l *files) checkLines(r *lines, blocks []block) (s scan, err error) {
	for begins := true; err == nil; {
		if len(blocks) > 0 && begins && r.last.follower() != blocks[0].before() {
			err = l.misplaced(r.last)
			break
		}
		begins = false
		if err = r.next(true); err != nil {
			break
		}
		if len(blocks) > 0 && r.last.end >= blocks[0].end {
			if r.last != blocks[0].place {
				err = l.misplaced(r.last)
			}
			blocks, begins = blocks[1:], true
		}
		if c := l.copied; c != nil && len(c.all) > 0 {
			s.copied = s.copied || r.last == c.all[len(c.all)-1].place
		}
	}
	s.place = r.last
	if s.bad = l.corrupt(err); s.bad != nil || err == io.EOF {
		err = nil
	}
	return s, err
}

// misplaced says that the header of a block does not fit the lines.
func (l *files) misplaced(at place) error {
	return &CorruptError{Path: l.path, Line: at.line(), Offset: at.end, Why: "the header of the segment does not fit its lines"}
}

// corrupt returns err as a *CorruptError that names the file, or nil if err is something else.
func (l *files) corrupt(err error) *CorruptError {
	bad, ok := errors.AsType[*CorruptError](err)
	if !ok {
		return nil
	}
	if bad.Path == l.path {
		bad.Path = l.at(bad.Offset)
	}
	if bad.Offset < l.base.end {
		bad.Torn = false // sealed lines are whole
	}
	if bad.Path == l.path && bad.Offset == l.base.end && bad.Seq > l.base.seq+1 {
		bad.Why += fmt.Sprintf("; if the lines before it were sealed, %s is missing", segmentPath(l.path, len(l.sealed)+1))
	}
	return bad
}

// checkFile checks the journal at path.
func checkFile(path string) (scan, error) {
	l, err := openFiles(path)
	if bad, ok := errors.AsType[*CorruptError](err); ok {
		return scan{bad: bad}, nil
	}
	if err != nil {
		return scan{}, err
	}
	defer l.close()
	return l.check(0)
}

// Report is the result of Verify.
type Report struct {
	// Events is the number of good lines before the first bad one.
	Events int64
	// FirstBad is nil if every line is good.
	FirstBad *CorruptError
	// LastSeq and LastHash are those of the last good line.
	LastSeq  int64
	LastHash string
}

// Verify checks every line of a journal, those of its segments, too: its form, its number, its hash, and that it follows the line before. Verify
// only reads and needs no lock. While a writer appends, it may see a torn end, and then reports it with FirstBad.Torn.
// An error is a failure to read the file.
//
// Verify cannot see that lines are missing at the end. CheckHead can.
func Verify(path string) (Report, error) {
	s, err := checkFile(path)
	if err != nil {
		return Report{}, fmt.Errorf("verifying a journal: %w", err)
	}
	return Report{Events: s.seq, FirstBad: s.bad, LastSeq: s.seq, LastHash: s.hash}, nil
}

// ErrStop ends Read or Follow without an error, if the function that they call returns it.
var ErrStop = errors.New("stop reading")

// CorruptError says where a journal has a line that the writer did not write. superloop never changes the file because
// of it.
type CorruptError struct {
	Path string // of the file that holds the line: the active file or a segment
	// Line counts from 1, over all files. It is 0 if it is not known, because the reader did not begin at the start of the
	// journal, or because the whole segment cannot be read.
	Line   int64
	Offset int64 // the offset of the line's first byte, over all files
	Seq    int64 // the line's own number, 0 if the line has none
	Why    string
	// Torn says that all lines before are good, and that this line is the torn end of the file or is being written.
	// Open repairs a torn end.
	Torn bool
}

func (e *CorruptError) Error() string {
	where := fmt.Sprintf("byte %d", e.Offset)
	if e.Line == 0 && e.Offset == 0 {
		where = "it"
	}
	if e.Line > 0 {
		where = fmt.Sprintf("line %d (%s)", e.Line, where)
	}
	if e.Torn {
		return fmt.Sprintf("%s: %s is torn: %s", e.Path, where, e.Why)
	}
	return fmt.Sprintf("%s: %s is broken: %s; the file is kept as it is, see: superloop events --verify", e.Path, where, e.Why)
}

// TamperedError says that a journal does not hold the line that its head names. The head lies outside the repository.
// So lines were cut off the end of the file, or the file was written again. superloop never changes the file because of
// it.
type TamperedError struct {
	Path   string
	Head   string // the file of the head
	Seq    int64  // of the line that the head names
	Offset int64  // where that line has to begin
	Why    string
}

func (e *TamperedError) Error() string {
	return fmt.Sprintf("%s was changed by something else than superloop: event %d, which was on the disk at byte %d, %s; "+
		"the file is kept as it is, see: superloop events --verify; to begin anew, move it and its segments (%s) away and remove %s",
		e.Path, e.Seq, e.Offset, e.Why, Segments(e.Path), e.Head)
}
