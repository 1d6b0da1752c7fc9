package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/superloop/superloop/internal/door"
)

// scanBuffer is the size of one read: large enough that the cost of read(2) does not matter.
const scanBuffer = 64 << 10

// place is the place of a line in the file. The next line begins at end. The zero value is the beginning of the file.
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

// lines reads a journal event by event, in constant memory.
type lines struct {
	path string
	in   *bufio.Scanner
	last place // the last good line
	h    header
}

// newLines returns a reader of the lines behind a place.
func newLines(path string, f io.ReaderAt, behind place) *lines {
	in := bufio.NewScanner(io.NewSectionReader(f, behind.end, 1<<62))
	in.Buffer(make([]byte, scanBuffer), MaxLine+1)
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
	if !l.in.Scan() && l.in.Err() != bufio.ErrTooLong {
		return cmp.Or(l.in.Err(), io.EOF)
	}
	size := int64(len(l.in.Bytes()))
	line, whole := bytes.CutSuffix(l.in.Bytes(), []byte("\n"))
	l.h.seq = 0
	bad := &CorruptError{Path: l.path, Line: l.last.line(), Offset: begin}
	switch {
	case l.in.Err() != nil:
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
	events int64
	bad    *CorruptError
}

// check reads a journal to its end or to the first bad line, which it returns in scan.bad. An error is a failure to
// read.
func check(f io.ReaderAt, path string) (s scan, err error) {
	l := newLines(path, f, place{})
	for err == nil {
		if err = l.next(true); err == nil {
			s.events++
		}
	}
	s.place = l.last
	if bad, ok := errors.AsType[*CorruptError](err); ok {
		s.bad, err = bad, nil
	}
	if err == io.EOF {
		err = nil
	}
	return s, err
}

// checkFile is check for the file at path.
func checkFile(path string) (scan, error) {
	f, _, err := door.Open(path)
	if err != nil {
		return scan{}, err
	}
	defer f.Close()
	return check(f, path)
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

// Verify checks every line of a journal: its form, its number, its hash, and that it follows the line before. Verify
// only reads and needs no lock. While a writer appends, it may see a torn end, and then reports it with FirstBad.Torn.
// An error is a failure to read the file.
//
// Verify cannot see that lines are missing at the end. CheckHead can.
func Verify(path string) (Report, error) {
	s, err := checkFile(path)
	if err != nil {
		return Report{}, fmt.Errorf("verifying a journal: %w", err)
	}
	return Report{Events: s.events, FirstBad: s.bad, LastSeq: s.seq, LastHash: s.hash}, nil
}

// ErrStop ends Read or Follow without an error, if the function that they call returns it.
var ErrStop = errors.New("stop reading")

// CorruptError says where a journal has a line that the writer did not write. superloop never changes the file because
// of it.
type CorruptError struct {
	Path string
	// Line counts from 1. It is 0 if it is not known, because the reader did not begin at the start of the file.
	Line   int64
	Offset int64 // the offset of the line's first byte
	Seq    int64 // the line's own number, 0 if the line has none
	Why    string
	// Torn says that all lines before are good, and that this line is the torn end of the file or is being written.
	// Open repairs a torn end.
	Torn bool
}

func (e *CorruptError) Error() string {
	where := fmt.Sprintf("byte %d", e.Offset)
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
		"the file is kept as it is, see: superloop events --verify; to begin anew, move it away and remove %s",
		e.Path, e.Seq, e.Offset, e.Why, e.Head)
}
