// Package learn records, for one repository and one user, which remedies helped against which failures. Remedies count
// as helpful only if the tests have confirmed it, never by a command's own exit code. It also records which remedies an
// operator has chosen or refused. The records adapt the confidence of options, order them, and suggest commands for
// auto_approve. They approve nothing. An operator can read the file.
package learn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// These constants bound the records.
const (
	maxEntries = 2000
	maxAge     = 90 * 24 * time.Hour
	maxFile    = 4 << 20
	version    = 1
)

// These are the results of a remedy: the verdicts of the event recovery_verified, Failed for a command that did not
// succeed, and Refused for one that an operator did not let run.
const (
	Verified    = "verified"
	Ineffective = "ineffective"
	Harmful     = "harmful"
	Failed      = "failed"
	Unknown     = "unknown" // counts only as what an operator has chosen
	Refused     = "refused"
)

// Outcome is the result of one remedy that was tried.
type Outcome struct {
	Signature string // signature of the failure; "" if unknown
	Option    string // key of the option; "" for a command that no rule proposed
	Command   string
	Result    string
	ByPerson  bool // an operator has approved the command
	At        time.Time
}

// Entry counts the results of one remedy for one failure.
type Entry struct {
	Signature string    `json:"signature,omitempty"`
	Option    string    `json:"option,omitempty"`
	Command   string    `json:"command"`
	Helped    int       `json:"helped"`
	Failed    int       `json:"failed"`
	Harmful   int       `json:"harmful,omitempty"`
	Approved  int       `json:"approved_by_people,omitempty"`
	Refused   int       `json:"refused_by_people,omitempty"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// Memory holds all records.
type Memory struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"`
}

// Store keeps a Memory in a private file.
type Store struct {
	Disk durable.Disk
	Path string
}

// Load reads the records. Without a file it returns an empty Memory.
func (s Store) Load() (Memory, error) {
	data, err := door.Read(s.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Memory{Version: version}, nil
	}
	if err != nil {
		return Memory{}, fmt.Errorf("reading what was learned: %w; superloop policy suggest --reset begins it anew", err)
	}
	var m Memory
	if err = text.Decode(data, &m); err == nil && m.Version != version {
		err = fmt.Errorf("it is of version %d, this superloop reads %d", m.Version, version)
	}
	if err != nil {
		return Memory{}, fmt.Errorf("%s is damaged: %w; superloop policy suggest --reset begins it anew", s.Path, err)
	}
	return m, nil
}

// Record adds an outcome to the file, under a lock that all supervisors of the repository share. ctx bounds the wait
// for the lock.
func (s Store) Record(ctx context.Context, o Outcome) error {
	lock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("recording an outcome: %w", err)
	}
	defer func() { _ = lock.Unlock() }() // the lock ends with the process anyway
	m, err := s.Load()
	if err != nil {
		return err
	}
	m.Add(o)
	data, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = s.Disk.WriteProjection("learned", s.Path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording an outcome: %w", err)
	}
	return nil
}

func (s Store) lock(ctx context.Context) (*durable.Lock, error) {
	for {
		lock, err := s.Disk.Lock(s.Path+".lock", nil)
		if held := (*durable.LockedError)(nil); !errors.As(err, &held) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Reset removes all records.
func (s Store) Reset() error {
	if err := s.Disk.Remove("learned", s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what was learned: %w", err)
	}
	return nil
}

// Add adds an outcome, and drops entries that are too old or too many.
func (m *Memory) Add(o Outcome) {
	m.Version = version
	m.Entries = slices.DeleteFunc(m.Entries, func(e Entry) bool { return o.At.Sub(e.Last) > maxAge })
	i := slices.IndexFunc(m.Entries, func(e Entry) bool {
		return e.Signature == o.Signature && e.Option == o.Option && e.Command == o.Command
	})
	if i < 0 {
		m.Entries = append(m.Entries, Entry{Signature: o.Signature, Option: o.Option, Command: o.Command, First: o.At})
		i = len(m.Entries) - 1
	}
	e := &m.Entries[i]
	e.Last = o.At
	switch o.Result {
	case Verified:
		e.Helped++
	case Harmful:
		e.Harmful++
		e.Failed++
	case Refused:
		e.Refused++
	case Unknown:
	default:
		e.Failed++
	}
	if o.ByPerson && o.Result != Refused {
		e.Approved++
	}
	if over := len(m.Entries) - maxEntries; over > 0 {
		slices.SortStableFunc(m.Entries, func(a, b Entry) int { return a.Last.Compare(b.Last) })
		m.Entries = slices.Delete(m.Entries, 0, over)
	}
}

// Suggestion is a command that an operator may add to auto_approve.
type Suggestion struct {
	Command  string    `json:"command"`
	Helped   int       `json:"helped"`
	Failed   int       `json:"failed"`
	Approved int       `json:"approved_by_people"`
	Last     time.Time `json:"last"`
	Why      string    `json:"why"`
	harmful  bool
}

// Least is the number of times that a command must have helped before Suggest returns it.
const Least = 2

// Suggest returns the commands that have helped at least Least times and at least twice as often as they failed, and
// that never did harm. The most helpful command is the first. Suggest leaves out the commands for which listed returns
// true.
func (m Memory) Suggest(listed func(command string) bool) []Suggestion {
	by := map[string]Suggestion{}
	for _, e := range m.Entries {
		s := by[e.Command]
		s.Command, s.Helped, s.Failed, s.Approved = e.Command, s.Helped+e.Helped, s.Failed+e.Failed, s.Approved+e.Approved
		if s.harmful = s.harmful || e.Harmful > 0; e.Last.After(s.Last) {
			s.Last = e.Last
		}
		by[e.Command] = s
	}
	var out []Suggestion
	for cmd, s := range by {
		if s.Helped >= max(Least, 2*s.Failed) && !s.harmful && !listed(cmd) {
			s.Why = fmt.Sprintf("helped %d of %d times, approved by an operator %d times", s.Helped, s.Helped+s.Failed, s.Approved)
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(b.Helped-b.Failed, a.Helped-a.Failed), cmp.Compare(a.Command, b.Command))
	})
	return out
}
