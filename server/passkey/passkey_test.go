package passkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/fxamacker/cbor/v2"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

var page = Party{"superloop.localhost", 7717}

// device is an authenticator in software with one passkey.
type device struct {
	auth virtualwebauthn.Authenticator
	cred virtualwebauthn.Credential
}

func newDevice(tb testing.TB) *device {
	tb.Helper()
	for {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		point, err := key.PublicKey.Bytes()
		if err != nil {
			tb.Fatal(err)
		}
		if point[1] == 0 || point[33] == 0 {
			continue // the authenticator leaves zeros away with which a coordinate begins, and COSE wants them
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			tb.Fatal(err)
		}
		return &device{virtualwebauthn.NewAuthenticator(), virtualwebauthn.NewCredentialWithImportedKey(virtualwebauthn.KeyTypeEC2, der)}
	}
}

func decode(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// made is what a browser answers to a creation, for a page of an origin.
func (d *device) made(tb testing.TB, c Creation, origin string) []byte {
	return []byte(virtualwebauthn.CreateAttestationResponse(virtualwebauthn.RelyingParty{ID: c.RP.ID, Origin: origin}, d.auth, d.cred, virtualwebauthn.AttestationOptions{Challenge: decode(tb, c.Challenge)}))
}

// signs is what a browser answers to a challenge.
func (d *device) signs(rp, origin string, challenge []byte) []byte {
	return []byte(virtualwebauthn.CreateAssertionResponse(virtualwebauthn.RelyingParty{ID: rp, Origin: origin}, d.auth, d.cred, virtualwebauthn.AssertionOptions{Challenge: challenge}))
}

func store(tb testing.TB, state string) *Store {
	tb.Helper()
	s, err := Open(durable.OS(), state)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// add makes a passkey.
func (d *device) add(tb testing.TB, s *Store, p Party, name string) Key {
	tb.Helper()
	n, err := s.Check(p, "session:s", d.made(tb, s.Begin(p, "session:s"), p.Origin()))
	if err != nil {
		tb.Fatal(err)
	}
	k, err := s.Add(n, name, "ada")
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

var challenge = bytes.Repeat([]byte("c"), 32)

// A passkey confirms, also after restarts, until it is revoked. Each belongs to one name of the page.
func TestPasskey(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	s, d := store(t, state), newDevice(t)
	if s.Ask(page, challenge, time.Minute) != nil {
		t.Error("something is asked for, and there is no passkey")
	}
	d.add(t, s, page, "laptop")
	other := newDevice(t)
	other.cred = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeRSA)
	other.add(t, s, Party{"localhost", 7717}, "stick")
	info, err := os.Stat(File(state))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	s = store(t, state)
	ask := s.Ask(page, challenge, time.Minute)
	if ask == nil || len(ask.Allow) != 1 || ask.Allow[0].ID != encode(d.cred.ID) || ask.UserVerification != "required" || ask.RPID != page.ID || ask.Challenge != encode(challenge) || ask.Timeout != 60_000 {
		t.Errorf("%+v", ask)
	}
	if c := s.Begin(page, "session:s"); len(c.Exclude) != 1 || c.Exclude[0].ID != encode(d.cred.ID) || c.User.ID != encode(s.user) {
		t.Errorf("%+v", c)
	}
	next := Party{page.ID, 7718} // the daemon listens elsewhere today
	for i := range 3 {
		d.cred.Counter = uint32(i + 1)
		k, err := s.Confirm(next, challenge, d.signs(page.ID, next.Origin(), challenge))
		if err != nil || k.Name != "laptop" || k.Used.IsZero() || k.Count != d.cred.Counter {
			t.Fatalf("%+v %v", k, err)
		}
		s = store(t, state)
	}
	if k, err := s.Confirm(Party{"localhost", 1}, challenge, other.signs("localhost", "http://localhost:1", challenge)); err != nil || k.Name != "stick" {
		t.Error(k, err)
	}
	if all := s.List(); len(all) != 2 || all[0].Name != "laptop" || all[0].By != "ada" {
		t.Errorf("%+v", all)
	}
	if err := s.Revoke("nobody"); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
	if err := s.Revoke("laptop"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, store(t, state)} {
		d.cred.Counter++
		if _, err := s.Confirm(page, challenge, d.signs(page.ID, page.Origin(), challenge)); !errors.As(err, new(*Refusal)) || len(s.List()) != 1 {
			t.Error("after it was revoked:", err)
		}
	}
}

// What is not a passkey's answer to this challenge, at this page, by its person, does not count.
func TestAnswersThatDoNotCount(t *testing.T) {
	t.Parallel()
	s, d, stranger := store(t, t.TempDir()), newDevice(t), newDevice(t)
	d.cred.Counter = 7
	d.add(t, s, page, "laptop")
	good := func() []byte { return d.signs(page.ID, page.Origin(), challenge) }
	as := func(change func(*device)) []byte {
		other := *d
		other.cred.Counter++
		change(&other)
		return other.signs(page.ID, page.Origin(), challenge)
	}
	field := func(name, value string) []byte {
		var v map[string]any
		d.cred.Counter++
		defer func() { d.cred.Counter-- }()
		if err := json.Unmarshal(good(), &v); err != nil {
			t.Fatal(err)
		}
		v["response"].(map[string]any)[name] = value
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	client := func(typ, more string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"type":"` + typ + `","challenge":"` + encode(challenge) + `","origin":"` + page.Origin() + `"` + more + `}`))
	}
	for _, c := range []struct {
		name, want string
		answer     []byte
	}{
		{"another challenge", "challenge", d.signs(page.ID, page.Origin(), bytes.Repeat([]byte("d"), 32))},
		{"another port of this machine", "used on the page http://superloop.localhost:3000", d.signs(page.ID, "http://superloop.localhost:3000", challenge)},
		{"another name of the page", "used on the page http://localhost:7717", d.signs(page.ID, "http://localhost:7717", challenge)},
		{"a site", "used on the page https://superloop.localhost", d.signs(page.ID, "https://superloop.localhost", challenge)},
		{"an origin in capitals", "used on the page", d.signs(page.ID, "HTTP://superloop.localhost:7717", challenge)},
		{"no origin", "used on the page", d.signs(page.ID, "", challenge)},
		{"the name of another page is signed", "RP Hash", d.signs("localhost", page.Origin(), challenge)},
		{"a passkey that nobody has made", "no such passkey", stranger.signs(page.ID, page.Origin(), challenge)},
		{"another key by this id", "signature", as(func(o *device) { o.cred.Key = stranger.cred.Key })},
		{"nobody was recognised", "verification required", as(func(o *device) { o.auth.Options.UserNotVerified = true })},
		{"nobody was there", "presence required", as(func(o *device) { o.auth.Options.UserNotPresent = true })},
		{"another person", "handle", as(func(o *device) { o.auth.Options.UserHandle = []byte("eve") })},
		{"it may be copied now", "Eligible", as(func(o *device) { o.auth.Options.BackupEligible = true })},
		{"a copy of the authenticator", "gone back", as(func(o *device) { o.cred.Counter = 6 })},
		{"the same count again", "gone back", good()},
		{"another text than was signed", "signature", field("clientDataJSON", client("webauthn.get", `,"crossOrigin":false`))},
		{"made, not used", "ceremony type", field("clientDataJSON", client("webauthn.create", ""))},
		{"in a frame of another page", "cross origin", field("clientDataJSON", client("webauthn.get", `,"crossOrigin":true`))},
		{"another signature", "signature", field("signature", "MAYCAQECAQE")},
		{"no signature", "signature", field("signature", "")},
		{"nothing", "no answer of a passkey", nil},
		{"no JSON", "no answer of a passkey", []byte("x")},
		{"a list", "no answer of a passkey", []byte("[]")},
	} {
		_, err := s.Confirm(page, challenge, c.answer)
		if !errors.As(err, new(*Refusal)) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400 {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if k := s.List()[0]; k.Count != 7 || !k.Used.IsZero() {
		t.Errorf("%+v", k)
	}
	if _, err := s.Confirm(page, challenge, as(func(*device) {})); err != nil {
		t.Error("the good one:", err)
	}
}

// Only what was begun, at this page, by this credential, within five minutes, is kept, once.
func TestMakingOne(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, d := store(t, state), newDevice(t)
		refuses := func(name, want string, p Party, who string, answer []byte) {
			t.Helper()
			if _, err := s.Check(p, who, answer); !errors.As(err, new(*Refusal)) || !strings.Contains(strings.ToLower(err.Error()), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		c := s.Begin(page, "session:s")
		good := d.made(t, c, page.Origin())
		refuses("another credential", "nobody has begun", page, "session:other", good)
		refuses("another port", "used on the page", Party{page.ID, 1}, "session:s", good)
		refuses("a page at another port", "used on the page", page, "session:s", d.made(t, c, "http://superloop.localhost:3000"))
		refuses("another name", "used on the page", Party{"localhost", page.Port}, "session:s", good)
		unseen := *d
		unseen.auth.Options.UserNotVerified = true
		refuses("nobody was recognised", "verification required", page, "session:s", unseen.made(t, c, page.Origin()))
		foreign := c
		foreign.RP.ID = "localhost"
		refuses("made for another name", "rp hash", page, "session:s", d.made(t, foreign, page.Origin()))
		foreign = c
		foreign.Challenge = encode(challenge)
		refuses("another challenge", "nobody has begun", page, "session:s", d.made(t, foreign, page.Origin()))
		refuses("with a certificate", "certificate", page, "session:s", attested(t, good, "packed", map[string]any{"alg": -7, "sig": []byte{1}, "x5c": [][]byte{{1}}}))
		refuses("of a chip", "certificate", page, "session:s", attested(t, good, "tpm", map[string]any{}))
		refuses("with a signature that does not hold", "does not hold", page, "session:s", attested(t, good, "packed", map[string]any{"alg": -7, "sig": []byte{1}}))
		if _, err := s.Check(page, "session:s", attested(t, good, "none", map[string]any{})); err != nil {
			t.Error("as most browsers send it:", err)
		}
		refuses("no passkey", "no passkey", page, "session:s", []byte(`{"id": "AA"}`))
		n, err := s.Check(page, "session:s", good)
		if err != nil {
			t.Fatal(err)
		}
		s.disk = durable.OS().WithFault(func(string) error { return errors.New("broken") })
		if _, err := s.Add(n, "laptop", "ada"); err == nil || len(s.List()) != 0 {
			t.Error("it cannot be kept:", err)
		}
		s.disk = durable.OS()
		if _, err := s.Add(n, "laptop", "ada"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(n, "again", "ada"); !errors.As(err, new(*Refusal)) {
			t.Error("twice:", err)
		}
		refuses("begun once", "nobody has begun", page, "session:s", good)
		again, err := s.Check(page, "session:s", d.made(t, s.Begin(page, "session:s"), page.Origin()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(again, "again", "ada"); !errors.As(err, new(*Refusal)) {
			t.Error("the same passkey:", err)
		}
		second, err := s.Check(page, "session:s", newDevice(t).made(t, s.Begin(page, "session:s"), page.Origin()))
		if _, aerr := s.Add(second, "laptop", "ada"); err != nil || !errors.Is(aerr, ErrTaken) {
			t.Error("the name again:", err, aerr)
		}
		c = s.Begin(page, "session:s")
		time.Sleep(CeremonyLife)
		refuses("later", "nobody has begun", page, "session:s", newDevice(t).made(t, c, page.Origin()))
		if _, err := s.Add(second, "late", "ada"); !errors.As(err, new(*Refusal)) {
			t.Error("later:", err)
		}
		mine := s.Begin(page, "session:me")
		for range 100 {
			s.Begin(page, "session:flood")
		}
		if _, err := s.Check(page, "session:me", newDevice(t).made(t, mine, page.Origin())); err != nil || len(s.open) > 1+maxOpen {
			t.Errorf("%d are open: %v", len(s.open), err)
		}
		if !GoodName("my.key-1_a") || GoodName("") || GoodName("-x") || GoodName("a b") || GoodName(strings.Repeat("a", 65)) {
			t.Error("names")
		}
	})
}

// A file that is not as it was written is an error that says where it lies and what to do, and no passkey counts.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	newDevice(t).add(t, store(t, state), page, "laptop")
	good, err := os.ReadFile(File(state))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty": nil, "no JSON": []byte("{"), "cut": good[:len(good)/2], "another name of the page": bytes.Replace(good, []byte(page.ID), []byte("evil.example"), 1),
		"a name that leads away": bytes.Replace(good, []byte(`"laptop"`), []byte(`"../x"`), 1), "no key": bytes.Replace(good, []byte(`"public_key": "`), []byte(`"public_key": "AAAA`), 1),
		"no user": bytes.Replace(good, []byte(`"user"`), []byte(`"nobody"`), 1), "no id": bytes.Replace(good, []byte(`"id"`), []byte(`"x"`), 1),
	} {
		if err := os.WriteFile(File(state), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(durable.OS(), state); !errors.As(err, new(*door.StateError)) || !strings.Contains(err.Error(), File(state)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzAnswer: nothing that somebody sends counts as an answer of a passkey, and whatever it is ends in one short line.
func FuzzAnswer(f *testing.F) {
	s, d := store(f, f.TempDir()), newDevice(f)
	d.add(f, s, page, "laptop")
	testkit.Seed(f, d.signs(page.ID, page.Origin(), []byte("another challenge of 32 bytes...")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := s.Confirm(page, challenge, data); err == nil || strings.ContainsAny(err.Error(), "\n\r\x1b") || len(err.Error()) > 1000 {
			t.Errorf("%v", err)
		}
	})
}

// attested is an answer to a creation with another statement about the authenticator.
func attested(tb testing.TB, answer []byte, form string, statement map[string]any) []byte {
	tb.Helper()
	var v map[string]any
	if err := json.Unmarshal(answer, &v); err != nil {
		tb.Fatal(err)
	}
	response := v["response"].(map[string]any)
	var object map[string]any
	err := cbor.Unmarshal(decode(tb, response["attestationObject"].(string)), &object)
	object["fmt"], object["attStmt"] = form, statement
	data, merr := cbor.Marshal(object)
	response["attestationObject"] = encode(data)
	out, jerr := json.Marshal(v)
	if err := errors.Join(err, merr, jerr); err != nil {
		tb.Fatal(err)
	}
	return out
}

// FuzzMade: what is taken for a passkey can be kept and read again.
func FuzzMade(f *testing.F) {
	s, d := store(f, f.TempDir()), newDevice(f)
	c := s.Begin(page, "session:s")
	good := d.made(f, c, page.Origin())
	s.open[0].expires = time.Now().Add(1000 * time.Hour)
	testkit.Seed(f, good, attested(f, good, "none", map[string]any{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := s.Check(page, "session:s", data)
		if err == nil {
			n.key.Name, n.key.Created = "x", time.Unix(1e9, 0)
			file, err := json.Marshal(keysFile{s.user, []Key{n.key}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodeKeys(file); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			return
		}
		if strings.ContainsAny(err.Error(), "\n\r\x1b") || len(err.Error()) > 1000 {
			t.Errorf("%v", err)
		}
	})
}

// FuzzKeys: the file is read as it was written, or refused.
func FuzzKeys(f *testing.F) {
	state := f.TempDir()
	newDevice(f).add(f, store(f, state), page, "laptop")
	good, err := os.ReadFile(File(state))
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, ok := testkit.Decoder[keysFile]{Decode: decodeKeys, Encode: func(v keysFile) ([]byte, error) { return json.Marshal(v) }}.Check(t, data)
		for _, k := range v.Keys {
			if ok && (!GoodName(k.Name) || len(k.ID) == 0 || len(k.Public) == 0) {
				t.Errorf("%+v", k)
			}
		}
	})
}
