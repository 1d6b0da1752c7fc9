package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
)

// Webhook is the notify.Notifier for a Slack incoming webhook. slack-go has the types; the posting is ours, because a
// success is only what Slack calls "ok" in the body.
type Webhook struct {
	name     string
	endpoint *notify.Endpoint
	style    Style
}

// WebhookOptions change what a Webhook does; the zero value is the usual one.
type WebhookOptions struct {
	Style
	notify.EndpointOptions
}

// NewWebhook checks the URL. Any endpoint that answers as Slack does will do; see notify.NewWebhook for those that do
// not.
func NewWebhook(name string, url redact.Secret, o WebhookOptions) (*Webhook, error) {
	endpoint, err := notify.NewEndpoint(url, o.EndpointOptions)
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", name, err)
	}
	return &Webhook{name: name, endpoint: endpoint, style: o.Style}, nil
}

// slackHost reports whether incoming webhooks of Slack have this host.
func slackHost(host string) bool {
	return strings.EqualFold(host, "hooks.slack.com") || strings.EqualFold(host, "hooks.slack-gov.com")
}

// ForURL gives the notifier that a URL alone asks for: Slack's for Slack's own hosts, the generic webhook for any
// other.
func ForURL(name string, raw redact.Secret, s Style, o notify.WebhookOptions) (notify.Notifier, error) {
	if u, err := url.Parse(strings.TrimSpace(raw.Reveal())); err == nil && slackHost(u.Hostname()) {
		return NewWebhook(name, raw, WebhookOptions{s, o.EndpointOptions})
	}
	return notify.NewWebhook(name, raw, o)
}

// Name implements notify.Notifier.
func (w *Webhook) Name() string { return w.name }

// malformed are Slack's words for a message whose form it does not take.
var malformed = []string{"invalid_blocks", "invalid_blocks_format", "invalid_payload", "no_text", "msg_too_long", "msg_blocks_too_long"}

// Send implements notify.Notifier. If Slack refuses the blocks the message goes out once more without them: that a
// message arrives matters more than how.
func (w *Webhook) Send(ctx context.Context, m notify.Message) error {
	word, err := w.post(ctx, Build(m, w.style))
	if err == nil || !slices.Contains(malformed, word) {
		return err
	}
	_, err = w.post(ctx, message(fenced(notify.Text(m)), nil))
	return err
}

// post sends one message; word is what Slack said.
func (w *Webhook) post(ctx context.Context, msg *slack.WebhookMessage) (word string, err error) {
	body, err := json.Marshal(msg)
	if err != nil {
		return "", &notify.PermanentError{Reason: "writing the message as JSON failed"}
	}
	reply, err := w.endpoint.Post(ctx, nil, body)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(reply.Body), verdict(reply)
}

var errorWord = pattern.Lazy(`^[a-z][a-z0-9_]{2,60}$`)

// verdict reads an answer of Slack. Errors come with a 4xx and a word in the body; a 200 is a success only with the
// body "ok". A 200 with another word is a refusal; with anything else it comes from something in between, which may let
// the next try through.
func verdict(r notify.Reply) error {
	if err := r.Err(); err != nil {
		return err
	}
	said := strings.TrimSpace(r.Body)
	switch {
	case !r.Whole:
		return &notify.TemporaryError{Reason: fmt.Sprintf("answer %d broke off, so it is not known whether Slack has the message", r.Status)}
	case said == "ok":
		return nil
	case errorWord().MatchString(said):
		return &notify.PermanentError{Reason: fmt.Sprintf("answer %d, but Slack refused the message: %s", r.Status, said)}
	}
	return &notify.TemporaryError{Reason: fmt.Sprintf("answer %d that is not Slack's %q: %s", r.Status, "ok", r.Said()), RetryAfter: r.RetryAfter}
}
