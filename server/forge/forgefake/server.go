// Package forgefake is a GitHub and a GitLab on this machine, for tests: one set of issues and pull requests, shown as
// each of the two shows them, over TLS. It keeps what it is told, answers page by page, counts what it is asked, and fails
// when a test says so. Its answers have the fields, headers and bodies of errors of the real services.
package forgefake

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/server/forge"
)

// Path is the repository. Ann owns it, Bob may write to it, everybody else may not; Me is who asks, and may write.
const (
	Path = "ann/project"
	Ann  = "ann"
	Bob  = "bob"
	Me   = "superloop-operator"
)

// Server is the fake. All methods may be called at any time.
type Server struct {
	Host string // with the port
	desk
	now    time.Time
	last   int // the newest id
	issues []*Issue
	pulls  []*Pull
}

// desk takes requests: it counts them, and lets faults answer.
type desk struct {
	http   *httptest.Server
	mu     sync.Mutex
	asked  map[string]int
	faults map[string][]Fault
}

// open starts the server, which ends with the test, and returns its host with the port.
func (d *desk) open(t testing.TB, mux http.Handler) (host string) {
	d.asked, d.faults = map[string]int{}, map[string][]Fault{}
	d.http = httptest.NewUnstartedServer(mux)
	d.http.Config.ErrorLog = quiet()
	d.http.StartTLS()
	if tr, ok := d.http.Client().Transport.(*http.Transport); ok {
		tr.MaxIdleConnsPerHost = 256 // a new connection costs more than all else here
	}
	t.Cleanup(func() {
		d.http.CloseClientConnections()
		d.http.Close()
	})
	return d.http.Listener.Addr().String()
}

// Fault answers a request instead of the server. The request goes on to the server if it returns false, so that a Fault
// can also change something right before.
type Fault func(w http.ResponseWriter, r *http.Request) (answered bool)

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), last: 100}
	mux := http.NewServeMux()
	s.github(mux)
	s.gitlab(mux)
	s.Host = s.open(t, mux)
	return s
}

// Certificate returns the server's certificate as PEM, for SSL_CERT_FILE.
func (d *desk) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.http.Certificate().Raw})
}

// Forge returns the repository as gh or glab knows it.
func (s *Server) Forge(program string) forge.Forge {
	return forge.Forge{Program: program, Host: s.Host, Path: Path}
}

// Client returns a client that asks the server directly, as gh or glab would.
func (s *Server) Client(program string) forge.Client {
	return forge.Client{Forge: s.Forge(program), Doer: direct{s, program}}
}

// On has a Fault answer the next requests of an operation, one each. Operations are named in the routes of this package.
func (d *desk) On(operation string, faults ...Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[operation] = append(d.faults[operation], faults...)
}

// Asked returns how often an operation was asked for.
func (d *desk) Asked(operation string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[operation]
}

// handle lets a function answer an operation. The function holds the lock.
func (d *desk) handle(operation string, w http.ResponseWriter, r *http.Request, answer func()) {
	d.mu.Lock()
	d.asked[operation]++
	var fault Fault
	if list := d.faults[operation]; len(list) > 0 {
		fault, d.faults[operation] = list[0], list[1:]
	}
	d.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	answer()
}

// tick returns a time that is a second later each time.
func (s *Server) tick() time.Time {
	s.now = s.now.Add(time.Second)
	return s.now
}

func (s *Server) id() int {
	s.last++
	return s.last
}

// Outage answers as a gateway whose service is down.
func Outage(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "<html><body><h1>503 Service Unavailable</h1>No server is available to handle this request.</body></html>")
	return true
}

// Cut closes the connection in the middle of the answer.
func Cut(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", "100000")
	_, _ = io.WriteString(w, `{"data": {"repository": {"issues": {"nodes": [{"number": 1`)
	_ = http.NewResponseController(w).Flush() // a client that has got nothing asks once more by itself
	panic(http.ErrAbortHandler)
}

// Malformed answers with JSON that has no end.
func Malformed(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = io.WriteString(w, `{"data": {"repository": {"issues": [[[`)
	return true
}

// Hang does not answer until the client leaves.
func Hang(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body) // the server sees that a client has left once its request is read
	<-r.Context().Done()
	return true
}

// Limited answers that the limit is spent until a time, in the headers of GitHub and GitLab.
func Limited(until time.Time) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		reset := fmt.Sprint(until.Unix())
		if strings.HasPrefix(r.URL.Path, "/api/v4/") {
			w.Header().Set("RateLimit-Remaining", "0")
			w.Header().Set("RateLimit-Reset", reset)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, "Retry later\n")
			return true
		}
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", reset)
		if r.URL.Path == "/api/graphql" {
			reply(w, http.StatusOK, object{"errors": []object{{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}}})
			return true
		}
		refuse(w, http.StatusForbidden, "API rate limit exceeded for user ID 1.")
		return true
	}
}

// Secondary answers with a secondary limit of GitHub, or the protection of GitLab, which name seconds.
func Secondary(seconds int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
		status := http.StatusForbidden
		if strings.HasPrefix(r.URL.Path, "/api/v4/") {
			status = http.StatusTooManyRequests
		}
		refuse(w, status, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
		return true
	}
}

// Refused answers with a status and a message, such as 401 and "Bad credentials".
func Refused(status int, message string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, status, message)
		return true
	}
}

// Before runs a function right before the server answers: what happens meanwhile.
func Before(f func()) Fault {
	return func(http.ResponseWriter, *http.Request) bool {
		f()
		return false
	}
}

// direct asks the server without gh and glab.
type direct struct {
	s       *Server
	program string
}

// Do implements forge.Doer.
func (d direct) Do(ctx context.Context, c forge.Call) (forge.Response, error) {
	at := "https://" + d.s.Host + "/api/v3/"
	switch {
	case d.program == forge.Glab:
		at = "https://" + d.s.Host + "/api/v4/"
	case c.Path == "graphql":
		at = "https://" + d.s.Host + "/api/"
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, at+c.Path, body(c.Body))
	if err != nil {
		return forge.Response{}, err
	}
	req.Header.Set("Authorization", "token direct")
	resp, err := d.s.http.Client().Do(req)
	var all []byte
	if err == nil {
		defer resp.Body.Close()
		all, err = io.ReadAll(resp.Body)
	}
	switch {
	case ctx.Err() != nil:
		return forge.Response{}, context.Cause(ctx)
	case err != nil:
		return forge.Response{}, &forge.Unavailable{Err: err}
	}
	return forge.Response{Status: resp.StatusCode, Header: resp.Header, Body: all}, nil
}
