package slack

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/internal/redact"
)

const (
	maxPayload       = 1 << 20
	rememberRequests = 10_000 // within five minutes
	minSigningSecret = 16
)

// handler receives clicks at a public address.
type handler struct {
	secret redact.Secret
	clicks *Clicks

	mu   sync.Mutex
	used seen
}

// NewHandler is the endpoint for an app's Interactivity Request URL. A request is taken if its signature (v0, with
// the app's signing secret, compared in constant time) is right and at most five minutes old or ahead, and only once.
// It is acknowledged at once; the work comes after. Every refusal is a bare status: 405 another method, 413 more than
// 1 MiB, 401 not signed by Slack or too old, 409 seen before, 400 no payload.
func NewHandler(signingSecret redact.Secret, c *Clicks) (http.Handler, error) {
	if len(signingSecret.Reveal()) < minSigningSecret {
		return nil, errors.New("the Slack signing secret is missing or too short (it is under Basic Information, App Credentials)")
	}
	if c == nil {
		return nil, errors.New("the endpoint for clicks needs somebody to take them")
	}
	return &handler{secret: signingSecret, clicks: c, used: seen{limit: rememberRequests}}, nil
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int) { http.Error(w, http.StatusText(status), status) }
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		refuse(http.StatusBadRequest)
		return
	}
	verifier, err := slack.NewSecretsVerifier(r.Header, h.secret.Reveal())
	if err == nil {
		_, err = verifier.Write(body)
	}
	if err != nil || verifier.Ensure() != nil {
		refuse(http.StatusUnauthorized)
		return
	}
	h.mu.Lock()
	fresh := h.used.add(strings.ToLower(r.Header.Get("X-Slack-Signature"))) // hex, in either case
	h.mu.Unlock()
	if !fresh {
		refuse(http.StatusConflict)
		return
	}
	form, err := url.ParseQuery(string(body))
	var cb slack.InteractionCallback
	if err != nil || json.Unmarshal([]byte(form.Get("payload")), &cb) != nil {
		refuse(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
	h.clicks.take(cb)
}
