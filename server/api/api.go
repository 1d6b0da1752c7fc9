// Package api is the daemon's interface for programs: HTTP over a socket that only its user can open. It reads the same
// files as the verbs of the command line, and asks for changes in the same way: by the registry, by intents, and by
// answers to questions. So it can do nothing that a person at the command line cannot, and keeps no state of its own.
package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// Options are the options of New. Every field is required.
type Options struct {
	State   string // the private state of all repositories, see layout.StateRoot
	Disk    durable.Disk
	Version string
	// Start checks that a loop can be run and puts it into the registry, as superloop start does. An error says why not.
	Start func(ctx context.Context, e registry.Entry) error
	// Verb carries out a verb of the command line and returns what it prints on stdout. So a route and its verb cannot
	// differ. The error is a *Refused.
	Verb func(ctx context.Context, call Call) ([]byte, error)
	// Metrics returns the metrics of journals, whose paths it gets by the ids of their loops, as superloop run serves them.
	Metrics func(journals map[string]string) []byte
	Log     *zap.Logger
}

type api struct {
	o     Options
	store registry.Store
	since time.Time
}

// New returns the handler of the interface. Its requests come from Serve, which knows who asks.
func New(o Options) http.Handler {
	a := &api{o: o, store: registry.Store{Disk: o.Disk, State: o.State}, since: time.Now().UTC()}
	mux := http.NewServeMux()
	cfg := huma.DefaultConfig("superloop", o.Version)
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "/api/v1/openapi", "", "", nil
	cfg.Info.Description = "The loops that the daemon of this user supervises. Names are those of the journal (docs/events.md)."
	cfg.Components = &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)}
	h := humago.New(mux, cfg)
	a.reads(h)
	a.changes(h)
	a.questions(h)
	a.ofLoops(h)
	a.ofAll(h)
	a.everything(h)
	describe(h.OpenAPI())
	return withLog(mux, o.Log)
}

func withLog(next http.Handler, log *zap.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		if r.Method != http.MethodGet {
			log.Info("a request", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Int("pid", peerOf(r.Context()).PID), zap.Duration("took", time.Since(began)))
		}
	})
}

// problem is an answer about what cannot be done, RFC 9457. kind is the last part of its type.
func problem(status int, kind, format string, args ...any) error {
	return &Problem{ErrorModel: huma.ErrorModel{Type: "urn:superloop:" + kind, Status: status, Title: http.StatusText(status), Detail: fmt.Sprintf(format, args...)}, Exit: exits[kind]}
}

// exits are the exit codes with which the verbs end for the same reason. Others end with 1.
var exits = map[string]int{"no-such-loop": 6, "not-found": 6, "not-run-yet": 4, "not-waiting": 4, "stale-digest": 4, "already-decided": 4, "expired": 4, "not-running": 4,
	"completed": 4, "forbidden-agent": 5, "held": 7, "running": 7, "configuration": 3, "bad-name": 2, "bad-pattern": 2, "bad-cursor": 2, "bad-time": 2, "bad-answer": 2, "empty-note": 2}

// row returns what is known of a loop.
func (a *api) row(e registry.Entry) *body[server.Row] {
	v, _ := server.ReadView(a.o.State) // without one nothing is known of what the daemon does
	return &body[server.Row]{server.RowOf(a.store, e, v)}
}

// find returns the loop with an id, and its paths.
func (a *api) find(id string) (e registry.Entry, p layout.Paths, err error) {
	e, err = a.store.Find(id)
	if errors.Is(err, fs.ErrNotExist) {
		return e, p, problem(http.StatusNotFound, "no-such-loop", "no loop has the id %q; GET /api/v1/loops lists them", id)
	}
	if err == nil {
		p, err = server.Paths(a.store, e)
	}
	if err != nil {
		return e, p, problem(http.StatusConflict, "unusable", "%v", err)
	}
	return e, p, nil
}

// view returns the loop's state. A loop that has not run yet has none.
func view(p layout.Paths) (loop.View, error) {
	v, err := local.ReadView(p)
	if errors.Is(err, fs.ErrNotExist) {
		return v, problem(http.StatusConflict, "not-run-yet", "the loop has not run yet")
	}
	if err != nil {
		return v, problem(http.StatusConflict, "unusable", "%v", err)
	}
	return v, nil
}

// operator refuses a request that changes something unless it comes from a person's process: a process of this user that
// does not descend from an agent.
func (a *api) operator(ctx context.Context) (escalation.By, error) {
	p := peerOf(ctx)
	if _, err := escalation.CheckProcess("/proc", p.PID); err != nil {
		a.o.Log.Warn("an agent asked for a change, and was refused", zap.Int("pid", p.PID), zap.Error(err))
		return escalation.By{}, problem(http.StatusForbidden, "forbidden-agent", "%v", err)
	}
	return escalation.By{Channel: escalation.CLI, UID: &p.UID, User: p.User, Method: "socket"}, nil
}
