// Package access keeps who may use the daemon's interface over TCP: sessions of people, tokens of scripts, one-time codes,
// confirmations on a terminal, and the record of what was asked. It knows nothing of HTTP.
//
// Only hashes of secrets are kept. Credentials, answers to keys and the record survive a restart of the daemon. Codes and
// confirmations live for minutes, in memory only: after a restart they are asked for again.
package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// Scope is what a credential allows.
type Scope string

// The scopes. None contains another one. Person is that of sessions: it allows to manage credentials, and no token has it.
const (
	Read    Scope = "read"
	Control Scope = "control" // start, stop, pause, ... loops
	Approve Scope = "approve" // answer questions, and every change that is not known to be one of control
	Person  Scope = "person"
)

// Scopes are the scopes that a token may have.
var Scopes = []Scope{Read, Control, Approve}

// Kind tells sessions from tokens.
type Kind string

// The kinds.
const (
	Session Kind = "session" // a person's; ends by itself
	Token   Kind = "token"   // a script's
)

// How long things last.
const (
	SessionLife = 12 * time.Hour
	SessionIdle = time.Hour
	// SessionFresh is how long after its begin, or after the last confirmation, a session may answer questions without a
	// confirmation on a terminal.
	SessionFresh = 4 * time.Hour
	CodeLife     = time.Minute
	// usedPause is the time between two writes of when a session was used last: so much less than SessionIdle may be left
	// to it after a restart.
	usedPause = time.Minute
)

// Bounds of what is kept.
const (
	maxCredentials = 1000
	maxCodes       = 100
	maxFile        = 4 << 20 // bytes
)

