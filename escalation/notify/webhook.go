package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	// The id is the same for every try of a message, so that the receiver can tell a
	// repetition. It has no dot, which separates the parts that are signed.
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

// Body is m as the JSON that a Webhook posts and a Command reads. Every string
// went through Visible, so that nothing in it hides or turns round. "text" is
// Text, with & < > as entities, so that it holds no link and calls nobody where
// Slack's rules apply. "command_base64" has the exact bytes of the command, for
// programs that compare it.
func Body(m Message) ([]byte, error) {
	shown := m
	for _, field := range shown.texts() {
		*field, _ = Visible(*field)
	}
	return json.Marshal(struct {
		Text string `json:"text"`
		Message
		CommandBase64 string `json:"command_base64,omitempty"`
	}{Escape(Text(m)), shown, base64.StdEncoding.EncodeToString([]byte(m.Command))})
}

// signingKey reads a secret in the form of Standard Webhooks ("whsec_" and
// base64), or takes any other string of at least 16 bytes as the key itself.
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

// sign is the webhook-signature of Standard Webhooks 1.0: HMAC-SHA256 over
// "id.timestamp.body", in base64, with its version before it.
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
