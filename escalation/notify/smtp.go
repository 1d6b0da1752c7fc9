package notify

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

const (
	mailTimeout = 30 * time.Second
	mailBody    = 128 << 10 // characters
)

// Mail is the Notifier that sends a message as an e-mail. The messages about one escalation are one thread. Every try of
// a message has the same Message-ID.
type Mail struct {
	name     string
	host     string
	port     int
	implicit bool // TLS from the first byte
	tls      bool // TLS is required
	user     string
	scrub    *redact.Replacer
	o        MailOptions
}

// MailOptions configure a Mail. From and To are required.
type MailOptions struct {
	From     string // an address, also with a name before it
	To       []string
	Password redact.Secret  // of the user in the URL
	Timeout  time.Duration  // bounds one try; 0 is 30 s
	RootCAs  *x509.CertPool // nil means the roots of the system
}

// NewMail returns a Mail for a server. server is smtps://USER@HOST:465 (TLS from the first byte), or smtp://USER@HOST:587
// (STARTTLS, without which nothing is sent). Without a user superloop does not log in. Only a loopback address may do
// without TLS: superloop uses none with smtp:// there.
func NewMail(name string, server redact.Secret, o MailOptions) (*Mail, error) {
	fail := func(why string) (*Mail, error) { return nil, fmt.Errorf("channel %q: %s", name, why) }
	u, err := url.Parse(strings.TrimSpace(server.Reveal()))
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return fail("the URL is no mail server; write it as smtps://user@host:465 or smtp://user@host:587")
	}
	m := &Mail{name: name, host: u.Hostname(), port: 587, implicit: u.Scheme == "smtps", user: u.User.Username(), o: o}
	m.tls = m.implicit || !loopback(m.host)
	if m.implicit {
		m.port = 465
	}
	if u.Port() != "" {
		if m.port, err = strconv.Atoi(u.Port()); err != nil || m.port < 1 || m.port > 65535 {
			return fail("the URL has no valid port")
		}
	}
	if _, both := u.User.Password(); both {
		return fail("the URL holds a password; put the password into a variable and name it in token_env")
	}
	if m.o.Timeout <= 0 {
		m.o.Timeout = mailTimeout
	}
	if _, err := netmail.ParseAddress(o.From); err != nil {
		return fail("from is no mail address")
	}
	if len(o.To) == 0 {
		return fail("to names nobody")
	}
	for i, to := range o.To {
		if _, err := netmail.ParseAddress(to); err != nil {
			return fail(fmt.Sprintf("entry %d of to is no mail address", i))
		}
	}
	p := o.Password.Reveal()
	plain := "\x00" + m.user + "\x00" + p
	m.scrub = redact.Values([]string{p, base64.StdEncoding.EncodeToString([]byte(p)), base64.StdEncoding.EncodeToString([]byte(plain))})
	return m, nil
}

// Name implements Notifier.
func (m *Mail) Name() string { return m.name }

