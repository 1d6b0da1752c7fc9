// Package cooldown remembers which accounts are limited, and until when, for all loops and repositories of a user on
// this machine. When one loop meets a limit, the other loops do not run into it.
//
// The memory is one small file per account in a directory of the user. It is only a help: a file that is missing,
// damaged or written by a clock that was far ahead costs at most one refused run, and never stops a loop.
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

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
)

const (
	// Longest is how far ahead a cooldown may end for Get to believe it. The longest window of the known providers is a
	// week. A cooldown that ends later was written by a clock that was ahead, and counts as none.
	Longest = 8 * 24 * time.Hour
	// longestSet is the longest cooldown that Set writes. It is a little shorter than Longest, so that Get still
	// believes the cooldown when the clock is set back a little or another clock reads the file.
	longestSet = Longest - time.Hour
	forget     = 24 * time.Hour // how long the strikes of a cooldown still count after its end
)

// Cooldown says that no loop should use an account until a certain time.
type Cooldown struct {
	agent.Account
	Class   class.Class `json:"class"`             // the kind of refusal; Waits reports true for it
	Kind    string      `json:"kind,omitempty"`    // the provider's name of the window ("five_hour"); may be ""
	Text    string      `json:"text,omitempty"`    // the message of the provider or the CLI, at most 2,000 bytes; may be ""
	Until   time.Time   `json:"until"`             // the end of the cooldown
	Told    bool        `json:"told,omitempty"`    // the provider named Until; otherwise it is a guess of Backoff
	SetAt   time.Time   `json:"set_at"`            // when the loop learned of the limit; zero: now
	Strikes int         `json:"strikes,omitempty"` // refusals since the last success, including this one; those that several loops met before the end of one wait count as one
	By      string      `json:"by,omitempty"`      // the loop that met the limit, and its repository
}

// Store is the memory of cooldowns in one directory. Any number of stores, goroutines and processes may use a directory
// at the same time.
type Store struct {
	disk     durable.Disk
	dir      string
	now      func() time.Time
	patience time.Duration // the longest wait for another process that writes; a write takes milliseconds
	mu       sync.Mutex    // lets one goroutine of this process write at a time; the file lock excludes other processes
}

// New returns a Store that uses dir. The first write makes dir with mode 0700.
func New(disk durable.Disk, dir string) *Store {
	return &Store{disk: disk, dir: dir, now: time.Now, patience: 5 * time.Second}
}

// Get returns the cooldown of an account. ok reports whether the account is limited now. If the account is not limited,
// c is a cooldown that ended less than a day ago, whose Strikes still count, or is empty.
//
// An error is for the log: it says which file is unusable and what the operator can type. With an error ok is false, so
// the caller runs anyway.
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

// All returns the cooldowns that have not ended, sorted by account. An error is for the log: it names the files that are
// unusable, and the others are returned.
func (s *Store) All() (all []Cooldown, err error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "account-*.json"))
	for _, path := range files { // sorted
		c, readErr := s.read(path)
		switch ahead := c.Until.Sub(s.now()); {
		case errors.Is(readErr, fs.ErrNotExist): // forgotten meanwhile
		case readErr != nil:
			err = errors.Join(err, readErr)
		case ahead > 0 && ahead <= Longest:
			all = append(all, c)
		}
	}
	return all, err
}

// Set remembers c. A cooldown that ends later replaces a running one. A cooldown that ends sooner replaces a running
// one only if all of this holds: it is newer, it is of the same class, the provider named its end (Told), and the old
// end was a guess without a Kind or is of the same Kind. So a network error does not lift a limit, and the end of the
// five-hour window does not lift the weekly limit. Otherwise the running cooldown stays.
//
// Set keeps the larger number of Strikes in any case, because loops that are refused at the same moment count the same
// refusal. It shortens a cooldown of more than eight days less an hour to that length. It remembers a cooldown that has
// already ended for its Strikes. When Set returns nil, the file survives a power cut. After an error the old file is
// unchanged.
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
		if err == nil && old.Account == c.Account { // Set replaces a file that cannot be read
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
	newer := c.SetAt.After(old.SetAt) || old.SetAt.After(now) // a SetAt in the future comes from a wrong clock
	return c.Told && c.Class == old.Class && newer && (c.Kind == old.Kind || !old.Told && old.Kind == "")
}

// Clear removes the cooldown of an account, because the operator says that the account is not limited. It is no error
// if the account has no cooldown.
func (s *Store) Clear(a agent.Account) error {
	return s.change(a, func(Cooldown, error) bool { return true })
}

