package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

// Webhook posts messages as JSON to any endpoint. The body holds the fields of the Message and "text" (see Body).
// Endpoints that understand Slack's messages show "text" (Mattermost, Rocket.Chat and others). The request has the
// headers of Standard Webhooks: webhook-id, webhook-timestamp and, with a secret, webhook-signature.
type Webhook struct {
	name     string
	endpoint *Endpoint
	key      []byte
}

// WebhookOptions configure a Webhook. The zero value means the defaults.
type WebhookOptions struct {
	// Secret signs the requests: "whsec_" followed by base64, or any string of at least 16 bytes. If it is "", requests
	// are not signed.
	Secret redact.Secret
	EndpointOptions
}

// NewWebhook returns a Webhook. It returns an error if the URL or the secret is not allowed.
func NewWebhook(name string, url redact.Secret, o WebhookOptions) (*Webhook, error) {
	w := &Webhook{name: name}
	var err error
	if w.endpoint, err = NewEndpoint(url, o.EndpointOptions); err == nil && o.Secret != "" {
		w.key, err = signingKey(o.Secret)
	}
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", name, err)
	}
	return w, nil
}

// Name implements Notifier.
func (w *Webhook) Name() string { return w.name }

// Send implements Notifier. Any status 2xx is a success, whatever the body.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	body, err := Body(m)
	if err != nil {
		return &PermanentError{Reason: "writing the message as JSON failed"}
	}
	// Every try of a message has the same id, so that the receiver can detect a repetition. The id holds no dot.
	sum := sha256.Sum256([]byte(m.ID))
	id, now := "msg_"+hex.EncodeToString(sum[:16]), time.Now()
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	if w.key != nil {
		header.Set("webhook-signature", sign(w.key, id, now, body))
	}
	reply, err := w.endpoint.Post(ctx, header, body)
	if err != nil {
		return err
	}
	return reply.Err()
}

// Body returns m as the JSON that a Webhook posts and a Command passes on. Every string goes through Visible, so that
// no character hides or reverses others. "text" is Text with & < > as entities, so that under Slack's rules it holds no
// link and mentions nobody. "command_base64" holds the exact bytes of the command, for programs that compare them.
func Body(m Message) ([]byte, error) {
	shown := m
	shown.Evidence, shown.Facts, shown.Ways = slices.Clone(m.Evidence), slices.Clone(m.Facts), slices.Clone(m.Ways)
	for _, field := range shown.texts() {
		*field, _ = Visible(*field)
	}
	return json.Marshal(struct {
		Text string `json:"text"`
		Message
		CommandBase64 string `json:"command_base64,omitempty"`
	}{Escape(Text(m)), shown, base64.StdEncoding.EncodeToString([]byte(m.Command))})
}

// signingKey returns the key in a secret: the bytes behind "whsec_" in base64, as in Standard Webhooks, or the secret
// itself. The key must have at least 16 bytes.
func signingKey(secret redact.Secret) ([]byte, error) {
	key := []byte(secret.Reveal())
	if encoded, ok := strings.CutPrefix(secret.Reveal(), "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("the webhook secret begins with whsec_, and the rest is not base64")
		}
	}
	if len(key) < 16 {
		return nil, errors.New("the webhook secret is too short: it needs at least 16 bytes")
	}
	return key, nil
}

// sign returns the webhook-signature of Standard Webhooks 1.0: "v1," and the HMAC-SHA256 of "id.timestamp.body" in
// base64.
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

const maxReply = 4 << 10 // bytes of a reply that superloop reads by default

// Endpoint is an HTTP address to which superloop posts messages. Its URL is a secret, and none of its errors holds it.
// An Endpoint follows no redirect, keeps no connection open and never waits longer than its timeout.
type Endpoint struct {
	url     *url.URL
	client  *http.Client
	timeout time.Duration
	most    int64 // bytes of a reply
	scrub   *redact.Replacer
}

// EndpointOptions configure an Endpoint. The zero value means the defaults.
type EndpointOptions struct {
	Timeout  time.Duration  // bounds one post with its reply; 0 is 5 s
	RootCAs  *x509.CertPool // nil means the roots of the system
	MaxReply int            // bytes of a reply that superloop reads; 0 is 4 KiB
}