// Send implements Notifier. It returns a *PermanentError if the server refuses the message or one of its recipients for
// good. A refused password and a certificate that is not trusted are for an operator to repair.
func (m *Mail) Send(ctx context.Context, msg Message) error {
	letter, err := m.letter(msg)
	if err != nil {
		return &PermanentError{Reason: "writing the message as a mail failed: " + m.safe(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	policy := mail.TLSMandatory
	if !m.tls {
		policy = mail.NoTLS
	}
	secure := &tls.Config{ServerName: m.host, RootCAs: m.o.RootCAs, MinVersion: tls.VersionTLS12}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := &net.Dialer{}
		if policy == mail.NoTLS {
			dialer.Control = onlyLoopback
		}
		raw, err := dialer.DialContext(ctx, network, address)
		if err != nil || !m.implicit {
			return raw, err
		}
		conn := tls.Client(raw, secure)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // nothing was said
			return nil, err
		}
		return conn, nil
	}
	var conn net.Conn
	options := []mail.Option{mail.WithPort(m.port), mail.WithTimeout(m.o.Timeout), mail.WithTLSConfig(secure), mail.WithTLSPolicy(policy), mail.WithoutNoop(),
		mail.WithDialContextFunc(func(dialing context.Context, network, address string) (_ net.Conn, err error) {
			if conn, err = dial(dialing, network, address); err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
			return conn, err
		})}
	if m.implicit {
		options = append(options, mail.WithSSL())
	}
	if m.user != "" {
		options = append(options, mail.WithUsername(m.user), mail.WithPassword(m.o.Password.Reveal()),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthSCRAMSHA1, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	client, err := mail.NewClient(m.host, options...)
	if err != nil {
		return &PermanentError{Reason: m.safe(err)}
	}
	open, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return m.unreached(ctx, err)
	}
	err = client.SendWithSMTPClient(open, letter)
	if letter.IsDelivered() {
		_ = open.Quit() // the server has the message, whatever it answers now
		return nil
	}
	return m.refused(ctx, err)
}

// letter returns the message as an e-mail in plain text.
func (m *Mail) letter(msg Message) (*mail.Msg, error) {
	letter := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := letter.From(m.o.From); err != nil {
		return nil, err
	}
	if err := letter.To(m.o.To...); err != nil {
		return nil, err
	}
	said := Text(msg)
	if msg.Diff != "" {
		diff, _ := Visible(msg.Diff)
		said += "\nWhat the command reads is not what was trusted:\n" + diff
	}
	letter.Subject(unlinked(Title(msg)))
	letter.SetMessageIDWithValue(m.id(msg.ID))
	if msg.Escalation != "" {
		letter.SetGenHeader(mail.HeaderReferences, "<"+m.id(msg.Escalation)+">")
	}
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	letter.SetBodyString(mail.TypeTextPlain, text.Cut(unlinked(said), mailBody))
	return letter, nil
}

// id returns a Message-ID, without its brackets.
func (m *Mail) id(of string) string {
	sum := sha256.Sum256([]byte(of))
	domain := "superloop.invalid"
	if a, err := netmail.ParseAddress(m.o.From); err == nil {
		domain = a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	}
	return hex.EncodeToString(sum[:16]) + "@" + domain
}

// unreached returns the error for a connection that did not come about.
func (m *Mail) unreached(ctx context.Context, err error) error {
	var dns *net.DNSError
	said, answered := errors.AsType[*textproto.Error](err)
	cert, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case ctx.Err() != nil:
		return m.late(ctx)
	case untrusted:
		return &TemporaryError{Reason: fmt.Sprintf("the certificate of %s is not trusted: %v", m.host, cert.Err), Repair: true}
	case errors.As(err, &dns):
		return &TemporaryError{Reason: fmt.Sprintf("the host %s was not found", m.host)}
	case answered && (said.Code == 530 || said.Code == 534 || said.Code == 535 || said.Code == 538):
		return &TemporaryError{Reason: fmt.Sprintf("%s refuses the login of %s: %s", m.host, OneLine(m.user, 80), m.safe(err)), Repair: true}
	case answered && said.Code >= 500:
		return &PermanentError{Reason: m.host + " refuses: " + m.safe(err)}
	case strings.Contains(err.Error(), "STARTTLS"): // go-mail gives this error only as text
		return &TemporaryError{Reason: fmt.Sprintf("%s offers no STARTTLS, and superloop sends nothing in the clear: use smtps:// or another port", m.host), Repair: true}
	}
	return &TemporaryError{Reason: fmt.Sprintf("no connection to %s: %s", m.host, m.safe(err))}
}

// refused returns the error for a message that the server did not take.
func (m *Mail) refused(ctx context.Context, err error) error {
	said, ok := errors.AsType[*mail.SendError](err)
	switch {
	case ctx.Err() != nil:
		return m.late(ctx)
	case ok && said.ErrorCode() >= 500:
		return &PermanentError{Reason: m.host + " refuses the message: " + m.safe(err)}
	}
	return &TemporaryError{Reason: m.host + " did not take the message: " + m.safe(err)}
}

func (m *Mail) late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &TemporaryError{Reason: fmt.Sprintf("%s did not take the message within %v", m.host, m.o.Timeout)}
	}
	return &TemporaryError{Reason: "stopped before there was an answer"}
}

// safe returns the text of err in one line, without the password.
func (m *Mail) safe(err error) string {
	if err == nil {
		return "no reason given"
	}
	return OneLine(m.scrub.String(redact.Text(err.Error())), 200)
}
