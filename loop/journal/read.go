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
	"github.com/superloop/superloop/internal/durable"
)

// Read calls fn for each event of path whose Seq is from or more, in order. It finds its first line in a large file
// without reading what is before. Half a last line is left out: it is being written, or torn.
//
// A line that has not an event's form, or does not follow the line before by its number and prev, gives a *CorruptError
// after the events before it. Hashes are not computed, and an event's own fields are handed on as they stand: whether
// the lines are the writer's is for Open and Verify to say.
//
// fn may keep the event; its error is returned, but ErrStop gives nil. A missing file is fs.ErrNotExist.
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

// Tail gives the last n events of path, oldest first, from the file's end only. It checks and leaves out as Read does.
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

// reader reads a journal up to its end, and on when it has become longer.
type reader struct {
	path string
	from int64 // the first event that is wanted
	file *os.File
	last place // the last line that was read
}

// open opens the file and finds the first line that is wanted.
func (r *reader) open() error {
	f, err := durable.Open(r.path)
	if err != nil {
		return fmt.Errorf("reading a journal: %w", err)
	}
	at := seek(f, r.from)
	r.file, r.last = f, place{end: at, any: at > 0}
	return nil
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// drain reads from where it stopped to the end.
func (r *reader) drain(fn func(Event) error) error {
	l := newLines(r.path, r.file, r.last)
	for {
		err := l.next(false)
		bad, is := errors.AsType[*CorruptError](err)
		switch {
		case err == io.EOF || is && bad.Torn:
			return nil
		case is:
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

// seek finds an offset that is the beginning of a line, with all events from seq on behind it, and not far before them.
// Numbers grow with the offset, so it halves the file until a small piece is left. Where it meets anything that is no
// event it stays on the safe side, up to the beginning of the file.
func seek(f *os.File, seq int64) int64 {
	info, err := f.Stat()
	if err != nil || seq <= 1 {
		return 0
	}
	low, high := int64(0), info.Size() // low: a line's beginning, its event is before seq
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

// firstAt reads the number of the first event that begins behind the offset at and before limit.
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
	n, _ := f.ReadAt(buf[:64], begin)
	p := cursor{rest: buf[:n]}
	p.expect(seqKey)
	seq = p.integer(1 << 62)
	p.expect(timeKey)
	return begin, seq, !p.bad
}

// Follow is Read that goes on: at the end of path it waits for more, until ctx ends (it then returns ctx's error), fn
// returns an error (ErrStop: nil), or a line is broken. path, and its directory, need not be there yet; a file that is
// replaced by another is read from the next event on.
//
// fn is called by the goroutine that called Follow.
func Follow(ctx context.Context, path string, from int64, fn func(Event) error) error {
	r := reader{path: path, from: from}
	defer r.close()
	// The watch comes first: what is written while drain reads wakes us again.
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	look := dirwatch.NewWatches(watched).Dir(watched, filepath.Dir(path), func(changed string) bool {
		return filepath.Clean(changed) == filepath.Clean(path)
	})
	for {
		err := r.reopen()
		if err == nil && r.file != nil {
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

// reopen opens the file if it is there and not open, is another one, or is shorter than what was read of it.
func (r *reader) reopen() error {
	if r.file != nil {
		mine, err := r.file.Stat()
		now, err2 := os.Stat(r.path)
		if err == nil && mine.Size() >= r.last.end && (err2 == nil && os.SameFile(mine, now) || errors.Is(err2, fs.ErrPermission)) {
			return nil
		}
		r.close()
	}
	if err := r.open(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
