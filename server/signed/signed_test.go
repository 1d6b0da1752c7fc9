package signed

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

func keys(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

// TestCheck: a request counts for one machine, one process of it, once, as it was signed, by a gateway of the fleet, for some
// minutes.
func TestCheck(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	_, foreign := keys(t)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	v := NewVerifier("m1", [][]byte{{1}, public})
	v.now = func() time.Time { return now }
	body := []byte(`{"note": "x"}`)
	good := Claim{Method: "POST", Target: "/api/v1/loops/m1.a.b/pause?x=1", Body: Digest(body), Machine: "m1", Instance: v.Instance(), User: "ada"}
	sign := func(key ed25519.PrivateKey, at time.Time, change func(*Claim)) string {
		c := good
		if change != nil {
			change(&c)
		}
		h, err := c.Sign(key, at)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	header := sign(private, now, nil)
	raw, mark, _ := strings.Cut(header, ".")
	plain, _ := base64.RawURLEncoding.DecodeString(raw)
	other := sign(private, now, func(c *Claim) { c.User = "eve" })
	swapped, _, _ := strings.Cut(other, ".")
	bare := base64.RawURLEncoding.EncodeToString(plain) + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, plain))
	for name, bad := range map[string]string{"nothing": "", "no form": "x.y!", "no signature": raw, "foreign key": sign(foreign, now, nil), "another claim": swapped + "." + mark, "signed as something else": bare,
		"machine": sign(private, now, func(c *Claim) { c.Machine = "m2" }), "process": sign(private, now, func(c *Claim) { c.Instance = "before" }), "old": sign(private, now.Add(-16*time.Minute), nil),
		"early": sign(private, now.Add(16*time.Minute), nil), "method": sign(private, now, func(c *Claim) { c.Method = "GET" }), "target": sign(private, now, func(c *Claim) { c.Target += "y" }),
		"body": sign(private, now, func(c *Claim) { c.Body = Digest(nil) }), "long": header + strings.Repeat("A", maxHeader)} {
		if c, err := v.Check(bad, "POST", good.Target, body, true); err == nil || c != (Claim{}) {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
	c, err := v.Check(header, "POST", good.Target, body, true)
	if err != nil || c.User != "ada" || c.Nonce == "" {
		t.Fatalf("%+v %v", c, err)
	}
	for range 2 {
		if _, err := v.Check(header, "POST", good.Target, body, true); err == nil || !strings.Contains(err.Error(), "before") {
			t.Errorf("again: %v", err)
		}
		now = now.Add(14 * time.Minute)
	}
	if len(v.seen) != 1 {
		t.Errorf("%d nonces", len(v.seen))
	}
	now = now.Add(time.Hour)
	if _, err := v.Check(sign(private, now, nil), "POST", good.Target, body, true); err != nil || len(v.seen) != 1 {
		t.Errorf("%v, %d nonces are kept", err, len(v.seen))
	}
	read := sign(private, now, func(c *Claim) { c.Method = "GET" })
	for range 2 {
		if _, err := v.Check(read, "GET", good.Target, body, false); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewVerifier("m1", nil).Check(header, "POST", good.Target, body, true); err == nil {
		t.Error("a machine without a gateway takes it")
	}
}

// FuzzCheck: whatever a header holds, it is a claim that was signed, or an error that can be printed.
func FuzzCheck(f *testing.F) {
	public, private := keys(f)
	raw, _ := json.Marshal(Claim{Method: "GET", Machine: "m", Body: Digest(nil)})
	testkit.Seed(f, raw, []byte(`{`), []byte(`{"at": 1}`))
	v := NewVerifier("m", [][]byte{public})
	f.Fuzz(func(t *testing.T, data []byte) {
		enc := base64.RawURLEncoding.EncodeToString
		mark := enc(ed25519.Sign(private, append([]byte(domain), data...)))
		for _, h := range []string{string(data), enc(data) + "." + mark, enc(data) + "." + enc(data)} {
			c, err := v.Check(h, "GET", "", nil, true)
			if err != nil {
				testkit.Message(t, err)
			}
			if err == nil || c != (Claim{}) {
				t.Errorf("%+v %v", c, err) // no instance is that of v
			}
		}
	})
}
