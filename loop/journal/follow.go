package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// recheck is how often Follow looks without having been woken: for file systems that send no events (NFS, 9p, some
// container mounts), and for a directory that is not there yet.
const recheck = 2 * time.Second

// Follow is Read that goes on: at the end of path it waits for more, until ctx ends (it then returns ctx's error), fn
// returns an error (ErrStop: nil), or a line is broken. path, and its directory, need not be there yet; a file that is
// replaced by another is read from the next event on.
//
// fn is called by the goroutine that called Follow.
func Follow(ctx context.Context, path string, from int64, fn func(Event) error) error {
	return follow(ctx, path, from, fn, recheck, true)
}

func follow(ctx context.Context, path string, from int64, fn func(Event) error, every time.Duration, notify bool) error {
	r := reader{path: path, from: from}
	defer r.close()
	var w watcher
	defer w.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// The watch comes first: what is written while drain reads wakes us again.
		if notify {
			w.ensure(filepath.Dir(path))
		}
		err := r.reopen()
		if err == nil && r.file != nil {
			err = r.drain(func(ev Event) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := fn(ev); err != nil {
					return err
				}
				r.from = ev.Seq + 1
				return nil
			})
		}
		if err == ErrStop {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.wait(ctx, tick.C, filepath.Clean(path)); err != nil {
			return err
		}
	}
}

// reopen opens the file if it is there and not open, or is another one than is open, or is shorter than what was read
// of it.
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

// watcher wakes when something happens to one name in a directory.
type watcher struct{ fs *fsnotify.Watcher }

// ensure watches the directory if it can. If it cannot (there is no directory, or the user's inotify limit is reached)
// the intervals are what remains.
func (w *watcher) ensure(dir string) {
	if w.fs == nil {
		fs, err := fsnotify.NewWatcher()
		if err != nil {
			return
		}
		w.fs = fs
	}
	if len(w.fs.WatchList()) == 0 { // none yet, or the directory was removed
		_ = w.fs.Add(dir)
	}
}

func (w *watcher) close() {
	if w.fs != nil {
		w.fs.Close()
	}
}

// wait returns nil when it is worth looking at the file again.
func (w *watcher) wait(ctx context.Context, tick <-chan time.Time, path string) error {
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
			name := filepath.Clean(ev.Name)
			if ev.Op != fsnotify.Chmod && (name == path || name == filepath.Dir(path)) {
				return nil
			}
		case err := <-errs:
			_ = err // an overflow or the like: something was missed, so look again
			return nil
		}
	}
}
