// Package watch takes a changed .superloop/config.json into a loop that runs.
//
// Watch says when to look: it follows the file through every way in which editors, tools and people replace it, and
// looks now and then where the file system tells nothing. It decides nothing, and a loop that never hears of it still
// looks when an iteration begins.
//
// Reloader looks: it reads the file, does everything that can fail (reading, schema, facts of the file system, trust)
// and then swaps the configuration at once. Whatever is wrong with the file, the configuration that was in force stays
// in force as a whole: there is no state in which a part of a file, an empty configuration or one of defaults is in
// force.
//
// A file that is not whole (not JSON, empty, not there) is most often being written. It is not taken, and not reported,
// before it stayed so for a while. A whole file is taken at once.
package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/schemas"
)

const (
	pause = 250 * time.Millisecond // how long a file that is not whole must stay as it is before Watch sends
	again = 4                      // how often Watch sends then, a pause apart: the Reloader wants to have seen it for a while
	// relook is how often the file is looked at without an event: NFS and some mounts of containers send none.
	relook  = 2 * time.Second
	maxHops = 40 // of a chain of symbolic links, as the system bounds it
	// racy is how old a change must be before the file's times can tell of another: they move in steps of up to 10 ms.
	racy = 100 * time.Millisecond
)

// Watch sends on the returned channel when there may be a new configuration at path: at once when the content is new
// and whole, after a pause when it is not whole or not there, and once in the beginning, since the file may have
// changed after it was read. Several changes may give one send. The directory is watched, and those that symbolic links
// lead through, so it does not matter how the file is replaced; where events cannot be had the file is looked at every
// two seconds. The channel is never closed; nothing is sent after ctx ends.
func Watch(ctx context.Context, path string) <-chan struct{} {
	w := newWatcher(path)
	go w.run(ctx)
	return w.out
}

// watcher is one goroutine's own, but for out.
type watcher struct {
	path          string
	pause, relook time.Duration
	out           chan struct{} // capacity 1: only "look" matters
	fs            *fsnotify.Watcher
	dirs          map[string]stamp
	news          chan struct{} // something happened in one of dirs. Capacity 1
	drained       sync.WaitGroup

	last   stamp  // of the content that was looked at
	sent   string // the whole content of the last send
	broken string // what is there and is not whole
	tries  int    // how often broken was sent
	timer  *time.Timer
}

func newWatcher(path string) *watcher {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	w := &watcher{path: path, pause: pause, relook: relook, out: make(chan struct{}, 1), dirs: map[string]stamp{}, news: make(chan struct{}, 1)}
	if fs, err := fsnotify.NewWatcher(); err == nil {
		w.fs = fs
		w.drained.Go(w.drain)
	} // else there are too many watchers, and the timer is what there is
	w.follow()
	return w
}

// drain takes in what the file system tells, whatever the watcher does meanwhile: fsnotify holds its lock while it
// waits for an error to be taken, so whoever takes its errors must not call it.
func (w *watcher) drain() {
	for {
		ok, quiet := false, false
		select {
		case ev, open := <-w.fs.Events:
			ok, quiet = open, ev.Op == fsnotify.Chmod
		case _, ok = <-w.fs.Errors: // an overflow: events are lost
		}
		if !ok {
			return // it was closed
		}
		if !quiet {
			poke(w.news)
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// close ends what newWatcher began.
func (w *watcher) close() {
	if w.fs != nil {
		w.fs.Close()
	}
	w.drained.Wait()
}

func (w *watcher) run(ctx context.Context) {
	w.timer = time.NewTimer(time.Hour)
	w.timer.Stop()
	tick := time.NewTicker(w.relook)
	defer tick.Stop()
	defer w.close()
	w.look()
	if w.broken != "" {
		poke(w.out)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.follow()
			w.look()
		case <-w.timer.C:
			w.settle()
		case <-w.news:
			w.look()
		}
	}
}

// look reads the file, unless its stamp proves that there is nothing new.
func (w *watcher) look() {
	if w.last.proves(stampOf(w.path)) {
		return
	}
	data, st, err := read(w.path)
	key, ok := fingerprint(data, err), err == nil && whole(data)
	if st.ino != w.last.ino || st.dev != w.last.dev {
		w.follow() // replaced, perhaps by a link to elsewhere
	}
	w.last = st
	switch {
	case !ok && key != w.broken:
		w.broken, w.tries = key, 0
		w.timer.Reset(w.pause)
	case !ok: // the timer runs, or it was sent often enough
	case key != w.sent || w.broken != "":
		w.sent, w.broken = key, ""
		w.timer.Stop()
		poke(w.out)
	}
}

// settle reports a file that was incomplete and has not changed since.
func (w *watcher) settle() {
	before := w.broken
	w.look()
	if w.broken == "" || w.broken != before {
		return
	}
	poke(w.out)
	if w.tries++; w.tries < again {
		w.timer.Reset(w.pause)
	}
}

// follow watches the directories that lead to the file, as they are now.
func (w *watcher) follow() {
	if w.fs == nil {
		return
	}
	want := leading(w.path)
	for dir, old := range w.dirs {
		now := stampOf(dir)
		if !slices.Contains(want, dir) || old.ino != now.ino || old.dev != now.dev || !slices.Contains(w.fs.WatchList(), dir) {
			_ = w.fs.Remove(dir) // it may have gone, and its watch with it
			delete(w.dirs, dir)
		}
	}
	for _, dir := range want {
		st := stampOf(dir)
		if _, known := w.dirs[dir]; !known && w.fs.Add(dir) == nil { // else it is tried again at the next tick
			w.dirs[dir] = st
		}
	}
}

// leading are the directories that hold the file and the links that lead to it.
func leading(path string) []string {
	var dirs []string
	for range maxHops {
		if dir := filepath.Dir(path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + "/" + to // not cleaned: what ".." leads to is the system's to say
		}
		path = to
	}
	return dirs
}

// stamp is the identity of a file's content as far as the file system tells it; the zero value is that of no file.
type stamp struct {
	dev, ino, size uint64
	mtime, ctime   unix.Timespec
	fresh          bool // the last change was so near to the look that a later one may have the same times
}

// stampOf looks at the file that path leads to.
func stampOf(path string) stamp {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return stamp{}
	}
	return stamp{dev: uint64(st.Dev), ino: st.Ino, size: uint64(st.Size), mtime: st.Mtim, ctime: st.Ctim,
		fresh: time.Since(time.Unix(st.Ctim.Unix())) < racy}
}

// proves reports whether the stamp now proves that the content is still what was read when s was taken.
func (s stamp) proves(now stamp) bool {
	now.fresh = false
	return !s.fresh && s.ino != 0 && s == now
}

// read gives the file's bytes, and the stamp from before they were read. The stamp is zero next to an error.
func read(path string) ([]byte, stamp, error) {
	st := stampOf(path)
	data, err := config.Read(path)
	if err != nil {
		return nil, stamp{}, err
	}
	return data, st, nil
}

// whole reports whether the bytes can be a whole file: no beginning of one is JSON. The reader refuses too large ones.
func whole(data []byte) bool { return len(data) > schemas.Config.Limit() || json.Valid(data) }

// fingerprint is the SHA-256 of a file's bytes, as config.Config.Digest, or why there are none.
func fingerprint(data []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
