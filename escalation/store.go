// Package escalation stores one question to an operator and the one answer to it.
//
// A loop that may not go on by itself opens a question (Store.Open). superloop keeps the question as a record in a
// private directory of the loop, which is not for agents. Three views are made of the record: escalation.json in the
// repository (View), the text on a terminal (Describe), and the messages of a notifier. superloop never reads a view
// back. An operator answers the record (Store.Answer), once, through any channel and in any process:
//
//	          approve          Begin            Finish
//	pending ----------> approved -----> executing -----> done, failed
//	 |   |                 |                |
//	 |   | reject          | Open,          | Interrupt: the supervisor died;
//	 |   | resolve         | Expire,        | it is never run again, a new
//	 |   v                 | Withdraw       v question is asked
//	 |  rejected,          v            interrupted
//	 |  resolved      superseded, expired
//	 +---------------> superseded, expired
//
// Every change takes a lock that all processes respect, reads the record, compares and replaces it. The change counts
// once file and directory are flushed to the disk. After a kill at any step, the disk holds the old record or the new
// one. So exactly one of several answers wins, and an approved command begins only once.
//
// The digest of a question covers everything that an answer is bound to: the exact bytes of the command, its working
// directory and timeout, the digests of the policy and the inputs at its judgement, and the question's random id. An
// answer that names the id, the digest or both never counts for another question. A newer question supersedes the older
// one, so a loop has at most one pending question.
//
// Record.Run returns an approved command: the proposed bytes, or the operator's own command instead of them.
package escalation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

const (
	// File is the name of the record's file in a Store's directory. Each change replaces it by a rename, so a process
	// that watches the directory sees every change. The names of the lock and of temporary files begin with a dot.
	File   = "record.json"
	Folder = "escalation" // the name of a Store's directory below a loop's private directory
)

// Store keeps the questions of one loop: the present one, and the earlier ones in the directory "archive". Many
// processes may call its methods at once. Its operations on the disk have the names "escalation" and
// "escalation-archive".
type Store struct {
	Disk durable.Disk
	Dir  string           // private (mode 0700), outside the repository; Open makes it
	Loop string           // the loop's id; a record of another loop counts as damaged
	Now  func() time.Time // the clock; nil is time.Now
}

// Load reads the present record, whatever its state. It takes no lock. The error is ErrNothingPending if the loop never
// had a question, and a *DamagedError if the record is damaged.
func (s Store) Load() (Record, error) {
	path := filepath.Join(s.Dir, File)
	r, err := read(path)
	if err == nil && r.Question.Loop != s.Loop {
		err = fmt.Errorf("it is of the loop %q, not of %q", r.Question.Loop, s.Loop)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, s.never()
	} else if err != nil {
		return Record{}, &DamagedError{path, err}
	}
	return r, nil
}

func (s Store) never() error {
	return fmt.Errorf("%w: no question was ever asked of the loop %s", ErrNothingPending, s.Loop)
}

// Open asks a question. The new question supersedes one that is pending, or approved and not begun. If the old one is
// executing, Open returns a *StateError; the caller must call Finish or Interrupt first. If the present record has the
// same id and content, Open returns that record, so that a caller that was killed may call Open again. The same id with
// another content is an error.
func (s Store) Open(ctx context.Context, q Question) (Record, error) {
	if q.Loop != s.Loop {
		return Record{}, fmt.Errorf("opening a question: it is of the loop %q, not of %q", q.Loop, s.Loop)
	}
	if err := s.Disk.MkdirAll("escalation", s.Dir, 0o700); err != nil {
		return Record{}, fmt.Errorf("keeping the question: %w", err)
	}
	return s.change(ctx, func(last Record, now time.Time) (Record, error) {
		same := last.Question.ID != "" && last.Question.ID == q.ID
		if same && q.Created.IsZero() {
			q.Created = last.Question.Created
		}
		if same && q.Expires.IsZero() {
			q.Expires = last.Question.Expires
		}
		next, err := ask(q.Complete(now))
		switch {
		case err != nil:
			return last, err
		case same && next.Digest == last.Digest:
			return last, nil
		case same:
			return last, fmt.Errorf("opening a question: the id %s is that of another one", q.ID)
		case last.Question.ID == "":
			return next, nil
		}
		old := last
		if last.Lapsed(now) {
			old = last.expired(now)
		} else if last.State.Open() {
			old, err = last.superseded(next.Question.ID, "a newer question took its place", now)
		}
		if err == nil {
			err = s.archive(old)
		}
		if err != nil {
			return last, err
		}
		return next, nil
	})
}

