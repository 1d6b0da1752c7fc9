package inputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// Ledger keeps the baselines of one repository in a private directory, for all its loops and their work trees. What
// changes while a run is under way stays a question until an operator trusts it. What changes while no run is under way
// is the operator's own:
//
//	new baseline = old baseline + what differs from the tree at the end of the last run
//
// For each work tree the directory holds the baseline and the tree at the end of the last run; for all of them, who is
// at work (open.json) and what was made during runs and is not trusted (doubts.json). An operator who brings doubtful
// content back by a merge, a rebase or another branch does not trust it by that.
//
// A run that did not reach its End, and a run beside another one, add nothing to a baseline. So a crash, too, turns no
// change of an agent into an operator's.
type Ledger struct {
	Disk durable.Disk
	Dir  string // the private directory of the repository; the ledger makes the directory "inputs" in it
	Repo string // the work tree of the repository, absolute
}

// Run is one supervisor at work.
type Run struct {
	Lock string // a lock file below Ledger.Dir that the run holds; it identifies the run, and is free when the run is gone
	Tree string // the work tree in which the run works, absolute: Ledger.Repo, or the own work tree of a loop
	// Outside is where the commands find programs and settings. Queries are the commands of the policy. The content of their scripts is kept, so that Diff can show an operator how
	// they changed.
	Queries []Query
	Outside Outside
	// First says that no run of this kind was here before. Then an operator starts the first one with the files as they
	// are, which are the first baseline.
	First bool
	Time  time.Time
}

// NoBaselineError says that nothing is known about the files that an operator trusts.
type NoBaselineError struct{ Err error }

func (e *NoBaselineError) Error() string {
	return fmt.Sprintf("nobody has said which files are trusted (%v); look at the repository, then: superloop config trust", e.Err)
}

func (e *NoBaselineError) Unwrap() error { return e.Err }

// open is the content of open.json.
type open struct {
	Runs  []string `json:"runs"`  // the locks of the runs that have begun and not ended
	Trees []string `json:"trees"` // the work trees that have a baseline, relative to Ledger.Repo
}

// patience bounds the wait for another process that begins or ends a run.
const patience = time.Minute

// with calls do while no other process changes the ledger.
func (l Ledger) with(ctx context.Context, do func(*open) error) error {
	if err := l.Disk.MkdirAll("baseline", l.file(""), 0o700); err != nil {
		return err
	}
	lock, err := l.Disk.LockWait(ctx, l.file("lock"), nil, patience)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the lock ends with the file
	var o open
	data, err := door.Read(l.file("open.json"), maxState)
	if err == nil {
		err = text.Decode(data, &o)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o = open{Runs: []string{"?"}, Trees: []string{"."}} // whoever was at work has not ended
	}
	return do(&o)
}

const maxState = 64 << 20 // bytes of open.json and of doubts.json

func (l Ledger) write(op, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.Disk.WriteFile(op, l.file(name), append(data, '\n'), 0o600)
}

func (l Ledger) save(op, kind, tree string, b *Baseline) error {
	return l.Disk.WriteFile(op, l.place(kind, tree), b.encode(), 0o600)
}

func (l Ledger) file(name string) string { return filepath.Join(l.Dir, "inputs", name) }

// place returns the file of a work tree. A loop's own work tree has the loop's id as its last element.
func (l Ledger) place(kind, tree string) string {
	if tree == "." {
		return l.file(kind)
	}
	return l.file(kind + "-of-" + filepath.Base(tree))
}

// tree names a work tree relative to the repository.
func (l Ledger) tree(top string) (string, error) { return filepath.Rel(l.Repo, top) }

// Begin notes that a run begins, and brings the baselines up to date: what an operator has changed since the end of the
// last run is trusted. When Begin returns, the run survives a power cut as one that has begun. Without a baseline Begin
// takes one if the run is the first; otherwise there is none until Renew, and Base says so.
func (l Ledger) Begin(ctx context.Context, r Run) error {
	err := l.with(ctx, func(o *open) error {
		clean := len(o.Runs) == 0
		o.Runs = slices.DeleteFunc(o.Runs, func(lock string) bool {
			_, alive, err := durable.Holder(filepath.Join(l.Dir, lock))
			return err == nil && !alive || lock == "?" || lock == l.lock(r)
		})
		o.Runs = append(o.Runs, l.lock(r))
		tree, err := l.tree(r.Tree)
		if err != nil {
			return err
		}
		known := len(o.Trees) > 0
		for _, t := range []string{".", tree} {
			if slices.Contains(o.Trees, t) {
				continue
			}
			o.Trees = append(o.Trees, t)
			if err := l.first(ctx, r, t, known || !r.First); err != nil {
				return err
			}
		}
		if clean && known {
			if err := l.advance(ctx, r, o.Trees); err != nil {
				return err
			}
		}
		return l.write("baseline", "open.json", o)
	})
	if err != nil {
		return fmt.Errorf("noting which files are trusted: %w", err)
	}
	return nil
}

func (l Ledger) lock(r Run) string {
	rel, err := filepath.Rel(l.Dir, r.Lock)
	if err != nil {
		return r.Lock
	}
	return filepath.ToSlash(rel)
}

