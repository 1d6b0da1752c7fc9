// Package dirwatch tells any number of listeners about changes in directories, through one watch instance of the
// system.
package dirwatch

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Some file systems send no events. Therefore Watches also pokes up to rechecked listeners in each recheck period. If
// there are more listeners, the others come in later periods.
const recheck, rechecked = time.Second, 100

// Watches tells any number of listeners about changes in directories, through one watch instance of the system. A user
// has few instances (128 on most machines), and each costs 64 KiB or more, while a directory in an instance costs very
// little. Several goroutines may call its methods.
type Watches struct {
	Mu    sync.Mutex
	fs    *fsnotify.Watcher // nil if the system has no instance left: then only the rechecks work
	dirs  map[string][]*watcher
	armed map[string]bool // the directories whose events the file system sends
	All   []*watcher
	turn  int // index in All of the listener that the next recheck pokes
}

// watcher is one listener.
type watcher struct {
	ctx      context.Context // when it ends, the listener is removed
	dir      string
	concerns func(path string) bool
	poke     func()
}

// NewWatches starts to watch, until ctx ends.
func NewWatches(ctx context.Context) *Watches {
	w := &Watches{dirs: map[string][]*watcher{}, armed: map[string]bool{}}
	w.fs, _ = fsnotify.NewWatcher() // nil if there is an error
	go w.run(ctx)
	return w
}

// Dir returns a channel that receives a value when Call would call its function. Values that nobody has received are one.
func (w *Watches) Dir(ctx context.Context, dir string, concerns func(path string) bool) <-chan struct{} {
	look := make(chan struct{}, 1)
	w.Call(ctx, dir, concerns, func() {
		select {
		case look <- struct{}{}:
		default:
		}
	})
	return look
}

// Call has poke called when something may have happened to a file of dir for which concerns returns true, and now and then
// without a change. This ends with ctx, which Watches notices at the listener's next turn. poke must return at once, and
// must not call a method of Watches.
func (w *Watches) Call(ctx context.Context, dir string, concerns func(path string) bool, poke func()) {
	one := &watcher{ctx: ctx, dir: filepath.Clean(dir), concerns: concerns, poke: poke}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.All = append(w.All, one)
	w.dirs[one.dir] = append(w.dirs[one.dir], one)
	if len(w.dirs[one.dir]) == 1 {
		w.arm(one.dir)
	}
}

func (w *Watches) arm(dir string) {
	if !w.armed[dir] && w.fs != nil {
		w.armed[dir] = w.fs.Add(dir) == nil
	}
}

// drop removes the listener with index i in All.
func (w *Watches) drop(i int) {
	one, last := w.All[i], len(w.All)-1
	w.All[i], w.All[last] = w.All[last], nil
	w.All = w.All[:last]
	w.dirs[one.dir] = slices.DeleteFunc(w.dirs[one.dir], func(x *watcher) bool { return x == one })
	if len(w.dirs[one.dir]) == 0 {
		if w.armed[one.dir] {
			_ = w.fs.Remove(one.dir) // an error means that the directory is gone, which has the same effect
		}
		delete(w.dirs, one.dir)
		delete(w.armed, one.dir)
	}
}

func (w *Watches) run(ctx context.Context) {
	tick := time.NewTicker(recheck)
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
		case _, ok := <-errs: // for example too many events at once: some events are lost, so all listeners must look
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

// tell pokes the listeners that a change concerns.
func (w *Watches) tell(ev fsnotify.Event) {
	if ev.Op == fsnotify.Chmod {
		return
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
		delete(w.armed, ev.Name) // the directory itself is gone; a new directory of that name is armed at its next turn
	}
	for _, one := range w.dirs[filepath.Dir(ev.Name)] {
		if one.concerns(ev.Name) {
			one.poke()
		}
	}
}

// next pokes the listeners whose turn it is.
func (w *Watches) next() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for n := min(len(w.All), rechecked); n > 0 && len(w.All) > 0; n-- {
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