// Succeeded resets the strikes of an account with which a run has succeeded, and removes a cooldown whose end was a
// guess. A running cooldown whose end the provider named (Told) stays: it may apply to another model than the run's, or
// have begun after the run.
func (s *Store) Succeeded(a agent.Account) error {
	return s.change(a, func(c Cooldown, err error) bool {
		return err == nil && (!c.Told || !c.Until.After(s.now()) || c.Until.Sub(s.now()) > Longest)
	})
}

// change removes the file of an account if remove returns true for it, and otherwise resets its strikes to 0.
func (s *Store) change(a agent.Account, remove func(Cooldown, error) bool) error {
	path := s.path(a)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // the usual case, without a file, needs no lock
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
	maxFile, maxText, maxWord = 64 << 10, 2000, 500 // bytes of a file read, of texts written
)

// file is the JSON of a cooldown on the disk.
type file struct {
	Version int `json:"version"`
	Cooldown
}

// path returns the path of an account's file. Its name holds the characters of the provider's name that are safe in
// file names, for the operator to read. The digest distinguishes the accounts.
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

// read reads the file of an account. For a symbolic link, a pipe, a directory or any other file that is no cooldown it
// returns an error that says what the operator can do.
func (s *Store) read(path string) (Cooldown, error) {
	var v file
	data, err := door.Read(path, maxFile)
	if err == nil {
		err = text.Decode(data, &v)
	}
	v.Strikes = max(v.Strikes, 0)
	switch {
	case err != nil:
	case v.Version != version || v.Provider == "" || v.Until.IsZero() || v.SetAt.IsZero():
		err = errors.New("it is not a limit of an account as this version of superloop writes it")
	case s.path(v.Account) != path:
		err = fmt.Errorf("it is about account %.80q of %.80q, which has another file", v.ID, v.Provider)
	}
	if err != nil {
		return Cooldown{}, unusable(path, err)
	}
	return v.Cooldown, nil
}

// unusable returns the error for a file that cannot be used. The error says what the operator can do about the file.
func unusable(path string, why error) error {
	return &door.StateError{What: "the limit of an account", Path: path, Err: why, Without: "there is no limit"}
}

// write replaces the file of an account. The caller holds the lock.
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

// cut shortens s to at most n bytes, at a character boundary.
func cut(s string, n int) string {
	return text.Head(strings.ToValidUTF8(s, "\uFFFD"), n)
}

// locked runs fn as the only writer of the directory. A writer holds the lock for the writing of one file only, so lock
// waits by retrying.
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
	// This removes the temporary files of a writer that was killed. The lock guarantees that no other writer uses them.
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

// backoff says how the waits of a class of failure grow: the first wait, the longest, and the factor from one wait to the
// next.
type backoff struct {
	first, most time.Duration
	factor      float64
}

// backoffs holds the classes of failure that waiting can end. A factor of 1+r makes each wait the first wait plus r times
// all waits before it. So the end of an outage is noticed after a part r of its length, however long it lasts. A refused
// request costs nothing, so r is small. A limit without a reset time lasts for hours, and its waits double.
var backoffs = map[class.Class]backoff{
	class.Limit:      {time.Minute, 30 * time.Minute, 2},
	class.Overloaded: {2 * time.Second, 10 * time.Minute, 1.25},
	class.Network:    {2 * time.Second, 5 * time.Minute, 1.25},
}

// Backoff returns how long to wait after the given number of refusals in a row when the provider has named no time. The
// wait grows with each refusal, as backoffs says. Fewer than one strike counts as one. For a class that is not in
// backoffs Backoff returns 0.
//
// For class.Overloaded and class.Network the waits, with Jitter, end at most 2.2 seconds and 0.275 times the length of
// the outage after the outage. An outage of an hour takes at most 31 requests. A longer one takes 6 more an hour for
// class.Overloaded, and 12 for class.Network.
func Backoff(failure class.Class, strikes int) time.Duration {
	b, known := backoffs[failure]
	if !known {
		return 0
	}
	wait := float64(b.first) * math.Pow(b.factor, float64(max(strikes, 1)-1))
	return time.Duration(min(wait, float64(b.most)))
}

// maxJitter is the longest time that Jitter adds.
const maxJitter = time.Minute

// Jitter lengthens a wait by a random part of a tenth of it, at most a minute, so that loops that share an account do
// not all come back at the same moment. random returns numbers from 0 up to 1. Whatever random returns, the result is
// neither shorter than wait nor below 0.
func Jitter(wait time.Duration, random func() float64) time.Duration {
	part := random()
	if wait <= 0 || !(part > 0) { // NaN, too
		return max(wait, 0)
	}
	more := time.Duration(min(part, 1) * float64(min(wait/10, maxJitter)))
	return wait + min(more, math.MaxInt64-wait)
}
