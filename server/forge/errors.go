package forge

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// Unavailable says that a service does not answer now: an outage, a limit, the network, or bytes that are no answer. The
// caller may try again, not before Until if the service has named a time.
type Unavailable struct {
	Err   error
	Until time.Time
}

func (e *Unavailable) Error() string {
	if e.Until.IsZero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (until %s)", e.Err, e.Until.UTC().Format(time.RFC3339))
}
func (e *Unavailable) Unwrap() error { return e.Err }

// ErrNotFound says that there is no such thing, or that the operator may not see it.
var ErrNotFound = errors.New("not found")

// Error says that a service has refused, and what the operator may type to find out why.
type Error struct {
	Err  error
	Next string
}

func (e *Error) Error() string { return e.Err.Error() + "; type: " + e.Next }
func (e *Error) Unwrap() error { return e.Err }

// Judge returns what a refusal means for the caller, and nil for an answer of 200 to 299. what names the request.
func (f Forge) Judge(what string, r Response) error {
	if r.Status/100 == 2 {
		return nil
	}
	var body struct {
		Message any `json:"message"` // GitLab also sends objects
		Error   any `json:"error"`
	}
	_ = text.Decode(r.Body, &body) // a gateway answers HTML
	said := ""
	for _, m := range []any{body.Message, body.Error} {
		if m != nil {
			said = text.Line(fmt.Sprint(said, " ", m), 300)
		}
	}
	err := fmt.Errorf("%s: HTTP %d: %s", what, r.Status, said)
	lower := strings.ToLower(said)
	limited := r.Status == http.StatusTooManyRequests || r.Status == http.StatusForbidden && (r.Header.Get("X-RateLimit-Remaining") == "0" || r.Header.Get("Retry-After") != "" ||
		strings.Contains(lower, "rate limit") || strings.Contains(lower, "abuse detection"))
	switch {
	case limited, r.Status >= 500, r.Status == http.StatusRequestTimeout:
		return &Unavailable{Err: err, Until: Reset(r.Header, limited, time.Now())}
	case r.Status == http.StatusNotFound, r.Status == http.StatusGone:
		return &Error{Err: fmt.Errorf("%w: %w", err, ErrNotFound), Next: f.look()}
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return &Error{Err: err, Next: f.Program + " auth status --hostname " + f.Host}
	}
	return &Error{Err: err, Next: f.look()}
}

// mostWait bounds what a service may ask for.
const mostWait = 24 * time.Hour

// Reset returns when a service wants to be asked again, by its headers: Retry-After in seconds, else the time at which a
// spent limit begins anew. A limit without a time ends after a minute, as GitHub wants for its secondary limits. It
// returns the zero time if nothing is known, and never more than a day from now.
func Reset(h http.Header, limited bool, now time.Time) time.Time {
	if s, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil && s >= 0 {
		return now.Add(time.Duration(min(s, int64(mostWait/time.Second))) * time.Second)
	}
	if !limited {
		return time.Time{}
	}
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
		s, err := strconv.ParseInt(h.Get(name), 10, 64)
		if at := time.Unix(s, 0); err == nil && h.Get("X-RateLimit-Remaining")+h.Get("RateLimit-Remaining") == "0" && at.After(now) {
			return earlier(at, now.Add(mostWait))
		}
	}
	return now.Add(time.Minute)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
