package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// recheck is how often Follow looks without having been woken: for file systems
// that send no events (NFS, 9p, some container mounts), and for a directory that
// is not there yet.
const recheck = 2 * time.Second

// Follow is Read that goes on: at the end of path it waits for more, until ctx
// ends (it then returns ctx's error), fn returns an error (ErrStop: nil), or a
// line is broken. path, and its directory, need not be there yet; a file that is
// replaced by another is read from the next event on.
//
// fn is called by the goroutine that called Follow.
func Follow(ctx context.Context, path string, from int64, fn func(Event) error) error {
	return follow(ctx, path, from, fn, recheck, true)
}

func follow(ctx context.Context, path string, from int64, fn func(Event) error, every time.Duration, notify bool) error {
	f := follower{reader: reader{path: path, from: from}}
	defer f.close()
	w := &watcher{dir: filepath.Dir(path), name: filepath.Clean(path), off: !notify}
	defer w.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// The watch comes first: what is written while drain reads wakes us again.
		w.ensure()
		err := f.drain(func(ev Event) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(ev); err != nil {
				return err
			}
			f.from = ev.Seq + 1
			return nil
		})
		if err == ErrStop {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.wait(ctx, tick.C); err != nil {
			return err
		}
	}
}

// follower is a reader of a file that may appear, grow, or be replaced.
type follower struct{ reader }

func (f *follower) drain(fn func(Event) error) error {
	if f.file != nil && !f.current() {
		f.close()
	}
	if f.file == nil {
		if err := f.open(); err != nil || f.file == nil {
			return err
		}
	}
	return f.reader.drain(fn)
}

// current reports whether the open file is still the one at path, and at least
// as long as what was read of it.
func (f *follower) current() bool {
	mine, err := f.file.Stat()
	if err != nil || mine.Size() < f.at {
		return false
	}
	now, err := os.Stat(f.path)
	if err != nil {
		return errors.Is(err, os.ErrPermission)
	}
	return os.SameFile(mine, now)
}

// watcher wakes when something happens to one name in a directory.
type watcher struct {
	dir, name string
	off       bool // look at intervals only
	fs        *fsnotify.Watcher
}

// ensure watches the directory if it can. If it cannot (there is no directory, or
// the user's inotify limit is reached) the intervals are what remains.
func (w *watcher) ensure() {
	if w.off {
		return
	}
	if w.fs == nil {
		fs, err := fsnotify.NewWatcher()
		if err != nil {
			return
		}
		w.fs = fs
	}
	if len(w.fs.WatchList()) == 0 { // none yet, or the directory was removed
		_ = w.fs.Add(w.dir)
	}
}

func (w *watcher) close() {
	if w.fs != nil {
		w.fs.Close()
	}
}

// wait returns nil when it is worth looking again.
func (w *watcher) wait(ctx context.Context, tick <-chan time.Time) error {
	var events chan fsnotify.Event
	var errs chan error
	if w.fs != nil {
		events, errs = w.fs.Events, w.fs.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
			return nil
		case ev := <-events:
			if ev.Op != fsnotify.Chmod && (filepath.Clean(ev.Name) == w.name || filepath.Clean(ev.Name) == w.dir) {
				return nil
			}
		case err := <-errs:
			_ = err // an overflow or the like: something was missed, so look again
			return nil
		}
	}
}
