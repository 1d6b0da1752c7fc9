// Package logs finds the logs of a loop's roles and reads them while they grow, as they were recorded or as items.
package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/roles/agent/item"
)

// Newest returns the log that was written to last among those of role and iteration. "" stands for every role, 0 for
// every iteration. It returns fs.ErrNotExist if there is no such log.
func Newest(p layout.Paths, role string, iteration int) (string, error) {
	if role == "tests" && iteration == 0 {
		file := p.File("test-output.txt")
		_, err := os.Stat(file)
		return file, err
	}
	dirs, err := os.ReadDir(p.File("logs"))
	if err != nil {
		return "", err
	}
	best, at := "", time.Time{}
	for _, d := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(d.Name(), "iter-"))
		if err != nil || (iteration > 0 && n != iteration) {
			continue
		}
		files, err := os.ReadDir(p.Logs(n))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			name := f.Name()
			if !strings.HasSuffix(name, ".log") || (role != "" && name != role+".log" && !strings.HasPrefix(name, role+".")) {
				continue
			}
			if info, err := f.Info(); err == nil && !info.ModTime().Before(at) {
				best, at = filepath.Join(p.Logs(n), name), info.ModTime()
			}
		}
	}
	if best == "" {
		return "", fs.ErrNotExist
	}
	return best, nil
}

// Reader returns a reader for the items of a log. What tests and recovery commands print has no events, whatever it
// looks like.
func Reader(file string, each func(item.Item)) *item.Reader {
	if name := filepath.Base(file); !strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "recovery-") {
		return item.NewPlain(each)
	}
	return item.NewReader(each)
}

// Tail reads a log that grows.
type Tail struct {
	File string
	at   int64
}

// Copy writes what the log holds behind the last call to w. A log that is shorter than before was begun anew: then Copy
// writes all of it, after it has called anew, unless that is nil.
func (t *Tail) Copy(w io.Writer, anew func()) error {
	f, info, err := door.Open(t.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() < t.at {
		if t.at = 0; anew != nil {
			anew()
		}
	}
	if _, err := f.Seek(t.at, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(w, f)
	t.at += n
	return err
}

// begin moves a tail to the first line that begins in the last most bytes of the log.
func (t *Tail) begin(most int64) error {
	f, info, err := door.Open(t.File)
	if err != nil || info.Size() <= most {
		return err
	}
	defer f.Close()
	from := info.Size() - most
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	buf := make([]byte, most)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	t.at = from + int64(bytes.IndexByte(buf[:n], '\n')) + 1 // without a line break the line that goes on is read from its middle
	return nil
}

// followEvery is the time between two looks at a log, which may grow many times a second.
const followEvery = 250 * time.Millisecond

// Follow copies the log file to what open returns for it, and goes on as it grows, until ctx ends. When newest returns
// another log, Follow closes the writer and goes on with that one. file may be "": there is no log yet.
func Follow(ctx context.Context, newest func() (string, error), file string, open func(file string) io.WriteCloser) (err error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var to io.WriteCloser
	stop := func() error {
		if to == nil {
			return nil
		}
		return to.Close()
	}
	tail := Tail{File: file}
	for {
		if tail.File != "" {
			if to == nil {
				to = open(tail.File)
			}
			if err := tail.Copy(to, nil); err != nil {
				return errors.Join(err, stop())
			}
		}
		if next, err := newest(); err == nil && next != tail.File {
			if err := stop(); err != nil {
				return err
			}
			tail, to = Tail{File: next}, nil
			continue
		}
		select {
		case <-ctx.Done():
			return stop()
		case <-tick.C:
		}
	}
}

// latest returns what Newest returns for every role and iteration. It looks at the logs of the last iteration first, and
// at all of them only if that has none.
func latest(p layout.Paths) (string, error) {
	dirs, err := os.ReadDir(p.File("logs"))
	last := 0
	for _, d := range dirs {
		n, _ := strconv.Atoi(strings.TrimPrefix(d.Name(), "iter-")) // 0 for another name
		last = max(last, n)
	}
	if err != nil {
		return "", err
	}
	file, err := Newest(p, "", last)
	if errors.Is(err, fs.ErrNotExist) {
		return Newest(p, "", 0)
	}
	return file, err
}

// recent is how much of a log that exists already Live reads, in bytes.
const recent = 256 << 10

// Live reads the newest log of a loop as items, from one look to the next. It is not safe for concurrent use.
type Live struct {
	Paths  layout.Paths
	tail   Tail
	reader *item.Reader
	items  []item.Item
}

// Look returns the log that was written to last, and what has been added to it since the last look. fresh says that the
// items belong to another log than those of the last look, or to one that was begun anew. Of a log that is longer than
// 256 KiB at the first look, Look leaves the beginning out. file is "" if there is no log.
func (l *Live) Look() (file string, fresh bool, items []item.Item, err error) {
	newest, err := latest(l.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil, nil
	}
	if err != nil {
		return l.tail.File, false, nil, err
	}
	begin := func() {
		fresh, l.items = true, nil
		l.reader = Reader(newest, func(it item.Item) { l.items = append(l.items, it) })
	}
	if newest != l.tail.File {
		l.tail = Tail{File: newest}
		begin()
		if err := l.tail.begin(recent); err != nil {
			return newest, fresh, nil, err
		}
	}
	err = l.tail.Copy(l, begin)
	items, l.items = l.items, nil
	return newest, fresh, items, err
}

// Write takes the next piece of the log. Look calls it.
func (l *Live) Write(p []byte) (int, error) {
	l.reader.Write(p)
	return len(p), nil
}

// Items returns a writer that takes a log and hands its items to each. An error of each fails the write. done is called
// at the end with the number of events that gave no item.
func Items(file string, each func(item.Item) error, done func(skipped int64)) io.WriteCloser {
	w := &itemWriter{done: done}
	w.Reader = Reader(file, func(it item.Item) {
		if w.err == nil {
			w.err = each(it)
		}
	})
	return w
}

type itemWriter struct {
	*item.Reader
	done func(int64)
	err  error
}

func (w *itemWriter) Write(p []byte) (int, error) {
	if w.Reader.Write(p); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

func (w *itemWriter) Close() error {
	w.Reader.Close()
	w.done(w.Skipped())
	return w.err
}
