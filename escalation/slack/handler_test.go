package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// signature is Slack's, of version 0.
func signature(secret, stamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

func TestSignatureOfSlacksDocumentation(t *testing.T) {
	body := "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	if got, want := signature(signingSecret, "1531420618", body), "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(_ context.Context, c Click) Outcome { return Outcome{Status: Accepted} })
	h, err := NewHandler(signingSecret, d.Clicks)
	if err != nil {
		t.Fatal(err)
	}
	s := server(t, h.ServeHTTP)
	form := func(n int) string { return url.Values{"payload": {d.click("U1", Approve, good, n)}}.Encode() }
	at := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	post := func(method, body, stamp, sig string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Slack-Request-Timestamp", stamp)
		req.Header.Set("X-Slack-Signature", sig)
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	signed := func(body, stamp string) int {
		t.Helper()
		return post("POST", body, stamp, signature(signingSecret, stamp, body))
	}

	now := at(0)
	if code := signed(form(1), now); code != 200 {
		t.Fatalf("a good click: %d", code)
	}
	if c, o := d.wait(t); o.Status != Accepted || c.ID != "e1" || c.Digest != digest {
		t.Fatalf("click %+v, outcome %+v", c, o)
	}
	good := signature(signingSecret, now, form(1))
	for name, c := range map[string]struct {
		code int
		want int
	}{
		"replayed":              {signed(form(1), now), 409},
		"replayed, other case":  {post("POST", form(1), now, "v0="+strings.ToUpper(good[3:])), 409},
		"another body":          {post("POST", form(2), now, good), 401},
		"another time":          {post("POST", form(1), at(5*time.Second), good), 401},
		"another secret":        {post("POST", form(1), now, signature("0123456789abcdef0123456789abcdef", now, form(1))), 401},
		"no signature":          {post("POST", form(1), now, ""), 401},
		"no version":            {post("POST", form(1), now, good[3:]), 401},
		"version 1":             {post("POST", form(1), now, "v1="+good[3:]), 401},
		"half a signature":      {post("POST", form(1), now, good[:20]), 401},
		"no time":               {post("POST", form(1), "", good), 401},
		"an old one":            {signed(form(3), at(-302*time.Second)), 401},
		"one from the future":   {signed(form(3), at(303*time.Second)), 401},
		"get":                   {post("GET", "", now, good), 405},
		"no payload":            {signed("x=1", now), 400},
		"payload is no json":    {signed("payload=%7B", now), 400},
		"form is none":          {signed("payload=%zz", now), 400},
		"too much":              {signed("payload="+strings.Repeat("x", maxPayload), now), 413},
		"four minutes late":     {signed(form(4), at(-290*time.Second)), 200},
		"another kind of event": {signed("payload="+url.QueryEscape(`{"type":"view_closed"}`), now), 200},
	} {
		if c.code != c.want {
			t.Errorf("%s: %d, want %d", name, c.code, c.want)
		}
	}
	d.wait(t) // the one that was four minutes late
	if n := len(d.clicks); n != 2 {
		t.Errorf("%d clicks were taken, want 2", n)
	}
	for _, secret := range []string{"", "short"} {
		if _, err := NewHandler("", d.Clicks); err == nil {
			t.Errorf("secret %q was taken", secret)
		}
	}
	if _, err := NewHandler(signingSecret, nil); err == nil {
		t.Error("nobody to take the clicks, and no error")
	}
}
