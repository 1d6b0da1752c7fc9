package access

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A code counts once, for the request and the wish that a person has seen, for five minutes.
func TestConfirm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Confirms
		r := Request{Credential: "session:s1", Method: "POST", Path: "/x", Body: BodyDigest([]byte("{}"))}
		o := c.Ask(r, "remember it", "ada", "POST /x {}", false)
		if again := c.Ask(r, "remember it", "ada", "POST /x {}", false); again.ID != o.ID || len(c.Pending()) != 1 {
			t.Error("the same wish is asked twice")
		}
		if other := c.Ask(r, "undo it", "ada", "POST /x {}", false); other.ID == o.ID {
			t.Error("another wish has the same challenge")
		}
		if _, _, err := c.Allow("nothing", OnTerminal); !errors.Is(err, ErrNoChallenge) {
			t.Error(err)
		}
		void, _, err := c.Allow(o.ID, OnTerminal)
		if err != nil || !regexp.MustCompile(`^[0-9A-Z]{4}-[0-9A-Z]{4}$`).MatchString(void) {
			t.Fatal(void, err)
		}
		code, _, _ := c.Allow(o.ID, OnTerminal)
		for name, other := range map[string]Request{
			"another credential": {"session:s2", r.Method, r.Path, r.Body}, "another method": {r.Credential, "DELETE", r.Path, r.Body},
			"another path": {r.Credential, r.Method, "/y", r.Body}, "another body": {r.Credential, r.Method, r.Path, BodyDigest([]byte("[]"))},
		} {
			if _, err := c.Redeem(other, code); !errors.Is(err, ErrConfirm) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := c.Redeem(r, void); !errors.Is(err, ErrConfirm) {
			t.Error("the code before counts:", err)
		}
		if got, err := c.Redeem(r, strings.ToLower(strings.ReplaceAll(code, "-", " "))); err != nil || got.What != "remember it" {
			t.Error(got, err)
		}
		if _, err := c.Redeem(r, code); !errors.Is(err, ErrConfirm) {
			t.Error("a code counts twice:", err)
		}
		o = c.Ask(r, "remember it", "ada", "", false)
		code, _, _ = c.Allow(o.ID, OnTerminal)
		time.Sleep(ConfirmLife)
		if _, err := c.Redeem(r, code); !errors.Is(err, ErrConfirm) || len(c.Pending()) != 0 {
			t.Error("after five minutes:", err)
		}
		o = c.Ask(r, "remember it", "ada", "", false)
		code, _, _ = c.Allow(o.ID, OnTerminal)
		for range maxWrong {
			_, _ = c.Redeem(r, "0000-0000")
		}
		if _, err := c.Redeem(r, code); !errors.Is(err, ErrConfirm) {
			t.Error("after many wrong codes:", err)
		}
	})
}

// Who asks for the same again in other words is asked about once: for what was sent last.
func TestAskedAnew(t *testing.T) {
	t.Parallel()
	var c Confirms
	r := Request{Credential: "session:s1", Method: "POST", Path: "/x", Body: BodyDigest([]byte("1"))}
	if _, ok := c.Some(r); ok {
		t.Error("something waits")
	}
	first := c.Ask(r, "add the key", "ada", "", true)
	for _, other := range []Request{{"session:s2", r.Method, r.Path, r.Body}, {r.Credential, r.Method, "/y", r.Body}} {
		c.Ask(other, "add the key", "ada", "", true)
	}
	c.Ask(r, "add another key", "ada", "", true)
	r.Body = BodyDigest([]byte("2"))
	last := c.Ask(r, "add the key", "ada", "", true)
	if all := c.Pending(); len(all) != 4 || all[3].ID != last.ID {
		t.Errorf("%+v", all)
	}
	if _, _, err := c.Allow(first.ID, OnTerminal); !errors.Is(err, ErrNoChallenge) {
		t.Error(err)
	}
	if o, ok := c.Some(r); !ok || o.ID != last.ID {
		t.Error(o, ok)
	}
	// A code that was given is not taken away.
	code, _, err := c.Allow(last.ID, OnTerminal)
	given := r
	r.Body = BodyDigest([]byte("3"))
	c.Ask(r, "add the key", "ada", "", true)
	if _, wrong := c.Redeem(given, code); err != nil || wrong != nil {
		t.Error(err, wrong)
	}
}

