package testkit

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"
)

// MailServer is an SMTP server on the loopback device. It keeps the mails that it takes.
type MailServer struct {
	Addr  string
	Roots *x509.CertPool // trust its certificate, which is for 127.0.0.1
	// Answer, if set, returns the answer to a command in place of the usual one, or "". "hang" answers nothing, and "drop"
	// ends the connection.
	Answer func(line string) string

	certificate tls.Certificate
	mu          sync.Mutex
	mails       []Mail
}

// Mail is a mail as a MailServer took it.
type Mail struct {
	From      string
	To        []string
	Login     string // the user and the password of the connection, "user:password"
	Encrypted bool
	*mail.Message
	Raw string
}

// NewMailServer starts a MailServer. With implicit, TLS begins with the connection. Without it the server offers STARTTLS,
// if secure.
func NewMailServer(t testing.TB, secure, implicit bool) *MailServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := &MailServer{Roots: x509.NewCertPool(), certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s.Roots.AddCert(certificate)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = listener.Addr().String()
	var running sync.WaitGroup
	stop := make(chan struct{})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				done := make(chan struct{})
				go func() {
					select {
					case <-stop:
					case <-done:
					}
					_ = conn.Close() // it may be closed
				}()
				defer close(done)
				s.talk(conn, secure, implicit)
			})
		}
	})
	t.Cleanup(func() { close(stop); _ = listener.Close(); running.Wait() })
	return s
}

// Mails returns the mails so far.
func (s *MailServer) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// talk holds one conversation as RFC 5321, 3207 and 4954 describe it.
func (s *MailServer) talk(conn net.Conn, secure, implicit bool) {
	settings := &tls.Config{Certificates: []tls.Certificate{s.certificate}}
	m := Mail{Encrypted: implicit}
	if implicit {
		conn = tls.Server(conn, settings)
	}
	in := bufio.NewReader(conn)
	say := func(line string) { fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 mail.example.com ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		if s.Answer != nil {
			switch said := s.Answer(line); said {
			case "":
			case "hang":
				_, _ = in.ReadByte()
				return
			case "drop":
				return
			default:
				say(said)
				continue
			}
		}
		switch verb {
		case "EHLO":
			say("250-mail.example.com")
			if secure && !m.Encrypted {
				say("250-STARTTLS")
			}
			if m.Encrypted {
				say("250-AUTH PLAIN LOGIN")
			}
			say("250 ENHANCEDSTATUSCODES")
		case "STARTTLS":
			say("220 2.0.0 Ready")
			conn, m.Encrypted = tls.Server(conn, settings), true
			in = bufio.NewReader(conn)
		case "AUTH":
			_, proof, _ := strings.Cut(rest, " ")
			plain, _ := base64.StdEncoding.DecodeString(proof)
			if parts := strings.Split(string(plain), "\x00"); len(parts) == 3 {
				m.Login = parts[1] + ":" + parts[2]
			}
			say("235 2.7.0 Accepted")
		case "MAIL":
			m.From, m.To = rest, nil
			say("250 2.1.0 Ok")
		case "RCPT":
			m.To = append(m.To, strings.Trim(strings.TrimPrefix(rest, "TO:"), "<>"))
			say("250 2.1.5 Ok")
		case "DATA":
			say("354 End data with <CR><LF>.<CR><LF>")
			if m.Raw, err = data(in); err != nil {
				return
			}
			if m.Message, err = mail.ReadMessage(strings.NewReader(m.Raw)); err != nil {
				say("554 5.6.0 " + err.Error())
				continue
			}
			s.mu.Lock()
			s.mails = append(s.mails, m)
			s.mu.Unlock()
			if s.Answer != nil && s.Answer("after DATA") == "drop" {
				return
			}
			say("250 2.0.0 Ok: queued")
		case "QUIT":
			say("221 2.0.0 Bye")
			return
		default:
			say("250 2.0.0 Ok")
		}
	}
}

// data reads the content of a mail up to the line with a point.
func data(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == ".\r\n" {
			return b.String(), err
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
}
