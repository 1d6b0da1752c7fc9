package notify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

// Webhook posts messages as JSON to any endpoint. The body is the Message,
// field by field (see Body), and besides it "text", which is what endpoints
// that understand Slack's messages show (Mattermost, Rocket.Chat, and others).
// The request carries the headers of Standard Webhooks: webhook-id,
// webhook-timestamp, and webhook-signature if there is a secret.
type Webhook struct {
	name     string
	endpoint *Endpoint
	key      []byte
}

// WebhookOptions change what a Webhook does; the zero value is the usual one.
type WebhookOptions struct {
	// Secret signs the requests: "whsec_" and base64, or any string of 16 bytes and more. "": not signed.
	Secret redact.Secret
	EndpointOptions
}

// NewWebhook checks the URL and the secret.
func NewWebhook(name string, url redact.Secret, o WebhookOptions) (*Webhook, error) {
	endpoint, err := NewEndpoint(url, o.EndpointOptions)
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", name, err)
	}
	w := &Webhook{name: name, endpoint: endpoint}
	if o.Secret != "" {
		if w.key, err = signingKey(o.Secret); err != nil {
			return nil, fmt.Errorf("channel %q: %w", name, err)
		}
	}
	return w, nil
}

// Name implements Notifier.
func (w *Webhook) Name() string { return w.name }

// Send implements Notifier. Any 2xx is a success, whatever the body.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	body, err := Body(m)
	if err != nil {
		return &PermanentError{Reason: "writing the message as JSON failed"}
	}
	id, now := webhookID(m), time.Now()
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

// Body is m as the JSON that a Webhook posts and a Command reads. Every string
// went through Visible, so that nothing in it hides or turns round. "text" is
// Text, with & < > as entities, so that it holds no link and calls nobody where
// Slack's rules apply. "command_base64" has the exact bytes of the command, for
// programs that compare it.
func Body(m Message) ([]byte, error) {
	shown := m
	for _, text := range shown.texts() {
		*text, _ = Visible(*text)
	}
	if !SafeLink(m.Link) {
		shown.Link = ""
	}
	return json.Marshal(struct {
		Text string `json:"text"`
		Message
		CommandBase64 string `json:"command_base64,omitempty"`
	}{Escape(Text(m)), shown, base64.StdEncoding.EncodeToString([]byte(m.Command))})
}
