package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/signed"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// guard stands before every route. It refuses what a web page, a stranger or an agent sends, carries a request with an
// Idempotency-Key out once, and writes down what was changed and what was refused.
type guard struct {
	*api
	limits limits
	mux    *http.ServeMux
	page   http.Handler
	// does says what a route does, by its pattern.
	does map[string]string
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Body == http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // all of the request is here; a test has no connection
	}
	w = &paced{ResponseWriter: w, take: g.limits.take}
	c := *connCaller(r.Context()) // a copy: a connection carries many requests
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, &c))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_, pattern := g.mux.Handler(r)
	if g.o.Trust != nil {
		g.signed(w, r, &c, pattern)
		return
	}
	if c.tcp && pattern == "" && !strings.HasPrefix(r.URL.Path, "/api/") {
		g.shell(w, r, &c)
		return
	}
	if p := g.admit(&c, r, pattern); p != nil {
		g.refuse(w, r, &c, p)
		return
	}
	if pattern == "" {
		writeProblem(w, problemOf(http.StatusNotFound, "no-such-route", "there is no such route, or not with this method; GET /api/v1/openapi.json lists them"))
		return
	}
	if scopeOf(pattern) == access.Read || r.Method == http.MethodGet || r.Method == http.MethodHead {
		g.look(w, r, &c, pattern)
		return
	}
	g.change(w, r, &c, pattern)
}

