package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/superloop/superloop/internal/door"
)

// Segments returns the directory with the sealed segments of the journal at path.
func Segments(path string) string { return path + ".segments" }

func segmentPath(path string, n int) string {
	return filepath.Join(Segments(path), fmt.Sprintf("%06d.gz", n))
}

// files are the files of a journal as they were at one moment: the sealed segments, and the active file.
type files struct {
	path   string
	sealed []*segment
	base   place    // the last line of the last segment, which the first line of the active file follows
	active *os.File // nil if there is none
	// copied is a segment whose lines the active file has, too: a sealing was interrupted. The active file counts.
	copied *segment
}

// segment is a sealed part of a journal. Its lines do not change.
type segment struct {
	path string
	head block   // the first block
	all  []block // all blocks, nil until they are needed
}

// openFiles opens the files of a journal. If there is no active file, the error is fs.ErrNotExist.
func openFiles(path string) (*files, error) {
	for {
		f, _, err := door.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading a journal: %w", err)
		}
		// A sealing that ends meanwhile replaces the file, and then f is not what follows the segments.
		all, err := segmentsOf(path)
		if mine, now := stat(f, path); now != nil && !os.SameFile(mine, now) {
			f.Close()
			continue
		}
		l := &files{path: path, active: f}
		if err == nil {
			err = l.join(all)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return l, nil
	}
}

// stat returns what f is, and what path names now: nil for nothing, and f again if this user may not look.
func stat(f *os.File, path string) (mine, now fs.FileInfo) {
	mine, _ = f.Stat() // an open file always has one
	now, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return mine, mine
	case err != nil:
		return mine, nil
	}
	return mine, now
}

// segmentsOf returns the segments of a journal. They are numbered from 1 without a gap, so a missing one hides those
// behind it. The next line then does not follow.
func segmentsOf(path string) (all []*segment, err error) {
	for {
		s := &segment{path: segmentPath(path, len(all)+1)}
		err := s.with(func(f *os.File, _ int64) (err error) {
			s.head, err = readBlock(f, 0)
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, s.damaged(place{any: true}, err)
		}
		if !s.comesAfter(all) {
			return nil, s.damaged(place{any: true}, errors.New("its lines do not come behind those of the segment before it"))
		}
		all = append(all, s)
	}
}

// comesAfter reports whether the first block can come after those segments. Whether it follows them, the lines say.
func (s *segment) comesAfter(all []*segment) bool {
	if len(all) == 0 {
		return s.head.before() == place{}
	}
	was := all[len(all)-1].head
	return s.head.first > was.seq && s.head.from >= was.end
}

// join sorts out which segments come before the active file.
func (l *files) join(all []*segment) error {
	if n := len(all); n > 0 {
		if first, ok := seqAt(l.active, 0); ok && first == all[n-1].head.first {
			all, l.copied = all[:n-1], all[n-1]
		}
	}
	l.sealed = all
	if n := len(all); n > 0 {
		blocks, err := all[n-1].blocks()
		if err != nil {
			return err
		}
		l.base = blocks[len(blocks)-1].place
	}
	return nil
}

func (l *files) close() {
	if l.active != nil {
		l.active.Close()
	}
}

// size returns the length of the whole journal in bytes.
func (l *files) size() (int64, error) {
	info, err := l.active.Stat()
	if err != nil {
		return 0, err
	}
	return l.base.end + info.Size(), nil
}

// at returns the name of the file that holds an offset.
func (l *files) at(offset int64) string {
	for i := len(l.sealed) - 1; i >= 0 && offset < l.base.end; i-- {
		if l.sealed[i].head.from <= offset {
			return l.sealed[i].path
		}
	}
	return l.path
}

// before returns a place behind which all events from seq on lie, and few events before them.
func (l *files) before(seq int64) (place, error) {
	if seq > l.base.seq {
		at := seek(l.active, seq)
		if at == 0 {
			return l.base, nil
		}
		return place{end: l.base.end + at, any: true}, nil
	}
	for i := len(l.sealed) - 1; i >= 0; i-- {
		if i > 0 && l.sealed[i].head.first > seq {
			continue
		}
		blocks, err := l.sealed[i].blocks()
		if err != nil {
			return place{}, err
		}
		for len(blocks) > 1 && blocks[1].first <= seq {
			blocks = blocks[1:]
		}
		return blocks[0].before(), nil
	}
	return place{}, nil
}

// stream returns a reader of the journal's bytes from an offset on. The caller closes it.
func (l *files) stream(offset int64) *stream { return &stream{l: l, at: offset} }

// stream reads the segments and then the active file. What cannot be read of a segment is a *CorruptError.
type stream struct {
	l    *files
	at   int64     // the next byte
	in   io.Reader // the rest of a block, or of the active file
	seg  *segment  // the one that is open
	file *os.File
	left []block // of seg, behind the one that in reads
}

func (s *stream) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.in == nil {
			if err := s.open(); err != nil {
				return 0, err
			}
		}
		n, err := s.in.Read(p)
		s.at += int64(n)
		switch {
		case n > 0 && err == io.EOF:
			err = nil // the next call finds it again
		case err == io.EOF && s.seg != nil:
			s.in = nil
			continue
		case err != nil && s.seg != nil:
			err = s.seg.damaged(place{end: s.at, any: true}, err)
		}
		return n, err
	}
}

