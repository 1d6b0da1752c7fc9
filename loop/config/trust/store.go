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

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

const (
	version = 1
	// maxFile bounds the bytes that Load reads of a pin. It leaves room for a Section, the fields around it, and white
	// space that an operator's editor adds.
	maxFile = 4 * maxSize
	// patience bounds the wait for another process that is writing the pin. Writing takes milliseconds, but many loops of a
	// repository may begin together on a disk that is slow to flush.
	patience = 30 * time.Second
)

// How says in which way a Section was pinned.
type How string

// The values of How.
const (
	FirstRun How = "first_run" // there was no pin, and an operator started a loop
	Trusted  How = "trusted"   // an operator trusted the configuration
	Loosened How = "loosened"  // superloop pinned it by itself, because the agents could not have made the change
)

// Pin is a Section that is trusted, with the time and the way in which it was pinned.
type Pin struct {
	Section Section   `json:"section"`
	Digest  string    `json:"digest"` // Section.Digest
	At      time.Time `json:"at"`
	How     How       `json:"how"`
	By      string    `json:"by,omitempty"`     // the operator; "" for a Loosened pin
	Level   string    `json:"level,omitempty"`  // the sandbox level of the agents, for a Loosened pin
	Config  string    `json:"config,omitempty"` // the path of the configuration file
}

// file is the form of a pin on the disk.
type file struct {
	Version int `json:"version"`
	Pin
}

// ErrNoPin says that no Section was ever pinned, or that the pin was removed.
var ErrNoPin = errors.New("nothing of the configuration is pinned yet")

// DamagedError says that a pin exists but is damaged. Until an operator pins a Section again, superloop trusts none.
// After ErrNoPin, in contrast, the first run of a loop pins the Section of its configuration.
type DamagedError struct {
	Path string
	Why  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the pin of the trusted configuration, %s, cannot be believed: %v; nothing is trusted until it is pinned again", e.Path, e.Why)
}

func (e *DamagedError) Unwrap() error { return e.Why }

// Hint returns the command that the operator should type next.
func (e *DamagedError) Hint() string { return "superloop config trust" }

// Store holds the pin of one repository: a file of mode 0600 in a directory of mode 0700, outside the repository.
type Store struct {
	Disk durable.Disk
	Path string
}

// Load reads the pin. Its errors are ErrNoPin and *DamagedError. It also returns *DamagedError for a file that another
// user owns or that others may write, and for a file whose content does not match the digest in it.
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
	f, _, err := door.Open(s.Path)
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

// private checks that no other user can change the file or its directory.
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

// parse reads a pin strictly. Only superloop writes pins, so parse takes any deviation for damage.
func parse(data []byte) (Pin, error) {
	if len(data) > maxFile {
		return Pin{}, fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	var v struct {
		Version int `json:"version"`
	}
	if err := text.Decode(data, &v); err != nil {
		return Pin{}, fmt.Errorf("it is not whole: %w", err)
	}
	if v.Version != version {
		return Pin{}, fmt.Errorf("it is of version %d, this superloop knows version %d", v.Version, version)
	}
	var in file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := text.Reason(dec.Decode(&in)); err != nil {
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

// Save pins p.Section, whatever was pinned before, and returns p with its digest. It first copies a damaged pin to
// "<path>.broken-0". When Save returns nil, the pin survives a power cut. After an error the old pin is unchanged,
// apart from the exception that durable.Disk.WriteFile describes. If superloop is killed during Save, the file holds
// the old pin or the new one.
func (s Store) Save(p Pin) (Pin, error) {
	err := s.locked(func() error { return s.write(&p) })
	return p, err
}

// SaveFirst pins p if there is no pin. It returns the pin that is on the disk, and whether that is p. It does not
// replace a damaged pin and returns its *DamagedError.
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

// write replaces the pin. The caller holds the lock.
func (s Store) write(p *Pin) error {
	p.Digest, p.At = p.Section.Digest(), p.At.UTC()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(file{version, *p})
	if err == nil { // write only a pin that Load will accept
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

// aside copies a damaged pin to another name as evidence, if the file can be read.
func (s Store) aside() error {
	var damaged *DamagedError
	if _, err := s.Load(); !errors.As(err, &damaged) {
		return nil
	}
	if f, _, err := door.Open(s.Path); err != nil {
		return nil // a link, or the file of another user: there is nothing to keep
	} else if err := f.Close(); err != nil {
		return err
	}
	_, err := s.Disk.CopyAside("trust", s.Path, 0)
	return err
}

// locked runs fn while this process holds the lock of the pin. It first removes temporary files of writers that were
// killed. The pins of all repositories lie in one directory, so the lock is not the directory's: loops of many repositories
// that start together would wait for each other's disk.
func (s Store) locked(fn func() error) error {
	dir := filepath.Dir(s.Path)
	err := s.Disk.MkdirAll("trust", dir, 0o700)
	var lock *durable.Lock
	if err == nil {
		lock, err = s.Disk.LockWait(context.Background(), filepath.Join(dir, "."+filepath.Base(s.Path)+".lock"), nil, patience)
	}
	if err == nil {
		defer func() { _ = lock.Unlock() }() // the kernel releases the lock when the process ends
		_, err = s.Disk.RemoveTempsOf("trust", s.Path)
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