// signed answers a gateway. Whoever else asks learns only which process this is.
func (g *guard) signed(w http.ResponseWriter, r *http.Request, c *caller, pattern string) {
	w.Header().Set(signed.Instance, g.o.Trust.Instance())
	if pattern == health {
		g.mux.ServeHTTP(w, r)
		return
	}
	body, p := g.readBody(w, r)
	changes := scopeOf(pattern) != access.Read && r.Method != http.MethodGet && r.Method != http.MethodHead
	if p == nil && c.tcp {
		p = problemOf(http.StatusForbidden, "only-socket", "this is answered over the socket only")
	}
	if p == nil {
		p = c.personal("/proc")
	}
	if p == nil {
		claim, err := g.o.Trust.Check(r.Header.Get(signed.Header), r.Method, r.RequestURI, body, changes)
		if err != nil {
			p = problemOf(http.StatusUnauthorized, "unsigned", "the request is refused: "+err.Error())
		} else {
			c.claim, c.User, c.confirmedBy = &claim, claim.User, claim.ConfirmedBy
		}
	}
	switch {
	case p != nil:
	case pattern == "" || atGateway(pattern):
		p = problemOf(http.StatusNotFound, "no-such-route", "a machine of a fleet has no such route")
	case slices.Contains(g.o.Lacks, routes()[pattern].name):
		p = problemOf(http.StatusConflict, "not-here", "a machine of a fleet does not do this; GET /api/v1/machines says what it lacks")
	}
	if p != nil {
		g.refuse(w, r, c, p)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if changes {
		g.run(&recorder{ResponseWriter: w}, r, c, pattern)
		return
	}
	g.mux.ServeHTTP(w, r)
}

// answer lets the route answer, or who answers for all machines of a fleet.
func (g *guard) answer(w http.ResponseWriter, r *http.Request, pattern string) {
	if g.o.Over == nil || atGateway(pattern) {
		g.mux.ServeHTTP(w, r)
		return
	}
	callerOf(r.Context()).over = g.api
	g.o.Over.ServeHTTP(w, r)
}

// shell answers with the page, which needs no token: it holds no data. Only what is led here by another site is refused.
func (g *guard) shell(w http.ResponseWriter, r *http.Request, c *caller) {
	p := checkHost(r.Host, c.local)
	if p == nil {
		p = checkOrigin(r, true)
	}
	if p != nil {
		g.refuse(w, r, c, p)
		return
	}
	w.Header().Del("Cache-Control")
	g.page.ServeHTTP(w, r)
}

// connCaller returns the caller that Serve has noted for the connection. Nobody else may ask anything that needs one.
func connCaller(ctx context.Context) *caller {
	if c := callerOf(ctx); c != nil {
		return c
	}
	return &caller{tcp: true}
}

// admit refuses what can be refused before a body is read. The order matters: the host first, so that a page which was
// led here learns nothing.
func (g *guard) admit(c *caller, r *http.Request, pattern string) *Problem {
	if c.tcp {
		if p := checkHost(r.Host, c.local); p != nil {
			return p
		}
	}
	if p := checkOrigin(r, c.tcp); p != nil {
		return p
	}
	if p := checkBody(r); p != nil {
		return p
	}
	if !c.tcp || pattern == health || pattern == trade {
		return nil
	}
	if g.damaged != nil {
		return problemOf(http.StatusServiceUnavailable, "unusable", g.damaged.Error())
	}
	plain, ok := access.Bearer(r.Header.Get("Authorization"))
	if !ok || len(r.Header.Values("Authorization")) != 1 {
		return problemOf(http.StatusUnauthorized, "unauthorized", "a token is needed: Authorization: Bearer TOKEN (superloop token create)")
	}
	cred, err := g.desk.Check(plain)
	if err != nil {
		return problemOf(http.StatusUnauthorized, "unauthorized", err.Error())
	}
	c.cred, c.User, c.party = cred, cred.By, partyOf(r.Host, c.local)
	switch scope := scopeOf(pattern); {
	case slices.Contains(onlySocket, pattern):
		return problemOf(http.StatusForbidden, "only-socket", "this is answered over the socket only")
	case pattern != "" && !cred.May(scope):
		return problemOf(http.StatusForbidden, "scope", "the token "+cred.Name+" has not the scope "+string(scope))
	}
	return nil
}

// look answers a request that changes nothing. A stream ends with its credential.
func (g *guard) look(w http.ResponseWriter, r *http.Request, c *caller, pattern string) {
	if r.Method == http.MethodPost {
		body, p := g.readBody(w, r)
		if p != nil {
			g.refuse(w, r, c, p)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if c.cred.Name != "" {
		ctx, stop := context.WithDeadline(r.Context(), c.cred.Expires)
		defer stop()
		defer g.desk.OnRevoke(c.cred.ID(), stop)()
		defer g.desk.Touch(c.cred.ID(), false) // a stream is in use until its end
		r = r.WithContext(ctx)
	}
	g.answer(w, r, pattern)
}

// change answers a request that changes something.
func (g *guard) change(w http.ResponseWriter, r *http.Request, c *caller, pattern string) {
	body, p := g.readBody(w, r)
	if p == nil {
		p = c.personal("/proc")
	}
	if p == nil && pattern == trade && c.unknown != "" && c.unknown != errCannotTell.Error() {
		p = problemOf(http.StatusForbidden, "unknown-process", "nobody knows which process asks: "+c.unknown)
	}
	if p != nil {
		g.refuse(w, r, c, p)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.request = access.Request{Credential: c.cred.ID(), Method: r.Method, Path: r.URL.RequestURI(), Body: access.BodyDigest(body)}
	c.shown, c.code = text.Cut(r.Method+" "+r.URL.RequestURI()+" "+string(body), 2000), r.Header.Get("Superloop-Confirm")
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		g.run(&recorder{ResponseWriter: w}, r, c, pattern)
		return
	}
	if len(keys) != 1 || !access.GoodKey(keys[0]) {
		g.refuse(w, r, c, ofAccess(access.ErrKeyForm).(*Problem))
		return
	}
	g.once(w, r, c, pattern, keys[0])
}

// once carries out a request with an Idempotency-Key, or repeats the answer that it got.
func (g *guard) once(w http.ResponseWriter, r *http.Request, c *caller, pattern, key string) {
	who := c.cred.ID()
	if !c.tcp {
		who = "socket:" + c.User
	}
	old, end, err := g.keys.Begin(r.Context(), who, key, strings.Join([]string{c.request.Method, c.request.Path, c.request.Body}, "\n"))
	switch {
	case err != nil:
		g.refuse(w, r, c, ofAccess(err).(*Problem))
		return
	case old != nil && old.Withheld:
		g.write(r, c, access.Line{Status: http.StatusConflict, Verdict: access.Refused, Reason: "idempotency-shown-once", Replay: true})
		writeProblem(w, problemOf(http.StatusConflict, "idempotency-shown-once", "this was done, and its answer is shown once; if it is lost, revoke what it made and use a new Idempotency-Key"))
		return
	case old != nil:
		g.write(r, c, access.Line{Status: old.Status, Verdict: verdictOf(old.Status), Replay: true})
		w.Header().Set("Content-Type", old.Type)
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(old.Status)
		_, _ = w.Write(old.Body) // the client has gone
		return
	}
	rec := &recorder{ResponseWriter: w}
	answer := &access.Answer{Status: http.StatusInternalServerError, Withheld: true} // what stays of a panic
	defer func() {
		if err := end(answer); err != nil {
			g.o.Log.Error("the answer to a request with an Idempotency-Key is not kept", zap.Error(err))
		}
	}()
	// What has begun goes on to its end if the client leaves: its answer counts for the next one with the key.
	g.run(rec, r.WithContext(context.WithoutCancel(r.Context())), c, pattern)
	switch {
	case c.challenged || rec.status >= http.StatusInternalServerError: // nothing was done
		answer = nil
	case rec.status < http.StatusBadRequest && slices.Contains(secrets, pattern):
		answer = &access.Answer{Status: rec.status, Withheld: true}
	default:
		answer = &access.Answer{Status: rec.status, Type: rec.Header().Get("Content-Type"), Body: rec.body.Bytes()}
	}
}

// run lets the route answer, after a person has confirmed what needs it, and writes down what came of it.
func (g *guard) run(w *recorder, r *http.Request, c *caller, pattern string) {
	old := scopeOf(pattern) == access.Approve && !c.cred.Fresh(time.Now())
	if c.tcp && !slices.Contains(unconfirmed, pattern) && (c.unknown != "" || old) {
		if p := g.confirm(c, g.does[pattern], bySome); p != nil {
			w.status = p.Status
			g.refuse(w.ResponseWriter, r, c, p)
			return
		}
	}
	g.answer(w, r, pattern)
	line := access.Line{Status: w.status, Verdict: verdictOf(w.status)}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem+json") {
		var p Problem
		_ = json.Unmarshal(w.body.Bytes(), &p) // of a long one the reason is left out
		line.Reason, line.Detail = strings.TrimPrefix(p.Type, typePrefix), p.Detail
	}
	g.write(r, c, line)
}

func verdictOf(status int) string {
	switch {
	case status >= http.StatusInternalServerError:
		return access.Failed
	case status >= http.StatusBadRequest:
		return access.Refused
	}
	return access.Done
}

// refuse answers with a problem, and writes it down.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, c *caller, p *Problem) {
	g.write(r, c, access.Line{Status: p.Status, Verdict: verdictOf(p.Status), Reason: strings.TrimPrefix(p.Type, typePrefix), Detail: p.Detail})
	writeProblem(w, p)
}

// write appends a line to the record of requests. A full disk costs the line: what was done stands in the journal, too.
func (g *guard) write(r *http.Request, c *caller, line access.Line) {
	line.Method, line.Path, line.PIDs, line.User, line.Confirmed = r.Method, r.URL.Path, c.pids, c.User, c.confirmedBy
	line.Channel = "socket"
	if c.tcp {
		line.Channel, line.Address = "tcp", c.remote.String()
	}
	if uid := c.UID; !c.tcp || len(c.pids) > 0 {
		line.UID = &uid
	}
	if len(c.pids) == 0 && !c.tcp {
		line.PIDs = []int{c.PID}
	}
	if len(line.PIDs) > 0 {
		line.Exe = exeOf(line.PIDs[0])
	}
	if c.cred.Name != "" {
		line.Token = c.cred.ID()
	}
	if err := g.log.Add(line); err != nil {
		g.o.Log.Error("a request is not written down", zap.Error(err), zap.String("method", r.Method), zap.String("path", access.WithoutSecrets(r.URL.Path)), zap.Int("status", line.Status))
	}
}

// readBody reads the body of a request, for limits.body at most. w is that of ServeHTTP.
func (g *guard) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	rc := http.NewResponseController(w.(*paced).ResponseWriter)
	_ = rc.SetReadDeadline(time.Now().Add(g.limits.body)) // a test has no connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil { // else the deadline also bounds what the library reads to the end of the body
		_ = rc.SetReadDeadline(time.Time{})
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, problemOf(http.StatusRequestEntityTooLarge, "too-large", "a body has 1 MiB at most")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problemOf(http.StatusRequestTimeout, "slow", "the body did not come in time")
	case err != nil:
		return nil, problemOf(http.StatusBadRequest, "bad-request", "the body cannot be read")
	}
	return body, nil
}

// recorder keeps what a route answers, as far as it is needed.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.body.Len() <= maxBody {
		r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}
