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
		o := c.Ask(r, "remember it", "ada", "POST /x {}")
		if again := c.Ask(r, "remember it", "ada", "POST /x {}"); again.ID != o.ID || len(c.Pending()) != 1 {
			t.Error("the same wish is asked twice")
		}
		if other := c.Ask(r, "undo it", "ada", "POST /x {}"); other.ID == o.ID {
			t.Error("another wish has the same challenge")
		}
		if _, _, err := c.Allow("nothing"); !errors.Is(err, ErrNoChallenge) {
			t.Error(err)
		}
		void, _, err := c.Allow(o.ID)
		if err != nil || !regexp.MustCompile(`^[0-9A-Z]{4}-[0-9A-Z]{4}$`).MatchString(void) {
			t.Fatal(void, err)
		}
		code, _, _ := c.Allow(o.ID)
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
		o = c.Ask(r, "remember it", "ada", "")
		code, _, _ = c.Allow(o.ID)
		time.Sleep(ConfirmLife)
		if _, err := c.Redeem(r, code); !errors.Is(err, ErrConfirm) || len(c.Pending()) != 0 {
			t.Error("after five minutes:", err)
		}
		o = c.Ask(r, "remember it", "ada", "")
		code, _, _ = c.Allow(o.ID)
		for range maxWrong {
			_, _ = c.Redeem(r, "0000-0000")
		}
		if _, err := c.Redeem(r, code); !errors.Is(err, ErrConfirm) {
			t.Error("after many wrong codes:", err)
		}
	})
}

// One credential cannot push the challenges of another one out.
func TestManyChallenges(t *testing.T) {
	t.Parallel()
	var c Confirms
	mine := c.Ask(Request{Credential: "session:me"}, "mine", "ada", "")
	for i := range 100 {
		c.Ask(Request{Credential: "token:flood", Path: fmt.Sprint(i)}, "flood", "eve", "")
	}
	all := c.Pending()
	if len(all) != 1+maxOpen || all[0].ID != mine.ID || all[maxOpen].Request.Path != "99" {
		t.Errorf("%d challenges", len(all))
	}
}
