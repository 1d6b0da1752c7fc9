package cooldown

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent"
)

const (
	ext     = ".json"
	version = 1
	// maxFile bounds what is read, maxText and maxWord what is written.
	maxFile = 64 << 10
	maxText = 2000
	maxWord = 500
)

// file is a cooldown on the disk.
type file struct {
	Version  int    `json:"version"`
	Provider string `json:"provider"`
	ID       string `json:"account"`
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
	return filepath.Join(s.dir, "account-"+word[:min(len(word), 32)]+"-"+hex.EncodeToString(sum[:12])+ext)
}

// read reads a file. A link, a pipe, a directory and whatever else is no cooldown give an error that says what to do.
func (s *Store) read(path string) (Cooldown, error) {
	f, err := durable.Open(path)
	if err != nil {
		return Cooldown{}, unusable(path, err)
	}
	defer f.Close()
	var v file
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	v.Account, v.Strikes = agent.Account{Provider: v.Provider, ID: v.ID}, max(v.Strikes, 0)
	switch {
	case len(data) > maxFile:
		err = fmt.Errorf("it has more than %d bytes", maxFile)
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
	data, err := json.Marshal(file{Version: version, Provider: c.Account.Provider, ID: c.Account.ID, Cooldown: c})
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
	if err := s.disk.MkdirAll("cooldown", s.dir, 0o700); err != nil {
		return fmt.Errorf("remembering a limit: %w", err)
	}
	lock, err := s.lock()
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