// Answer records the one answer. Its errors are ErrNothingPending, *DecidedError (another answer was first),
// *MismatchError (the id or digest is that of another question), *ExpiredError, *DamagedError, an error about the
// request itself, or an error of the disk. After an error of the disk the answer may or may not count; calling Answer
// again shows which.
//
// When Answer returns nil, the answer survives a power cut, and a supervisor that watches Dir sees the change.
func (s Store) Answer(ctx context.Context, a AnswerRequest) (Record, error) {
	if err := a.check(); err != nil {
		return Record{}, err
	}
	return s.change(ctx, func(last Record, now time.Time) (Record, error) {
		if last.Question.ID == "" {
			return last, s.never()
		}
		if !a.names(last) {
			return last, s.elsewhere(a, last)
		}
		if last.Lapsed(now) {
			last = last.expired(now) // change saves the expired record, too
		}
		return last.answered(a, now)
	})
}

// Begin changes an approved question to executing. It succeeds once. Later calls return a *StateError. After the
// question's expiry it returns an *ExpiredError.
func (s Store) Begin(ctx context.Context, id string) (Record, error) {
	return s.step(ctx, "begin", id, Approved, func(r *Record, now time.Time) { r.State, r.Begun = Executing, stamp(now) })
}

// Finish records the outcome of the execution: the question becomes done or failed.
func (s Store) Finish(ctx context.Context, id string, o Outcome) (Record, error) {
	return s.step(ctx, "finish", id, Executing, func(r *Record, now time.Time) {
		o.Note = cut(o.Note, maxText)
		if r.State, r.Outcome, r.Ended = Failed, &o, stamp(now); o.OK {
			r.State = Done
		}
	})
}

// Interrupt records that the supervisor ended while the command ran. Only the next supervisor calls it, because it
// holds the loop's lock and so knows that the other one is gone. superloop never runs the command of this question
// again; it asks a new question.
func (s Store) Interrupt(ctx context.Context, id string) (Record, error) {
	return s.step(ctx, "interrupt", id, Executing, func(r *Record, now time.Time) {
		r.State, r.Ended, r.Why = Interrupted, stamp(now), "the supervisor ended while it ran; how it went is not known"
	})
}

// step changes the present question if it has the given id and state.
func (s Store) step(ctx context.Context, name, id string, in State, on func(r *Record, now time.Time)) (Record, error) {
	return s.change(ctx, func(last Record, now time.Time) (Record, error) {
		switch {
		case last.Question.ID != id:
			return last, &StateError{Step: name, ID: id, Present: last.Question.ID}
		case in == Approved && last.Lapsed(now):
			return last.expired(now), &ExpiredError{id, last.Question.Expires}
		case last.State != in:
			return last, &StateError{Step: name, ID: id, State: last.State, Present: id}
		}
		on(&last, now)
		return last, nil
	})
}

// Withdraw ends a question that is no longer needed, for example because the loop was cancelled or the runner works
// again. The question becomes superseded, without a newer question. Withdraw returns a *StateError if the question is
// neither pending, nor approved and not begun.
func (s Store) Withdraw(ctx context.Context, id, why string) (Record, error) {
	return s.change(ctx, func(last Record, now time.Time) (Record, error) {
		if last.Question.ID != id {
			return last, &StateError{Step: "withdraw", ID: id, Present: last.Question.ID}
		}
		return last.superseded("", why, now)
	})
}

