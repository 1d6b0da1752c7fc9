package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// ConfirmLife is how long a confirmation may be asked for, and how long its code counts.
const ConfirmLife = 5 * time.Minute

// Bounds of confirmations: how many one credential may have open, and how many wrong codes close one.
const (
	maxOpen  = 10
	maxWrong = 5
)

// Request is what a confirmation is bound to.
type Request struct {
	Credential string // its ID
	Method     string
	Path       string // with the query
	Body       string // the SHA-256 of the body, in hex
}

// BodyDigest returns what Request.Body holds of a body.
func BodyDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Challenge is a request that a person is to confirm on a terminal.
type Challenge struct {
	ID      string
	What    string // what is to be done, in words
	By      string // whose request it is
	Shown   string // the request itself
	Request Request
	Expires time.Time
	// Terminal says that a passkey is not enough.
	Terminal bool

	hash  string // of the code, "" before a person has asked for it
	by    string // what the person has confirmed it with
	nonce []byte // of Sign; nil when it was taken
	wrong int
}

// Sign returns what a passkey signs to confirm it: 32 bytes that stand for a random number, the challenge and all that it is
// bound to. It is nil if no passkey may confirm it.
func (o Challenge) Sign() []byte {
	if o.Terminal || o.nonce == nil {
		return nil
	}
	h := sha256.New()
	for _, part := range []string{"superloop confirmation", string(o.nonce), o.ID, o.Request.Credential, o.Request.Method, o.Request.Path, o.Request.Body, o.What} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return h.Sum(nil)
}

// OnTerminal is what a person has confirmed a request with who has typed a code that a terminal has shown.
const OnTerminal = "terminal"

// ConfirmedBy is what the person has confirmed it with: OnTerminal, or what was given to Allow.
func (o Challenge) ConfirmedBy() string { return o.by }

// Confirms keeps what waits for a confirmation. Its methods may be called at the same time.
type Confirms struct {
	mu   sync.Mutex
	open []*Challenge
}

// The reasons for which a confirmation is refused.
var (
	ErrNoChallenge = errors.New("nothing with this id waits for a confirmation; it waits for five minutes")
	ErrTerminal    = errors.New("this takes a code from a terminal: superloop confirm")
	ErrConfirm     = errors.New("the code is wrong, was used, has expired or belongs to another request")
)

func (c *Confirms) prune(now time.Time) {
	c.open = slices.DeleteFunc(c.open, func(o *Challenge) bool { return !now.Before(o.Expires) })
}

// Ask opens a challenge for a request. The same wish has one challenge, however often it is sent. If its body is another one by
// now, as that of a new passkey is, the challenge before is closed, unless a code was given for it: a person is asked once, and
// a code counts for what is sent last. A credential that has too many challenges loses its oldest. With terminal no passkey can
// confirm it.
func (c *Confirms) Ask(r Request, what, by, shown string, terminal bool) Challenge {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UTC()
	c.prune(now)
	c.open = slices.DeleteFunc(c.open, func(o *Challenge) bool {
		q := o.Request
		again := q.Body != r.Body
		q.Body = r.Body
		return again && q == r && o.What == what && o.Terminal == terminal && !o.Given()
	})
	mine, oldest := 0, -1
	for i, o := range c.open {
		if o.Request == r && o.What == what && o.Terminal == terminal {
			if o.nonce == nil {
				o.nonce = newNonce()
			}
			return *o
		}
		if o.Request.Credential == r.Credential {
			if mine++; oldest < 0 {
				oldest = i
			}
		}
	}
	if mine >= maxOpen {
		c.open = slices.Delete(c.open, oldest, oldest+1)
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	o := &Challenge{ID: hex.EncodeToString(id), What: what, By: by, Shown: shown, Request: r, Expires: now.Add(ConfirmLife), Terminal: terminal, nonce: newNonce()}
	c.open = append(c.open, o)
	return *o
}

func newNonce() []byte {
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // it never fails
	return nonce
}

// Some returns a challenge of a request, whatever it says: the newest one that waits. ok is false if there is none.
func (c *Confirms) Some(r Request) (o Challenge, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune(time.Now())
	for _, x := range c.open {
		if x.Request == r {
			if x.nonce == nil {
				x.nonce = newNonce()
			}
			o, ok = *x, true
		}
	}
	return o, ok
}

// Take returns a challenge whose Sign a passkey may have signed, for the credential that has asked. It is given once, whatever
// comes of it: when the request is sent again, something else has to be signed.
func (c *Confirms) Take(id, credential string) (Challenge, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune(time.Now())
	i := slices.IndexFunc(c.open, func(o *Challenge) bool { return o.ID == id && o.Request.Credential == credential })
	switch {
	case i < 0 || c.open[i].nonce == nil:
		return Challenge{}, ErrNoChallenge
	case c.open[i].Terminal:
		return Challenge{}, ErrTerminal
	}
	o := *c.open[i]
	c.open[i].nonce = nil
	return o, nil
}

// Pending returns what waits for a person, or for its code to be used, the oldest first.
func (c *Confirms) Pending() (all []Challenge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune(time.Now())
	for _, o := range c.open {
		all = append(all, *o)
	}
	return all
}

// Given reports whether a person has got a code for it, which was not used yet.
func (o Challenge) Given() bool { return o.hash != "" }

// alphabet has no letters that look like digits.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// Allow is the word of a person, given with by: it returns the code, of 40 random bits, with which the request may be repeated once.
// Another call returns another code, and the one before is void.
func (c *Confirms) Allow(id, by string) (code string, o Challenge, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UTC()
	c.prune(now)
	i := slices.IndexFunc(c.open, func(o *Challenge) bool { return o.ID == id })
	if i < 0 {
		return "", o, ErrNoChallenge
	}
	b := make([]byte, 8)
	_, _ = rand.Read(b)
	for j := range b {
		b[j] = alphabet[b[j]%byte(len(alphabet))] // 256 is a multiple of 32
	}
	code = string(b[:4]) + "-" + string(b[4:])
	c.open[i].hash, c.open[i].by, c.open[i].Expires = hashOf(plainCode(code)), by, now.Add(ConfirmLife)
	return code, *c.open[i], nil
}

// plainCode returns a code as it is hashed: people write it in small letters, without the minus, and O for 0.
func plainCode(code string) string {
	return strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(code))
}

// Redeem spends a code on a request, and returns what the person has confirmed. After some wrong codes the challenges of
// the request are closed.
func (c *Confirms) Redeem(r Request, code string) (Challenge, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune(time.Now())
	hash, found := hashOf(plainCode(code)), -1
	for i, o := range c.open {
		if o.Request == r && o.hash != "" && same(o.hash, hash) {
			found = i
		}
	}
	if found >= 0 {
		o := *c.open[found]
		c.open = slices.Delete(c.open, found, found+1)
		return o, nil
	}
	for _, o := range c.open {
		if o.Request == r {
			o.wrong++
		}
	}
	c.open = slices.DeleteFunc(c.open, func(o *Challenge) bool { return o.wrong >= maxWrong })
	return Challenge{}, ErrConfirm
}
