package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
)

const (
	version = 1
	// maxFile bounds what is read: a Section, its frame, and room for the white space of an operator's editor.
	maxFile = 4 * maxSize
	// patience bounds the wait for another process that is writing, which takes milliseconds.
	patience = 5 * time.Second
)

// How a Section came to be pinned.
type How string

// The ways.
const (
	FirstRun How = "first_run" // there was no pin, and an operator started a loop
	Trusted  How = "trusted"   // an operator said so
	Loosened How = "loosened"  // the agents could not have made the change
)

// Pin is a trusted Section.
type Pin struct {
	Section Section   `json:"section"`
	Digest  string    `json:"digest"` // the Section's
	At      time.Time `json:"at"`
	How     How       `json:"how"`
	By      string    `json:"by,omitempty"` // the operator; Level, of a Loosened pin, what confined the agents
	Level   string    `json:"level,omitempty"`
	Config  string    `json:"config,omitempty"` // the file that it was read from
}

// file is a pin on the disk.
type file struct {
	Version int `json:"version"`
	Pin
}

// ErrNoPin: nothing was ever pinned, or the pin was removed.
var ErrNoPin = errors.New("nothing of the configuration is pinned yet")

// DamagedError says that there is a pin that cannot be believed. Unlike ErrNoPin: nothing may be taken for trusted.
type DamagedError struct {
	Path string
	Why  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the pin of the trusted configuration, %s, cannot be believed: %v; nothing is trusted until it is pinned again", e.Path, e.Why)
}

func (e *DamagedError) Unwrap() error { return e.Why }

// Hint is the command to type.
func (e *DamagedError) Hint() string { return "superloop config trust" }

// Store is the pin of one repository: a file of mode 0600 in a directory of mode 0700, outside the repository.
type Store struct {
	Disk durable.Disk
	Path string
}

// Load reads the pin. Its errors are ErrNoPin and *DamagedError, which is also what it says of a file that others may
// write, that another user owns, or whose content does not have the digest that it names.
func (s Store) Load() (Pin, error) {
	p, err := s.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Pin{}, fmt.Errorf("%w (%s)", ErrNoPin, s.Path)
	case err != nil:
		return Pin{}, &DamagedError{s.Path, err}
	}
	return p, nil
}

func (s Store) load() (Pin, error) {
	f, err := durable.Open(s.Path)
	if err != nil {
		return Pin{}, err
	}
	defer f.Close()
	if err := private(f, s.Path); err != nil {
		return Pin{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Pin{}, err
	}
	return parse(data)
}

// private wants a file, and its directory, that no other user can change.
func private(f *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d", st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("others can write it (mode %#o)", st.Mode&0o777)
	}
	dir := filepath.Dir(path)
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("others can write its directory %s (mode %#o)", dir, st.Mode&0o777)
	}
	return nil
}

// parse reads a pin strictly: it is superloop's own file, so whatever is odd about it is damage.
func parse(data []byte) (Pin, error) {
	if len(data) > maxFile {
		return Pin{}, fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return Pin{}, fmt.Errorf("it is not whole: %w", err)
	}
	if v.Version != version {
		return Pin{}, fmt.Errorf("it is of version %d, this superloop knows version %d", v.Version, version)
	}
	var in file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return Pin{}, err
	}
	if in.At.IsZero() || in.How == "" {
		return Pin{}, errors.New("it does not say when and how it was pinned")
	}
	if got := in.Section.Digest(); got != in.Digest {
		return Pin{}, fmt.Errorf("its content has the digest %.16s and not %.16s", got, in.Digest)
	}
	return in.Pin, nil
}

// Save pins p.Section, whatever was pinned before, and fills in p.Digest. A damaged pin is copied aside first
// ("<path>.broken-0"). When it returns the pin survives a power cut; after an error the old pin is there as it was, but
// for the exception of durable.Disk.WriteFile. Killed at any step it leaves the old pin or the new one.
func (s Store) Save(p Pin) (Pin, error) {
	err := s.locked(func() error { return s.write(&p) })
	return p, err
}

// SaveFirst pins p unless there is a pin, and gives the pin that is there and whether it is p. A damaged pin stays.
func (s Store) SaveFirst(p Pin) (pin Pin, first bool, err error) {
	err = s.locked(func() error {
		if pin, err = s.Load(); !errors.Is(err, ErrNoPin) {
			return err
		}
		pin, first = p, true
		return s.write(&pin)
	})
	return pin, first && err == nil, err
}

// write replaces the pin; the caller holds the lock.
func (s Store) write(p *Pin) error {
	p.Digest, p.At = p.Section.Digest(), p.At.UTC()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(file{version, *p})
	if err == nil { // what is written must be what will be believed
		_, err = parse(b.Bytes())
	}
	if err != nil {
		return err
	}
	if err := s.aside(); err != nil {
		return fmt.Errorf("keeping the damaged pin: %w", err)
	}
	return s.Disk.WriteFile("trust", s.Path, b.Bytes(), 0o600)
}

// aside keeps a damaged pin as evidence, as far as it is a file that can be read.
func (s Store) aside() error {
	var damaged *DamagedError
	if _, err := s.Load(); !errors.As(err, &damaged) {
		return nil
	}
	if f, err := durable.Open(s.Path); err != nil {
		return nil // a link, or somebody else's: there is nothing to keep
	} else if err := f.Close(); err != nil {
		return err
	}
	_, err := s.Disk.CopyAside("trust", s.Path, 0)
	return err
}

// locked runs fn as the only writer of the directory, and removes what writers that were killed have left there.
func (s Store) locked(fn func() error) error {
	dir := filepath.Dir(s.Path)
	err := s.Disk.MkdirAll("trust", dir, 0o700)
	var lock *durable.Lock
	if err == nil {
		lock, err = s.Disk.LockWait(context.Background(), filepath.Join(dir, ".lock"), nil, patience)
	}
	if err == nil {
		defer func() { _ = lock.Unlock() }() // it dies with the process at the latest
		_, err = s.Disk.RemoveTemps("trust", dir)
	}
	if err == nil {
		err = fn()
	}
	var damaged *DamagedError
	if err == nil || errors.As(err, &damaged) {
		return err
	}
	return fmt.Errorf("pinning the configuration: %w", err)
}
