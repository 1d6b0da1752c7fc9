package walk

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/schemas"
)

// These constants bound a Store, and name its files.
const (
	maxEnded = 50  // ended chains that the store keeps
	maxOpen  = 200 // open chains that the store keeps; prune removes the oldest first

	lockName     = "chains.lock"
	lockPatience = time.Second
	suffix       = ".json"
	idTime       = "20060102T150405.000" // the format of the beginning of an id, in UTC
)

// Store keeps chains in files, <Dir>/<id>.json, which are valid against chain.schema.json. Readers need no lock.
// Writers hold the store's lock: Walk and Change take it.
type Store struct {
	Disk durable.Disk
	Dir  string
}

// BrokenError says that a file is not a valid chain: it is cut, or another program wrote it. Load has moved the file to
// Kept; "" if it was not moved.
type BrokenError struct {
	Path         string
	Line, Column int // the place of the fault, from 1; 0 if there is no place
	Why          string
	Kept         string
}

func (e *BrokenError) Error() string {
	at := e.Path
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.Path, e.Line, e.Column)
	}
	if e.Kept == "" {
		return fmt.Sprintf("%s is no chain: %s", at, e.Why)
	}
	return fmt.Sprintf("%s is no chain: %s; it is kept as %s: what it was about must be started anew", at, e.Why, e.Kept)
}

// Entry is one chain of a List.
type Entry struct {
	Chain plan.Chain
	Err   error // why the chain is unreadable; then Chain has only an ID
}

func (s Store) path(id string) string { return filepath.Join(s.Dir, id+suffix) }

// Lock keeps other writers out. If another writer holds the lock, the error is a *durable.LockedError that names it.
func (s Store) Lock() (*durable.Lock, error) {
	var l *durable.Lock
	err := s.Disk.MkdirAll("chain-dir", s.Dir, 0o700)
	if err == nil {
		l, err = s.lock()
	}
	if err != nil {
		return nil, fmt.Errorf("keeping chains: %w", err)
	}
	if _, err := s.Disk.RemoveTemps("chain-tidy", s.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("keeping chains: %w", err), l.Unlock())
	}
	return l, nil
}

// lock takes the lock. A process that was forked while the holder had the lock keeps it for a moment, until the process
// becomes its own program. Such a lock names no holder, so lock waits for it, at most lockPatience.
func (s Store) lock() (*durable.Lock, error) {
	for deadline := time.Now().Add(lockPatience); ; {
		l, err := s.Disk.Lock(filepath.Join(s.Dir, lockName), fmt.Appendf(nil, "superloop, pid %d", os.Getpid()))
		var locked *durable.LockedError
		if !errors.As(err, &locked) || len(locked.Holder) > 0 || time.Now().After(deadline) {
			return l, err
		}
		<-time.After(time.Millisecond)
	}
}

// Save replaces the file of a chain. After a kill the file is the old one or the new one. After Save has returned nil,
// the new file survives a power cut.
func (s Store) Save(c plan.Chain) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("saving chain %q: %w", c.ID, err)
	}
	data, err := plan.Record(c)
	if err != nil {
		return err
	}
	if limit := schemas.Chain.Limit(); len(data) > limit {
		return fmt.Errorf("saving chain %s: %d bytes are more than the %d that are read back", c.ID, len(data), limit)
	}
	if err = s.Disk.MkdirAll("chain-dir", s.Dir, 0o700); err == nil {
		err = s.Disk.WriteFile("chain", s.path(c.ID), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("saving chain %s: %w", c.ID, err)
	}
	return nil
}

// Load reads a chain. If there is no such chain, the error is fs.ErrNotExist. If the file is not a valid chain, Load
// moves it aside, and the error is a *BrokenError.
func (s Store) Load(id string) (plan.Chain, error) {
	c, err := s.read(id)
	var broken *BrokenError
	if !errors.As(err, &broken) {
		return c, err
	}
	kept, aside := s.Disk.CopyAside("chain", broken.Path, 0)
	if aside == nil {
		aside = s.Disk.Remove("chain", broken.Path)
	}
	if aside != nil {
		return plan.Chain{}, errors.Join(err, fmt.Errorf("setting it aside: %w", aside))
	}
	broken.Kept = kept
	return plan.Chain{}, broken
}

