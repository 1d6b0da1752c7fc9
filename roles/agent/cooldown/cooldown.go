// Package cooldown remembers which accounts are limited, and until when, for all loops and repositories of a user on
// this machine: what one of them met, the others need not run into.
//
// The memory is one small file per account in a directory of the user. It is a help, never an authority: a file that is
// missing, damaged or written by a clock that was far ahead costs at most one refused run, and never stops a loop.
package cooldown

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

const (
	// Longest is how far ahead a cooldown is believed: the longest window of the known providers is a week. What ends
	// later was written by a clock that was ahead, and counts as none.
	Longest = 8 * 24 * time.Hour
	// longestSet is what Set writes at most: a little less, so that a machine's second clock, or one that was put
	// right, does not make it unbelievable.
	longestSet = Longest - time.Hour
	// forget is how long after its end a cooldown's strikes still count.
	forget = 24 * time.Hour
)

// Cooldown says that an account is not to be used until a time.
type Cooldown struct {
	Account agent.Account `json:"-"`
	// Class is why: one of those that class.Class.Waits.
	Class class.Class `json:"class"`
	// Kind is the provider's word for the window ("five_hour"), Text what it or the CLI said; both may be "". Of Text
	// at most 2,000 bytes are kept.
	Kind string `json:"kind,omitempty"`
	Text string `json:"text,omitempty"`
	// Until is the end. Told: it is the provider's word, not a guess of Backoff.
	Until time.Time `json:"until"`
	Told  bool      `json:"told,omitempty"`
	SetAt time.Time `json:"set_at"` // when it was learned; zero: now
	// Strikes counts the refusals since the last success, this one included.
	Strikes int `json:"strikes,omitempty"`
	// By is who learned it, for humans: the loop and its repository.
	By string `json:"by,omitempty"`
}

// Store is the memory in one directory. Any number of stores, goroutines and processes may use a directory at the same
// time.
type Store struct {
	disk durable.Disk
	dir  string
	now  func() time.Time
	// patience bounds the wait for another process that is writing; that takes milliseconds.
	patience time.Duration
	mu       sync.Mutex // one writer of this process at a time; the file lock is for the others
}

// New uses dir, which is made (0700) when something is first written to it.
func New(disk durable.Disk, dir string) *Store {
	return &Store{disk: disk, dir: dir, now: time.Now, patience: 5 * time.Second}
}

// Get gives what is remembered of an account; ok says that it is limited now. When it is not, c still tells the Strikes
// of a cooldown that ended less than a day ago, and is otherwise empty.
//
// An error is for the log: it says which file is wrong and what to type. It is never a reason not to run, and ok is
// false with it.
func (s *Store) Get(a agent.Account) (c Cooldown, ok bool, err error) {
	c, err = s.read(s.path(a))
	if err == nil {
		err = s.believe(c)
	}
	now := s.now()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Cooldown{}, false, nil
	case err != nil || !c.Until.After(now.Add(-forget)):
		return Cooldown{}, false, err
	}
	return c, c.Until.After(now), nil
}

func (s *Store) believe(c Cooldown) error {
	if ahead := c.Until.Sub(s.now()); ahead > Longest {
		return unusable(s.path(c.Account), fmt.Errorf("it ends in %d days; a clock was wrong when it was written, or is now", int(ahead.Hours()/24)))
	}
	return nil
}

// Set remembers c. A cooldown that runs is replaced by one that ends later. One that ends sooner replaces it only if it
// is newer, of the same class, and tells an end by the provider's own word (Told) where the old one's was a guess, or
// was told of the same Kind: a hiccup of the network must not lift a limit, nor the five-hour window the week's.
// Otherwise the running one stays.
//
// The larger number of Strikes stays in any case: loops that are refused at the same moment count the same refusal. An
// Until more than eight days (less an hour) ahead is taken for that; one that is not after now is remembered for its
// Strikes. When Set returns nil the file survives a power cut; after an error the old one is there as it was.
func (s *Store) Set(c Cooldown) error {
	if c.Account.Provider == "" {
		return errors.New("remembering a limit: the account has no provider")
	}
	now := s.now()
	if c.SetAt.IsZero() {
		c.SetAt = now
	}
	if latest := now.Add(longestSet); c.Until.After(latest) {
		c.Until = latest
	}
	return s.locked(func() error {
		old, _, err := s.Get(c.Account)
		if err == nil && old.Account == c.Account { // what cannot be read is replaced
			strikes := max(old.Strikes, c.Strikes)
			if old.Until.After(now) && c.Until.Before(old.Until) && !mayShorten(old, c, now) {
				c = old
			}
			if c.Strikes = strikes; c == old {
				return nil
			}
		}
		return s.write(c)
	})
}

func mayShorten(old, c Cooldown, now time.Time) bool {
	newer := c.SetAt.After(old.SetAt) || old.SetAt.After(now) // a time to come is a wrong clock's
	return c.Told && c.Class == old.Class && newer && (c.Kind == old.Kind || !old.Told && old.Kind == "")
}

// Clear forgets an account: the operator says that it is not limited. Nothing to forget is no error.
func (s *Store) Clear(a agent.Account) error {
	return s.change(a, func(Cooldown, error) bool { return true })
}

// Succeeded forgets the strikes of an account with which a run has succeeded, and a cooldown whose end was a guess. One
// that the provider told (Told) and that still runs stays: it may be of another model than the one that worked, or
// younger than the run.
func (s *Store) Succeeded(a agent.Account) error {
	return s.change(a, func(c Cooldown, err error) bool {
		return err == nil && (!c.Told || !c.Until.After(s.now()) || s.believe(c) != nil)
	})
}

// change removes the file of an account, or takes its strikes away.
func (s *Store) change(a agent.Account, remove func(Cooldown, error) bool) error {
	path := s.path(a)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // the usual case costs no lock
	}
	return s.locked(func() error {
		c, err := s.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if remove(c, err) {
			if err := s.disk.Remove("cooldown", path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("forgetting a limit: %w", err)
			}
			return nil
		}
		if err != nil || c.Strikes == 0 {
			return err
		}
		c.Strikes = 0
		return s.write(c)
	})
}

// List gives the cooldowns that run now, the one that ends first before the others. The error joins what Get would say
// of each file that is wrong; the list is good all the same.
func (s *Store) List() ([]Cooldown, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the limits in %s: %w", s.dir, err)
	}
	var all []Cooldown
	var bad []error
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(path) != ext {
			continue
		}
		c, err := s.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody has just forgotten it
		}
		if err == nil {
			err = s.believe(c)
		}
		switch {
		case err != nil:
			bad = append(bad, err)
		case c.Until.After(s.now()):
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Cooldown) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Account.Provider, b.Account.Provider), cmp.Compare(a.Account.ID, b.Account.ID))
	})
	return all, errors.Join(bad...)
}