// Expire ends the question if its time is over and its command has not begun. lapsed reports whether Expire ended it.
func (s Store) Expire(ctx context.Context, now time.Time) (r Record, lapsed bool, err error) {
	r, err = s.change(ctx, func(last Record, _ time.Time) (Record, error) {
		if last.Question.ID != "" && last.Lapsed(now) {
			lapsed = true
			return last.expired(now), nil
		}
		return last, nil
	})
	return r, lapsed && err == nil, err
}

// change reads the record, calls next for the new one and writes it, all under the lock. change also writes a changed
// record when next returns an error, and then returns that error: an answer that comes too late leaves the question
// expired.
func (s Store) change(ctx context.Context, next func(last Record, now time.Time) (Record, error)) (Record, error) {
	fail := func(err error) (Record, error) { return Record{}, fmt.Errorf("keeping the question: %w", err) }
	lock, err := s.lock(ctx)
	if errors.Is(err, fs.ErrNotExist) { // no directory: the loop never had a question, and change makes no directory
		return next(Record{}, s.now())
	}
	if err != nil {
		return fail(err)
	}
	defer func() { _ = lock.Unlock() }() // the kernel releases the lock when the process ends
	if _, err := s.Disk.RemoveTemps("escalation", s.Dir); err != nil {
		return fail(err)
	}
	last, err := s.Load()
	if err != nil && !errors.Is(err, ErrNothingPending) {
		return Record{}, err
	}
	r, wish := next(last, s.now())
	if r.Question.ID == last.Question.ID && r.State == last.State && r.HeldUntil.Equal(last.HeldUntil) {
		return r, wish
	}
	data, err := encode(r)
	if err == nil {
		_, err = decode(data) // write only a record that Load will accept
	}
	if err == nil {
		err = s.Disk.WriteFile("escalation", filepath.Join(s.Dir, File), data, 0o600)
	}
	if err != nil {
		return fail(err)
	}
	return r, wish
}

func (s Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// lock waits for the lock of the directory. Every process holds it only for moments.
func (s Store) lock(ctx context.Context) (*durable.Lock, error) {
	return s.Disk.LockWait(ctx, filepath.Join(s.Dir, ".lock"), nil, 0)
}

// Item is a pending question of some loop on this machine.
type Item struct {
	Record  Record
	Dir     string        // the Store's directory
	Waiting time.Duration // the time since the question was asked
	Lapsed  bool          // the question's time is over, but no supervisor has noticed; an answer comes too late
}

// Inbox reads the pending questions of all loops of this user. Questions that block a loop come first, lapsed ones
// last; among equals the oldest comes first. stateRoot is $XDG_STATE_HOME/superloop. The records lie below it at
// <repo-id>/loops/<loop>/escalation/record.json.
//
// An unreadable record does not hide the others. The error joins one error for each, most of them *DamagedError.
func Inbox(stateRoot string, now time.Time) ([]Item, error) {
	dirs, errs := privates(stateRoot)
	var out []Item
	for _, dir := range dirs {
		loop, dir := filepath.Base(dir), filepath.Join(dir, Folder)
		r, err := Store{Dir: dir, Loop: loop}.Load()
		if err != nil && !errors.Is(err, ErrNothingPending) {
			errs = errors.Join(errs, err)
		} else if r.State == Pending {
			out = append(out, Item{Record: r, Dir: dir, Waiting: max(0, now.Sub(r.Question.Created)), Lapsed: r.Lapsed(now)})
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

// privates returns the private directories of all loops, sorted.
func privates(stateRoot string) (dirs []string, errs error) {
	repos, errs := folders(stateRoot)
	for _, repo := range repos {
		at := filepath.Join(stateRoot, repo, "loops")
		loops, err := folders(at)
		errs = errors.Join(errs, err)
		for _, loop := range loops {
			dirs = append(dirs, filepath.Join(at, loop))
		}
	}
	return dirs, errs
}

// folders returns the names of the directories in dir, sorted, without links. It returns none if dir is a file or
// missing.
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
