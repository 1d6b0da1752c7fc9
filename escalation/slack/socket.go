package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
)

const (
	apiTimeout   = 10 * time.Second
	ackTimeout   = 2 * time.Second // Slack waits 3 s
	maxFrame     = 1 << 20
	firstRestart = time.Second
	lastRestart  = 5 * time.Minute
	steady       = 10 * time.Second // how long a connection must hold to count as one that works
	firstPause   = 250 * time.Millisecond
	longestPause = time.Minute

	maxPayload       = 1 << 20
	rememberRequests = 10_000 // within five minutes
	minSigningSecret = 16
)

// SocketOptions say how to listen for clicks.
type SocketOptions struct {
	// AppToken ("xapp-...") has the scope connections:write. Two hosts that share it steal each other's clicks.
	AppToken redact.Secret
	Clicks   *Clicks
	// OnState is called when the connection is there and when it is not, and why; without URL or token.
	OnState func(connected bool, reason string)
	APIURL  string // replaces https://slack.com/api/.
}

// Socket receives clicks through Slack's Socket Mode: it connects to Slack, so no port has to be open here.
type Socket struct{ o SocketOptions }

// NewSocket checks the options; it does not connect.
func NewSocket(o SocketOptions) (*Socket, error) {
	if !strings.HasPrefix(o.AppToken.Reveal(), "xapp-") {
		return nil, errors.New("socket mode needs an app-level token, which begins with xapp- (make one under Basic Information, App-Level Tokens, with the scope connections:write)")
	}
	if o.Clicks == nil {
		return nil, errors.New("socket mode needs somebody to take the clicks")
	}
	if o.OnState == nil {
		o.OnState = func(bool, string) {}
	}
	return &Socket{o}, nil
}

