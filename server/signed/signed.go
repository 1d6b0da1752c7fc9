// Package signed is how a gateway asks a machine of its fleet. Each request carries a claim: what is asked, of which machine,
// for whom and when, signed by the gateway. So a machine does what a gateway of its fleet has let pass, and nothing that
// somebody else has sent over the same connection or socket.
package signed

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// The headers of HTTP. Instance is that of each answer of a machine.
const (
	Header   = "Superloop-Signed"
	Instance = "Superloop-Instance"
)

// maxAge is how far the time of a claim may be from the machine's: the clocks of two machines differ.
const maxAge = 15 * time.Minute

// maxHeader bounds a header, in bytes.
const maxHeader = 16 << 10

// Claim says what is asked, and for whom.
type Claim struct {
	Method string `json:"method"`
	Target string `json:"target"` // path and query, as they are sent
	Body   string `json:"body"`   // see Digest
	// Machine is the id of the machine that is asked, and Instance that of its process: a request that was heard once is no
	// request to another machine, nor to the same one after a restart.
	Machine  string    `json:"machine"`
	Instance string    `json:"instance"`
	Nonce    string    `json:"nonce"`
	At       time.Time `json:"at"`
	User     string    `json:"user"` // who asks, as the gateway knows them
	// Confirmed is what the user has confirmed of this request, in the words of the machine that asked for it, and
	// ConfirmedBy what with.
	Confirmed   string `json:"confirmed,omitempty"`
	ConfirmedBy string `json:"confirmed_by,omitempty"`
}

// domain begins what is signed, so that the gateway's signature of something else is none of a claim.
const domain = "superloop request 1\n"

// Digest is the digest of a body in a claim.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Sign gives the claim a nonce and the time, and returns the value of Header.
func (c Claim) Sign(key ed25519.PrivateKey, now time.Time) (string, error) {
	c.Nonce, c.At = rand.Text(), now.UTC()
	raw, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	return enc.EncodeToString(raw) + "." + enc.EncodeToString(ed25519.Sign(key, append([]byte(domain), raw...))), nil
}

// Verifier checks claims for one process of a machine. Its methods may be called at the same time.
type Verifier struct {
	machine, instance string
	keys              [][]byte
	now               func() time.Time

	mu    sync.Mutex
	seen  map[string]time.Time // the nonces of changes, and until when they would count
	swept time.Time
}

// NewVerifier returns a Verifier that trusts keys, the public keys of the gateways of a fleet.
func NewVerifier(machine string, keys [][]byte) *Verifier {
	return &Verifier{machine: machine, instance: rand.Text(), keys: keys, now: time.Now, seen: map[string]time.Time{}}
}

// Instance is the id of this process. Gateways put it into their claims.
func (v *Verifier) Instance() string { return v.instance }

// Check returns the claim of a request, or why it does not count. What changes something counts once.
func (v *Verifier) Check(header, method, target string, body []byte, changes bool) (Claim, error) {
	var c Claim
	if header == "" {
		return c, errors.New("no gateway has signed it")
	}
	said, sig, _ := strings.Cut(header, ".")
	raw, err := base64.RawURLEncoding.DecodeString(said)
	mark, err2 := base64.RawURLEncoding.DecodeString(sig)
	if err != nil || err2 != nil || len(header) > maxHeader {
		return c, errors.New("its signature cannot be read")
	}
	if !v.by(raw, mark) {
		return c, errors.New("no gateway of this fleet has signed it")
	}
	if err := text.Decode(raw, &c); err != nil {
		return Claim{}, fmt.Errorf("what is signed cannot be read: %w", err)
	}
	now := v.now()
	switch age := now.Sub(c.At); {
	case c.Machine != v.machine:
		return Claim{}, fmt.Errorf("it was signed for machine %q, and this is %q", c.Machine, v.machine)
	case c.Instance != v.instance:
		return Claim{}, errors.New("it was signed for another process of this machine")
	case c.Method != method || c.Target != target || c.Body != Digest(body):
		return Claim{}, errors.New("something else was signed")
	case age > maxAge || age < -maxAge:
		return Claim{}, fmt.Errorf("it was signed at %s, and it is %s now; a request counts for %s", c.At.Format(time.RFC3339), now.UTC().Format(time.RFC3339), maxAge)
	case changes && !v.first(c, now):
		return Claim{}, errors.New("it has come before")
	}
	return c, nil
}

func (v *Verifier) by(raw, mark []byte) bool {
	message := append([]byte(domain), raw...)
	for _, key := range v.keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, mark) {
			return true
		}
	}
	return false
}

// first reports whether the nonce has not come before. Nonces are kept for as long as their claims count, so memory is bound
// by what a gateway signs in that time.
func (v *Verifier) first(c Claim, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.swept) > time.Minute {
		v.swept = now
		for nonce, until := range v.seen {
			if now.After(until) {
				delete(v.seen, nonce)
			}
		}
	}
	if _, was := v.seen[c.Nonce]; was || c.Nonce == "" {
		return false
	}
	v.seen[c.Nonce] = c.At.Add(maxAge)
	return true
}
