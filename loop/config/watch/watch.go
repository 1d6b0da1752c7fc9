// Package watch puts changes of .superloop/config.json in force while a loop runs.
//
// Watch says when the file may have changed. It follows the file through every way in which editors, tools and people
// replace it. Where the file system sends no events, Watch reads the file at intervals. Watch makes no decision, and a
// loop that gets nothing from it still checks the file when an iteration begins.
//
// Reloader checks the file. It first takes every step that can fail (reading, schema, facts of the file system, trust)
// and then replaces the configuration in one step. Whatever is wrong with the file, the previous configuration stays in
// force as a whole. Part of a file, an empty configuration or the mere defaults are never in force.
//
// A file that is not whole (not JSON, empty or missing) is most often being written. The Reloader reports such a file
// only after it has stayed so for some time. It puts a whole file in force at once.
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
	pause = 250 * time.Millisecond // how long a file that is not whole must stay the same before Watch sends
	again = 4                      // how often Watch sends for such a file, one pause apart
	// relook is the interval at which the watcher checks the file without an event. NFS and some mounts of containers
	// send no events.
	relook  = 2 * time.Second
	maxHops = 40 // the maximum length of a chain of symbolic links, as in the kernel
	// racy is the age from which a file's times prove that it has not changed again. File systems update times in steps
	// of up to 10 ms.
	racy = 100 * time.Millisecond
)

// Watch sends on the returned channel when there may be a new configuration at path. It sends at once when the content
// is new and whole. It sends after a pause when the file is not whole or missing. It also sends once in the beginning,
// since the file may have changed after the caller read it. Several changes may lead to one send. Watch observes the
// file's directory, and the directories of symbolic links that lead to the file, so any way of replacing the file is
// noticed. Where it gets no events, it checks the file every two seconds. Watch never closes the channel. It sends
// nothing after ctx ends.
func Watch(ctx context.Context, path string) <-chan struct{} {
	w := newWatcher(path)
	go w.run(ctx)
	return w.out
}

// watcher belongs to one goroutine, except for out.
type watcher struct {
	path          string
	pause, relook time.Duration
	out           chan struct{} // capacity 1: a second signal adds nothing to one that waits
	fs            *fsnotify.Watcher
	dirs          map[string]stamp
	news          chan struct{} // gets a value after an event in one of dirs; capacity 1
	drained       sync.WaitGroup

	last   stamp  // the stamp of the content that look read last
	sent   string // the fingerprint of the whole content that was sent last
	broken string // the fingerprint of a file that is not whole, or ""
	tries  int    // how often the watcher has sent for broken
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
	} // else the system has no more watchers, and only the ticker remains
	w.follow()
	return w
}

// drain receives the events of the file system in its own goroutine. fsnotify holds its lock while it waits for a
// receiver of an error, so the goroutine that receives errors must not call fsnotify.
func (w *watcher) drain() {
	for {
		ok, quiet := false, false
		select {
		case ev, open := <-w.fs.Events:
			ok, quiet = open, ev.Op == fsnotify.Chmod
		case _, ok = <-w.fs.Errors: // an overflow: the kernel has dropped events
		}
		if !ok {
			return // close has closed the channel
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

// close stops the file system watch and waits for drain.
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

// look reads the file, unless its stamp proves that it has not changed.
func (w *watcher) look() {
	if w.last.proves(stampOf(w.path)) {
		return
	}
	data, st, err := read(w.path)
	key, ok := fingerprint(data, err), err == nil && whole(data)
	if st.ino != w.last.ino || st.dev != w.last.dev {
		w.follow() // the file was replaced, perhaps by a link to another directory
	}
	w.last = st
	switch {
	case !ok && key != w.broken:
		w.broken, w.tries = key, 0
		w.timer.Reset(w.pause)
	case !ok: // the timer runs, or the watcher has sent often enough
	case key != w.sent || w.broken != "":
		w.sent, w.broken = key, ""
		w.timer.Stop()
		poke(w.out)
	}
}

// settle sends for a file that is not whole and has not changed during the pause.
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

// follow watches the directories that lead to the file at present.
func (w *watcher) follow() {
	if w.fs == nil {
		return
	}
	want := leading(w.path)
	for dir, old := range w.dirs {
		now := stampOf(dir)
		if !slices.Contains(want, dir) || old.ino != now.ino || old.dev != now.dev || !slices.Contains(w.fs.WatchList(), dir) {
			_ = w.fs.Remove(dir) // ignore the error: the directory may be gone, and its watch with it
			delete(w.dirs, dir)
		}
	}
	for _, dir := range want {
		st := stampOf(dir)
		if _, known := w.dirs[dir]; !known && w.fs.Add(dir) == nil { // after an error, follow tries again at the next tick
			w.dirs[dir] = st
		}
	}
}

// leading returns the directories that hold the file and the symbolic links that lead to it.
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
			to = filepath.Dir(path) + "/" + to // not cleaned: the kernel decides where ".." leads
		}
		path = to
	}
	return dirs
}

// stamp identifies the content of a file by its metadata. The zero value stands for a missing file.
type stamp struct {
	dev, ino, size uint64
	mtime, ctime   unix.Timespec
	fresh          bool // the last change is so recent that a later one may have the same times
}

// stampOf returns the stamp of the file that path leads to.
func stampOf(path string) stamp {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return stamp{}
	}
	return stamp{dev: uint64(st.Dev), ino: st.Ino, size: uint64(st.Size), mtime: st.Mtim, ctime: st.Ctim,
		fresh: time.Since(time.Unix(st.Ctim.Unix())) < racy}
}

// proves reports whether the stamp now proves that the content is the one that was read when s was taken.
func (s stamp) proves(now stamp) bool {
	now.fresh = false
	return !s.fresh && s.ino != 0 && s == now
}

// read returns the bytes of the file, and its stamp from before reading. With an error the stamp is zero.
func read(path string) ([]byte, stamp, error) {
	st := stampOf(path)
	data, err := config.Read(path)
	if err != nil {
		return nil, stamp{}, err
	}
	return data, st, nil
}

// whole reports whether the bytes can be a whole file: they are JSON, or too large, which the reader of the
// configuration refuses. The beginning of a JSON file is not JSON.
func whole(data []byte) bool { return len(data) > schemas.Config.Limit() || json.Valid(data) }

// fingerprint returns the SHA-256 of the bytes in hex, like config.Config.Digest, or the text of the error.
func fingerprint(data []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
