// Package space says what superloop takes on the disk for a repository, and removes logs and archives that no longer have
// to be kept. It never removes a journal, nor anything of a run that goes on.
package space

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
)

// Limits say how much of the logs and archives of a repository is kept. 0 is no bound.
type Limits struct {
	Age   time.Duration // since the last change
	Bytes int64         // of all loops together
}

// Usual are the limits where nobody has said other ones.
func Usual() Limits { return Limits{Age: 30 * 24 * time.Hour, Bytes: 5 << 30} }

// Unit is what is removed as a whole: the logs of one iteration of the last run, or all that an earlier run left.
type Unit struct {
	Loop  string    `json:"loop"`
	Path  string    `json:"path"` // relative to the repository
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`             // of the newest file in it
	Kept  string    `json:"kept,omitempty"` // why it is not removed, "" if it may be
}

// Use is what superloop takes for a repository, in bytes on the disk.
type Use struct {
	Journals int64 `json:"journals"`
	Logs     int64 `json:"logs"`     // of roles, in the last run of each loop
	Archives int64 `json:"archives"` // what earlier runs left
	Reports  int64 `json:"reports"`  // the other files of the loops
	Undo     int64 `json:"undo"`     // what recoveries were about to delete
	Private  int64 `json:"private"`  // the rest of the private state
	// Trees are not counted: what the work trees of loops hold is the repository's.
	Units []Unit `json:"units,omitempty"`
	// Partial says that there are more files than Look was to look at.
	Partial bool `json:"partial,omitempty"`
}

// Total is the sum.
func (u Use) Total() int64 {
	return u.Journals + u.Logs + u.Archives + u.Reports + u.Undo + u.Private
}

// walk counts files, until there were too many.
type walk struct {
	ctx  context.Context
	left int // files that may still be looked at; negative: no bound
	use  *Use
}

// Look measures the files of a repository. p are the paths of any of its loops. It follows no link, and looks at most
// files at most; 0 is no bound. What cannot be read counts nothing.
func Look(ctx context.Context, p layout.Paths, most int) (Use, error) {
	w := walk{ctx: ctx, left: cmp.Or(most, -1), use: &Use{}}
	loops := filepath.Join(p.Super, "loops")
	for _, e := range dirs(loops) {
		at, err := layout.NewPaths(p.Repo, e.Name(), filepath.Dir(p.State))
		if err != nil {
			return *w.use, err
		}
		w.loop(e.Name(), at)
	}
	undo, _ := w.size(p.Undo())
	all, _ := w.size(p.Common())
	w.use.Undo, w.use.Private = undo, max(0, all-undo)
	return *w.use, ctx.Err()
}

// loop measures the directory of a loop.
func (w *walk) loop(id string, p layout.Paths) {
	entries, err := os.ReadDir(p.Loop)
	if err != nil {
		return
	}
	logs, archive := w.keeps(p)
	for _, e := range entries {
		path := p.File(e.Name())
		switch {
		case e.Name() == "logs" && e.IsDir():
			w.use.Logs += w.units(id, p, path, logs)
		case e.Name() == "archive" && e.IsDir():
			w.use.Archives += w.units(id, p, path, archive)
		default:
			n, _ := w.size(path)
			if strings.HasPrefix(e.Name(), "events.jsonl") {
				w.use.Journals += n
			} else {
				w.use.Reports += n
			}
		}
	}
}

// keeps returns the functions that say why a directory of logs or of archive is kept.
func (w *walk) keeps(p layout.Paths) (logs, archive func(name string) string) {
	_, alive := local.Supervisor(p)
	return keepsOf(p, alive)
}

func keepsOf(p layout.Paths, alive bool) (logs, archive func(name string) string) {
	view, err := local.ReadView(p)
	logs = func(name string) string {
		n, nerr := strconv.Atoi(strings.TrimPrefix(name, "iter-"))
		switch {
		case err != nil:
			return "the state of the loop cannot be read"
		case !view.Status.Ended() || alive:
			return "its run has not ended"
		case nerr != nil || !strings.HasPrefix(name, "iter-"):
			return "superloop did not make it"
		case n >= view.Iteration:
			return "it is the last iteration"
		}
		return ""
	}
	archive = func(name string) string {
		switch {
		case err != nil:
			return "the state of the loop cannot be read"
		case name == view.RunID:
			return "a fresh start goes on with it"
		}
		return ""
	}
	return logs, archive
}

// units measures the directories in dir, each of which is a unit.
func (w *walk) units(id string, p layout.Paths, dir string, keeps func(name string) string) (sum int64) {
	for _, e := range dirs(dir) {
		u := Unit{Loop: id, Path: p.Rel(filepath.Join(dir, e.Name()))}
		if u.Bytes, u.At = w.size(filepath.Join(dir, e.Name())); !durable.IsGone(e.Name()) {
			u.Kept = keeps(e.Name())
		}
		w.use.Units = append(w.use.Units, u)
		sum += u.Bytes
	}
	return sum
}

// dirs returns the directories in dir, without links.
func dirs(dir string) []fs.DirEntry {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() })
}

// size returns what a file or a directory takes, and when a file in it was changed last.
func (w *walk) size(path string) (n int64, at time.Time) {
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if w.left == 0 || w.ctx.Err() != nil {
			w.use.Partial = true
			return fs.SkipAll
		}
		w.left--
		if err != nil {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512
		}
		if info.Mode().IsRegular() && info.ModTime().After(at) {
			at = info.ModTime()
		}
		return nil
	})
	if info, err := os.Lstat(path); at.IsZero() && err == nil {
		at = info.ModTime()
	}
	return n, at
}

// Due returns the units that have to go: those that are older than the limit, and then the oldest until the rest of the
// logs and archives is small enough.
func (u Use) Due(l Limits, now time.Time) (due []Unit) {
	units := slices.Clone(u.Units)
	slices.SortStableFunc(units, func(a, b Unit) int { return a.At.Compare(b.At) })
	left := u.Logs + u.Archives
	for _, one := range units {
		old := durable.IsGone(filepath.Base(one.Path)) || l.Age > 0 && now.Sub(one.At) > l.Age
		if one.Kept != "" || !old && (l.Bytes == 0 || left <= l.Bytes) {
			continue
		}
		due = append(due, one)
		left -= one.Bytes
	}
	return due
}

// Remove removes units of the repository of p, and returns the bytes of those that are gone. A kill leaves a unit whole,
// or a remainder that is due the next time. It goes on after an error. Logs of a loop that has begun since Look stay: their
// loop is held while they go.
func Remove(ctx context.Context, disk durable.Disk, p layout.Paths, units []Unit) (freed int64, err error) {
	for _, u := range units {
		if ctx.Err() != nil {
			return freed, errors.Join(err, ctx.Err())
		}
		rel, rerr := filepath.Rel(p.Super, filepath.Join(p.Repo, filepath.FromSlash(u.Path)))
		var gone bool
		if rerr == nil {
			gone, rerr = remove(disk, p, u, rel)
		}
		if gone {
			freed += u.Bytes
		} else if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("removing %s: %w", u.Path, rerr))
		}
	}
	return freed, err
}

// remove removes one unit, unless it has to be kept by now.
func remove(disk durable.Disk, p layout.Paths, u Unit, rel string) (gone bool, err error) {
	if name := filepath.Base(rel); filepath.Base(filepath.Dir(rel)) == "logs" && !durable.IsGone(name) {
		at, err := layout.NewPaths(p.Repo, u.Loop, filepath.Dir(p.State))
		if err != nil {
			return false, err
		}
		held, err := local.Hold(local.Options{Repo: p.Repo, LoopID: u.Loop, StateHome: filepath.Dir(p.State), Disk: disk})
		if _, begun := errors.AsType[*local.HeldError](err); begun {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer held.Release()
		if logs, _ := keepsOf(at, false); logs(name) != "" {
			return false, nil
		}
	}
	err = disk.RemoveTree("space", p.Super, rel)
	return err == nil, err
}
