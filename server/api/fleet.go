package api

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/slots"
)

// ofAll registers the routes of all loops, of repositories and of the machine.
func (a *api) ofAll(h huma.API) {
	huma.Get(h, "/metrics", a.metrics, isPlain)
	huma.Get(h, "/api/v1/repos", a.repos)
	huma.Get(h, "/api/v1/machines", a.machines)
	huma.Get(h, "/api/v1/cost", a.cost)
	huma.Get(h, "/api/v1/runners", a.runners)
	huma.Get(h, "/api/v1/chains", a.chains)
	huma.Get(h, "/api/v1/chains/{cid}", a.chain)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/policy/check"}, a.policyCheck)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/policy/lint"}, a.policyLint)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/policy/replay"}, a.policyReplay)
}

// metrics answers as superloop run --metrics does, with the ids of this API in place of those of a configuration, which
// two repositories may share.
func (a *api) metrics(context.Context, *struct{}) (*plain, error) {
	journals := map[string]string{}
	all, _ := a.store.All()
	for _, e := range all {
		if p, err := server.Paths(a.store, e); err == nil {
			journals[e.ID()] = p.Events()
		}
	}
	return &plain{"text/plain; version=0.0.4; charset=utf-8", a.o.Metrics(journals)}, nil
}

// Repos is a page of repositories.
type Repos struct {
	Repos      []Repo `json:"repos" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// Repo is a repository of which the daemon knows a loop.
type Repo struct {
	Repo  string   `json:"repo" doc:"its root"`
	Gone  bool     `json:"gone,omitempty" doc:"it is not there now"`
	Loops []string `json:"loops" nullable:"false" doc:"the ids of its loops in this API"`
}

func (a *api) known() (repos []Repo) {
	all, _ := a.store.All() // by repository
	for _, e := range all {
		if n := len(repos); n == 0 || repos[n-1].Repo != e.Repo {
			_, gone := server.Paths(a.store, e)
			repos = append(repos, Repo{Repo: e.Repo, Gone: gone != nil})
		}
		r := &repos[len(repos)-1]
		r.Loops = append(r.Loops, e.ID())
	}
	return repos
}

func (a *api) repos(_ context.Context, in *Page) (*body[Repos], error) {
	list, next := cut(a.known(), *in, func(r Repo) string { return r.Repo })
	return &body[Repos]{Repos{list, next}}, nil
}

// repo returns the repository of a request, which has to be one that the daemon knows.
func (a *api) repo(name string) (string, error) {
	if !slices.ContainsFunc(a.known(), func(r Repo) bool { return r.Repo == name && !r.Gone }) {
		return "", problem(http.StatusNotFound, "not-found", "the daemon knows no loop of a repository %q that is there; GET /api/v1/repos lists them", name)
	}
	return name, nil
}

// Machines are the machines whose loops this API shows: the one of the daemon.
type Machines struct {
	Machines []Machine `json:"machines" nullable:"false"`
}

// Machine is a machine with a daemon.
type Machine struct {
	Name    string       `json:"name" doc:"its host name"`
	OS      string       `json:"os"`
	Arch    string       `json:"arch"`
	CPUs    int          `json:"cpus"`
	Version string       `json:"version" doc:"of superloop"`
	PID     int          `json:"pid" doc:"of the daemon"`
	Since   time.Time    `json:"since" doc:"when this API began"`
	Port    int          `json:"port,omitempty" doc:"at which it answers over TCP; missing: it does not"`
	Limits  slots.Limits `json:"limits" doc:"0 is no bound"`
	Loops   int          `json:"loops" doc:"how many it knows"`
	Working int          `json:"working" doc:"how many have a place now"`
}

func (a *api) machines(context.Context, *struct{}) (*body[Machines], error) {
	all, _ := a.store.All()
	name, _ := os.Hostname() // one without a name is not told
	m := Machine{Name: name, OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Version: a.o.Version, PID: os.Getpid(), Port: a.o.Port, Since: a.since, Loops: len(all)}
	if v, err := server.ReadView(a.o.State); err == nil { // else the daemon has done nothing yet
		m.Limits = v.Limits
		for _, l := range v.Loops {
			if l.Phase == "working" {
				m.Working++
			}
		}
	}
	return &body[Machines]{Machines{[]Machine{m}}}, nil
}

// Runners are the runners of each repository, or why they are not known.
type Runners struct {
	Repos      []RepoRunners `json:"repos" nullable:"false"`
	NextCursor string        `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// RepoRunners are the runners of a repository.
type RepoRunners struct {
	Repo  string               `json:"repo"`
	Says  *Says[RunnersOfRepo] `json:"known,omitempty"`
	Error string               `json:"error,omitempty" doc:"why they are not known"`
}

// RunnersOfRepo is what superloop runners --json prints.
type RunnersOfRepo struct {
	Runners []Runner `json:"runners"`
}

// Runner is the state and the figures of a runner with one model.
type Runner struct {
	failures.Agent
	Configured bool        `json:"configured"`
	Uses       []RunnerUse `json:"uses"`
	// State is fit, probation, unfit (until Until) or mend: unfit until an operator has repaired the runner.
	State   string           `json:"state"`
	Until   time.Time        `json:"until,omitzero"`
	Why     string           `json:"why,omitempty"`
	Circuit failures.Circuit `json:"circuit"`
	Limit   *RunnerLimit     `json:"limit"` // null: superloop knows of no limit

	Runs           int         `json:"runs"`
	Successes      int         `json:"successes"`
	RecentRuns     int         `json:"recent_runs"`
	SuccessRate    *float64    `json:"success_rate"` // of the recent runs
	CostUSD        float64     `json:"cost_usd"`
	UnpricedRuns   int         `json:"unpriced_runs"`
	CostPerSuccess *float64    `json:"cost_per_success_usd"` // a lower bound if there are unpriced runs
	InRow          int         `json:"failures_in_row"`
	Trips          int         `json:"trips"`
	LastSuccess    time.Time   `json:"last_success,omitzero"`
	LastFailure    time.Time   `json:"last_failure,omitzero"`
	ByRole         []RunnerDid `json:"by_role"`
}

// RunnerDid says how a runner does in a role; the failure policy chooses the next runner by it.
type RunnerDid struct {
	failures.RoleRecord
	RecentRuns  int     `json:"recent_runs"`
	SuccessRate float64 `json:"success_rate"` // of the recent runs
}

// RunnerUse is a role that has the runner in its list. Place is the position in that list, from 1.
type RunnerUse struct {
	Loop  string `json:"loop_id"`
	Role  string `json:"role"`
	Place int    `json:"place"`
	Tier  int    `json:"tier"`
}

// RunnerLimit says until when an account is limited.
type RunnerLimit struct {
	Until time.Time   `json:"until"`
	Class class.Class `json:"class"`
	Kind  string      `json:"kind,omitempty"`
	Text  string      `json:"text,omitempty"`
	By    string      `json:"by,omitempty"`
}

// TransformSchema says that there may be no limit: null.
func (Runner) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["limit"] = &huma.Schema{OneOf: []*huma.Schema{s.Properties["limit"], {Type: "null"}}}
	return s
}

