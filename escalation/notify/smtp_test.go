package notify

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit"
)

const mailPassword = redact.Secret("verysecretverysecret")

func mailer(t *testing.T, s *testkit.MailServer, scheme string, change ...func(*MailOptions)) *Mail {
	t.Helper()
	o := MailOptions{From: "superloop <bot@example.com>", To: []string{"ada@example.com", "Eve <eve@example.org>"}, Password: mailPassword, RootCAs: s.Roots, Timeout: time.Minute}
	for _, c := range change {
		c(&o)
	}
	m, err := NewMail("mail", redact.Secret(scheme+"://bot@"+s.Addr), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// required makes a Mail treat the server on loopback like any other, which has to have TLS.
func required(m *Mail) *Mail { m.tls = true; return m }

func TestMailOverTLS(t *testing.T) {
	t.Parallel()
	for name, implicit := range map[string]bool{"smtp": false, "smtps": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.NewMailServer(t, true, implicit)
			m := required(mailer(t, s, name))
			hostile := opened("e1")
			hostile.Reason = "\u202egnp.exe\r\nBcc: evil@example.com\r\n.\r\nhttps://evil.example/x <b>@everyone</b>"
			hostile.Loop = "we\r\nBcc: evil@example.com\r\nb"
			hostile.Diff = "- old\n+ \x1b[2Jnew"
			for _, msg := range []Message{hostile, hostile, {ID: "e1:resolved", Escalation: "e1", Kind: Resolved, Loop: "web", Status: "approved", By: "cli:ada"}} {
				if err := m.Send(t.Context(), msg); err != nil {
					t.Fatal(err)
				}
			}
			got := s.Mails()
			if len(got) != 3 {
				t.Fatalf("%d mails", len(got))
			}
			h := got[0].Header
			if !got[0].Encrypted || got[0].Login != "bot:"+mailPassword.Reveal() || !strings.HasPrefix(got[0].From, "FROM:<bot@example.com>") || len(got[0].To) != 2 ||
				h.Get("Bcc") != "" || h.Get("Auto-Submitted") != "auto-generated" || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; charset=UTF-8") {
				t.Errorf("%+v %v", got[0], h)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
			if err != nil || !strings.HasPrefix(subject, "superloop: loop we<U+000D> Bcc: ") {
				t.Errorf("subject %q %v", subject, err)
			}
			if id := h.Get("Message-Id"); id == "" || id != got[1].Header.Get("Message-Id") || id == got[2].Header.Get("Message-Id") || h.Get("References") != got[2].Header.Get("References") {
				t.Errorf("ids %q %q %q, references %q", id, got[1].Header.Get("Message-Id"), got[2].Header.Get("Message-Id"), h.Get("References"))
			}
			body, err := io.ReadAll(quotedprintable.NewReader(got[0].Body))
			text := string(body)
			if err != nil || !strings.Contains(text, "<U+202E>gnp.exe") || !strings.Contains(text, "https<:>//evil.example") || !strings.Contains(text, "+ <U+001B>[2Jnew") ||
				!strings.Contains(text, "bun install") || strings.ContainsAny(text, "\u202e\x1b") {
				t.Errorf("%v %q", err, text)
			}
		})
	}
}

// Each way in which a server may refuse: what is said, and whether it is tried again.
func TestMailRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme            string
		secure, untrusted bool
		answer            func(line string) string
		permanent, repair bool
		says              string
		mails             int
	}{
		"no STARTTLS":     {scheme: "smtp", repair: true, says: "offers no STARTTLS"},
		"untrusted":       {scheme: "smtps", secure: true, untrusted: true, repair: true, says: "is not trusted"},
		"untrusted, late": {scheme: "smtp", secure: true, untrusted: true, repair: true, says: "is not trusted"},
		"login":           {scheme: "smtps", secure: true, repair: true, says: "refuses the login of bot", answer: on("AUTH", "535 5.7.8 no, "+mailPassword.Reveal())},
		"recipient":       {scheme: "smtps", secure: true, permanent: true, says: "refuses the message", answer: on("RCPT", "550 5.1.1 no such user")},
		"sender":          {scheme: "smtps", secure: true, permanent: true, says: "refuses the message", answer: on("MAIL", "553 5.7.1 not yours")},
		"greylisted":      {scheme: "smtps", secure: true, says: "did not take the message", answer: on("RCPT", "451 4.7.1 later")},
		"busy":            {scheme: "smtps", secure: true, says: "no connection", answer: on("EHLO", "421 4.3.2 busy")},
		"drop":            {scheme: "smtps", secure: true, says: "did not take the message", answer: on("DATA", "drop")},
		"drop, after all": {scheme: "smtps", secure: true, says: "did not take the message", answer: on("after DATA", "drop"), mails: 1},
		"not told bye":    {scheme: "smtps", secure: true, answer: on("QUIT", "drop"), mails: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.NewMailServer(t, c.secure, c.scheme == "smtps")
			s.Answer = c.answer
			m := required(mailer(t, s, c.scheme, func(o *MailOptions) {
				if c.untrusted {
					o.RootCAs = nil
				}
			}))
			err := m.Send(t.Context(), opened("e1"))
			_, permanent := errors.AsType[*PermanentError](err)
			temporary, again := errors.AsType[*TemporaryError](err)
			if c.says == "" != (err == nil) || permanent != c.permanent || again && temporary.Repair != c.repair || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%T %v", err, err)
			}
			if err != nil {
				noSecret(t, err.Error())
			}
			if got := len(s.Mails()); got != c.mails {
				t.Errorf("%d mails", got)
			}
		})
	}
}

func on(verb, answer string) func(string) string {
	return func(line string) string {
		if strings.HasPrefix(line, verb) {
			return answer
		}
		return ""
	}
}

// A server that says nothing more holds nobody up, and a loopback server without TLS gets no password.
func TestMailOnLoopback(t *testing.T) {
	t.Parallel()
	s := testkit.NewMailServer(t, false, false)
	if err := mailer(t, s, "smtp").Send(t.Context(), opened("e1")); err == nil {
		t.Error("the password went over a connection without TLS")
	}
	m, err := NewMail("mail", redact.Secret("smtp://"+s.Addr), MailOptions{From: "a@example.com", To: []string{"b@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Send(t.Context(), opened("e1")); err != nil || len(s.Mails()) != 1 || s.Mails()[0].Login != "" {
		t.Errorf("%v %+v", err, s.Mails())
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Answer = func(line string) string {
		if strings.HasPrefix(line, "RCPT") {
			cancel()
			return "hang"
		}
		return ""
	}
	if err := m.Send(ctx, opened("e2")); err == nil || !strings.Contains(err.Error(), "stopped before") {
		t.Errorf("%v", err)
	}
}