// NewEndpoint returns an Endpoint if the URL is https, or http to a loopback address. Others could read plain http and
// forge its replies.
func NewEndpoint(raw redact.Secret, o EndpointOptions) (*Endpoint, error) {
	u, err := url.Parse(strings.TrimSpace(raw.Reveal()))
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return nil, errors.New("the webhook URL is not a URL with a host; write it as https://host/path")
	}
	plain := u.Scheme == "http"
	if u.Scheme != "https" && !(plain && loopback(u.Hostname())) {
		return nil, fmt.Errorf("the webhook URL %s is not allowed: use https (http only to 127.0.0.1, ::1 or localhost)", redact.URL(u.String()))
	}
	u.Fragment = ""
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if plain {
		dialer.Control = onlyLoopback
	}
	password, _ := u.User.Password()
	secrets := append(strings.Split(u.Path, "/"), raw.Reveal(), u.String(), u.RequestURI(), u.Path, u.RawQuery, u.User.Username(), password)
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	return &Endpoint{
		url: u, timeout: o.Timeout, most: int64(cmp.Or(o.MaxReply, maxReply)), scrub: redact.Values(secrets),
		client: &http.Client{
			Timeout:       o.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DialContext:            dialer.DialContext,
				TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
				DisableKeepAlives:      true,
				MaxResponseHeaderBytes: 64 << 10,
			},
		},
	}, nil
}

// Host returns the host of the URL, without its port. No other part of the URL may be shown.
func (e *Endpoint) Host() string { return e.url.Hostname() }

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// onlyLoopback refuses a connection to an address that is not loopback, in case "localhost" resolves to one.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if host, _, err := net.SplitHostPort(address); err != nil || !loopback(host) {
		return errors.New("the name is not a loopback address")
	}
	return nil
}

// Reply is the answer of an endpoint.
type Reply struct {
	Status     int
	Body       string        // the answer, or its beginning
	Whole      bool          // false if the connection broke before the end of the answer
	RetryAfter time.Duration // 0 if the endpoint did not ask for a pause
	scrub      *redact.Replacer
}

// Post sends body, as JSON if header names no other Content-Type. It returns a Reply for any status. Without a reply it returns a *TemporaryError.
func (e *Endpoint) Post(ctx context.Context, header http.Header, body []byte) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(body))
	if err != nil {
		return Reply{}, &TemporaryError{Reason: e.reason(err)}
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", "superloop")
	resp, err := e.client.Do(req)
	if err != nil {
		return Reply{}, &TemporaryError{Reason: e.reason(err)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, e.most))
	return Reply{resp.StatusCode, string(text), err == nil, retryAfter(resp.Header.Get("Retry-After"), time.Now()), e.scrub}, nil
}

// Err returns nil for a status 2xx, a *TemporaryError for 408, 425, 429 and 5xx, and a *PermanentError for all others,
// redirects among them. The reason holds the status and the beginning of the body.
func (r Reply) Err() error {
	reason := fmt.Sprintf("answer %d %s", r.Status, http.StatusText(r.Status))
	if said := r.Said(); said != "" {
		reason += ": " + said
	}
	switch {
	case r.Status >= 200 && r.Status <= 299:
		return nil
	case r.Status == http.StatusRequestTimeout, r.Status == http.StatusTooEarly, r.Status == http.StatusTooManyRequests, r.Status >= 500:
		return &TemporaryError{Reason: reason, RetryAfter: r.RetryAfter}
	case r.Status >= 300 && r.Status <= 399:
		return &PermanentError{Reason: reason + " (redirects are not followed: configure the final URL)"}
	}
	return &PermanentError{Reason: reason}
}

// Said returns the beginning of the body in one line, without any part of the URL.
func (r Reply) Said() string { return OneLine(r.scrub.String(redact.Text(r.Body)), 120) }

// reason describes err in words, without the URL.
func (e *Endpoint) reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped before there was an answer"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %v", e.timeout)
	case errors.As(err, &dns):
		return fmt.Sprintf("the host %s was not found", e.Host())
	}
	return OneLine("no answer: "+e.scrub.String(redact.Text(err.Error())), maxReason)
}

// retryAfter parses a Retry-After header: seconds or a date. It returns 0 if there is no usable value.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
