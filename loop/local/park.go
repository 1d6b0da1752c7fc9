package local

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// shortWait is a wait for which it is not worth it to leave: taking a loop up again costs some tenths of a second.
const shortWait = 5 * time.Second

// Held is the right to supervise a loop. While a process has it, no other process runs the loop.
type Held struct{ locks []*durable.Lock }

// Hold takes the locks of the loop that o names. If another supervisor has them, the error is a *HeldError.
func Hold(o Options) (*Held, error) {
	paths, err := layout.NewPaths(o.Repo, o.LoopID, o.StateHome)
	if err != nil {
		return nil, err
	}
	for dir, perm := range map[string]os.FileMode{paths.Private: 0o700, paths.Loop: 0o755} {
		if err := o.Disk.MkdirAll("dirs", dir, perm); err != nil {
			return nil, err
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return hold(o, paths)
}

// hold takes both locks of a loop. The private lock lies where agents at level L1 cannot delete it. A supervisor with
// another XDG_STATE_HOME also sees the lock in the repository. The kernel drops both when the process dies.
func hold(o Options, paths layout.Paths) (*Held, error) {
	holder, err := json.Marshal(Holder{Identity: proc.Self(), Since: o.Now().UTC()})
	if err != nil {
		return nil, err
	}
	h := &Held{}
	for _, path := range paths.Locks() {
		lock, err := o.Disk.Lock(path, holder)
		if err != nil {
			h.Release()
		}
		if held, ok := errors.AsType[*durable.LockedError](err); ok {
			var by Holder
			_ = json.Unmarshal(held.Holder, &by) // a holder that cannot be read holds the lock all the same
			return nil, &HeldError{LoopID: o.LoopID, Holder: by}
		}
		if err != nil {
			return nil, err
		}
		h.locks = append(h.locks, lock)
	}
	return h, nil
}

// HolderOf returns who holds the lock file. ok is false if nobody does, or if the file cannot be read.
func HolderOf(file string) (h Holder, ok bool) {
	raw, locked, err := durable.Holder(file)
	if err != nil || !locked {
		return h, false
	}
	_ = json.Unmarshal(raw, &h) // a holder that wrote no name holds the lock all the same
	return h, true
}

// Supervisor returns the process that has the loop, and reports whether there is one.
func Supervisor(p layout.Paths) (*Holder, bool) {
	for _, file := range p.Locks() {
		if h, ok := HolderOf(file); ok {
			return &h, true
		}
	}
	return nil, false
}

// Release lets the loop go.
func (h *Held) Release() {
	for i := len(h.locks) - 1; i >= 0; i-- {
		_ = h.locks[i].Unlock()
	}
	h.locks = nil
}

// Waiting says what a loop waits for. It needs no memory besides its own fields.
type Waiting struct {
	Until time.Time // when the loop has to be run again, at the latest
	// Question is the id of the question that waits for an operator, "" if none does.
	Question string
	// Account is the account whose limit the loop waits for. It may be free before SharedUntil.
	Account     agent.Account
	SharedUntil time.Time

	seen fs.FileInfo // the record of the question, when Stirs last read it
}

// park asks whether Run is to leave, since the loop waits until the given time at the latest.
func (d *driver) park(until time.Time) bool {
	if d.o.Park == nil || until.Sub(d.o.Now()) < shortWait {
		return false
	}
	w := Waiting{Until: until}
	next, soon := d.outbox.NextTry()
	switch {
	case soon && next.Sub(d.o.Now()) < shortWait: // its end wakes this wait
		return false
	case soon && next.Before(until):
		w.Until = next
	}
	if d.state.Human != nil {
		w.Question = d.state.Human.Question
	}
	if l := d.state.Limit; l != nil {
		w.Account, w.SharedUntil = agent.Account{Provider: l.Provider, ID: l.Account}, l.SharedUntil
	}
	d.parked = d.o.Park(w)
	return d.parked
}

// Stirs reports whether a loop that waited has something to do now: its time has come, an operator wants something of
// it or has answered, or the limit is gone. o are the Options with which it ran.
func (w *Waiting) Stirs(o Options) bool {
	paths, err := layout.NewPaths(o.Repo, o.LoopID, o.StateHome)
	now := time.Now()
	if o.Now != nil {
		now = o.Now()
	}
	if err != nil || !now.Before(w.Until) {
		return true // Run tells what is wrong with the repository
	}
	if ins, err := control.Submitted(paths); err != nil || len(ins) > 0 {
		return true
	}
	if w.Question != "" && w.answered(escalation.Store{Dir: paths.Questions(), Loop: o.LoopID, Now: o.Now}) {
		return true
	}
	if w.Account != (agent.Account{}) && now.Before(w.SharedUntil) {
		_, known, err := cooldown.New(o.Disk, paths.Cooldowns()).Get(w.Account)
		return err == nil && !known
	}
	return false
}

// answered reports whether the question is another one now, or no longer pending. It reads the record only if another
// file is there: the watches of a thousand loops look a hundred times in a second, and to check a record costs 0.2 ms.
func (w *Waiting) answered(store escalation.Store) bool {
	now, err := os.Stat(filepath.Join(store.Dir, escalation.File))
	if err != nil {
		return true
	}
	if w.seen != nil && os.SameFile(w.seen, now) && w.seen.ModTime().Equal(now.ModTime()) {
		return false
	}
	rec, err := store.Load()
	w.seen = now
	return err != nil || rec.Question.ID != w.Question || rec.State != escalation.Pending
}

// Places returns the directories in which a change may mean that Stirs returns something else.
func (w *Waiting) Places(o Options) []string {
	paths, err := layout.NewPaths(o.Repo, o.LoopID, o.StateHome)
	if err != nil {
		return nil
	}
	places := []string{paths.Control()}
	if w.Question != "" {
		places = append(places, paths.Questions())
	}
	if w.Account != (agent.Account{}) {
		places = append(places, paths.Cooldowns())
	}
	return places
}