// Credential is a session or a token, without its secret.
type Credential struct {
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`
	Hash    string    `json:"sha256"` // of the secret, in hex
	Scopes  []Scope   `json:"scopes"`
	By      string    `json:"by"` // the person who made it
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	Used    time.Time `json:"used_at,omitzero"`
	// Confirmed is when a request of this session was last confirmed on a terminal.
	Confirmed time.Time `json:"confirmed_at,omitzero"`
}

// ID names the credential among all.
func (c Credential) ID() string { return string(c.Kind) + ":" + c.Name }

// May reports whether the credential has a scope.
func (c Credential) May(s Scope) bool { return slices.Contains(c.Scopes, s) }

// Fresh reports whether the credential may answer without a confirmation, as far as its age goes. A token always may.
func (c Credential) Fresh(now time.Time) bool {
	last := c.Created
	if c.Confirmed.After(last) {
		last = c.Confirmed
	}
	return c.Kind == Token || now.Sub(last) < SessionFresh
}

func (c Credential) alive(now time.Time) bool {
	return now.Before(c.Expires) && (c.Kind == Token || now.Sub(c.Used) < SessionIdle)
}

// The reasons for which something is refused.
var (
	ErrUnknown = errors.New("the token is unknown, has expired or was revoked")
	ErrCode    = errors.New("the code is unknown, was used or is older than a minute")
	ErrTaken   = errors.New("there is a token of this name")
	ErrFull    = errors.New("there are too many; revoke some first")
	ErrMissing = errors.New("there is none of this name")
)

// Desk keeps the credentials and the one-time codes. All its methods may be called at the same time.
type Desk struct {
	disk durable.Disk
	file string

	mu    sync.Mutex
	all   []Credential
	kept  time.Time // when the file was written
	codes []oneTime
	ends  map[string][]*func() // by the ID of a credential, what to call when it is revoked
}

type oneTime struct {
	hash    string
	by      string
	expires time.Time
}

// File is where the credentials are kept.
func File(state string) string { return filepath.Join(state, "daemon", "access.json") }

// OpenDesk reads the credentials. A file that cannot be read is an error, a *door.StateError: nobody knows then who may.
func OpenDesk(disk durable.Disk, state string) (*Desk, error) {
	d := &Desk{disk: disk, file: File(state), ends: map[string][]*func(){}}
	data, err := door.Read(d.file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		d.all, err = decodeCredentials(data)
	}
	if err != nil {
		return nil, &door.StateError{What: "the tokens and sessions of the daemon's interface", Path: d.file, Err: err, Without: "the daemon has to begin anew, with its flags (superloop serve --replace --detach --listen ADDR), and all tokens have to be made again (superloop token create)"}
	}
	return d, nil
}

type credentialsFile struct {
	Credentials []Credential `json:"credentials"`
}

var goodHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// decodeCredentials reads the file strictly: a credential that says too little could allow too much.
func decodeCredentials(data []byte) ([]Credential, error) {
	var f credentialsFile
	if err := text.Decode(data, &f); err != nil {
		return nil, err
	}
	if len(f.Credentials) > maxCredentials {
		return nil, fmt.Errorf("it holds %d credentials", len(f.Credentials))
	}
	seen := map[string]bool{}
	for _, c := range f.Credentials {
		scopes := []Scope{Read, Control, Approve, Person}
		if c.Kind == Token {
			scopes = Scopes
		}
		bad := func(s Scope) bool { return !slices.Contains(scopes, s) }
		if c.Kind != Session && c.Kind != Token || !goodName.MatchString(c.Name) || !goodHash.MatchString(c.Hash) || c.Expires.IsZero() || c.Created.IsZero() ||
			len(c.Scopes) == 0 || slices.ContainsFunc(c.Scopes, bad) || seen[c.ID()] {
			return nil, fmt.Errorf("the credential %s is not as superloop writes it", text.Display(text.Cut(c.Name, 50)))
		}
		seen[c.ID()] = true
	}
	return f.Credentials, nil
}

// keep writes the credentials. The caller holds d.mu.
func (d *Desk) keep(now time.Time) error {
	data, err := json.MarshalIndent(credentialsFile{d.all}, "", "  ")
	if err == nil {
		err = d.disk.MkdirAll("access", filepath.Dir(d.file), 0o700)
	}
	if err == nil {
		err = d.disk.WriteFile("access", d.file, append(data, '\n'), 0o600)
	}
	if err == nil {
		d.kept = now
	}
	return err
}

// prune forgets what has ended. The caller holds d.mu.
func (d *Desk) prune(now time.Time) {
	d.all = slices.DeleteFunc(d.all, func(c Credential) bool { return !c.alive(now) })
	d.codes = slices.DeleteFunc(d.codes, func(c oneTime) bool { return !now.Before(c.expires) })
}

// change replaces the credentials by what f makes of them. If that cannot be kept, nothing changes.
func (d *Desk) change(now time.Time, f func([]Credential) ([]Credential, error)) error {
	d.prune(now)
	old := d.all
	all, err := f(slices.Clone(old))
	if err != nil {
		return err
	}
	if len(all) > maxCredentials {
		return ErrFull
	}
	d.all = all
	if err := d.keep(now); err != nil {
		d.all = old
		return err
	}
	return nil
}

// NewCode returns a code of 128 random bits that opens one session for the person by, within CodeLife.
func (d *Desk) NewCode(by string) (code string, expires time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.prune(now)
	if len(d.codes) >= maxCodes {
		return "", expires, ErrFull
	}
	code, hash := secret("", 16)
	expires = now.Add(CodeLife)
	d.codes = append(d.codes, oneTime{hash, by, expires})
	return code, expires, nil
}

// Trade opens a session for a code, which is spent then.
func (d *Desk) Trade(code string) (plain string, c Credential, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UTC()
	d.prune(now)
	hash, found := hashOf(code), -1
	for i, o := range d.codes {
		if same(o.hash, hash) {
			found = i
		}
	}
	if found < 0 {
		return "", c, ErrCode
	}
	by := d.codes[found].by
	d.codes = slices.Delete(d.codes, found, found+1)
	plain, hash = secret("sls_", 32)
	c = Credential{Kind: Session, Name: "s" + hash[:10], Hash: hash, Scopes: append(slices.Clone(Scopes), Person), By: by, Created: now, Expires: now.Add(SessionLife), Used: now}
	return plain, c, d.change(now, func(all []Credential) ([]Credential, error) { return append(all, c), nil })
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// MaxTokenLife is how long a token may last, at most.
const MaxTokenLife = 366 * 24 * time.Hour

// Create makes a token. The name is one of letters, digits, dot, underscore and minus; life is positive.
func (d *Desk) Create(name string, scopes []Scope, life time.Duration, by string) (plain string, c Credential, err error) {
	bad := func(s Scope) bool { return !slices.Contains(Scopes, s) }
	switch {
	case !goodName.MatchString(name):
		return "", c, &ValueError{"a name has at most 64 letters, digits, dots, underscores and minuses, and begins with a letter or a digit"}
	case len(scopes) == 0 || slices.ContainsFunc(scopes, bad):
		return "", c, &ValueError{"a scope is one of read, control, approve"}
	case life <= 0 || life > MaxTokenLife:
		return "", c, &ValueError{"a token lasts a year at most"}
	}
	scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UTC()
	plain, hash := secret("slt_", 32)
	c = Credential{Kind: Token, Name: name, Hash: hash, Scopes: scopes, By: by, Created: now, Expires: now.Add(life)}
	err = d.change(now, func(all []Credential) ([]Credential, error) {
		if slices.ContainsFunc(all, func(o Credential) bool { return o.ID() == c.ID() }) {
			return nil, ErrTaken
		}
		return append(all, c), nil
	})
	return plain, c, err
}

// ValueError says what is wrong with the wish of a person.
type ValueError struct{ why string }

func (e *ValueError) Error() string { return e.why }

// Check returns the credential of a secret, and notes that it was used.
func (d *Desk) Check(plain string) (Credential, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UTC()
	hash, found := hashOf(plain), -1
	for i, c := range d.all {
		if same(c.Hash, hash) {
			found = i
		}
	}
	if found < 0 || !d.all[found].alive(now) {
		return Credential{}, ErrUnknown
	}
	d.all[found].Used = now
	if now.Sub(d.kept) >= usedPause {
		_ = d.keep(now) // a full disk costs what is left of an hour after a restart, and no request
	}
	return d.all[found], nil
}

// Touch notes that a credential is in use. Confirmed says that a request of it was confirmed on a terminal.
func (d *Desk) Touch(id string, confirmed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UTC()
	for i := range d.all {
		if c := &d.all[i]; c.ID() == id && c.alive(now) {
			c.Used = now
			if confirmed {
				c.Confirmed = now
			}
		}
	}
}

// List returns the credentials of a kind, the oldest first.
func (d *Desk) List(kind Kind) []Credential {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prune(time.Now())
	return slices.DeleteFunc(slices.Clone(d.all), func(c Credential) bool { return c.Kind != kind })
}

// Revoke ends a credential, and what uses it now. For one that is not there the error is ErrMissing.
func (d *Desk) Revoke(kind Kind, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := Credential{Kind: kind, Name: name}.ID()
	err := d.change(time.Now(), func(all []Credential) ([]Credential, error) {
		rest := slices.DeleteFunc(all, func(c Credential) bool { return c.ID() == id })
		if len(rest) == len(d.all) {
			return nil, ErrMissing
		}
		return rest, nil
	})
	if err == nil {
		for _, end := range d.ends[id] {
			(*end)()
		}
		delete(d.ends, id)
	}
	return err
}

// OnRevoke has end called when the credential is revoked, unless stop was called before. end must not block.
func (d *Desk) OnRevoke(id string, end func()) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends[id] = append(d.ends[id], &end)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ends[id] = slices.DeleteFunc(d.ends[id], func(e *func()) bool { return e == &end })
		if len(d.ends[id]) == 0 {
			delete(d.ends, id)
		}
	}
}
