package escalation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Item is a question that waits somewhere on this machine.
type Item struct {
	Record Record
	// Dir is the Store's directory.
	Dir string
	// Waiting is for how long it has.
	Waiting time.Duration
	// Lapsed: its time is over, and no supervisor has been there to notice. An
	// answer to it comes too late.
	Lapsed bool
}

// Store is the store of the item's loop.
func (i Item) Store(d durable.Disk) Store {
	return Store{Disk: d, Dir: i.Dir, Loop: i.Record.Question.Loop}
}

// Inbox reads what waits for a person in all loops of this user: what blocks a
// loop first, then by how long it waits; what has lapsed last. stateRoot is
// $XDG_STATE_HOME/superloop, in which the records lie at
// <repo-id>/loops/<loop>/escalation/record.json.
//
// What cannot be read hides nothing else: it is in the error, which joins one for
// each, most of them *DamagedError. A stateRoot that is not there holds nothing.
func Inbox(stateRoot string, now time.Time) ([]Item, error) {
	repos, errs := folders(stateRoot)
	var out []Item
	for _, repo := range repos {
		loops, err := folders(filepath.Join(stateRoot, repo, "loops"))
		errs = errors.Join(errs, err)
		for _, loop := range loops {
			dir := filepath.Join(stateRoot, repo, "loops", loop, Folder)
			r, err := Store{Dir: dir, Loop: loop}.Load()
			if errors.Is(err, ErrNothingPending) {
				continue
			}
			if err != nil {
				errs = errors.Join(errs, err)
				continue
			}
			if r.State == Pending {
				out = append(out, Item{Record: r, Dir: dir, Waiting: max(0, now.Sub(r.Question.Created)), Lapsed: r.Lapsed(now)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Item) int {
		return cmp.Or(order(a)-order(b), a.Record.Question.Created.Compare(b.Record.Question.Created),
			cmp.Compare(a.Record.Question.Loop, b.Record.Question.Loop))
	})
	return out, errs
}

func order(i Item) int {
	switch {
	case i.Lapsed:
		return 2
	case !i.Record.Question.Blocking():
		return 1
	}
	return 0
}

// folders are the directories in dir, sorted; no links.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		if info, e := os.Stat(dir); e == nil && !info.IsDir() {
			return nil, nil // a file among the repositories' folders
		}
		return nil, fmt.Errorf("looking for questions: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
