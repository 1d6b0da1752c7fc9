// Package gateway answers the interface of server/api for all machines of a fleet. It keeps no state of loops: each request is
// answered by the machine of its loop, or by all machines, whose answers are put together. The guard of server/api stands
// before it; a machine gets no request that has not passed it, and does nothing for anybody else (server/signed).
package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/api"
)

// Options are the options of New. Every field is required.
type Options struct {
	State string // the gateway's own private state
	Disk  durable.Disk
	Key   ed25519.PrivateKey // signs what machines are asked
	Log   *zap.Logger
}

// Gateway knows the machines of a fleet. It is the api.Options.Over of the interface that people and programs ask.
type Gateway struct {
	o   Options
	mux *http.ServeMux

	mu       sync.Mutex
	machines map[string]*machine
	changed  chan struct{} // closed, and made anew, when a machine comes or goes
}

// New returns a gateway that knows what the last one knew of machines. A damaged file is left out, with a warning.
func New(o Options) (*Gateway, error) {
	g := &Gateway{o: o, mux: http.NewServeMux(), machines: map[string]*machine{}, changed: make(chan struct{})}
	if err := g.load(); err != nil {
		return nil, err
	}
	for pattern, l := range lists {
		g.handle(pattern, func(w http.ResponseWriter, r *http.Request, who api.Asker) { g.list(w, r, who, l) })
	}
	g.handle("GET /api/v1/stream", g.stream)
	g.handle("GET /api/v1/cost", g.cost)
	g.handle("GET /api/v1/queue", g.queue)
	g.handle("GET /metrics", g.metrics)
	for _, pattern := range []string{"/api/v1/loops/{id}", "/api/v1/loops/{id}/{rest...}"} {
		g.handle(pattern, g.ofLoop)
	}
	for _, pattern := range []string{"/api/v1/escalations/{eid}", "/api/v1/escalations/{eid}/{rest...}"} {
		g.handle(pattern, g.ofQuestion)
	}
	for _, pattern := range []string{"POST /api/v1/loops", "POST /api/v1/channels/test", "POST /api/v1/doctor", "POST /api/v1/policy/{rest}", "GET /api/v1/chains/{cid}"} {
		g.handle(pattern, g.ofRepo)
	}
	return g, nil
}

func (g *Gateway) handle(pattern string, f func(http.ResponseWriter, *http.Request, api.Asker)) {
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		who, ok := api.AskerOf(r)
		if !ok {
			api.Refuse(w, http.StatusForbidden, "forbidden-agent", "nobody knows who asks")
			return
		}
		f(w, r, who)
	})
}

// ServeHTTP answers a request that has passed the guard.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := g.mux.Handler(r); pattern == "" { // a test of server/gateway knows all routes
		api.Refuse(w, http.StatusNotFound, "no-such-route", "a gateway has no such route")
		return
	}
	g.mux.ServeHTTP(w, r)
}

// all returns the machines by their ids, and what is closed when one comes or goes.
func (g *Gateway) all() ([]*machine, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Values(g.machines), func(x, y *machine) int { return strings.Compare(x.id, y.id) }), g.changed
}

func (g *Gateway) find(id string) *machine {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.machines[id]
}

// tell says that a machine has come or gone.
func (g *Gateway) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

// ofLoop forwards what is asked about a loop to its machine, whose id begins the loop's.
func (g *Gateway) ofLoop(w http.ResponseWriter, r *http.Request, who api.Asker) {
	id, _, _ := strings.Cut(r.PathValue("id"), ".")
	m := g.find(id)
	if m == nil {
		api.Refuse(w, http.StatusNotFound, "no-such-loop", fmt.Sprintf("no loop has the id %q; GET /api/v1/loops lists them", r.PathValue("id")))
		return
	}
	if m.link() == nil && r.Method == http.MethodGet && r.PathValue("rest") == "" { // the last that was known
		if row, ok := m.lastRow(r.PathValue("id")); ok {
			answer(w, row)
			return
		}
	}
	g.forward(w, r, who, m)
}

