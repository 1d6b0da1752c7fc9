// Package api is the daemon's interface for programs: HTTP over a socket that only its user can open, and over TCP of this
// machine. It reads the same files as the verbs of the command line, and asks for changes in the same way: by the registry,
// by intents, and by answers to questions. So it can do nothing that a person at the command line cannot. Of loops it keeps
// no state of its own; who may ask, and who has asked, is kept by server/access.
package api

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/page"
	"github.com/superloop/superloop/server/passkey"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/signed"
)

// Options are the options of New. Every field without another remark is required.
type Options struct {
	State   string // the private state of all repositories, see layout.StateRoot
	Disk    durable.Disk
	Version string
	Keep    Keep
	Port    int // at which Serve answers over TCP; 0: at none
	// Access is where it is kept who may ask and who has asked: another private state than State, where two processes answer
	// about the loops of one. "" is State.
	Access string
	// Machine is the id of this machine in its fleet, "" outside of one. It begins the ids of loops.
	Machine string
	// Trust, unless nil, lets only the gateways of the fleet ask, over the socket.
	Trust *signed.Verifier
	// Lacks are the names of the routes that this machine does not have.
	Lacks []string
	// Over, unless nil, answers in the place of this machine what is asked about loops and machines: the gateway of a fleet.
	// AskerOf tells it for whom. Start, Verb, Metrics and Say are not called then.
	Over http.Handler
	// Start checks that a loop can be run and puts it into the registry, as superloop start does. An error says why not.
	Start func(ctx context.Context, e registry.Entry) error
	// Verb carries out a verb of the command line and returns what it prints on stdout. So a route and its verb cannot
	// differ. The error is a *Refused.
	Verb func(ctx context.Context, call VerbCall) ([]byte, error)
	// Metrics returns the metrics of journals, whose paths it gets by the ids of their loops, as superloop run serves them.
	Metrics func(journals map[string]string) []byte
	// Say tells an event in a sentence, and its tone: normal, faint, good, bad or ask.
	Say func(ev journal.Event) (text, tone string)
	Log *zap.Logger
}

type api struct {
	o        Options
	store    registry.Store
	desk     *access.Desk
	damaged  error // why desk is nil
	confirms access.Confirms
	passkeys *passkey.Store
	lost     error // why passkeys is nil
	keys     *access.Keys
	log      *access.Log
	since    time.Time
}

// New returns the handler of the interface. Its requests come from Serve, which knows who asks. The caller holds the lock
// of the daemon. Where the credentials cannot be read, requests over TCP are refused, and the socket is answered. Where the passkeys cannot be
// read, a code from a terminal confirms.
func New(o Options) (http.Handler, error) {
	a := &api{o: o, store: registry.Store{Disk: o.Disk, State: o.State, Machine: o.Machine}, since: time.Now().UTC()}
	at := cmp.Or(o.Access, o.State)
	var err error
	if a.desk, a.damaged = access.OpenDesk(o.Disk, at); a.damaged != nil {
		o.Log.Error("nobody can ask over TCP", zap.Error(a.damaged))
	}
	if a.passkeys, a.lost = passkey.Open(o.Disk, at); a.lost != nil {
		o.Log.Error("no passkey confirms anything", zap.Error(a.lost))
	}
	if a.keys, err = access.OpenKeys(o.Disk, at); err != nil {
		return nil, err
	}
	if a.log, err = access.OpenLog(o.Disk, at); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	cfg := huma.DefaultConfig("superloop", o.Version)
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "/api/v1/openapi", "", "", nil
	cfg.Transformers = append(cfg.Transformers, typed)
	cfg.Info.Description = "The loops that the daemon of this user supervises. Names are those of the journal (docs/events.md)."
	cfg.Components = &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)}
	h := humago.New(mux, cfg)
	a.reads(h)
	a.changes(h)
	a.questions(h)
	a.access(h)
	a.ofPasskeys(h)
	a.ofLoops(h)
	a.ofAll(h)
	a.everything(h)
	return &guard{api: a, limits: usual, mux: mux, page: page.Handler(), does: describe(h)}, nil
}

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
