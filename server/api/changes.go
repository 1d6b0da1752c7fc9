package api

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

type entry = registry.Entry

type startIn struct {
	Body struct {
		Repo     string   `json:"repo" minLength:"1" doc:"the root of the repository, an absolute path"`
		Machine  string   `json:"machine,omitempty" maxLength:"64" doc:"the id of the machine on which it lies"`
		Loop     string   `json:"loop,omitempty" maxLength:"200" doc:"the loop's id in the configuration; with spec the id that it gets"`
		Spec     string   `json:"spec,omitempty" maxLength:"1048576" doc:"what to build, as Markdown: a loop like the first one of the repository is added to its configuration, as superloop add does"`
		Fresh    bool     `json:"fresh,omitempty" doc:"begin from the start; the files of the last run are kept"`
		Priority int      `json:"priority,omitempty" minimum:"-1000" maximum:"1000"`
		Labels   []string `json:"labels,omitempty" maxItems:"20"`
	}
}

type actIn struct {
	LoopPath
	Body struct {
		Note string `json:"note,omitempty" maxLength:"4096" doc:"why; for note: what the roles are told"`
	}
}

// changes registers the routes by which a person steers loops.
func (a *api) changes(h huma.API) {
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/loops", DefaultStatus: http.StatusAccepted, MaxBodyBytes: 4 << 20}, a.start) // of a spec
	for _, action := range []string{"start", "stop", control.IntentPause, control.IntentCancel, "retry-now", control.IntentNote} {
		huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/loops/{id}/" + action, DefaultStatus: http.StatusAccepted}, func(ctx context.Context, in *actIn) (*body[server.Row], error) { return a.act(ctx, action, in) })
	}
}

func (a *api) start(ctx context.Context, in *startIn) (*body[server.Row], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	if in.Body.Machine != "" && in.Body.Machine != a.o.Machine {
		return nil, problem(http.StatusNotFound, "not-found", "there is no machine %q here; GET /api/v1/machines lists them", in.Body.Machine)
	}
	if !filepath.IsAbs(in.Body.Repo) || filepath.Base(in.Body.Loop) != in.Body.Loop && (in.Body.Loop != "" || in.Body.Spec == "") {
		return nil, problem(http.StatusUnprocessableEntity, "bad-name", "repo is an absolute path, loop the id of a loop")
	}
	if in.Body.Spec != "" {
		if in.Body.Loop, err = a.add(ctx, by, in.Body.Repo, in.Body.Loop, in.Body.Spec); err != nil {
			return nil, err
		}
	}
	e := entry{Repo: in.Body.Repo, Loop: in.Body.Loop, By: by.User, Since: time.Now().UTC(), Priority: in.Body.Priority, Labels: in.Body.Labels}
	return a.put(ctx, e, in.Body.Fresh)
}

// put starts a loop.
func (a *api) put(ctx context.Context, e entry, fresh bool) (*body[server.Row], error) {
	e, err := a.want(e, fresh)
	if err == nil {
		err = a.o.Start(ctx, e)
	}
	_, held := errors.AsType[*local.HeldError](err)
	_, invalid := errors.AsType[*config.Error](err)
	switch {
	case err == nil:
		return a.row(e), nil
	case errors.Is(err, server.ErrRunning):
		return nil, problem(http.StatusConflict, "running", "%v", err)
	case errors.Is(err, server.ErrFleet):
		return nil, problem(http.StatusConflict, "held", "%v; superloop-fleet ui opens the page of the fleet", err)
	case errors.Is(err, server.ErrCompleted):
		return nil, problem(http.StatusConflict, "completed", "%v; fresh begins it anew", err)
	case held:
		return nil, problem(http.StatusConflict, "held", "%v", err)
	case invalid:
		return nil, problem(http.StatusUnprocessableEntity, "configuration", "%v", err)
	}
	return nil, problem(http.StatusConflict, "unusable", "%v", err)
}

// want returns the entry with which a loop is begun: by the daemon, or by the fleet of this machine.
func (a *api) want(e entry, fresh bool) (entry, error) {
	old, err := a.store.Get(e.Repo, e.Loop)
	if a.o.Trust == nil || err == nil && old.Wanted != registry.Fleet && old.Wanted != registry.Ended { // the daemon has it
		return server.Want(a.store, e, fresh)
	}
	e, err = a.store.Locate(e)
	if err != nil {
		return e, err
	}
	p, err := server.Paths(a.store, e)
	if err != nil {
		return e, err
	}
	v, err := local.ReadView(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	e.Wanted, e.FreshOf = registry.Fleet, ""
	switch _, alive := local.Supervisor(p); {
	case fresh:
		e.FreshOf = v.RunID
	case v.Status == loop.Completed:
		return e, server.ErrCompleted
	case alive && v.Status != loop.Paused:
		return e, server.ErrRunning
	}
	return e, nil
}

// act carries out one of the actions on a loop.
func (a *api) act(ctx context.Context, action string, in *actIn) (*body[server.Row], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	e, p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	switch action {
	case "start":
		e.By, e.Since = by.User, time.Now().UTC()
		return a.put(ctx, e, false)
	case "stop":
		if e.Wanted != registry.Running {
			return nil, problem(http.StatusConflict, "not-running", "the daemon does not run it")
		}
		e.Wanted, e.By, e.Since = registry.Stopped, by.User, time.Now().UTC()
		if err := a.store.Put(e); err != nil {
			return nil, problem(http.StatusInsufficientStorage, "not-kept", "%v", err)
		}
		return a.row(e), nil
	}
	v, err := view(p)
	if err != nil {
		return nil, err
	}
	note := strings.TrimSpace(text.Plain(in.Body.Note))
	kind := action
	_, alive := local.Supervisor(p)
	switch {
	case action == "retry-now":
		kind = control.IntentKick
		state := loop.State{Status: v.Status, RunID: v.RunID, Pending: v.Pending, Human: v.Human}
		if err := loop.Check(state, loop.Decision{Kind: loop.DecideRetryNow, RunID: v.RunID}); err != nil {
			return nil, problem(http.StatusConflict, "not-waiting", "it does not wait, it is %s", v.Status)
		}
	case action == control.IntentNote && note == "":
		return nil, problem(http.StatusUnprocessableEntity, "empty-note", "what is to be told to the roles?")
	case action == control.IntentNote && v.Status == loop.Completed:
		return nil, problem(http.StatusConflict, "completed", "no role reads a note any more")
	case action != control.IntentNote && !alive:
		return nil, problem(http.StatusConflict, "not-running", "nothing runs it, it is %s", v.Status)
	}
	intent := control.New(kind, by.User, note, v.RunID)
	if err := control.Submit(a.o.Disk, p, intent); err != nil {
		return nil, problem(http.StatusInsufficientStorage, "not-kept", "%v", err)
	}
	return a.row(e), nil
}

// Added is what superloop add --json prints, as far as it is read here.
type Added struct {
	Loop string `json:"loop"`
}

// add adds a loop for a spec to the configuration of a repository, and returns its id. The new loop has the rights of the
// first one: the verb trusts nothing else of a file that has changed.
func (a *api) add(ctx context.Context, by escalation.By, repo, id, spec string) (string, error) {
	args := []string{"add", "--repo=" + repo, "--spec=-", "--json"}
	if id != "" {
		args = append(args, "--loop="+id)
	}
	out, err := say[Added](ctx, a, VerbCall{By: by, Stdin: []byte(spec), Args: args})
	if err != nil {
		return "", err
	}
	var is Added
	return is.Loop, text.Decode(out.Body, &is)
}