// ofQuestion forwards what is asked about a question to the machine that asks it. Ids of questions are random; one that two
// machines claim is answered by neither.
func (g *Gateway) ofQuestion(w http.ResponseWriter, r *http.Request, who api.Asker) {
	id := r.PathValue("eid")
	var has []*machine
	var last *machine
	var known item
	for _, got := range g.ask(r.Context(), request{method: http.MethodGet, target: "/api/v1/escalations/" + url.PathEscape(id), user: who.User}, "") {
		if got.err == nil && got.status == http.StatusOK {
			has = append(has, got.m)
		}
		if got.err != nil {
			if q, ok := got.m.lastQuestion(id); ok {
				last, known = got.m, q
			}
		}
	}
	switch {
	case len(has) == 1:
		g.forward(w, r, who, has[0])
	case len(has) > 1:
		api.Refuse(w, http.StatusConflict, "unusable", fmt.Sprintf("the machines %s and %s both ask the question %q: one of them lies", has[0].id, has[1].id, id))
	case last != nil && r.Method == http.MethodGet:
		answer(w, known)
	case last != nil:
		last.away(w)
	default:
		api.Refuse(w, http.StatusNotFound, "not-found", fmt.Sprintf("there is no question %q", id))
	}
}

// ofRepo forwards what is asked about a repository to its machine.
func (g *Gateway) ofRepo(w http.ResponseWriter, r *http.Request, who api.Asker) {
	in := struct {
		Repo    string `json:"repo"`
		Machine string `json:"machine"`
	}{r.URL.Query().Get("repo"), r.URL.Query().Get("machine")}
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body) // the guard has read it before, and has bounded it
		if err != nil {
			api.Refuse(w, http.StatusBadRequest, "bad-request", "the body cannot be read")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = json.Unmarshal(body, &in) // what has another form the machine refuses
	}
	all, _ := g.all()
	if in.Machine != "" {
		if m := g.find(in.Machine); m != nil {
			g.forward(w, r, who, m)
			return
		}
		api.Refuse(w, http.StatusNotFound, "not-found", fmt.Sprintf("the fleet has no machine %q; GET /api/v1/machines lists them", in.Machine))
		return
	}
	has := slices.DeleteFunc(slices.Clone(all), func(m *machine) bool { return !m.hasRepo(in.Repo) })
	if len(has) == 0 && len(all) == 1 {
		has = all
	}
	switch len(has) {
	case 1:
		g.forward(w, r, who, has[0])
	case 0:
		api.Refuse(w, http.StatusNotFound, "not-found", fmt.Sprintf("no machine of the fleet has a loop of %q; \"machine\" says on which machine it lies", in.Repo))
	default:
		api.Refuse(w, http.StatusUnprocessableEntity, "usage", fmt.Sprintf("%d machines have a repository %q; \"machine\" says which is meant", len(has), in.Repo))
	}
}

// forward sends a request to a machine, and what it answers back, as it comes.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, who api.Asker, m *machine) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			api.Refuse(w, http.StatusBadRequest, "bad-request", "the body cannot be read")
			return
		}
	}
	l := m.link()
	if l == nil {
		m.away(w)
		return
	}
	q := request{method: r.Method, target: r.URL.RequestURI(), head: r.Header, body: body, user: who.User}
	res, err := l.do(r.Context(), q)
	if err == nil && res.StatusCode == http.StatusForbidden {
		res, err = g.confirmed(r.Context(), res, q, who, m, l)
		if p, ok := errors.AsType[*needs](err); ok {
			p.Answer(w)
			return
		}
	}
	if err != nil {
		if r.Context().Err() == nil {
			m.away(w)
		}
		return
	}
	defer res.Body.Close()
	for _, name := range []string{"Content-Type", "Content-Range", "Accept-Ranges", "Content-Length", "Etag", "Last-Modified", "Link"} {
		if v := res.Header.Values(name); len(v) > 0 {
			w.Header()[name] = v
		}
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(flushing{w, http.NewResponseController(w)}, res.Body) // one of the two has gone
}

// needs is the problem of a request that a person has to confirm.
type needs struct{ *api.Problem }

func (n *needs) Error() string { return n.Detail }

// confirmed repeats a request for which the machine wants a person's confirmation, if they have given it. The error is a
// *needs if they have not.
func (g *Gateway) confirmed(ctx context.Context, res *http.Response, q request, who api.Asker, m *machine, l *line) (*http.Response, error) {
	data, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	var p api.Problem
	if err := text.Decode(data, &p); err != nil || !p.Kind("step-up-required") {
		res.Body = io.NopCloser(bytes.NewReader(data))
		return res, nil
	}
	by, ask := who.Confirm("on machine " + m.name() + ": " + p.What)
	if ask != nil {
		return nil, &needs{ask}
	}
	q.confirmed, q.by = p.What, by
	return l.do(ctx, q)
}

// maxProblem bounds a problem that a machine answers, in bytes.
const maxProblem = 1 << 20

// flushing hands on each piece at once.
type flushing struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		if err = f.rc.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	return n, err
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has gone
}

// askTime bounds how long the answer of one machine is waited for, where those of all are put together.
const askTime = 30 * time.Second
