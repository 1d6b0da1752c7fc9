// Package cooldown remembers which accounts are limited, and until when, for all loops and repositories of a user on
// this machine: what one of them met, the others need not run into.
//
// The memory is one small file per account in a directory of the user. It is a help, never an authority: a file that is
// missing, damaged or written by a clock that was far ahead costs at most one refused run, and never stops a loop.
package cooldown

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
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
	forget     = 24 * time.Hour // how long after its end a cooldown's strikes still count
)

// Cooldown says that an account is not to be used until a time.
type Cooldown struct {
	agent.Account
	Class   class.Class `json:"class"`             // why: one of those that class.Class.Waits
	Kind    string      `json:"kind,omitempty"`    // the provider's word for the window ("five_hour"); may be ""
	Text    string      `json:"text,omitempty"`    // what it or the CLI said, at most 2,000 bytes; may be ""
	Until   time.Time   `json:"until"`             // the end
	Told    bool        `json:"told,omitempty"`    // Until is the provider's word, not a guess of Backoff
	SetAt   time.Time   `json:"set_at"`            // when it was learned; zero: now
	Strikes int         `json:"strikes,omitempty"` // refusals since the last success, this one included
	By      string      `json:"by,omitempty"`      // who learned it, for humans: the loop and its repository
}

// Store is the memory in one directory. Any number of stores, goroutines and processes may use a directory at the same
// time.
type Store struct {
	disk     durable.Disk
	dir      string
	now      func() time.Time
	patience time.Duration // bounds the wait for another process that is writing; that takes milliseconds
	mu       sync.Mutex    // one writer of this process at a time; the file lock is for the others
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
	now := s.now()
	if ahead := c.Until.Sub(now); err == nil && ahead > Longest {
		err = unusable(s.path(a), fmt.Errorf("it ends in %d days; a clock was wrong when it was written, or is now", int(ahead.Hours()/24)))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Cooldown{}, false, nil
	case err != nil || !c.Until.After(now.Add(-forget)):
		return Cooldown{}, false, err
	}
	return c, c.Until.After(now), nil
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
	if c.Provider == "" {
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
		return err == nil && (!c.Told || !c.Until.After(s.now()) || c.Until.Sub(s.now()) > Longest)
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

const (
	version                   = 1
	maxFile, maxText, maxWord = 64 << 10, 2000, 500 // maxFile bounds what is read, the others what is written
)

// file is a cooldown on the disk.
type file struct {
	Version int `json:"version"`
	Cooldown
}

// path is an account's file. The provider's word is in its name for humans, as far as it is fit for one; the digest
// tells accounts apart.
func (s *Store) path(a agent.Account) string {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(a.Provider))
	sum := sha256.Sum256([]byte(a.Provider + "\x00" + a.ID))
	return filepath.Join(s.dir, "account-"+word[:min(len(word), 32)]+"-"+hex.EncodeToString(sum[:12])+".json")
}

// read reads a file. A link, a pipe, a directory and whatever else is no cooldown give an error that says what to do.
func (s *Store) read(path string) (Cooldown, error) {
	var v file
	data, err := durable.Read(path, maxFile)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	v.Strikes = max(v.Strikes, 0)
	switch {
	case err != nil:
	case v.Version != version || v.Provider == "" || v.Until.IsZero() || v.SetAt.IsZero():
		err = errors.New("it is not a limit of an account as this version of superloop writes it")
	case s.path(v.Account) != path:
		err = fmt.Errorf("it is about account %q of %q, which has another file", v.ID, v.Provider)
	}
	if err != nil {
		return Cooldown{}, unusable(path, err)
	}
	return v.Cooldown, nil
}

// unusable says that a file tells nothing and what a human can do about it.
func unusable(path string, why error) error {
	return fmt.Errorf("reading the limit in %s: %w; it is taken for none, to be rid of it type: rm %s", path, why, text.Word(path))
}

// write replaces an account's file. The caller holds the lock.
func (s *Store) write(c Cooldown) error {
	c.Kind, c.Text, c.By = cut(c.Kind, maxWord), cut(c.Text, maxText), cut(c.By, maxWord)
	c.Until, c.SetAt, c.Strikes = c.Until.UTC(), c.SetAt.UTC(), max(c.Strikes, 0)
	data, err := json.Marshal(file{version, c})
	if err == nil {
		err = s.disk.WriteFile("cooldown", s.path(c.Account), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remembering a limit: %w", err)
	}
	return nil
}

// cut shortens s to at most n bytes, between two characters.
func cut(s string, n int) string {
	return text.Head(strings.ToValidUTF8(s, "\uFFFD"), n)
}

// locked runs fn as the only writer of the directory. Who has it keeps it for the writing of one file, so this waits by
// trying again.
func (s *Store) locked(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lock *durable.Lock
	err := s.disk.MkdirAll("cooldown", s.dir, 0o700)
	if err == nil {
		lock, err = s.lock()
	}
	if err != nil {
		return fmt.Errorf("remembering a limit: %w", err)
	}
	// What a writer that was killed has left; the lock says that there is no other.
	_, err = s.disk.RemoveTemps("cooldown", s.dir)
	return errors.Join(fn(), err, lock.Unlock())
}

func (s *Store) lock() (*durable.Lock, error) {
	path := filepath.Join(s.dir, "lock")
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	again := time.NewTicker(3 * time.Millisecond)
	defer again.Stop()
	for {
		lock, err := s.disk.Lock(path, nil)
		if _, held := errors.AsType[*durable.LockedError](err); !held {
			return lock, err
		}
		select {
		case <-again.C:
		case <-patience.C:
			return nil, err
		}
	}
}

// waits are the first and the longest wait for each class that time ends.
var waits = map[class.Class][2]time.Duration{
	class.Limit:      {time.Minute, 30 * time.Minute},
	class.Overloaded: {15 * time.Second, 10 * time.Minute},
	class.Network:    {10 * time.Second, 5 * time.Minute},
}

// Backoff is how long to wait after the given number of refusals in a row when the provider has not told until when: it
// doubles with each of them, within the bounds in waits. Fewer than one strike is one. Any other class gives 0.
func Backoff(failure class.Class, strikes int) time.Duration {
	wait, most := waits[failure][0], waits[failure][1]
	for n := 1; n < strikes && wait < most; n++ {
		wait *= 2
	}
	return min(wait, most)
}

// maxJitter bounds what Jitter adds.
const maxJitter = 30 * time.Second

// Jitter makes a wait longer, by a random part of a tenth of it and of at most 30 seconds, so that the loops that share
// an account do not all come back in one instant. random gives numbers from 0 up to 1; whatever it gives, the result is
// neither shorter than wait nor below 0.
func Jitter(wait time.Duration, random func() float64) time.Duration {
	part := random()
	if wait <= 0 || !(part > 0) { // NaN, too
		return max(wait, 0)
	}
	more := time.Duration(min(part, 1) * float64(min(wait/10, maxJitter)))
	return wait + min(more, math.MaxInt64-wait)
}