// Run listens until ctx ends, and then returns nil. It comes back by itself when the connection breaks, with a growing
// pause when that happens again and again. An error is a *notify.PermanentError: Slack does not take the token.
func (s *Socket) Run(ctx context.Context) error {
	gate := &pacer{client: &http.Client{
		Timeout:       apiTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer gate.client.CloseIdleConnections()
	for failures := 0; ; failures++ {
		start := time.Now()
		err := s.listen(ctx, gate)
		if ctx.Err() != nil {
			return nil
		}
		if permanent := refusal(err); permanent != nil {
			s.o.OnState(false, permanent.Error())
			return permanent
		}
		s.o.OnState(false, s.scrub(err))
		if time.Since(start) > lastRestart {
			failures = 0
		}
		d := min(firstRestart<<min(failures, 20), lastRestart)
		pause(ctx, d/2+rand.N(d/2+1))
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// listen runs one client of slack-go, which reconnects when the connection ends, and returns when it gives up.
func (s *Socket) listen(ctx context.Context, gate *pacer) error {
	silent := log.New(io.Discard, "", 0) // its log lines hold what users wrote
	api := slack.New("", slack.OptionAppLevelToken(s.o.AppToken.Reveal()), slack.OptionHTTPClient(gate), slack.OptionLog(silent),
		slack.OptionAPIURL(cmp.Or(s.o.APIURL, slack.APIURL)))
	client := socketmode.New(api, socketmode.OptionReadLimit(maxFrame), socketmode.OptionLog(silent))
	ended := make(chan error, 1)
	go func() { ended <- client.RunContext(ctx) }()
	for {
		select {
		case ev := <-client.Events:
			s.event(ctx, client, ev)
		case err := <-ended:
			for {
				select {
				case ev := <-client.Events: // what came before the end
					s.event(ctx, client, ev)
				default:
					return err
				}
			}
		}
	}
}

func (s *Socket) event(ctx context.Context, client *socketmode.Client, ev socketmode.Event) {
	switch ev.Type {
	case socketmode.EventTypeConnected:
		s.o.OnState(true, "connected")
	case socketmode.EventTypeConnectionError:
		if e, ok := ev.Data.(*slack.ConnectionErrorEvent); ok {
			s.o.OnState(false, s.scrub(e.ErrorObj))
		}
	}
	if ev.Request == nil || ev.Request.EnvelopeID == "" {
		return
	}
	// First the acknowledgement, then the work. If it does not reach Slack the click comes again, and is known by then.
	ack, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_ = client.AckCtx(ack, ev.Request.EnvelopeID, nil)
	if cb, ok := ev.Data.(slack.InteractionCallback); ok {
		s.o.Clicks.take(cb)
	}
}

// scrub makes a reason of an error of slack-go: the address of the websocket holds a ticket.
func (s *Socket) scrub(err error) string {
	if err == nil {
		return "the connection ended"
	}
	return notify.OneLine(redact.Values([]string{s.o.AppToken.Reveal()}).String(redact.Text(err.Error())), 200)
}

// refusal is not nil if Slack will not take the token the next time either.
func refusal(err error) error {
	// slack-go has no other form for it
	if err != nil && slices.Contains([]string{"invalid_auth", "account_inactive", "not_authed", "token_revoked"}, err.Error()) {
		return &notify.PermanentError{Reason: "Slack does not take the app token: " + err.Error()}
	}
	return nil
}

// pacer is the HTTP client of slack-go. That reconnects at once when a connection ends, so it would spin against a
// server that drops connections: the pauses between its requests for a new one grow until one holds.
type pacer struct {
	client *http.Client

	mu     sync.Mutex
	last   time.Time
	streak int
}

// Do implements slack-go's interface for HTTP clients.
func (p *pacer) Do(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	wait := p.pause(time.Now())
	p.mu.Unlock()
	if pause(req.Context(), wait); req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	p.mu.Lock()
	p.last = time.Now()
	p.mu.Unlock()
	return p.client.Do(req)
}

// pause is how long the next request has to wait; the first after a connection that broke does not. The caller holds mu.
func (p *pacer) pause(now time.Time) time.Duration {
	if p.last.IsZero() || now.Sub(p.last) > steady+p.length() {
		p.streak = 0
	} else {
		p.streak++
	}
	return max(0, p.last.Add(p.length()).Sub(now))
}

func (p *pacer) length() time.Duration {
	if p.streak < 2 {
		return 0
	}
	return min(firstPause<<min(p.streak-2, 20), longestPause)
}

// handler receives clicks at a public address.
type handler struct {
	secret redact.Secret
	clicks *Clicks

	mu   sync.Mutex
	used seen
}

// NewHandler is the endpoint for an app's Interactivity Request URL. A request is taken if its signature (v0, with the
// app's signing secret, compared in constant time) is right and at most five minutes old or ahead, and only once. It is
// acknowledged at once; the work comes after. Every refusal is a bare status: 405 another method, 413 more than 1 MiB,
// 401 not signed by Slack or too old, 409 seen before, 400 no payload.
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
	cb, status := h.read(w, r)
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.WriteHeader(status)
	h.clicks.take(cb)
}

func (h *handler) read(w http.ResponseWriter, r *http.Request) (cb slack.InteractionCallback, status int) {
	if r.Method != http.MethodPost {
		return cb, http.StatusMethodNotAllowed
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return cb, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return cb, http.StatusBadRequest
	}
	verifier, err := slack.NewSecretsVerifier(r.Header, h.secret.Reveal())
	if err == nil {
		_, err = verifier.Write(body)
	}
	if err != nil || verifier.Ensure() != nil {
		return cb, http.StatusUnauthorized
	}
	h.mu.Lock()
	fresh := h.used.add(strings.ToLower(r.Header.Get("X-Slack-Signature"))) // hex, in either case
	h.mu.Unlock()
	if !fresh {
		return cb, http.StatusConflict
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || json.Unmarshal([]byte(form.Get("payload")), &cb) != nil {
		return cb, http.StatusBadRequest
	}
	return cb, http.StatusOK
}
