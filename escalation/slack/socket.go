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
	ackTimeout   = 2 * time.Second // Slack waits 3 s for an acknowledgement
	maxFrame     = 1 << 20
	firstRestart = time.Second
	lastRestart  = 5 * time.Minute
	steady       = 10 * time.Second // how long a connection must last to count as a working one
	firstPause   = 250 * time.Millisecond
	longestPause = time.Minute

	maxPayload       = 1 << 20
	rememberRequests = 10_000 // the requests of about five minutes
	minSigningSecret = 16
)

// SocketOptions configure a Socket.
type SocketOptions struct {
	// AppToken ("xapp-...") has the scope connections:write. If two hosts use the same token, each receives only part
	// of the clicks.
	AppToken redact.Secret
	Clicks   *Clicks
	// OnState is called when the connection is established and when it is lost, with the reason. The reason holds no
	// URL and no token.
	OnState func(connected bool, reason string)
	APIURL  string // replaces https://slack.com/api/.
}

// Socket receives clicks through Slack's Socket Mode. It connects to Slack, so this machine needs no open port.
type Socket struct {
	o    SocketOptions
	take func(slack.InteractionCallback)
}

// NewSocket returns a Socket, or an error if the options are not valid. It does not connect.
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
	return &Socket{o, o.Clicks.take}, nil
}

// Run receives clicks until ctx ends, and then returns nil. When the connection breaks, Run connects again, with longer
// pauses after repeated failures. If Slack does not accept the token, Run returns a *notify.PermanentError.
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

// listen runs one client of slack-go until it gives up. The client itself connects again when a connection ends.
func (s *Socket) listen(ctx context.Context, gate *pacer) error {
	silent := log.New(io.Discard, "", 0) // the log lines of slack-go hold texts of users
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
				case ev := <-client.Events: // the events from before the end
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
	// Acknowledge first, then handle the click. If the acknowledgement is lost, Slack sends the click again, and take
	// drops it.
	ack, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_ = client.AckCtx(ack, ev.Request.EnvelopeID, nil)
	if cb, ok := ev.Data.(slack.InteractionCallback); ok {
		s.take(cb)
	}
}

// scrub returns the text of an error of slack-go without secrets. The address of the websocket in it holds a ticket.
func (s *Socket) scrub(err error) string {
	if err == nil {
		return "the connection ended"
	}
	return notify.OneLine(redact.Values([]string{s.o.AppToken.Reveal()}).String(redact.Text(err.Error())), 200)
}

// refusal returns an error if Slack will not accept the token the next time, either.
func refusal(err error) error {
	// slack-go gives these errors only as text
	if err != nil && slices.Contains([]string{"invalid_auth", "account_inactive", "not_authed", "token_revoked"}, err.Error()) {
		return &notify.PermanentError{Reason: "Slack does not take the app token: " + err.Error()}
	}
	return nil
}

// pacer is the HTTP client of slack-go. slack-go connects again at once when a connection ends, so it would send
// requests without pause to a server that drops connections. pacer makes the pauses between its requests longer until a
// connection lasts.
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

// pause returns the time that the next request has to wait. The first request after a broken connection does not wait.
// The caller holds mu.
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

// handler receives clicks as HTTP requests.
type handler struct {
	secret redact.Secret
	clicks *Clicks

	mu   sync.Mutex
	used seen
}

// NewHandler returns the endpoint for an app's Interactivity Request URL. It accepts a request once, if the signature
// (v0, with the app's signing secret, compared in constant time) is right and its time differs by at most five minutes.
// It replies at once and handles the click afterwards. A refusal has only a status: 405 for another method, 413 for
// more than 1 MiB, 401 for a wrong signature or time, 409 for a repeated request, 400 for a missing payload.
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
	fresh := h.used.add(strings.ToLower(r.Header.Get("X-Slack-Signature"))) // hex digits in either case
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