// first makes the first baseline of a work tree. That of a loop's own work tree is the repository's, because what is
// checked out there may be an agent's commit. strange says that agents may have been here before.
func (l Ledger) first(ctx context.Context, r Run, tree string, strange bool) error {
	var b *Baseline
	var err error
	switch {
	case tree != ".":
		if b, err = load(l.place("trusted", ".")); err != nil {
			return nil // there is none; Base says so
		}
	case strange:
		return nil
	default:
		if b, err = take(ctx, l.Repo, r.Outside, r.Queries, r.Time); err != nil {
			return err
		}
	}
	return l.save("baseline", "trusted", tree, b)
}

// advance adds to each baseline what differs from the tree at the end of the last run.
func (l Ledger) advance(ctx context.Context, r Run, trees []string) error {
	d := l.doubts()
	for _, t := range trees {
		base, err := load(l.place("trusted", t))
		if err != nil {
			continue // Base says so
		}
		end, err := load(l.place("ended", t))
		if err != nil {
			continue // the tree at the end of the last run is not known, so nothing of it is the operator's
		}
		now, err := take(ctx, filepath.Join(l.Repo, t), r.Outside, r.Queries, r.Time)
		if errors.Is(err, fs.ErrNotExist) && t != "." {
			continue // the loop's own work tree is removed
		}
		if err != nil {
			return err
		}
		if err := l.save("baseline", "trusted", t, advanced(base, end, now, d, strict(r.Queries))); err != nil {
			return err
		}
	}
	return nil
}

// End notes that a run has ended, and the work trees as it leaves them. The processes of the run must be gone. After an
// error the run counts as one that did not end.
func (l Ledger) End(ctx context.Context, r Run) error {
	err := l.with(ctx, func(o *open) error {
		o.Runs = slices.DeleteFunc(o.Runs, func(lock string) bool { return lock == l.lock(r) })
		if len(o.Runs) == 0 {
			if err := l.ended(ctx, r, o.Trees); err != nil {
				return err
			}
		}
		return l.write("ended", "open.json", o)
	})
	if err != nil {
		return fmt.Errorf("noting which files the run has changed: %w", err)
	}
	return nil
}

func (l Ledger) ended(ctx context.Context, r Run, trees []string) error {
	d := l.doubts()
	for _, t := range trees {
		end, err := take(ctx, filepath.Join(l.Repo, t), r.Outside, r.Queries, r.Time)
		if errors.Is(err, fs.ErrNotExist) && t != "." {
			continue
		}
		if err != nil {
			return err
		}
		if base, err := load(l.place("trusted", t)); err == nil {
			d.add(base, end, strict(r.Queries))
		}
		if err := l.save("ended", "ended", t, end); err != nil {
			return err
		}
	}
	if !d.fresh {
		return nil
	}
	return l.write("ended", "doubts.json", d)
}

func strict(queries []Query) bool {
	return slices.ContainsFunc(queries, func(q Query) bool { return q.Mode == Strict })
}

// Base returns the baseline of a work tree. Without one the error is a *NoBaselineError.
func (l Ledger) Base(top string) (*Baseline, error) {
	tree, err := l.tree(top)
	if err != nil {
		return nil, err
	}
	b, err := load(l.place("trusted", tree))
	if err != nil {
		return nil, &NoBaselineError{err}
	}
	return b, nil
}

// Trees returns the work trees of which the ledger knows, absolute. Before the first run it knows none.
func (l Ledger) Trees(ctx context.Context) (tops []string, err error) {
	if _, err := door.Read(l.file("open.json"), maxState); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = l.with(ctx, func(o *open) error {
		for _, t := range o.Trees {
			tops = append(tops, filepath.Join(l.Repo, t))
		}
		return nil
	})
	return tops, err
}

// Trust adds changes to the baseline of a work tree that an operator has looked at and trusts. A change that cannot be
// watched stays one.
func (l Ledger) Trust(ctx context.Context, top string, changes []Change) error {
	return l.with(ctx, func(*open) error {
		b, err := l.Base(top)
		if err != nil {
			return err
		}
		tree, err := l.tree(top)
		if err != nil {
			return err
		}
		for _, c := range changes {
			a := accepted{c.Path, c.Part, c.sum}
			if c.Kind != Lost && !slices.Contains(b.Accepted, a) {
				b.Accepted = append(b.Accepted, a)
			}
		}
		b.Accepted = b.Accepted[max(len(b.Accepted)-maxInputs, 0):]
		return l.save("baseline", "trusted", tree, b)
	})
}

// Renew makes the files of a work tree as they are its baseline, because an operator trusts them all.
func (l Ledger) Renew(ctx context.Context, top string, out Outside, queries []Query, at time.Time) error {
	return l.with(ctx, func(*open) error {
		tree, err := l.tree(top)
		if err != nil {
			return err
		}
		b, err := take(ctx, top, out, queries, at)
		if err != nil {
			return err
		}
		return l.save("baseline", "trusted", tree, b)
	})
}