func (s Store) read(id string) (plan.Chain, error) {
	if !plan.IsID(id) {
		return plan.Chain{}, fmt.Errorf("%q is no id of a chain: superloop chain list says which there are", id)
	}
	f, _, err := door.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Chain{}, fmt.Errorf("there is no chain %s (superloop chain list says which there are): %w", id, err)
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, int64(schemas.Chain.Limit())+1))
	}
	if err != nil {
		return plan.Chain{}, fmt.Errorf("reading chain %s: %w", id, err)
	}
	return parse(id, s.path(id), data)
}

func parse(id, path string, data []byte) (plan.Chain, error) {
	var newer struct{ Version int }
	if err := text.Decode(data, &newer); err == nil && newer.Version > plan.FormatVersion {
		return plan.Chain{}, fmt.Errorf("chain %s was written by a newer superloop (version %d of the format, this one knows %d): use that one", id, newer.Version, plan.FormatVersion)
	}
	if problems := schemas.Validate(schemas.Chain, data); len(problems) > 0 {
		p := problems[0]
		return plan.Chain{}, &BrokenError{Path: path, Line: p.Line, Column: p.Column, Why: strings.TrimPrefix(p.Pointer+": ", ": ") + p.Message}
	}
	var file struct{ State json.RawMessage }
	var c plan.Chain
	err := text.Decode(data, &file)
	if err == nil && file.State == nil {
		err = errors.New("it has no state")
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(file.State))
		d.DisallowUnknownFields()
		err = text.Reason(d.Decode(&c))
	}
	if err == nil {
		err = c.Check()
	}
	if err == nil && c.ID != id {
		err = fmt.Errorf("it says that it is chain %q", c.ID)
	}
	if err != nil {
		return plan.Chain{}, &BrokenError{Path: path, Why: "/state: " + text.Reason(err).Error()}
	}
	return c, nil
}

// List returns all chains, sorted by id, so that the newest is the last. List changes nothing.
func (s Store) List() ([]Entry, error) {
	files, err := os.ReadDir(s.Dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("listing chains: %w", err)
	}
	var out []Entry
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), suffix)
		if !ok || !plan.IsID(id) || !f.Type().IsRegular() {
			continue
		}
		c, err := s.read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has removed the file since
		}
		if err != nil {
			c = plan.Chain{ID: id}
		}
		out = append(out, Entry{c, err})
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Chain.ID, b.Chain.ID) })
	return out, nil
}

// Change loads a chain, calls change with it, and saves the chain if change returns nil. Change holds the store's lock,
// so no Walk can be active.
func (s Store) Change(id string, change func(*plan.Chain) error) (plan.Chain, error) {
	l, err := s.Lock()
	if err != nil {
		return plan.Chain{}, err
	}
	c, err := s.Load(id)
	if err == nil {
		err = change(&c)
	}
	if err == nil {
		err = s.Save(c)
	}
	return c, errors.Join(err, l.Unlock())
}

// prune removes the oldest chains above the bounds of the store, but never the chain keep.
func (s Store) prune(keep string) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	left := map[bool]int{true: maxOpen, false: maxEnded} // the key says whether a chain is open
	for _, e := range slices.Backward(all) {
		if e.Err != nil || e.Chain.ID == keep {
			continue
		}
		open := e.Chain.Status == plan.Open
		if left[open]--; left[open] < 0 {
			if err := s.Disk.Remove("chain-prune", s.path(e.Chain.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing old chains: %w", err)
			}
		}
	}
	return nil
}

// NewID returns an id for a chain that is opened now. Ids sort by time. Two ids of the same millisecond differ.
func NewID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(b[:])
}