// open opens what holds the next byte.
func (s *stream) open() error {
	if s.at >= s.l.base.end {
		s.close()
		s.seg = nil
		s.in = io.NewSectionReader(s.l.active, s.at-s.l.base.end, 1<<62)
		return nil
	}
	if len(s.left) == 0 {
		if err := s.openSegment(); err != nil {
			return err
		}
	}
	b := s.left[0]
	s.left = s.left[1:]
	in, err := b.lines(s.file)
	if err == nil {
		_, err = io.CopyN(io.Discard, in, s.at-b.from)
	}
	if err != nil {
		return s.seg.damaged(b.before(), err)
	}
	s.in = in
	return nil
}

// openSegment opens the segment that holds the next byte, and sets left to its blocks from that byte on.
func (s *stream) openSegment() (err error) {
	s.close()
	for i, seg := range s.l.sealed {
		if i == 0 || seg.head.from <= s.at {
			s.seg = seg
		}
	}
	if s.left, err = s.seg.blocks(); err != nil {
		return err
	}
	for len(s.left) > 0 && s.left[0].end <= s.at {
		s.left = s.left[1:]
	}
	if len(s.left) == 0 || s.left[0].from > s.at {
		return s.seg.damaged(place{end: s.at, any: true}, fmt.Errorf("it does not hold byte %d of the journal", s.at))
	}
	s.file, _, err = door.Open(s.seg.path)
	if err != nil {
		return s.seg.damaged(place{end: s.at, any: true}, err)
	}
	return nil
}

// with calls fn with the file of the segment and its length.
func (s *segment) with(fn func(f *os.File, size int64) error) error {
	f, info, err := door.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(f, info.Size())
}

// blocks returns all blocks of the segment. It reads their headers only.
func (s *segment) blocks() ([]block, error) {
	if s.all == nil {
		err := s.with(func(f *os.File, size int64) (err error) {
			s.all, err = readBlocks(f, size)
			return err
		})
		if err != nil {
			return nil, s.damaged(s.head.before(), err)
		}
	}
	return s.all, nil
}

// damaged says that the segment cannot be read from the line on that follows a place.
func (s *segment) damaged(behind place, err error) error {
	if bad, ok := errors.AsType[*CorruptError](err); ok {
		return bad
	}
	return &CorruptError{Path: s.path, Line: behind.line(), Offset: behind.end, Why: "the segment cannot be read: " + err.Error()}
}
