package escalation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Item is a question that waits somewhere on this machine.
type Item struct {
	Record  Record
	Dir     string        // the Store's directory
	Waiting time.Duration // since it was asked
	// Lapsed: its time is over, and no supervisor has noticed. An answer to it comes
	// too late.
	Lapsed bool
}

// Inbox reads what waits for an operator in all loops of this user: what blocks a
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
			if err != nil && !errors.Is(err, ErrNothingPending) {
				errs = errors.Join(errs, err)
			} else if r.State == Pending {
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

// folders are the directories in dir, sorted; no links. A file has none.
func folders(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("looking for questions: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
