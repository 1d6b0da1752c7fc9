package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/superloop/superloop/internal/dirwatch"
)

// Read calls fn for each event of the journal at path whose Seq is at least from, in order, also those of its segments.
// It finds the first of them without reading all lines before it. It leaves out a last line that is not whole, because the line
// is being written or torn.
//
// If a line does not have the form of an event, or does not follow the line before by its number and prev, Read returns
// a *CorruptError after the events before that line. Read computes no hashes and does not parse an event's own fields.
// Open and Verify check whether the lines are those of the writer.
//
// fn may keep the event. Read returns the error of fn, but nil for ErrStop. If the file is missing, the error is
// fs.ErrNotExist.
func Read(path string, from int64, fn func(Event) error) error {
	r := reader{path: path, from: from}
	defer r.close()
	if err := r.open(); err != nil {
		return err
	}
	if err := r.drain(fn); err != ErrStop {
		return err
	}
	return nil
}

// Tail returns the last n events of path, oldest first. It reads the end of the journal only. It checks lines and leaves
// out a torn line as Read does.
func Tail(path string, n int) (events []Event, err error) {
	r := reader{path: path, from: math.MaxInt64}
	defer r.close()
	if err := r.open(); err != nil || n <= 0 {
		return nil, err
	}
	if err := r.drain(func(Event) error { return nil }); err != nil {
		return nil, err
	}
	err = Read(path, max(1, r.last.seq-int64(n)+1), func(ev Event) error { events = append(events, ev); return nil })
	return events[max(0, len(events)-n):], err
}

// reader reads a journal up to its end. It can go on when the journal has become longer.
type reader struct {
	path  string
	from  int64 // the number of the first event that is wanted
	files *files
	last  place // the last line that was read
}

// open opens the files and finds a line at or before the first event that is wanted.
func (r *reader) open() error {
	l, err := openFiles(r.path)
	if err != nil {
		return err
	}
	at, err := l.before(r.from)
	if err != nil {
		l.close()
		return err
	}
	r.files, r.last = l, at
	return nil
}

func (r *reader) close() {
	if r.files != nil {
		r.files.close()
		r.files = nil
	}
}

// drain reads from the last line that was read to the end of the journal.
func (r *reader) drain(fn func(Event) error) error {
	size, err := r.files.size()
	if err != nil {
		return fmt.Errorf("reading a journal: %w", err)
	}
	in := r.files.stream(r.last.end)
	defer in.close()
	l := newLines(r.path, in, r.last, size-r.last.end)
	for {
		err := l.next(false)
		bad := r.files.corrupt(err)
		switch {
		case err == io.EOF || bad != nil && bad.Torn:
			return nil
		case bad != nil:
			return bad
		case err != nil:
			return fmt.Errorf("reading a journal: %w", err)
		}
		if r.last = l.last; r.last.seq < r.from {
			continue
		}
		if err := fn(l.h.decode()); err != nil {
			return err
		}
	}
}

// seek returns an offset where a line begins, such that all events from seq on lie behind it and few events before them
// do. Numbers grow with the offset, so seek bisects the file until a small piece is left. Where it finds something that
// is no event, it chooses an earlier offset, at worst the beginning of the file.
func seek(f *os.File, seq int64) int64 {
	info, err := f.Stat()
	if err != nil || seq <= 1 {
		return 0
	}
	low, high := int64(0), info.Size() // low is the beginning of a line whose event is before seq
	for high-low > scanBuffer {
		mid := low + (high-low)/2
		if begin, n, ok := firstAt(f, mid, high); !ok || n >= seq {
			high = mid
		} else {
			low = begin
		}
	}
	return low
}

// firstAt returns the offset and the number of the first event that begins behind the offset at and before limit.
func firstAt(f *os.File, at, limit int64) (begin, seq int64, ok bool) {
	buf := make([]byte, 4096)
	for at < limit {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), limit-at)], at)
		i := bytes.IndexByte(buf[:n], '\n')
		if i >= 0 {
			begin = at + int64(i) + 1
			break
		}
		if err != nil {
			return 0, 0, false
		}
		at += int64(n)
	}
	if begin == 0 || begin >= limit {
		return 0, 0, false
	}
	seq, ok = seqAt(f, begin)
	return begin, seq, ok
}

// seqAt returns the number of the event that begins at an offset.
func seqAt(f *os.File, offset int64) (seq int64, ok bool) {
	buf := make([]byte, 64)
	n, _ := f.ReadAt(buf, offset)
	p := cursor{rest: buf[:n]}
	p.expect(seqKey)
	seq = p.integer(1 << 62)
	p.expect(timeKey)
	return seq, !p.bad
}

// Follow is Read that goes on. At the end of path it waits for more, until ctx ends (it returns the error of ctx), fn
// returns an error (nil for ErrStop), or a line is bad. path and its directory may be missing at first. A sealing makes no
// difference. If another file replaces path, Follow goes on in that file with the next event.
//
// The goroutine that calls Follow also calls fn.
func Follow(ctx context.Context, path string, from int64, fn func(Event) error) error {
	r := reader{path: path, from: from}
	defer r.close()
	// The watch begins before the first read, so that a line that is written during drain leads to another read.
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	look := dirwatch.NewWatches(watched).Dir(watched, filepath.Dir(path), func(changed string) bool {
		return filepath.Clean(changed) == filepath.Clean(path)
	})
	for {
		_, err := r.reopen()
		if err == nil && r.files != nil {
			err = r.drain(func(ev Event) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				r.from = ev.Seq + 1
				return fn(ev)
			})
		}
		if err == ErrStop {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look:
		}
	}
}

// Tailer reads a journal from one call to the next. Its methods are not safe for concurrent use.
type Tailer struct{ r reader }

// NewTailer returns a Tailer that begins with the event from. It opens nothing.
func NewTailer(path string, from int64) *Tailer { return &Tailer{reader{path: path, from: from}} }

// More calls fn for the events that the journal has behind the last call, as Read does. A journal that does not exist
// yet has no events. another says that the journal does not hold the last event of the last call any more, because it was
// replaced or cut: then More has called fn for no event, and the next call opens it.
func (t *Tailer) More(fn func(Event) error) (another bool, err error) {
	was := t.r.files != nil
	same, err := t.r.reopen()
	if err != nil {
		return false, err
	}
	if was && !same {
		t.Close()
		return true, nil
	}
	if t.r.files == nil {
		return false, nil
	}
	err = t.r.drain(func(ev Event) error {
		t.r.from = ev.Seq + 1
		return fn(ev)
	})
	if err == ErrStop {
		err = nil
	}
	return false, err
}

// Close closes the file. More opens it again.
func (t *Tailer) Close() { t.r.close() }

// reopen opens the files if the journal exists and one of these holds: no file is open, path names another file, or the
// file is shorter than what was read of it. same says that the reading goes on behind the last line that was read: also
// in another file, if the line is in the journal as before, because it was sealed meanwhile.
func (r *reader) reopen() (same bool, err error) {
	was := place{any: true}
	if r.files != nil {
		mine, now := stat(r.files.active, r.path)
		if now != nil && os.SameFile(mine, now) && r.files.base.end+mine.Size() >= r.last.end {
			return true, nil
		}
		was = r.last
		r.close()
	}
	err = r.open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || was.any {
		return false, err
	}
	if was.seq == 0 {
		return true, nil // there was nothing to read
	}
	if same, err = r.files.holds(was); same {
		r.last = was
	}
	return same, err
}
