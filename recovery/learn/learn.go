// Package learn remembers, for one repository and one user, which remedies helped against which failures: from outcomes
// that the tests have verified, never from a command's own exit code. What it remembers orders options that are
// otherwise equal and suggests commands for auto_approve; it approves nothing. An operator can read its file.
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

	"github.com/superloop/superloop/internal/durable"
)

// Bounds of what is remembered.
const (
	maxEntries = 2000
	maxAge     = 90 * 24 * time.Hour
	maxFile    = 4 << 20
	version    = 1
)

// Results of a remedy, as recovery_verified has them, and failed: its command did not end well.
const (
	Verified    = "verified"
	Ineffective = "ineffective"
	Harmful     = "harmful"
	Failed      = "failed"
)

// Outcome is one remedy that was tried.
type Outcome struct {
	Signature string // of the failure; "" if nothing was known of it
	Option    string // its key; "" of a command that no rule proposed
	Command   string
	Result    string
	ByPerson  bool // an operator has approved it
	At        time.Time
}

// Entry is what is known of one remedy for one failure.
type Entry struct {
	Signature string    `json:"signature,omitempty"`
	Option    string    `json:"option,omitempty"`
	Command   string    `json:"command"`
	Helped    int       `json:"helped"`
	Failed    int       `json:"failed"`
	Harmful   int       `json:"harmful,omitempty"`
	Approved  int       `json:"approved_by_people,omitempty"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// Memory is all that is remembered.
type Memory struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"`
}

// Store keeps a Memory in a private file.
type Store struct {
	Disk durable.Disk
	Path string
}

// Load reads what is remembered; nothing yet is an empty Memory.
func (s Store) Load() (Memory, error) {
	data, err := durable.Read(s.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Memory{Version: version}, nil
	}
	if err != nil {
		return Memory{}, fmt.Errorf("reading what was learned: %w; superloop policy suggest --reset begins it anew", err)
	}
	var m Memory
	if err = json.Unmarshal(data, &m); err == nil && m.Version != version {
		err = fmt.Errorf("it is of version %d, this superloop reads %d", m.Version, version)
	}
	if err != nil {
		return Memory{}, fmt.Errorf("%s is damaged: %w; superloop policy suggest --reset begins it anew", s.Path, err)
	}
	return m, nil
}

// Record adds an outcome. Supervisors of one repository take turns; ctx bounds the wait.
func (s Store) Record(ctx context.Context, o Outcome) error {
	lock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("recording an outcome: %w", err)
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process anyway
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

// Reset forgets everything.
func (s Store) Reset() error {
	if err := s.Disk.Remove("learned", s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what was learned: %w", err)
	}
	return nil
}

// Add takes an outcome, and drops what is old.
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
	default:
		e.Failed++
	}
	if o.ByPerson {
		e.Approved++
	}
	if over := len(m.Entries) - maxEntries; over > 0 {
		slices.SortStableFunc(m.Entries, func(a, b Entry) int { return a.Last.Compare(b.Last) })
		m.Entries = slices.Delete(m.Entries, 0, over)
	}
}

// Score is how well an option did, from -1 to 1, 0 where nothing is known: against this very failure if it was tried
// against it, else against any. One outcome moves it by a third, so that an accident decides nothing.
func (m Memory) Score(signature, option string) float64 {
	var here, all Entry
	for _, e := range m.Entries {
		if e.Option != option || option == "" {
			continue
		}
		failed := e.Failed + e.Harmful
		all.Helped, all.Failed = all.Helped+e.Helped, all.Failed+failed
		if e.Signature == signature && signature != "" {
			here.Helped, here.Failed = here.Helped+e.Helped, here.Failed+failed
		}
	}
	if here.Helped+here.Failed > 0 {
		return balance(here)
	}
	return balance(all) / 2
}

func balance(e Entry) float64 { return float64(e.Helped-e.Failed) / float64(e.Helped+e.Failed+2) }

// Suggestion is a command that might be listed.
type Suggestion struct {
	Command  string    `json:"command"`
	Helped   int       `json:"helped"`
	Failed   int       `json:"failed"`
	Approved int       `json:"approved_by_people"`
	Last     time.Time `json:"last"`
	Why      string    `json:"why"`
	harmful  bool
}

// Least is how often a command must have helped to be suggested.
const Least = 2

// Suggest are the commands that have helped at least Least times, at least twice as often as not, and never made
// anything worse; the most helpful first. Those that listed says are listed already are left out.
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
