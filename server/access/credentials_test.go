package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

func desk(t *testing.T, state string) *Desk {
	t.Helper()
	d, err := OpenDesk(durable.OS(), state)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// onDisk fails t if a secret lies anywhere below dir.
func onDisk(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, s := range secrets {
			if bytes.Contains(data, []byte(s)) {
				t.Errorf("%s holds a secret", path)
			}
		}
		if info, ierr := e.Info(); ierr == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A session lasts twelve hours, one hour without use, also over restarts of the daemon, and only its hash is kept.
func TestSessions(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := desk(t, state)
		code, _, err := d.NewCode("ada")
		if err != nil {
			t.Fatal(err)
		}
		old, _, _ := d.NewCode("ada")
		if _, _, err := d.Trade(code + "x"); !errors.Is(err, ErrCode) {
			t.Error("a wrong code:", err)
		}
		plain, c, err := d.Trade(code)
		if err != nil || c.By != "ada" || !c.May(Person) || !c.May(Approve) || !c.Fresh(time.Now()) {
			t.Fatalf("%+v %v", c, err)
		}
		if _, _, err := d.Trade(code); !errors.Is(err, ErrCode) {
			t.Error("a code counts twice:", err)
		}
		time.Sleep(CodeLife)
		if _, _, err := d.Trade(old); !errors.Is(err, ErrCode) {
			t.Error("an old code:", err)
		}
		onDisk(t, state, plain, code, old)
		for range 11 * 2 { // in use each half hour; the daemon starts again each time
			time.Sleep(30 * time.Minute)
			if _, err := desk(t, state).Check(plain); err != nil {
				t.Fatal(err)
			}
		}
		d = desk(t, state)
		if c, _ := d.Check(plain); c.Fresh(time.Now()) {
			t.Error("it is fresh after 11 hours")
		}
		d.Touch(c.ID(), true)
		if c, _ := d.Check(plain); !c.Fresh(time.Now()) {
			t.Error("a confirmation does not make it fresh")
		}
		time.Sleep(time.Hour - 5*time.Minute)
		if _, err := d.Check(plain); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := d.Check(plain); !errors.Is(err, ErrUnknown) {
			t.Error("after 12 hours:", err)
		}
		code, _, _ = d.NewCode("ada")
		plain, _, _ = d.Trade(code)
		time.Sleep(SessionIdle)
		if _, err := d.Check(plain); !errors.Is(err, ErrUnknown) {
			t.Error("after an idle hour:", err)
		}
		if all := d.List(Session); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := desk(t, state)
		for name, err := range map[string]error{
			"a name that leads away": errOf(d.Create("../x", []Scope{Read}, time.Hour, "ada")),
			"no name":                errOf(d.Create("", []Scope{Read}, time.Hour, "ada")),
			"no scope":               errOf(d.Create("ci", nil, time.Hour, "ada")),
			"a person's scope":       errOf(d.Create("ci", []Scope{Read, Person}, time.Hour, "ada")),
			"no time":                errOf(d.Create("ci", []Scope{Read}, 0, "ada")),
			"for ever":               errOf(d.Create("ci", []Scope{Read}, 1<<62, "ada")),
		} {
			if !errors.As(err, new(*ValueError)) {
				t.Errorf("%s: %v", name, err)
			}
		}
		plain, c, err := d.Create("ci", []Scope{Read, Control, Read}, 48*time.Hour, "ada")
		if err != nil || !slices.Equal(c.Scopes, []Scope{Control, Read}) || c.May(Approve) || c.May(Person) {
			t.Fatalf("%+v %v", c, err)
		}
		if err := errOf(d.Create("ci", []Scope{Read}, time.Hour, "eve")); !errors.Is(err, ErrTaken) {
			t.Error(err)
		}
		other, _, err := d.Create("cd", []Scope{Approve}, 72*time.Hour, "ada")
		if err != nil {
			t.Fatal(err)
		}
		onDisk(t, state, plain, other)
		time.Sleep(47 * time.Hour) // no use does not end a token
		if c, err = d.Check(plain); err != nil || !c.Fresh(time.Now()) {
			t.Error(c, err)
		}
		time.Sleep(time.Hour)
		if _, err := d.Check(plain); !errors.Is(err, ErrUnknown) {
			t.Error("an expired token:", err)
		}
		ended := 0
		d.OnRevoke("token:cd", func() { ended++ })
		d.OnRevoke("token:cd", func() { ended += 100 })()
		if err := errors.Join(d.Revoke(Token, "cd")); err != nil || ended != 1 {
			t.Error(err, ended)
		}
		for _, d := range []*Desk{d, desk(t, state)} {
			if _, err := d.Check(other); !errors.Is(err, ErrUnknown) {
				t.Error("a revoked token:", err)
			}
		}
		if err := d.Revoke(Token, "cd"); !errors.Is(err, ErrMissing) {
			t.Error(err)
		}
	})
}