func (a *api) runners(ctx context.Context, in *struct {
	Page
	Repo string `query:"repo" doc:"only those of this repository"`
}) (*body[Runners], error) {
	list, next := cut(a.known(), in.Page, func(r Repo) string { return r.Repo })
	out := Runners{Repos: []RepoRunners{}, NextCursor: next}
	for _, r := range list {
		if in.Repo != "" && in.Repo != r.Repo {
			continue
		}
		one := RepoRunners{Repo: r.Repo}
		if got, err := say[RunnersOfRepo](ctx, a, VerbCall{Args: []string{"runners", "--repo=" + r.Repo, "--json"}}); err != nil {
			one.Error = err.Error()
		} else {
			one.Says = &got.Body
		}
		out.Repos = append(out.Repos, one)
	}
	return &body[Runners]{out}, nil
}

// InRepo names a repository.
type InRepo struct {
	Repo string `json:"repo" minLength:"1" maxLength:"4096" doc:"a repository of which the daemon knows a loop"`
}

// Chains are the remediation plans of superloop fix, or of a loop.
type Chains struct {
	Repos      []RepoChains `json:"repos" nullable:"false"`
	NextCursor string       `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// RepoChains are the chains of a repository.
type RepoChains struct {
	Repo  string        `json:"repo"`
	Says  *Says[Object] `json:"known,omitempty" doc:"what superloop chain list --json prints"`
	Error string        `json:"error,omitempty" doc:"why they are not known"`
}

func (a *api) chains(ctx context.Context, in *Page) (*body[Chains], error) {
	list, next := cut(a.known(), *in, func(r Repo) string { return r.Repo })
	out := Chains{Repos: []RepoChains{}, NextCursor: next}
	for _, r := range list {
		one := RepoChains{Repo: r.Repo}
		if got, err := say[Object](ctx, a, VerbCall{Args: []string{"chain", "list", "--repo=" + r.Repo, "--json"}}); err != nil {
			one.Error = err.Error()
		} else {
			one.Says = &got.Body
		}
		out.Repos = append(out.Repos, one)
	}
	return &body[Chains]{out}, nil
}

func (a *api) chain(ctx context.Context, in *struct {
	CID  string `path:"cid" maxLength:"100" doc:"the id of a chain"`
	Repo string `query:"repo" required:"true" doc:"its repository"`
}) (*body[Says[Object]], error) {
	repo, err := a.repo(in.Repo)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(in.CID, "-") {
		return nil, problem(http.StatusNotFound, "not-found", "there is no chain %q", in.CID)
	}
	return say[Object](ctx, a, VerbCall{Args: []string{"chain", "show", "--repo=" + repo, "--json", in.CID}})
}
