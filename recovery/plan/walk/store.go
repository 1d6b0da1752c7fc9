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

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/schemas"
)

// Bounds of a Store.
const (
	maxEnded = 50  // chains that have ended and are kept
	maxOpen  = 200 // chains that have not; the oldest go first

	lockName     = "chains.lock"
	lockPatience = time.Second
	suffix       = ".json"
	idTime       = "20060102T150405.000" // the beginning of an id, in UTC
)

// Store keeps chains in files, <Dir>/<id>.json, valid against chain.schema.json. Reading needs no lock. Whoever writes
// holds that of the store: Walk and Change take it.
type Store struct {
	Disk durable.Disk
	Dir  string
}

// BrokenError says that a file is no chain: cut, or somebody else's. It was moved to Kept, unless that is "".
type BrokenError struct {
	Path         string
	Line, Column int // Line and Column say where, from 1; 0 where there is no place
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
	Err   error // it cannot be read; then Chain has an ID only
}

func (s Store) path(id string) string { return filepath.Join(s.Dir, id+suffix) }

// Lock keeps other writers out; if there is one, the error is a *durable.LockedError that says who.
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

// lock takes the lock. One that its holder has given up can live on for a moment in a process that was being forked
// then, until that is the program that it is to be; it names nobody any more, and is worth waiting for.
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

// Save replaces the chain's file. A kill leaves the old file or the new one; after nil it survives a power cut.
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

// Load reads a chain. One that is not there is fs.ErrNotExist, one that is no chain a *BrokenError, and set aside.
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
	f, err := durable.Open(s.path(id))
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
	if err := json.Unmarshal(data, &newer); err == nil && newer.Version > plan.FormatVersion {
		return plan.Chain{}, fmt.Errorf("chain %s was written by a newer superloop (version %d of the format, this one knows %d): use that one", id, newer.Version, plan.FormatVersion)
	}
	if problems := schemas.Validate(schemas.Chain, data); len(problems) > 0 {
		p := problems[0]
		return plan.Chain{}, &BrokenError{Path: path, Line: p.Line, Column: p.Column, Why: strings.TrimPrefix(p.Pointer+": ", ": ") + p.Message}
	}
	var file struct{ State json.RawMessage }
	var c plan.Chain
	err := json.Unmarshal(data, &file)
	if err == nil && file.State == nil {
		err = errors.New("it has no state")
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(file.State))
		d.DisallowUnknownFields()
		err = d.Decode(&c)
	}
	if err == nil {
		err = c.Check()
	}
	if err == nil && c.ID != id {
		err = fmt.Errorf("it says that it is chain %q", c.ID)
	}
	if err != nil {
		return plan.Chain{}, &BrokenError{Path: path, Why: "/state: " + err.Error()}
	}
	return c, nil
}

// List gives all chains, the newest id last. It changes nothing.
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
			continue // it has been removed since
		}
		if err != nil {
			c = plan.Chain{ID: id}
		}
		out = append(out, Entry{c, err})
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Chain.ID, b.Chain.ID) })
	return out, nil
}

// Change loads a chain that nobody walks, has change work on it, and saves it if that gives nil.
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

// prune removes the oldest chains that are too many, never that one.
func (s Store) prune(keep string) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	left := map[bool]int{true: maxOpen, false: maxEnded} // by whether a chain is open
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

// NewID is an id for a chain that is opened now. Ids sort by time; two of the same millisecond are different.
func NewID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(b[:])
}