func errOf(_ string, _ Credential, err error) error { return err }

// What cannot be kept is not in force, and what cannot be read lets nobody in.
func TestCredentialsOfADamagedDisk(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	broken := false
	disk := durable.OS().WithFault(func(op string) error {
		if broken && op == "access:rename" {
			return errors.New("broken")
		}
		return nil
	})
	d, err := OpenDesk(disk, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := errOf(d.Create("a", []Scope{Read}, time.Hour, "ada")); err != nil {
		t.Fatal(err)
	}
	broken = true
	if err := errOf(d.Create("b", []Scope{Read}, time.Hour, "ada")); err == nil || len(d.List(Token)) != 1 {
		t.Error("a token that is not kept:", err, d.List(Token))
	}
	if err := d.Revoke(Token, "a"); err == nil || len(d.List(Token)) != 1 {
		t.Error("a revocation that is not kept:", err)
	}
	if err := os.WriteFile(File(state), []byte(`{"credentials": [{"kind": "token", "name": "x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDesk(durable.OS(), state); !errors.As(err, new(*door.StateError)) {
		t.Error(err)
	}
}

func TestManyCodes(t *testing.T) {
	t.Parallel()
	d := desk(t, t.TempDir())
	for range maxCodes {
		if _, _, err := d.NewCode("ada"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := d.NewCode("ada"); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	good := "slt_" + strings.Repeat("aB3_-", 8) + "xyz"
	for header, want := range map[string]string{
		"Bearer " + good: good, "bearer " + good: good, "Basic " + good: "", good: "", "Bearer": "", "Bearer  " + good: "", "Bearer " + good + " ": "",
		"Bearer " + good[1:]: "", "Bearer " + good + "x": "", "": "",
	} {
		if got, ok := Bearer(header); got != want || ok != (want != "") {
			t.Errorf("%q gives %q, %v", header, got, ok)
		}
	}
	if s := WithoutSecrets("/x/" + good + "/y"); strings.Contains(s, "aB3") {
		t.Error(s)
	}
}

// FuzzCredentials: a file of credentials is read as it was written, or refused.
func FuzzCredentials(f *testing.F) {
	at := time.Unix(1e9, 0).UTC()
	good, err := json.Marshal(credentialsFile{[]Credential{{Kind: Token, Name: "ci", Hash: strings.Repeat("0a", 32), Scopes: []Scope{Read}, By: "ada", Created: at, Expires: at},
		{Kind: Session, Name: "s1", Hash: strings.Repeat("0b", 32), Scopes: []Scope{Person}, Created: at, Expires: at, Used: at}}})
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good)
	f.Fuzz(func(t *testing.T, data []byte) {
		all, ok := testkit.Decoder[[]Credential]{Decode: decodeCredentials, Encode: func(all []Credential) ([]byte, error) { return json.Marshal(credentialsFile{all}) }}.Check(t, data)
		for _, c := range all {
			if ok && (c.Kind == Token && c.May(Person) || len(c.Hash) != 64) {
				t.Errorf("%+v", c)
			}
		}
	})
}

// FuzzHeaders: what is taken for a token or a key has its form.
func FuzzHeaders(f *testing.F) {
	f.Add("Bearer slt_" + strings.Repeat("a", 43))
	f.Add("k-1")
	f.Fuzz(func(t *testing.T, header string) {
		if plain, ok := Bearer(header); ok && (len(plain) != 47 || !strings.HasSuffix(header, plain) || WithoutSecrets(header) == header) {
			t.Errorf("%q is taken for %q", header, plain)
		}
		if GoodKey(header) && (len(header) > 255 || strings.TrimSpace(header) != header || strings.ContainsAny(header, "\r\n\x00")) {
			t.Errorf("%q is taken for a key", header)
		}
		if norm := plainCode(header); plainCode(norm) != norm {
			t.Errorf("%q, %q", norm, plainCode(norm))
		}
	})
}

// The list of scopes is the caller's: making a token changes nothing of it.
func TestCreateKeepsTheScopes(t *testing.T) {
	t.Parallel()
	d := desk(t, t.TempDir())
	wanted := []Scope{Read, Control, Approve, Read}
	if _, c, err := d.Create("t", wanted, time.Hour, "ann"); err != nil || !slices.Equal(wanted, []Scope{Read, Control, Approve, Read}) || len(c.Scopes) != 3 {
		t.Errorf("%v %v %v", wanted, c.Scopes, err)
	}
}