// One credential cannot push the challenges of another one out.
func TestManyChallenges(t *testing.T) {
	t.Parallel()
	var c Confirms
	mine := c.Ask(Request{Credential: "session:me"}, "mine", "ada", "", false)
	for i := range 100 {
		c.Ask(Request{Credential: "token:flood", Path: fmt.Sprint(i)}, "flood", "eve", "", false)
	}
	all := c.Pending()
	if len(all) != 1+maxOpen || all[0].ID != mine.ID || all[maxOpen].Request.Path != "99" {
		t.Errorf("%d challenges", len(all))
	}
}

// What a passkey signs stands for one challenge and its request, is given once, to the credential that has asked, and for
// five minutes.
func TestSign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Confirms
		r := Request{Credential: "session:s1", Method: "POST", Path: "/x", Body: BodyDigest([]byte("{}"))}
		o := c.Ask(r, "remember it", "ada", "", false)
		signs := map[string]string{string(o.Sign()): "it"}
		for name, change := range map[string]func(*Challenge){
			"another id": func(o *Challenge) { o.ID += "0" }, "another wish": func(o *Challenge) { o.What += "!" }, "another credential": func(o *Challenge) { o.Request.Credential = "session:s2" },
			"another method": func(o *Challenge) { o.Request.Method = "PUT" }, "another path": func(o *Challenge) { o.Request.Path = "/y" }, "another body": func(o *Challenge) { o.Request.Body = "00" },
			"another number": func(o *Challenge) { o.nonce = []byte("x") }, "a border that has moved": func(o *Challenge) { o.Request.Method, o.Request.Path = "POST/", "x" },
		} {
			other := o
			change(&other)
			if was, ok := signs[string(other.Sign())]; ok {
				t.Errorf("%s is signed as %s", name, was)
			}
			signs[string(other.Sign())] = name
		}
		if again := c.Ask(r, "remember it", "ada", "", false); string(again.Sign()) != string(o.Sign()) || len(o.Sign()) != 32 {
			t.Error("the same wish is signed in two ways")
		}
		if _, err := c.Take(o.ID, "session:s2"); !errors.Is(err, ErrNoChallenge) {
			t.Error("another credential:", err)
		}
		if got, err := c.Take(o.ID, "session:s1"); err != nil || string(got.Sign()) != string(o.Sign()) {
			t.Error(err)
		}
		if _, err := c.Take(o.ID, "session:s1"); !errors.Is(err, ErrNoChallenge) {
			t.Error("twice:", err)
		}
		code, _, err := c.Allow(o.ID, "passkey laptop")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Redeem(r, code); err != nil || got.ConfirmedBy() != "passkey laptop" {
			t.Error(got, err)
		}
		o = c.Ask(r, "remember it", "ada", "", false)
		_, _ = c.Take(o.ID, "session:s1")
		if again := c.Ask(r, "remember it", "ada", "", false); again.ID != o.ID || string(again.Sign()) == string(o.Sign()) {
			t.Error("what was taken is signed again")
		}
		time.Sleep(ConfirmLife)
		if _, err := c.Take(o.ID, "session:s1"); !errors.Is(err, ErrNoChallenge) {
			t.Error("after five minutes:", err)
		}
		o = c.Ask(r, "add a passkey", "ada", "", true)
		if _, err := c.Take(o.ID, "session:s1"); !errors.Is(err, ErrTerminal) || o.Sign() != nil {
			t.Error("for a terminal only:", err)
		}
	})
}
