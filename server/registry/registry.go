// Package registry keeps which loops the daemon of this user is to run: one small file for each, in the private state.
// It says what is wanted. What became of a loop stands in the loop's journal.
package registry

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
)

// Wanted says what the daemon is to do with a loop.
type Wanted string

// The values of Wanted. The daemon itself sets Ended and Paused, when a run has ended so.
const (
	Running Wanted = "running"
	Paused  Wanted = "paused"  // let what runs end, and start nothing until Running is wanted again
	Stopped Wanted = "stopped" // end what runs, and start nothing until Running is wanted again
	Ended   Wanted = "ended"   // the loop has ended
	Fleet   Wanted = "fleet"   // leave it alone: an engine beyond this machine runs it (docs/fleet.md)
)

// Entry is one loop.
type Entry struct {
	Repo     string    `json:"repo"` // its root, absolute, without links
	Loop     string    `json:"loop"`
	Wanted   Wanted    `json:"wanted"`
	Priority int       `json:"priority,omitempty"` // a loop with a higher one is served first
	Labels   []string  `json:"labels,omitempty"`
	By       string    `json:"by"`    // who wanted it last
	Since    time.Time `json:"since"` // when Wanted was set
	// After is the number of the journal's last event when Running was wanted. A loop whose end stands behind it has
	// ended since; an end before it is an earlier one.
	After int64 `json:"after"`
	// FreshOf is the id of the run that is to be set aside, "" if none is. A daemon that finds another run has done so.
	FreshOf string `json:"fresh_of,omitempty"`

	file    string // where it was read
	machine string // that of the store
}

// Name names the loop for people: unique on this machine.
func (e Entry) Name() string { return e.Repo + "#" + e.Loop }

// ID names the loop for programs: the name of its file, behind the id of its machine and a dot if the store has one. It is
// "" before Locate or a read.
func (e Entry) ID() string {
	id := strings.TrimSuffix(filepath.Base(e.file), ".json")
	if e.machine != "" {
		id = e.machine + "." + id
	}
	return id
}

// Machine is the id of the loop's machine in its fleet, "" for the only one.
func (e Entry) Machine() string { return e.machine }

// maxEntry bounds a file, in bytes.
const maxEntry = 64 << 10

// Store is the registry of a user.
type Store struct {
	Disk  durable.Disk
	State string // the private state of all repositories, see layout.StateRoot
	// Machine begins the ids of loops, so that no two machines of a fleet have the same; "" for the only machine.
	Machine string
}

// Dir is the directory of the files. A daemon watches it.
func (s Store) Dir() string { return filepath.Join(s.State, "daemon", "loops") }

func (s Store) file(repo, loop string) (string, error) {
	p, err := layout.NewPaths(repo, loop, filepath.Dir(s.State))
	if err != nil {
		return "", err
	}
	return filepath.Join(s.Dir(), filepath.Base(filepath.Dir(filepath.Dir(p.Private)))+"."+loop+".json"), nil
}

// fileOf is the file of an entry, also when its repository has vanished since it was read.
func (s Store) fileOf(e Entry) (string, error) {
	if e.file != "" {
		return e.file, nil
	}
	return s.file(e.Repo, e.Loop)
}

// Put keeps an entry and flushes it to the disk.
func (s Store) Put(e Entry) error {
	file, err := s.fileOf(e)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	if err := s.Disk.MkdirAll("registry", s.Dir(), 0o700); err != nil {
		return err
	}
	return s.Disk.WriteFile("registry", file, append(data, '\n'), 0o600)
}

// Get returns the entry of a loop. For a loop that nobody has started the error is fs.ErrNotExist.
func (s Store) Get(repo, loop string) (Entry, error) {
	file, err := s.file(repo, loop)
	if err != nil {
		return Entry{}, err
	}
	return s.read(file)
}

// Locate gives an entry its ID, and its repository the path that the registry knows.
func (s Store) Locate(e Entry) (Entry, error) {
	p, err := layout.NewPaths(e.Repo, e.Loop, filepath.Dir(s.State))
	if err == nil {
		e.Repo, e.machine = p.Repo, s.Machine
		e.file, err = s.file(e.Repo, e.Loop)
	}
	return e, err
}

// Find returns the entry with an ID. If there is none, the error is fs.ErrNotExist.
func (s Store) Find(id string) (Entry, error) {
	id, own := strings.CutPrefix(id, s.Machine+".")
	if !own && s.Machine != "" || id != filepath.Base(id) {
		return Entry{}, fs.ErrNotExist
	}
	return s.read(filepath.Join(s.Dir(), id+".json"))
}

// Drop forgets a loop.
func (s Store) Drop(e Entry) error {
	file, err := s.fileOf(e)
	if err == nil {
		err = s.Disk.Remove("registry", file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Stamp differs after each Put and each Drop. It is the zero time when that is not sure: for two seconds behind one of
// them, since file systems count time in steps of up to two seconds, and if the directory cannot be looked at.
func (s Store) Stamp() time.Time {
	info, err := os.Stat(s.Dir())
	if err != nil || time.Since(info.ModTime()) < 2*time.Second {
		return time.Time{}
	}
	return info.ModTime()
}

// All returns the entries, by repository and loop. The entries whose files are damaged are
// left out; errs says what is wrong with each.
func (s Store) All() (all []Entry, errs []error) {
	files, err := os.ReadDir(s.Dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, []error{err}
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") || durable.IsTemp(f.Name()) {
			continue
		}
		e, err := s.read(filepath.Join(s.Dir(), f.Name()))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // dropped meanwhile
				errs = append(errs, err)
			}
			continue
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Loop, b.Loop)) })
	return all, errs
}

func (s Store) read(file string) (e Entry, err error) {
	data, err := door.Read(file, maxEntry)
	if err == nil {
		err = text.Decode(data, &e)
	}
	if err == nil && (e.Repo == "" || e.Loop == "" || !slices.Contains([]Wanted{Running, Paused, Stopped, Ended, Fleet}, e.Wanted)) {
		err = fmt.Errorf("it names no loop, or wants %q", e.Wanted)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = &door.StateError{What: "which loop the daemon is to run", Path: file, Err: err, Without: "the loop has to be started again (superloop start)"}
	}
	e.file, e.machine = file, s.Machine
	return e, err
}
