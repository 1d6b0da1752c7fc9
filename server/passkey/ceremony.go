package passkey

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/superloop/superloop/internal/text"
)

// Parties are the names of the daemon for which a browser makes passkeys. It makes none for an address.
var Parties = []string{"superloop.localhost", "localhost"}

// Party is a page of the daemon: one of Parties and the port at which the daemon answers. A passkey belongs to the name alone,
// and a program at another port of this machine can ask for it, too. So the port is looked at here.
type Party struct {
	ID   string
	Port uint16
}

// Origin is what a browser calls the page. The answer of a passkey has to be given to exactly this origin.
func (p Party) Origin() string { return "http://" + p.ID + ":" + strconv.Itoa(int(p.Port)) }

// CeremonyLife is how long a passkey may take to be made.
const CeremonyLife = 5 * time.Minute

// maxOpen bounds the passkeys that one session may be making at the same time.
const maxOpen = 10

// algorithms are those that every browser knows.
var algorithms = []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256}

// Refusal says why the answer of a passkey does not count.
type Refusal struct{ why string }

func (e *Refusal) Error() string { return e.why }

// refused turns an error of the library into a Refusal. Its text may repeat what the answer holds.
func refused(what string, err error) *Refusal {
	why := err.Error()
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		if why = e.Details; e.DevInfo != "" {
			why += ": " + e.DevInfo
		}
	}
	return &Refusal{what + ": " + text.Line(why, 200)}
}

// foreign refuses what was signed for another page, such as that of an agent's server at another port.
func foreign(p Party, origin string) error {
	if origin != p.Origin() {
		return &Refusal{"the passkey was used on the page " + text.Display(text.Cut(origin, 100)) + ", and this is " + p.Origin()}
	}
	return nil
}

func (p Party) library() (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{RPID: p.ID, RPDisplayName: "superloop", RPOrigins: []string{p.Origin()}})
}

func (p Party) session(challenge, user []byte) webauthn.SessionData {
	s := webauthn.SessionData{Challenge: encode(challenge), RelyingPartyID: p.ID, Origin: p.Origin(), UserID: user, UserVerification: protocol.VerificationRequired}
	for _, a := range algorithms {
		s.CredParams = append(s.CredParams, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: a})
	}
	return s
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// owner is the person, as the library sees them: the one user of the daemon, with at most one passkey.
type owner struct {
	id   []byte
	keys []webauthn.Credential
}

func (o owner) WebAuthnID() []byte                         { return o.id }
func (o owner) WebAuthnName() string                       { return "superloop" }
func (o owner) WebAuthnDisplayName() string                { return "superloop" }
func (o owner) WebAuthnCredentials() []webauthn.Credential { return o.keys }

// Descriptor names a passkey to a browser.
type Descriptor struct {
	Type       string   `json:"type"`
	ID         string   `json:"id"`
	Transports []string `json:"transports,omitempty"`
}

// Request is what a browser is asked for: PublicKeyCredentialRequestOptionsJSON of WebAuthn.
type Request struct {
	Challenge        string       `json:"challenge"`
	RPID             string       `json:"rpId"`
	Allow            []Descriptor `json:"allowCredentials"`
	UserVerification string       `json:"userVerification"`
	Timeout          int64        `json:"timeout" doc:"in milliseconds"`
}

