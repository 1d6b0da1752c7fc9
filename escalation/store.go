// Package escalation is one question to an operator, and its one answer.
//
// A loop that may not go on by itself opens a question (Store.Open). It is a record in a private directory of the loop,
// where an agent has no business; escalation.json in the repository (View), what a terminal shows (Describe) and what a
// notifier sends are views of it and are never read back. Whoever answers (Store.Answer), through whatever channel and
// in whatever process, answers the record, once:
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
// Every change reads the record, compares and replaces it under a lock that all processes respect, and is on the disk
// (file and directory flushed) before it counts. After a kill at any step the record is the old one or the new one. So
// of any number of answers one wins, and an approval is begun once.
//
// A question has a digest over everything that an answer is bound to: the exact bytes of the command, where and for how
// long it runs, the policy and the inputs it was judged by, the question's random id. An answer may name the id, the
// digest or both, and then never counts for another question. A newer question supersedes the older one; at most one is
// pending in a loop.
//
// An approved command is what Record.Run gives: the proposed bytes, or those that the operator put in their place.
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
	// File is the record's name in a Store's directory. It is replaced by a rename, so whoever watches the directory
	// learns of every change; the lock and temporary files beside it have names that begin with a dot.
	File   = "record.json"
	Folder = "escalation" // the name of a Store's directory below a loop's private directory
)

// Store keeps the questions of one loop: the present one, and in the directory "archive" the last ones before it. Its
// methods may be called by many processes at once. Operations on the disk: "escalation" and "escalation-archive".
type Store struct {
	Disk durable.Disk
	Dir  string           // private (mode 0700, outside the repository); it is made if need be
	Loop string           // the loop's id: a record of another one is not believed
	Now  func() time.Time // the clock; nil is time.Now
}

// Load reads the present record, whatever its state, without waiting for anybody. The error is ErrNothingPending if
// there never was a question, and a *DamagedError if what is there cannot be believed.
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

// Open asks a question. What is pending, or approved and not begun, is superseded by it; what is executing is a
// *StateError: Finish or Interrupt it first. A question whose id is that of the present record is not asked again: Open
// gives that record, so an asker that was killed may repeat it; the same id with another content is an error.
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

// Answer gives the one answer. Its errors: ErrNothingPending, *DecidedError (who was first), *MismatchError (the id or
// the digest is another question's), *ExpiredError, *DamagedError; what is wrong with the request itself; and that of
// the disk. After one of the last kind the answer may or may not count: giving it again tells.
//
// When it returns nil the answer survives a power cut, and a supervisor that watches Dir has been woken.
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
			last = last.expired(now) // it is kept, next to the error
		}
		return last.answered(a, now)
	})
}

// Begin takes an approved question to its execution. It succeeds once; then it is a *StateError, or an *ExpiredError.
func (s Store) Begin(ctx context.Context, id string) (Record, error) {
	return s.step(ctx, "begin", id, Approved, func(r *Record, now time.Time) { r.State, r.Begun = Executing, stamp(now) })
}

// Finish notes how the execution went: done or failed.
func (s Store) Finish(ctx context.Context, id string, o Outcome) (Record, error) {
	return s.step(ctx, "finish", id, Executing, func(r *Record, now time.Time) {
		o.Note = cut(o.Note, maxText)
		if r.State, r.Outcome, r.Ended = Failed, &o, stamp(now); o.OK {
			r.State = Done
		}
	})
}

// Interrupt notes that the supervisor that was executing it is gone. It is for the next supervisor, which holds the
// loop's lock and so knows. The question is never run again; ask a new one.
func (s Store) Interrupt(ctx context.Context, id string) (Record, error) {
	return s.step(ctx, "interrupt", id, Executing, func(r *Record, now time.Time) {
		r.State, r.Ended, r.Why = Interrupted, stamp(now), "the supervisor ended while it ran; how it went is not known"
	})
}

// step takes the present question on if it has that id and is in that state.
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

// Withdraw ends a question that is no longer asked (the loop was cancelled, the runner works again): superseded, by
// nothing. Answered meanwhile by anything but an approval that has not begun, it is a *StateError.
func (s Store) Withdraw(ctx context.Context, id, why string) (Record, error) {
	return s.change(ctx, func(last Record, now time.Time) (Record, error) {
		if last.Question.ID != id {
			return last, &StateError{Step: "withdraw", ID: id, Present: last.Question.ID}
		}
		return last.superseded("", why, now)
	})
}

// Expire ends the question, if there is one, when its time is over and nothing has begun; lapsed says whether it did.
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

// change reads, asks what is to come of it, and writes, under the lock. A record that differs is written also next to
// an error, which is then returned: an answer that comes too late leaves the question expired.
func (s Store) change(ctx context.Context, next func(last Record, now time.Time) (Record, error)) (Record, error) {
	fail := func(err error) (Record, error) { return Record{}, fmt.Errorf("keeping the question: %w", err) }
	lock, err := s.lock(ctx)
	if errors.Is(err, fs.ErrNotExist) { // no directory: nothing was ever asked, and nothing is made for it
		return next(Record{}, s.now())
	}
	if err != nil {
		return fail(err)
	}
	defer func() { _ = lock.Unlock() }() // it dies with the process at the latest
	if _, err := s.Disk.RemoveTemps("escalation", s.Dir); err != nil {
		return fail(err)
	}
	last, err := s.Load()
	if err != nil && !errors.Is(err, ErrNothingPending) {
		return Record{}, err
	}
	r, wish := next(last, s.now())
	if r.Question.ID == last.Question.ID && r.State == last.State {
		return r, wish
	}
	data, err := encode(r)
	if err == nil {
		_, err = decode(data) // only what will be believed is written
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

// lock waits for a lock that is only ever held for moments.
func (s Store) lock(ctx context.Context) (*durable.Lock, error) {
	return s.Disk.LockWait(ctx, filepath.Join(s.Dir, ".lock"), nil, 0)
}

// Item is a question that waits somewhere on this machine.
type Item struct {
	Record  Record
	Dir     string        // the Store's directory
	Waiting time.Duration // since it was asked
	Lapsed  bool          // its time is over, and no supervisor has noticed. An answer to it comes too late.
}

// Inbox reads what waits for an operator in all loops of this user: what blocks a loop first, then by how long it
// waits; what has lapsed last. stateRoot is $XDG_STATE_HOME/superloop, in which the records lie at
// <repo-id>/loops/<loop>/escalation/record.json.
//
// What cannot be read hides nothing else: the error joins one for each, most of them *DamagedError.
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
