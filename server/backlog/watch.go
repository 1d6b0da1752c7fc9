// Package backlog keeps the backlogs that the daemon of this user works off. A backlog is the directory .superloop/backlog
// of a repository: each file *.md in it is a spec, of which the daemon makes a loop. Whoever can write there begins
// loops. So the daemon reads a backlog only if an operator has said so, and that stands in the private state.
package backlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/registry"
)

// Watch says that an operator wants the backlog of a repository to be worked off.
type Watch struct {
	Repo  string    `json:"repo"` // its root, absolute, without links
	By    string    `json:"by"`
	Since time.Time `json:"since"`

	file string // where it was read
}

// maxFile bounds a file of the private state, in bytes.
const maxFile = 64 << 10

// Store holds the watches, and knows what became of the items.
type Store struct{ Loops registry.Store }

// Dir is the directory of the watches.
func (s Store) Dir() string { return filepath.Join(s.Loops.State, "daemon", "backlog") }

func (s Store) disk() durable.Disk { return s.Loops.Disk }

func (s Store) paths(repo, loop string) (layout.Paths, error) {
	return layout.NewPaths(repo, loop, filepath.Dir(s.Loops.State))
}

// Put keeps a watch and flushes it to the disk.
func (s Store) Put(w Watch) error {
	p, err := s.paths(w.Repo, "any")
	if err != nil {
		return err
	}
	w.Repo = p.Repo
	return s.write(filepath.Join(s.Dir(), filepath.Base(p.Common())+".json"), w)
}

func (s Store) write(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = s.disk().MkdirAll("backlog", filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = s.disk().WriteFile("backlog", file, append(data, '\n'), 0o600)
	}
	return err
}

// Drop ends the watch of a repository, which may have vanished. Without a watch the error is fs.ErrNotExist.
func (s Store) Drop(repo string) error {
	all, errs := s.All()
	for _, w := range all {
		if w.Repo == repo {
			return s.disk().Remove("backlog", w.file)
		}
	}
	return errors.Join(append(errs, fs.ErrNotExist)...)
}

// All returns the watches, by repository. A damaged file is left out; errs says what is wrong with each.
func (s Store) All() (all []Watch, errs []error) {
	files, err := os.ReadDir(s.Dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{err}
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") || durable.IsTemp(f.Name()) {
			continue
		}
		w := Watch{file: filepath.Join(s.Dir(), f.Name())}
		data, err := door.Read(w.file, maxFile)
		if err == nil {
			err = text.Decode(data, &w)
		}
		if err == nil && w.Repo == "" {
			err = errors.New("it names no repository")
		}
		if err == nil {
			all = append(all, w)
		} else if !errors.Is(err, fs.ErrNotExist) { // dropped meanwhile
			errs = append(errs, &door.StateError{What: "whose backlog the daemon is to work off", Path: w.file, Err: err,
				Without: "it has to be said again (superloop queue watch)"})
		}
	}
	slices.SortFunc(all, func(a, b Watch) int { return cmp.Compare(a.Repo, b.Repo) })
	return all, errs
}

// record says of which file of the backlog a loop was made.
type record struct {
	File   string    `json:"file"`
	SHA256 string    `json:"sha256"` // of the spec
	At     time.Time `json:"at"`
	// Forgotten says that an operator has dropped the loop from the registry: it does not begin again by itself.
	Forgotten bool `json:"forgotten,omitempty"`
}

// FileOf returns the name of the item of which a loop was made. If it was made of none, the error is fs.ErrNotExist.
func FileOf(p layout.Paths) (string, error) {
	r, err := recordOf(p)
	return r.File, err
}

func recordOf(p layout.Paths) (r record, err error) {
	data, err := door.Read(p.Item(), maxFile)
	if err == nil {
		err = text.Decode(data, &r)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("reading %s: %w", p.Item(), err)
	}
	return r, err
}
