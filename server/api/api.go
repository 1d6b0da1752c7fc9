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
	"path/filepath"
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
	Log   *zap.Logger
}

type api struct {
	o     Options
	store registry.Store
}

// New returns the handler of the interface. Its requests come from Serve, which knows who asks.
func New(o Options) http.Handler {
	a := &api{o: o, store: registry.Store{Disk: o.Disk, State: o.State}}
	mux := http.NewServeMux()
	cfg := huma.DefaultConfig("superloop", o.Version)
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "/api/v1/openapi", "", "", nil
	cfg.Info.Description = "The loops that the daemon of this user supervises. Names are those of the journal (docs/events.md)."
	h := humago.New(mux, cfg)
	a.reads(h)
	a.changes(h)
	a.questions(h)
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
	return &huma.ErrorModel{Type: "urn:superloop:" + kind, Status: status, Title: http.StatusText(status), Detail: fmt.Sprintf(format, args...)}
}

// Loop is a loop of the registry: what is wanted, what the daemon does, and where the loop stands.
type Loop struct {
	ID         string          `json:"id" doc:"names the loop in paths of this API"`
	Repo       string          `json:"repo" doc:"the root of its repository"`
	Loop       string          `json:"loop" doc:"its id in the configuration"`
	Wanted     registry.Wanted `json:"wanted" enum:"running,paused,stopped,ended"`
	Phase      string          `json:"phase,omitempty" doc:"what the daemon does: queued, working, waiting, failing or foreign; missing: nothing"`
	Why        string          `json:"why,omitempty" doc:"which places are taken and by whom, or why the loop cannot be supervised"`
	Ahead      int             `json:"ahead,omitempty" doc:"how many requests for a place are served before"`
	Until      *time.Time      `json:"until,omitempty" doc:"when it goes on, at the latest"`
	Priority   int             `json:"priority,omitempty"`
	Labels     []string        `json:"labels,omitempty"`
	Status     loop.Status     `json:"status" doc:"of the loop, as in state.json"`
	Iteration  int             `json:"iteration,omitempty"`
	Role       string          `json:"role,omitempty" doc:"the role that runs"`
	Seq        int64           `json:"seq,omitempty" doc:"the number of the journal's last event"`
	CostUSD    float64         `json:"cost_usd,omitempty"`
	UpdatedAt  *time.Time      `json:"updated_at,omitempty"`
	Supervised bool            `json:"supervised" doc:"a process holds the loop now"`
}

func (a *api) loopOf(e registry.Entry, view server.View) Loop {
	l := Loop{ID: e.ID(), Repo: e.Repo, Loop: e.Loop, Wanted: e.Wanted, Priority: e.Priority, Labels: e.Labels, Status: loop.Pending}
	if now, ok := view.Phase(e.Repo, e.Loop); ok {
		l.Phase, l.Why, l.Ahead, l.Until = now.Phase, now.Why, now.Ahead, timeOf(now.Until)
	}
	p, err := a.paths(e)
	if err != nil {
		l.Why = "the repository is gone"
		return l
	}
	if v, err := local.ReadView(p); err == nil {
		l.Status, l.Iteration, l.Role, l.Seq, l.CostUSD, l.UpdatedAt = v.Status, v.Iteration, v.Role, v.Seq, v.Spent.CostUSD, timeOf(v.UpdatedAt)
	}
	_, l.Supervised, _ = durable.Holder(p.Lock())
	return l
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *api) paths(e registry.Entry) (layout.Paths, error) {
	return layout.NewPaths(e.Repo, e.Loop, filepath.Dir(a.o.State))
}

// find returns the loop with an id, and its paths.
func (a *api) find(id string) (e registry.Entry, p layout.Paths, err error) {
	e, err = a.store.Find(id)
	if errors.Is(err, fs.ErrNotExist) {
		return e, p, problem(http.StatusNotFound, "no-such-loop", "no loop has the id %q; GET /api/v1/loops lists them", id)
	}
	if err == nil {
		p, err = a.paths(e)
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
