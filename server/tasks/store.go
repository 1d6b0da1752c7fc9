package tasks

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/superloop/superloop/server/claim"
	"github.com/superloop/superloop/server/registry"
)

// Watch says that an operator wants loops to be made of the items of a tracker.
type Watch struct {
	Repo   string `json:"repo"` // its root, absolute, without links
	Source string `json:"source" enum:"github,gitlab,linear,beads"`
	// Remote is the address of the git remote with the claims, to which branches are pushed. It is kept here because agents
	// can write the configuration of the repository.
	Remote string    `json:"remote"`
	Team   string    `json:"team,omitempty"` // of Linear; "" is all
	Label  string    `json:"label"`
	Most   int       `json:"most"` // items that this daemon has at a time
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// The values of Source.
const (
	GitHub = "github"
	GitLab = "gitlab"
	Linear = "linear"
	Beads  = "beads"
)

// Sources are the trackers that can be watched.
var Sources = []string{GitHub, GitLab, Linear, Beads}

// Task is an item that this daemon has taken.
type Task struct {
	Repo    string      `json:"repo"`
	ID      string      `json:"id"` // of the item, in its tracker
	Title   string      `json:"title,omitempty"`
	URL     string      `json:"url,omitempty"`
	Loop    string      `json:"loop"`
	Claim   claim.Claim `json:"claim"`
	At      string      `json:"at"` // the commit of the claim
	Renewed time.Time   `json:"renewed"`
	Round   int         `json:"round"`           // how often its loop has begun for it, from 1
	Waits   bool        `json:"waits,omitempty"` // its loop is to begin
	// Again says that there was such a loop before, whose last run was Before: it begins anew.
	Again  bool     `json:"again,omitempty"`
	Before string   `json:"before,omitempty"`
	Run    string   `json:"run,omitempty"`   // the run whose end the remote knows
	Told   string   `json:"told,omitempty"`  // what the tracker was told last
	Pull   string   `json:"pull,omitempty"`  // the address of the pull request
	Seen   []string `json:"seen,omitempty"`  // ids of the notes of the pull request that the loop has got
	Notes  string   `json:"notes,omitempty"` // what the spec of this round says besides
	Lost   string   `json:"lost,omitempty"`  // why the item is no longer this daemon's
}

// State says what is known of an item.
type State string

// The values of State. Working, delivered and failed are those of its claim.
const (
	Waits State = "waits" // for a place
	Held  State = "held"  // it is not begun; see Why
	Taken State = "taken" // by another daemon
)

// Row is an item for people.
type Row struct {
	Repo  string `json:"repo"`
	ID    string `json:"id"`
	Title string `json:"title"`
	URL   string `json:"url,omitempty"`
	State State  `json:"state"`
	Loop  string `json:"loop,omitempty"`
	By    string `json:"by,omitempty" doc:"the daemon that has it"`
	Pull  string `json:"pull,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Status is what the daemon knows of a watch.
type Status struct {
	Watch
	At    time.Time `json:"at,omitzero" doc:"the last look that succeeded; missing: there was none"`
	Error string    `json:"error,omitempty" doc:"why the last look has failed"`
	Tries int       `json:"tries,omitempty" doc:"looks that have failed since"`
	Next  time.Time `json:"next,omitzero" doc:"when the next look is due, after one that has failed"`
	Items []Row     `json:"items" nullable:"false"`
}

// Store keeps what the daemon of a user knows of trackers, in its private state.
type Store struct{ Loops registry.Store }

// Bounds of files, and of the notes in that of a task, in bytes.
const (
	maxWatch  = 64 << 10
	maxTask   = 512 << 10
	maxNotes  = 64 << 10
	maxStatus = 8 << 20
)

func (s Store) dir(kind string) string {
	return filepath.Join(s.Loops.State, "daemon", "tasks", kind)
}

// name names a file of a repository.
func name(repo, more string) string {
	sum := sha256.Sum256([]byte(repo))
	return hex.EncodeToString(sum[:8]) + more + ".json"
}

func (s Store) write(kind, file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = s.Loops.Disk.MkdirAll("tasks", s.dir(kind), 0o700)
	}
	if err == nil {
		err = s.Loops.Disk.WriteFile("tasks", filepath.Join(s.dir(kind), file), append(data, '\n'), 0o600)
	}
	return err
}

// files are the files of a kind, by name.
func (s Store) files(kind string) ([]string, error) {
	list, err := os.ReadDir(s.dir(kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".json") && !durable.IsTemp(f.Name()) {
			names = append(names, filepath.Join(s.dir(kind), f.Name()))
		}
	}
	return names, err
}

func read(file, what, without string, most int64, v any) error {
	data, err := door.Read(file, most)
	if err == nil {
		err = text.Decode(data, v)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = &door.StateError{What: what, Path: file, Err: err, Without: without}
	}
	return err
}

// Put keeps a watch, in the place of that of the same repository.
func (s Store) Put(w Watch) error { return s.write("watch", name(w.Repo, ""), w) }

// Drop ends the watch of a repository. Without one the error is fs.ErrNotExist.
func (s Store) Drop(repo string) error {
	err := s.Loops.Disk.Remove("tasks", filepath.Join(s.dir("watch"), name(repo, "")))
	if err == nil {
		err = s.Loops.Disk.Remove("tasks", filepath.Join(s.dir("status"), name(repo, "")))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// All returns the watches, by repository. A damaged file is left out; errs says what is wrong with each.
func (s Store) All() (all []Watch, errs []error) {
	files, err := s.files("watch")
	if err != nil {
		return nil, []error{err}
	}
	for _, f := range files {
		w, err := readWatch(f)
		if err == nil {
			all = append(all, w)
		} else if !errors.Is(err, fs.ErrNotExist) { // dropped meanwhile
			errs = append(errs, err)
		}
	}
	slices.SortFunc(all, func(a, b Watch) int { return cmp.Compare(a.Repo, b.Repo) })
	return all, errs
}

func readWatch(file string) (w Watch, err error) {
	const what, without = "which tracker the daemon is to work off", "it has to be said again (superloop queue watch --from)"
	err = read(file, what, without, maxWatch, &w)
	if err == nil && (w.Repo == "" || w.Remote == "" || w.Most < 1 || !slices.Contains(Sources, w.Source)) {
		err = &door.StateError{What: what, Path: file, Err: fmt.Errorf("it names no repository, no remote, no bound, or the source %q", w.Source), Without: without}
	}
	return w, err
}

// Tasks returns the tasks of a repository, by loop.
func (s Store) Tasks(repo string) (all []Task, errs []error) {
	files, err := s.files("taken")
	if err != nil {
		return nil, []error{err}
	}
	prefix := strings.TrimSuffix(name(repo, ""), ".json") + "."
	for _, f := range files {
		if !strings.HasPrefix(filepath.Base(f), prefix) {
			continue
		}
		t, err := readTask(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		case t.Repo == repo:
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Task) int { return cmp.Compare(a.Loop, b.Loop) })
	return all, errs
}

func readTask(file string) (t Task, err error) {
	const what, without = "which item of a tracker this daemon has", "its claim on the remote tells it again"
	err = read(file, what, without, maxTask, &t)
	if err == nil && (t.Repo == "" || t.ID == "" || t.Loop == "" || t.At == "") {
		err = &door.StateError{What: what, Path: file, Err: errors.New("it names no repository, no item, no loop or no claim"), Without: without}
	}
	t.Claim.At = t.At
	return t, err
}

func (s Store) put(t *Task) error {
	t.At = t.Claim.At
	return s.write("taken", name(t.Repo, "."+t.Loop), t)
}

func (s Store) drop(t Task) error {
	return s.Loops.Disk.Remove("tasks", filepath.Join(s.dir("taken"), name(t.Repo, "."+t.Loop)))
}

// Status returns what the daemon has told of a watch last.
func (s Store) Status(w Watch) (st Status, err error) {
	err = read(filepath.Join(s.dir("status"), name(w.Repo, "")), "what the daemon knows of a tracker", "the daemon writes it anew", maxStatus, &st)
	st.Watch = w
	return st, err
}

func (s Store) tell(st Status) error { return s.write("status", name(st.Repo, ""), st) }

// Holder returns the id of this daemon in claims. It stays the same as long as the private state does.
func (s Store) Holder() (string, error) {
	file := filepath.Join(s.dir("."), "holder")
	data, err := door.Read(file, 100)
	if err == nil && len(data) == 16 {
		return string(data), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail on any system that Go runs on
	id := hex.EncodeToString(b[:])
	if err = s.Loops.Disk.MkdirAll("tasks", filepath.Dir(file), 0o700); err == nil {
		err = s.Loops.Disk.WriteFile("tasks", file, []byte(id), 0o600)
	}
	return id, err
}
