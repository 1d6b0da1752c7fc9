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
	"github.com/superloop/superloop/roles/agent/class"
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
	Version  int         `json:"version"`
	Provider string      `json:"provider"`
	Account  string      `json:"account"`
	Class    class.Class `json:"class"`
	Kind     string      `json:"kind,omitempty"`
	Text     string      `json:"text,omitempty"`
	Until    time.Time   `json:"until"`
	Told     bool        `json:"told,omitempty"`
	SetAt    time.Time   `json:"set_at"`
	Strikes  int         `json:"strikes,omitempty"`
	By       string      `json:"by,omitempty"`
}

// path is an account's file. The provider's word is in its name for people, as
// far as it is fit for one; the digest tells accounts apart.
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

// read reads a file. A link, a pipe, a directory and whatever else is no
// cooldown give an error that says what to do.
func read(path string) (Cooldown, error) {
	f, err := durable.Open(path)
	if err != nil {
		return Cooldown{}, foreign(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Cooldown{}, foreign(path, err)
	}
	if len(data) > maxFile {
		return Cooldown{}, foreign(path, fmt.Errorf("it has more than %d bytes", maxFile))
	}
	var v file
	if err := json.Unmarshal(data, &v); err != nil {
		return Cooldown{}, foreign(path, err)
	}
	if v.Version != version || v.Provider == "" || v.Until.IsZero() || v.SetAt.IsZero() {
		return Cooldown{}, foreign(path, errors.New("it is not a limit of an account as this version of superloop writes it"))
	}
	return Cooldown{Account: agent.Account{Provider: v.Provider, ID: v.Account}, Class: v.Class, Kind: v.Kind, Text: v.Text,
		Until: v.Until, Told: v.Told, SetAt: v.SetAt, Strikes: max(v.Strikes, 0), By: v.By}, nil
}

// foreign says that a file tells nothing and what a person can do about it.
func foreign(path string, why error) error {
	return fmt.Errorf("reading the limit in %s: %w; it is taken for none, to be rid of it type: rm %s", path, why, shellWord(path))
}

// shellWord quotes s if a shell would not take it as one word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// write replaces an account's file. The caller holds the lock.
func (s *Store) write(c Cooldown) error {
	data, err := json.Marshal(file{Version: version, Provider: c.Account.Provider, Account: c.Account.ID, Class: c.Class,
		Kind: cut(c.Kind, maxWord), Text: cut(c.Text, maxText), Until: c.Until.UTC(), Told: c.Told, SetAt: c.SetAt.UTC(),
		Strikes: max(c.Strikes, 0), By: cut(c.By, maxWord)})
	if err != nil {
		return fmt.Errorf("remembering a limit: %w", err)
	}
	if err := s.disk.WriteFile("cooldown", s.path(c.Account), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("remembering a limit: %w", err)
	}
	return nil
}

// cut shortens s to at most n bytes, between two characters.
func cut(s string, n int) string {
	return text.Head(strings.ToValidUTF8(s, "\uFFFD"), n)
}

// locked runs fn as the only writer of the directory. Who has it keeps it for the
// writing of one file, so this waits by trying again.
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
		var held *durable.LockedError
		if !errors.As(err, &held) {
			return lock, err
		}
		select {
		case <-again.C:
		case <-patience.C:
			return nil, err
		}
	}
}
