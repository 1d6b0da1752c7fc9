package gitcmd

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/door"
)

// git opens its own files as they are: the index, refs, .gitignore, .gitattributes. A FIFO in the place of one holds
// git for ever. superloop cannot look before each call, because the file may be exchanged right afterwards, so it looks
// when a call takes long.
const patience = 2 * time.Second

const foreign = ".foreign-" // in the name of what was moved aside

// git reads the same files whole. A sparse file that is larger than the memory ends it, so superloop moves it aside and
// calls git again.
const outOfMemory = "Out of memory"

// waits is what a Repo and its copies share about what was moved aside.
type waits struct {
	mu    sync.Mutex
	moved func(path, to string)
	early [][2]string // what was moved before OnMoved
}

// OnMoved has f called with both paths when something was moved aside: a FIFO or a sparse file that held git up, or what
// lay in the place of the view. It is called for what was moved before, too. Another goroutine may call f.
func (r *Repo) OnMoved(f func(path, to string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.early {
		f(m[0], m[1])
	}
	r.moved, r.early = f, nil
}

// unblock looks for FIFOs that hold git, every two seconds until ctx ends.
func (r *Repo) unblock(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(patience):
			r.moveAside(ctx, fifo)
		}
	}
}

func fifo(d fs.DirEntry) bool { return d.Type() == fs.ModeNamedPipe }

func sparse(d fs.DirEntry) bool {
	info, err := d.Info()
	return err == nil && door.MostlyHoles(info)
}

// moveAside moves everything of a kind aside that git may be reading, and then ends what git reads from it. It reports
// whether there was something.
func (r *Repo) moveAside(ctx context.Context, kind func(fs.DirEntry) bool) (moved bool) {
	for _, root := range append([]string{r.Top, r.Dir, r.Common}, r.named...) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return fs.SkipAll
			case err != nil || strings.Contains(d.Name(), foreign):
				return nil
			case (path == root || strings.HasPrefix(d.Name(), ".git") || below(r.Dir, path) || below(r.Common, path)) && kind(d):
				moved = r.move(path) || moved
			}
			return nil
		})
	}
	return moved
}

func below(dir, path string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }

func (r *Repo) move(path string) bool {
	to, err := disk.MoveFree("git-aside", path, path+foreign+time.Now().UTC().Format("20060102T150405.000000000"))
	if err != nil {
		return false // the next round tries again
	}
	r.tell(path, to)
	door.Release(to) // git goes on from here, so whoever waits for git finds it told
	return true
}

func (r *Repo) tell(path, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved == nil {
		r.early = append(r.early, [2]string{path, to})
		return
	}
	r.moved(path, to)
}
