package backlog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/registry"
)

const (
	// MaxSpec bounds a spec, in bytes.
	MaxSpec = 1 << 20
	// MaxID bounds the id of a loop that is made of a spec, in characters. Its directory and its branch have the same name.
	MaxID = 40
	// maxItems bounds the files of a backlog.
	maxItems = 1000
	// settled is how long a file has to be as it is before it counts. Somebody may be writing it.
	settled = 2 * time.Second
)

// Label is the label of loops that were made of a backlog.
const Label = "backlog"

// ErrTaken says that another loop has the id already.
var ErrTaken = errors.New("there is another loop of that name")

// State says what became of an item.
type State string

// The values of State.
const (
	Waits   State = "waits"   // for a place, or for the loops on which it depends; then Why is set
	Writing State = "writing" // it has just been changed, and is looked at again
	Begun   State = "begun"   // its loop stands in the registry, has run, or was forgotten by an operator
	Refused State = "refused" // it cannot become a loop, or it has changed since its loop began; see Why
)

// Item is a file of a backlog.
type Item struct {
	Repo  string `json:"repo"`
	File  string `json:"file"` // its name
	Loop  string `json:"loop,omitempty"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"`
	// After are the loops on which it depends. Only Graph.Settle sets it.
	After []string `json:"after,omitempty"`

	spec []byte
}

// Spec is the content of an item that waits.
func (it Item) Spec() []byte { return it.spec }

// NewItem returns an item that waits, and that is no file: it was read from elsewhere. file is a name that no other item of
// the repository has, or "" for one that is begun in no other way.
func NewItem(repo, file, loop string, spec []byte) Item {
	return Item{Repo: repo, File: file, Loop: loop, State: Waits, spec: spec}
}

// Refuse returns the item as one that cannot become a loop.
func (it Item) Refuse(format string, args ...any) Item {
	it.State, it.Why = Refused, fmt.Sprintf(format, args...)
	return it
}

// List returns the items of a backlog in the order in which they are to begin, as far as their names tell: each is Refused
// or Waits. Files that do not end in .md and hidden files are none.
func (s Store) List(w Watch) ([]Item, error) {
	p, err := s.paths(w.Repo, "any")
	if err != nil {
		return nil, err
	}
	names, err := door.Names(p.Backlog(), maxItems)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Item
	first := map[string]string{}
	for _, name := range names {
		bare, is := strings.CutSuffix(name, ".md")
		if !is || strings.HasPrefix(name, ".") {
			continue
		}
		it := Item{Repo: w.Repo, File: name, Loop: text.Slug(bare, MaxID), State: Waits}
		switch other, twice := first[it.Loop]; {
		case it.Loop == "":
			it = it.Refuse("its name has no letter or digit of ASCII, of which the name of a loop could be made")
		case twice:
			it = it.Refuse("its loop would have the name %s, as that of %s; rename one of them", it.Loop, text.Display(other))
		default:
			first[it.Loop] = name
		}
		all = append(all, it)
	}
	return all, nil
}

// Look says what became of an item of List, and reads its spec if it has not begun. With changes it also reads one that
// has begun, and refuses it if the file is no longer what the loop was made of.
func (s Store) Look(it Item, changes bool) (Item, error) {
	if it.State != Waits {
		return it, nil
	}
	p, err := s.paths(it.Repo, it.Loop)
	if err != nil {
		return it, err
	}
	r, ours, err := madeOf(p, it.File)
	if err != nil {
		return it.Refuse("%v; remove that file, or rename the spec", err), nil
	}
	known, err := s.known(p, it.Loop)
	known = known || ours && r.Forgotten
	switch {
	case err != nil:
		return it, err
	case ours && known && !changes:
		it.State = Begun
		return it, nil
	case !ours && (known || exists(p.Loop)):
		return it.Refuse("there is a loop %s already, which was not made of this file; rename the file", it.Loop), nil
	}
	path := filepath.Join(p.Backlog(), it.File)
	info, err := os.Lstat(path)
	if err == nil {
		it.spec, err = door.Read(path, MaxSpec)
	}
	sum := sha256.Sum256(it.spec)
	var age time.Duration
	if info != nil {
		age = time.Since(info.ModTime())
	}
	switch {
	case err != nil && known:
		it.State = Begun // what has become of the file is nobody's business any more
	case errors.Is(err, fs.ErrNotExist):
		return it.Refuse("the file is gone"), nil
	case err != nil:
		return it.Refuse("%v", err), nil
	case known && hex.EncodeToString(sum[:]) != r.SHA256:
		return it.Refuse("it has changed since its loop %s began; to begin a loop of it as it is now, rename it", it.Loop), nil
	case known:
		it.State = Begun
	case config.Unwritten(it.spec):
		return it.Refuse("it says nothing yet: write into it what the loop is to build"), nil
	case age >= 0 && age < settled:
		it.State = Writing
	}
	return it, nil
}

// madeOf returns the record of a loop, and whether the loop was made of a file. Without a record it was not.
func madeOf(p layout.Paths, file string) (r record, ours bool, err error) {
	r, err = recordOf(p)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	return r, err == nil && r.File == file, err
}

// Other reports whether there is a loop of that name already that was not made of a file of the backlog of that name.
func (s Store) Other(repo, loop, file string) (bool, error) {
	p, err := s.paths(repo, loop)
	if err != nil {
		return false, err
	}
	_, ours, err := madeOf(p, file)
	if err != nil || ours {
		return false, err
	}
	known, err := s.known(p, loop)
	return known || exists(p.Loop), err
}

// known reports whether the registry knows the loop, or it has run before the registry forgot it.
func (s Store) known(p layout.Paths, loop string) (bool, error) {
	_, err := s.Loops.Get(p.Repo, loop)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return true, nil // a damaged entry is an entry
	}
	return exists(p.Events()), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Forget drops a loop from the registry. If it was made of an item, the item does not begin again.
func (s Store) Forget(e registry.Entry) error {
	p, err := s.paths(e.Repo, e.Loop)
	if err != nil { // the repository is gone, and its backlog with it
		return s.Loops.Drop(e)
	}
	r, err := recordOf(p)
	if err == nil && !r.Forgotten {
		r.Forgotten = true
		err = s.write(p.Item(), r)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.Loops.Drop(e)
}

// Begin makes a loop of an item that waits, and wants it running. write writes the files of the loop. Begin may be
// killed at any step: until the entry is in the registry the item waits, and is begun anew from its file; from then on
// it has begun.
func (s Store) Begin(w Watch, it Item, write func() error) error {
	p, err := s.paths(it.Repo, it.Loop)
	if err != nil {
		return err
	}
	now, sum := time.Now().UTC(), sha256.Sum256(it.spec)
	// The record comes first. Without it the loop's directory would be taken for that of another loop.
	if err := s.write(p.Item(), record{File: it.File, SHA256: hex.EncodeToString(sum[:]), At: now}); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return s.Loops.Put(registry.Entry{Repo: p.Repo, Loop: it.Loop, Wanted: registry.Running, By: w.By, Since: now, Labels: []string{Label}})
}
