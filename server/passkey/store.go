// Package passkey keeps the passkeys with which people confirm on the page what one stolen token must not be enough for, and
// checks what they sign (WebAuthn). It knows nothing of HTTP, nor of what is confirmed: the caller gives it a challenge.
//
// Only public keys are kept. The private ones never leave the authenticator.
package passkey

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// Bounds of what is kept.
const (
	maxKeys = 100
	maxFile = 1 << 20 // bytes
	maxID   = 1023    // bytes of the id of a passkey
)

// Key is a passkey.
type Key struct {
	Name       string    `json:"name"`
	Party      string    `json:"rp"`         // the name of the page for which it counts
	ID         []byte    `json:"id"`         // as the authenticator calls it
	Public     []byte    `json:"public_key"` // in COSE
	Transports []string  `json:"transports,omitempty"`
	Count      uint32    `json:"sign_count"`      // of its uses, as it says; 0 if it does not count
	Eligible   bool      `json:"backup_eligible"` // it may be copied to other devices of the person
	By         string    `json:"by"`
	Created    time.Time `json:"created_at"`
	Used       time.Time `json:"used_at,omitzero"`
}

// credential is the passkey as the library sees it. It has recognised the person when it was made.
func (k Key) credential() webauthn.Credential {
	c := webauthn.Credential{ID: k.ID, PublicKey: k.Public, Authenticator: webauthn.Authenticator{SignCount: k.Count}}
	flags := protocol.FlagUserVerified | protocol.FlagUserPresent
	if k.Eligible {
		flags |= protocol.FlagBackupEligible
	}
	c.Flags = webauthn.NewCredentialFlags(flags)
	return c
}

// The reasons for which something is refused.
var (
	ErrTaken   = errors.New("there is a passkey of this name")
	ErrFull    = errors.New("there are too many passkeys; revoke some first")
	ErrMissing = errors.New("there is no passkey of this name")
)

// Store keeps the passkeys. Its methods may be called at the same time.
type Store struct {
	disk durable.Disk
	file string

	mu   sync.Mutex
	user []byte // what authenticators call the person: random, the same for all passkeys
	all  []Key
	open []creation
}

// File is where the passkeys are kept.
func File(state string) string { return filepath.Join(state, "daemon", "passkeys.json") }

// Open reads the passkeys. A file that cannot be read is an error, a *door.StateError: nobody knows then which passkeys count.
func Open(disk durable.Disk, state string) (*Store, error) {
	s := &Store{disk: disk, file: File(state)}
	data, err := door.Read(s.file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		s.user = make([]byte, 32)
		_, _ = rand.Read(s.user) // it never fails
		return s, nil
	}
	var f keysFile
	if err == nil {
		f, err = decodeKeys(data)
	}
	if err != nil {
		return nil, &door.StateError{What: "the passkeys of the daemon's page", Path: s.file, Err: err, Without: "the daemon has to begin anew (superloop serve --replace --detach), and all passkeys have to be made again"}
	}
	s.user, s.all = f.User, f.Keys
	return s, nil
}

type keysFile struct {
	User []byte `json:"user"`
	Keys []Key  `json:"passkeys"`
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// GoodName reports whether a passkey may have this name: at most 64 letters, digits, dots, underscores and minuses, which
// begin with a letter or a digit.
func GoodName(name string) bool { return goodName.MatchString(name) }

// decodeKeys reads the file strictly: a passkey that says too little could count for too much.
func decodeKeys(data []byte) (f keysFile, err error) {
	if err := text.Decode(data, &f); err != nil {
		return f, err
	}
	if len(f.User) != 32 || len(f.Keys) > maxKeys {
		return f, fmt.Errorf("it holds %d passkeys, and %d bytes for the name of the person", len(f.Keys), len(f.User))
	}
	names, ids := map[string]bool{}, map[string]bool{}
	for _, k := range f.Keys {
		bad := func(t string) bool { return !slices.Contains(transports, t) }
		if !goodName.MatchString(k.Name) || !slices.Contains(Parties, k.Party) || len(k.ID) == 0 || len(k.ID) > maxID || slices.ContainsFunc(k.Transports, bad) || k.Created.IsZero() || names[k.Name] || ids[string(k.ID)] {
			return f, fmt.Errorf("the passkey %s is not as superloop writes it", text.Display(text.Cut(k.Name, 50)))
		}
		if _, err := webauthncose.ParsePublicKey(k.Public); err != nil {
			return f, fmt.Errorf("the public key of the passkey %s: %w", k.Name, text.Reason(err))
		}
		names[k.Name], ids[string(k.ID)] = true, true
	}
	return f, nil
}

// change replaces the passkeys by what f makes of a copy of them. If that cannot be kept, nothing changes. The caller holds
// s.mu.
func (s *Store) change(f func([]Key) ([]Key, error)) error {
	all, err := f(slices.Clone(s.all))
	if err != nil {
		return err
	}
	if len(all) > maxKeys {
		return ErrFull
	}
	data, err := json.MarshalIndent(keysFile{s.user, all}, "", "  ")
	if err == nil {
		_, err = decodeKeys(data) // nothing is written that the next daemon would not read
	}
	if err == nil {
		err = s.disk.MkdirAll("passkeys", filepath.Dir(s.file), 0o700)
	}
	if err == nil {
		err = s.disk.WriteFile("passkeys", s.file, append(data, '\n'), 0o600)
	}
	if err == nil {
		s.all = all
	}
	return err
}

// List returns the passkeys, the oldest first.
func (s *Store) List() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Revoke forgets a passkey: it confirms nothing from now on. For one that is not there the error is ErrMissing.
func (s *Store) Revoke(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(func(all []Key) ([]Key, error) {
		rest := slices.DeleteFunc(all, func(k Key) bool { return k.Name == name })
		if len(rest) == len(s.all) {
			return nil, ErrMissing
		}
		return rest, nil
	})
}