// Creation is what a browser needs to make a passkey: PublicKeyCredentialCreationOptionsJSON of WebAuthn.
type Creation struct {
	Challenge string `json:"challenge"`
	RP        struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"rp"`
	User struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		DisplayName string `json:"displayName"`
	} `json:"user"`
	Algorithms []Algorithm  `json:"pubKeyCredParams"`
	Exclude    []Descriptor `json:"excludeCredentials"`
	Selection  struct {
		ResidentKey      string `json:"residentKey"`
		UserVerification string `json:"userVerification"`
	} `json:"authenticatorSelection"`
	Attestation string `json:"attestation"`
	Timeout     int64  `json:"timeout" doc:"in milliseconds"`
}

// Algorithm is one by which a passkey may sign.
type Algorithm struct {
	Type string `json:"type"`
	Alg  int    `json:"alg" doc:"its number in the registry of COSE"`
}

// descriptors are the passkeys of a name. The caller holds s.mu.
func (s *Store) descriptors(party string) []Descriptor {
	out := []Descriptor{}
	for _, k := range s.all {
		if k.Party == party {
			out = append(out, Descriptor{string(protocol.PublicKeyCredentialType), encode(k.ID), k.Transports})
		}
	}
	return out
}

// Ask returns what to ask a browser for, so that a passkey of the party signs the challenge; nil if there is none.
func (s *Store) Ask(p Party, challenge []byte, life time.Duration) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	allow := s.descriptors(p.ID)
	if len(allow) == 0 {
		return nil
	}
	return &Request{Challenge: encode(challenge), RPID: p.ID, Allow: allow, UserVerification: string(protocol.VerificationRequired), Timeout: life.Milliseconds()}
}

// Confirm looks whether a passkey of the party has signed the challenge, at its page and after it has recognised the person,
// and notes its use. answer is AuthenticationResponseJSON of WebAuthn. An answer that does not count is a *Refusal. The caller
// sees to it that one challenge is never looked at twice.
func (s *Store) Confirm(p Party, challenge, answer []byte) (Key, error) {
	got, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Key{}, refused("this is no answer of a passkey", err)
	}
	if err := foreign(p, got.Response.CollectedClientData.Origin); err != nil {
		return Key{}, err
	}
	w, err := p.library()
	if err != nil {
		return Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(k Key) bool { return k.Party == p.ID && bytes.Equal(k.ID, got.RawID) })
	if i < 0 {
		return Key{}, &Refusal{"the daemon has no such passkey, or no more"}
	}
	key := s.all[i]
	me := owner{s.user, []webauthn.Credential{key.credential()}}
	now, err := w.ValidateLogin(me, p.session(challenge, s.user), got)
	if err != nil {
		return Key{}, refused("the answer of the passkey "+key.Name+" does not hold", err)
	}
	if now.Authenticator.CloneWarning {
		return Key{}, &Refusal{"the passkey " + key.Name + " counts its uses, and has gone back: there may be a copy of it; superloop passkey revoke " + key.Name}
	}
	key.Count, key.Used = now.Authenticator.SignCount, time.Now().UTC()
	return key, s.change(func(all []Key) ([]Key, error) {
		all[i] = key
		return all, nil
	})
}

// creation is a passkey that is being made.
type creation struct {
	challenge []byte
	party     Party
	who       string
	expires   time.Time
}

// Begin returns what a browser needs to make a passkey for the credential who, within CeremonyLife. One credential that begins
// too many loses the oldest.
func (s *Store) Begin(p Party, who string) Creation {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.prune(now)
	mine := 0
	for i := len(s.open) - 1; i >= 0; i-- {
		if s.open[i].who == who {
			if mine++; mine >= maxOpen {
				s.open = slices.Delete(s.open, i, i+1)
			}
		}
	}
	challenge := make([]byte, 32)
	_, _ = rand.Read(challenge) // it never fails
	s.open = append(s.open, creation{challenge, p, who, now.Add(CeremonyLife)})
	c := Creation{Challenge: encode(challenge), Exclude: s.descriptors(p.ID), Attestation: string(protocol.PreferNoAttestation), Timeout: CeremonyLife.Milliseconds()}
	c.RP.ID, c.RP.Name = p.ID, "superloop"
	c.User.ID, c.User.Name, c.User.DisplayName = encode(s.user), owner{}.WebAuthnName(), owner{}.WebAuthnDisplayName()
	for _, a := range algorithms {
		c.Algorithms = append(c.Algorithms, Algorithm{string(protocol.PublicKeyCredentialType), int(a)})
	}
	c.Selection.ResidentKey, c.Selection.UserVerification = string(protocol.ResidentKeyRequirementPreferred), string(protocol.VerificationRequired)
	return c
}

func (s *Store) prune(now time.Time) {
	s.open = slices.DeleteFunc(s.open, func(c creation) bool { return !now.Before(c.expires) })
}

// New is a passkey that Check has looked at and Add may keep.
type New struct {
	key       Key
	challenge []byte
}

// Check looks whether answer, RegistrationResponseJSON of WebAuthn, is a passkey as Begin has asked for it, for the same
// credential, at the page of the party. It keeps nothing. An answer that does not count is a *Refusal.
func (s *Store) Check(p Party, who string, answer []byte) (New, error) {
	got, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return New{}, refused("this is no passkey", err)
	}
	if err := foreign(p, got.Response.CollectedClientData.Origin); err != nil {
		return New{}, err
	}
	// Nobody needs to know who has built the authenticator. So the code that reads certificates of it is never reached.
	if form := got.Response.AttestationObject.Format; form != "none" && (form != "packed" || got.Response.AttestationObject.AttStatement["x5c"] != nil) {
		return New{}, &Refusal{"the browser sends a certificate of the authenticator, which was not asked for"}
	}
	w, err := p.library()
	if err != nil {
		return New{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(time.Now())
	i := slices.IndexFunc(s.open, func(c creation) bool {
		return c.who == who && c.party == p && encode(c.challenge) == got.Response.CollectedClientData.Challenge
	})
	if i < 0 {
		return New{}, &Refusal{"nobody has begun to make this passkey, or it took more than five minutes"}
	}
	c, err := w.CreateCredential(owner{id: s.user}, p.session(s.open[i].challenge, s.user), got)
	if err != nil {
		return New{}, refused("the passkey does not hold", err)
	}
	// The library does not look whether the point is on its curve. decodeKeys does, and would not read the file any more.
	if _, err := webauthncose.ParsePublicKey(c.PublicKey); err != nil {
		return New{}, refused("the public key of the passkey does not hold", err)
	}
	key := Key{Party: p.ID, ID: c.ID, Public: c.PublicKey, Count: c.Authenticator.SignCount, Eligible: c.Flags.BackupEligible}
	for _, t := range c.Transport {
		if slices.Contains(transports, string(t)) {
			key.Transports = append(key.Transports, string(t))
		}
	}
	return New{key, s.open[i].challenge}, nil
}

// transports are the ways to an authenticator that are passed on to browsers.
var transports = []string{string(protocol.USB), string(protocol.NFC), string(protocol.BLE), string(protocol.SmartCard), string(protocol.Hybrid), string(protocol.Internal)}

// Add keeps a passkey under a name, which is as that of a token. A passkey that was added in the meantime is a *Refusal.
func (s *Store) Add(n New, name, by string) (Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	s.prune(now)
	open := slices.IndexFunc(s.open, func(c creation) bool { return bytes.Equal(c.challenge, n.challenge) })
	if open < 0 {
		return Key{}, &Refusal{"it took more than five minutes to make this passkey"}
	}
	key := n.key
	key.Name, key.By, key.Created = name, by, now
	err := s.change(func(all []Key) ([]Key, error) {
		if slices.ContainsFunc(all, func(k Key) bool { return k.Name == name }) {
			return nil, ErrTaken
		}
		if slices.ContainsFunc(all, func(k Key) bool { return bytes.Equal(k.ID, key.ID) }) {
			return nil, &Refusal{"the daemon has this passkey already"}
		}
		return append(all, key), nil
	})
	if err == nil {
		s.open = slices.Delete(s.open, open, open+1)
	}
	return key, err
}
