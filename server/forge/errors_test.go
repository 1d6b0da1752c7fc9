package forge

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	h := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, c := range []struct {
		status int
		h      http.Header
		body   string
		want   string
	}{
		{200, nil, "", "nil"},
		{204, nil, "", "nil"},
		{301, nil, `{"message":"Moved Permanently"}`, "gh api --hostname github.com repos/ann/project"},
		{401, nil, `{"message":"Bad credentials"}`, "gh auth status --hostname github.com"},
		{403, nil, `{"message":"Resource not accessible by integration"}`, "gh auth status --hostname github.com"},
		{403, h("X-RateLimit-Remaining", "12"), `{"message":"Must have admin rights"}`, "gh auth status --hostname github.com"},
		{403, h("X-RateLimit-Remaining", "0"), `{}`, "later"},
		{403, h("Retry-After", "60"), `{}`, "later"},
		{403, nil, `{"message":"You have exceeded a secondary rate limit."}`, "later"},
		{403, nil, `{"message":"You have triggered an abuse detection mechanism."}`, "later"},
		{404, nil, `{"message":"Not Found"}`, "not found"},
		{408, nil, ``, "later"},
		{410, nil, `{"message":"Issues are disabled for this repo"}`, "not found"},
		{422, nil, `{"message":"Validation Failed"}`, "gh api --hostname github.com repos/ann/project"},
		{429, nil, `Retry later`, "later"},
		{500, nil, `<html>`, "later"},
		{502, nil, `{"message":{"base":["x"]},"error":"y"}`, "later"},
	} {
		err := Forge{GH, "github.com", "ann/project"}.Judge("gh GET x", Response{c.status, c.h, []byte(c.body)})
		got := "nil"
		var e *Error
		var u *Unavailable
		switch {
		case errors.As(err, &u):
			got = "later"
		case errors.Is(err, ErrNotFound):
			got = "not found"
		case errors.As(err, &e):
			got = e.Next
		}
		if got != c.want || err != nil && !strings.Contains(err.Error(), fmt.Sprint("HTTP ", c.status)) {
			t.Errorf("%d %v %s: %s, want %s (%v)", c.status, c.h, c.body, got, c.want, err)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name    string
		h       map[string]string
		limited bool
		want    time.Duration // from now; -1 is no time
	}{
		{"nothing", nil, false, -1},
		{"an outage", map[string]string{"Retry-After": "120"}, false, 2 * time.Minute},
		{"a limit", nil, true, time.Minute},
		{"a limit that names seconds", map[string]string{"Retry-After": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000900"}, true, 5 * time.Second},
		{"GitHub", map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000900"}, true, 15 * time.Minute},
		{"a secondary limit", map[string]string{"X-RateLimit-Remaining": "4000", "X-RateLimit-Reset": "1700000900"}, true, time.Minute},
		{"GitLab", map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "1700000060"}, true, time.Minute},
		{"a time that was", map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1600000000"}, true, time.Minute},
		{"next year", map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000000"}, true, 24 * time.Hour},
		{"for ever", map[string]string{"Retry-After": "9223372036854775807"}, true, 24 * time.Hour},
		{"no number", map[string]string{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, true, time.Minute},
	} {
		h := http.Header{}
		for k, v := range c.h {
			h.Set(k, v)
		}
		got := Reset(h, c.limited, now)
		if c.want < 0 && !got.IsZero() || c.want >= 0 && !got.Equal(now.Add(c.want)) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"HTTP/2.0 200 OK\nLink: a\r\nLink: b\r\nx-next-page: 2\r\n\r\n[1]\n": `200 [a b] "2" "[1]\n"`,
		"HTTP/1.1 204 No Content\r\n\r\n":                                    `204 [] "" ""`,
		"HTTP/1.1 200\n\n\n":                                                 `200 [] "" "\n"`,
		"HTTP/1.1 200 OK\nno end":                                            "error",
		"HTTP/1.1 20x OK\n\n":                                                "error",
		"HTTP/1.1 99999 OK\n\n":                                              "error",
		"To get started with GitHub CLI, please run:  gh auth login\n":       "error",
		"": "error",
	} {
		r, err := parse([]byte(out))
		got := "error"
		if err == nil {
			got = fmt.Sprintf("%d %v %q %q", r.Status, r.Header.Values("Link"), r.Header.Get("X-Next-Page"), r.Body)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", out, got, want)
		}
	}
}
