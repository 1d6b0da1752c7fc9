// Package dirwatch tells any number of listeners what happens in directories, through one watch of the system.
package dirwatch

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Some file systems send no events: rechecked directories are looked at in each recheck besides, in turns, so that not
// all loops wake up at once. Of more directories each has its turn later.
const recheck, rechecked, turns = time.Second, 100, 10

// Watches tells any number of loops what happens in directories, through one watch of the system: of those a user has
// few (128 on most machines), and each costs 64 KiB and more, while a directory in it costs next to nothing. Its
// methods may be called by several goroutines.
type Watches struct {
	Mu    sync.Mutex
	fs    *fsnotify.Watcher // nil if the system has none left: then only the turns are
	dirs  map[string][]*watcher
	armed map[string]bool // the directories that the file system tells of
	All   []*watcher
	turn  int // the next one of All to be told to look
	due   int // the looks that are due, in parts of 1/turns
}

// watcher is who wants to know.
type watcher struct {
	ctx      context.Context // until it ends
	dir      string
	look     chan struct{} // capacity 1: only "look again" matters
	concerns func(path string) bool
}

func (w *watcher) poke() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// NewWatches begins to watch, until ctx ends.
func NewWatches(ctx context.Context) *Watches {
	w := &Watches{dirs: map[string][]*watcher{}, armed: map[string]bool{}}
	w.fs, _ = fsnotify.NewWatcher() // nil with an error
	go w.run(ctx)
	return w
}

// Dir sends on the returned channel whenever something may have happened to a file of dir that concerns, and now and
// then besides, until ctx ends (which is noticed at the next turn).
func (w *Watches) Dir(ctx context.Context, dir string, concerns func(path string) bool) <-chan struct{} {
	one := &watcher{ctx: ctx, dir: filepath.Clean(dir), look: make(chan struct{}, 1), concerns: concerns}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.All = append(w.All, one)
	w.dirs[one.dir] = append(w.dirs[one.dir], one)
	if len(w.dirs[one.dir]) == 1 {
		w.arm(one.dir)
	}
	return one.look
}

func (w *Watches) arm(dir string) {
	if !w.armed[dir] && w.fs != nil {
		w.armed[dir] = w.fs.Add(dir) == nil
	}
}

// drop takes the one out whose place in All is i.
func (w *Watches) drop(i int) {
	one, last := w.All[i], len(w.All)-1
	w.All[i], w.All[last] = w.All[last], nil
	w.All = w.All[:last]
	w.dirs[one.dir] = slices.DeleteFunc(w.dirs[one.dir], func(x *watcher) bool { return x == one })
	if len(w.dirs[one.dir]) == 0 {
		if w.armed[one.dir] {
			_ = w.fs.Remove(one.dir) // it may be gone, which is the same
		}
		delete(w.dirs, one.dir)
		delete(w.armed, one.dir)
	}
}

func (w *Watches) run(ctx context.Context) {
	tick := time.NewTicker(recheck / turns)
	defer tick.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if w.fs != nil {
		defer w.fs.Close()
		events, errs = w.fs.Events, w.fs.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.next()
		case ev, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			w.tell(ev)
		case _, ok := <-errs: // too many events at once: what happened meanwhile is not known
			if !ok {
				errs = nil
			}
			w.Mu.Lock()
			for _, one := range w.All {
				one.poke()
			}
			w.Mu.Unlock()
		}
	}
}

// tell wakes those whom a change concerns.
func (w *Watches) tell(ev fsnotify.Event) {
	if ev.Op == fsnotify.Chmod {
		return
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
		delete(w.armed, ev.Name) // the directory itself; what takes its place is armed at its turn
	}
	for _, one := range w.dirs[filepath.Dir(ev.Name)] {
		if one.concerns(ev.Name) {
			one.poke()
		}
	}
}

// next tells those whose turn it is to look.
func (w *Watches) next() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for w.due += min(len(w.All), rechecked); w.due >= turns && len(w.All) > 0; w.due -= turns {
		w.turn %= len(w.All)
		one := w.All[w.turn]
		if one.ctx.Err() != nil {
			w.drop(w.turn)
			continue
		}
		w.turn++
		w.arm(one.dir)
		one.poke()
	}
}
