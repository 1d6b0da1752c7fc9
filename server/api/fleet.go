package api

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/loop/space"
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
	huma.Get(h, "/api/v1/space", a.space)
	huma.Get(h, "/api/v1/channels", a.channels)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/channels/test"}, a.testChannel)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/doctor"}, a.examine)
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
	Repo    string   `json:"repo" doc:"its root"`
	Machine string   `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	Gone    bool     `json:"gone,omitempty" doc:"it is not there now"`
	Loops   []string `json:"loops" nullable:"false" doc:"the ids of its loops in this API"`
}

func (a *api) known() (repos []Repo) {
	all, _ := a.store.All() // by repository
	for _, e := range all {
		if n := len(repos); n == 0 || repos[n-1].Repo != e.Repo {
			_, gone := server.Paths(a.store, e)
			repos = append(repos, Repo{Repo: e.Repo, Machine: a.o.Machine, Gone: gone != nil})
		}
		r := &repos[len(repos)-1]
		r.Loops = append(r.Loops, e.ID())
	}
	return repos
}

type reposIn struct {
	Page
	OnMachine
}

// knownOn are the repositories on a machine, "" for any.
func (a *api) knownOn(machine string) []Repo {
	if machine != "" && machine != a.o.Machine {
		return nil
	}
	return a.known()
}

func (a *api) repos(_ context.Context, in *reposIn) (*body[Repos], error) {
	list, next := cut(a.knownOn(in.Machine), in.Page, func(r Repo) string { return r.Repo })
	return &body[Repos]{Repos{list, next}}, nil
}

// repo returns the repository of a request, which has to be one that the daemon knows.
func (a *api) repo(in InRepo) (string, error) {
	name := in.Repo
	if in.Machine != "" && in.Machine != a.o.Machine {
		return "", problem(http.StatusNotFound, "not-found", "there is no machine %q here; GET /api/v1/machines lists them", in.Machine)
	}
	if !slices.ContainsFunc(a.known(), func(r Repo) bool { return r.Repo == name && !r.Gone }) {
		return "", problem(http.StatusNotFound, "not-found", "the daemon knows no loop of a repository %q that is there; GET /api/v1/repos lists them", name)
	}
	return name, nil
}

// Machines are the machines whose loops this API shows: the one of the daemon, or those of a fleet.
type Machines struct {
	Machines []Machine `json:"machines" nullable:"false"`
}

// Machine is a machine with a daemon, or of a fleet.
type Machine struct {
	ID      string       `json:"id,omitempty" doc:"its id in the fleet; missing: it is in none"`
	Engine  string       `json:"engine" enum:"local,temporal" doc:"what runs the loops: the daemon, or a fleet"`
	Lacks   []string     `json:"lacks" nullable:"false" doc:"the names of the routes that it does not have"`
	AsOf    *time.Time   `json:"as_of,omitempty" doc:"it is away, and this is what was known then; missing: it is there"`
	Name    string       `json:"name" doc:"its host name"`
	OS      string       `json:"os"`
	Arch    string       `json:"arch"`
	CPUs    int          `json:"cpus"`
	Version string       `json:"version" doc:"of superloop"`
	PID     int          `json:"pid" doc:"of the daemon"`
	Since   time.Time    `json:"since" doc:"when this API began"`
	Port    int          `json:"port,omitempty" doc:"at which it answers over TCP; missing: it does not"`
	Limits  slots.Limits `json:"limits" doc:"0 is no bound"`
	Keep    Keep         `json:"keep" doc:"how long it keeps old logs and archives"`
	Loops   int          `json:"loops" doc:"how many it knows"`
	Working int          `json:"working" doc:"how many have a place now"`
}

// Keep says which old logs and archives of a repository the daemon keeps, once a day.
type Keep struct {
	Days int `json:"days" doc:"what is older goes; 0 is no bound"`
	GiB  int `json:"gib" doc:"the oldest go when all take more; 0 is no bound"`
}

func (a *api) machines(context.Context, *struct{}) (*body[Machines], error) {
	all, _ := a.store.All()
	name, _ := os.Hostname() // one without a name is not told
	m := Machine{ID: a.o.Machine, Engine: "local", Lacks: append([]string{}, a.o.Lacks...), Name: name, OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Version: a.o.Version, PID: os.Getpid(), Port: a.o.Port, Keep: a.o.Keep, Since: a.since, Loops: len(all)}
	if a.o.Trust != nil {
		m.Engine = "temporal" // the limits of a daemon beside it are not its own
	} else if v, err := server.ReadView(a.o.State); err == nil { // else the daemon has done nothing yet
		m.Limits = v.Limits
		for _, l := range v.Loops {
			if l.Phase == "working" {
				m.Working++
			}
		}
	}
	return &body[Machines]{Machines{[]Machine{m}}}, nil
}

// saysOf carries out a verb for a repository. It returns what the verb prints, or why it prints nothing.
func saysOf[T any](ctx context.Context, a *api, args ...string) (*Says[T], string) {
	got, err := say[T](ctx, a, VerbCall{Args: args})
	if err != nil {
		return nil, err.Error()
	}
	return &got.Body, ""
}

// Runners are the runners of each repository, or why they are not known.
type Runners struct {
	Repos      []RepoRunners `json:"repos" nullable:"false"`
	NextCursor string        `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// RepoRunners are the runners of a repository.
type RepoRunners struct {
	Machine string               `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	Repo    string               `json:"repo"`
	Says    *Says[RunnersOfRepo] `json:"known,omitempty"`
	Error   string               `json:"error,omitempty" doc:"why they are not known"`
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
	OnMachine
	Repo string `query:"repo" doc:"only those of this repository"`
}) (*body[Runners], error) {
	list, next := cut(a.knownOn(in.Machine), in.Page, func(r Repo) string { return r.Repo })
	out := Runners{Repos: []RepoRunners{}, NextCursor: next}
	for _, r := range list {
		if in.Repo != "" && in.Repo != r.Repo {
			continue
		}
		one := RepoRunners{Repo: r.Repo, Machine: r.Machine}
		one.Says, one.Error = saysOf[RunnersOfRepo](ctx, a, "runners", "--repo="+r.Repo, "--json")
		out.Repos = append(out.Repos, one)
	}
	return &body[Runners]{out}, nil
}

// Spaces are what superloop takes on the disk for each repository, or why it is not known.
type Spaces struct {
	Repos      []RepoSpace `json:"repos" nullable:"false"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// RepoSpace is what superloop takes for a repository.
type RepoSpace struct {
	Machine string       `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	Repo    string       `json:"repo"`
	Says    *Says[Space] `json:"known,omitempty"`
	Error   string       `json:"error,omitempty" doc:"why it is not known"`
}

// Space is what superloop clean --dry-run --json prints, with the daemon's bounds.
type Space struct {
	Removed bool         `json:"removed" doc:"false"`
	Bytes   int64        `json:"bytes" doc:"of what is due, in bytes on the disk"`
	Units   []space.Unit `json:"units" nullable:"false" doc:"what is due"`
	Use     space.Use    `json:"use" doc:"what superloop takes, in bytes on the disk"`
}

func (a *api) space(ctx context.Context, in *reposIn) (*body[Spaces], error) {
	list, next := cut(a.knownOn(in.Machine), in.Page, func(r Repo) string { return r.Repo })
	out := Spaces{Repos: []RepoSpace{}, NextCursor: next}
	for _, r := range list {
		one := RepoSpace{Repo: r.Repo, Machine: r.Machine}
		one.Says, one.Error = saysOf[Space](ctx, a, "clean", "--repo="+r.Repo, "--dry-run", fmt.Sprintf("--keep-days=%d", a.o.Keep.Days), fmt.Sprintf("--keep-gib=%d", a.o.Keep.GiB), "--json")
		out.Repos = append(out.Repos, one)
	}
	return &body[Spaces]{out}, nil
}

// Channels are the channels of each repository by which people are told, or why they are not known.
type Channels struct {
	Repos      []RepoChannels `json:"repos" nullable:"false"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

// RepoChannels are the channels of a repository.
type RepoChannels struct {
	Machine string        `json:"machine,omitempty" doc:"the id of its machine; missing: there is one machine only"`
	Repo    string        `json:"repo"`
	Says    *Says[Outbox] `json:"known,omitempty"`
	Error   string        `json:"error,omitempty" doc:"why they are not known"`
}

// Outbox is what superloop notify list --json prints.
type Outbox struct {
	Channels []Channel `json:"channels" nullable:"false" doc:"those in force, without their addresses, which can be secrets"`
	Unknown  string    `json:"channels_unknown,omitempty" doc:"why the channels are not known"`
	Messages []Object  `json:"messages" nullable:"false" doc:"those that are not delivered"`
}

// Channel is a way by which people are told.
type Channel struct {
	Channel string   `json:"channel" doc:"its name"`
	Type    string   `json:"type"`
	Second  bool     `json:"second" doc:"it is told when nobody has answered for a while"`
	Tell    []string `json:"tell" nullable:"false" doc:"the kinds of news that it gets"`
	Lacks   string   `json:"lacks,omitempty" doc:"why it cannot work"`
}

func (a *api) channels(ctx context.Context, in *reposIn) (*body[Channels], error) {
	list, next := cut(a.knownOn(in.Machine), in.Page, func(r Repo) string { return r.Repo })
	out := Channels{Repos: []RepoChannels{}, NextCursor: next}
	for _, r := range list {
		one := RepoChannels{Repo: r.Repo, Machine: r.Machine}
		one.Says, one.Error = saysOf[Outbox](ctx, a, "notify", "list", "--repo="+r.Repo, "--json")
		out.Repos = append(out.Repos, one)
	}
	return &body[Channels]{out}, nil
}

// Tried is what superloop notify test --json prints.
type Tried struct {
	OK       bool         `json:"ok"`
	Channels []TriedOnOne `json:"channels" nullable:"false"`
}

// TriedOnOne is what became of a sample message on one channel.
type TriedOnOne struct {
	Channel    string `json:"channel"`
	Type       string `json:"type"`
	Status     string `json:"status" enum:"delivered,refused,failed,timeout"`
	Reason     string `json:"reason,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

type testChannelIn struct {
	Body struct {
		InRepo
		Channel string `json:"channel" minLength:"1" maxLength:"200" doc:"the name of a channel in force"`
	}
}

func (a *api) testChannel(ctx context.Context, in *testChannelIn) (*body[Says[Tried]], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	repo, err := a.repo(in.Body.InRepo)
	if err != nil {
		return nil, err
	}
	return say[Tried](ctx, a, VerbCall{By: by, Args: []string{"notify", "test", "--repo=" + repo, "--channel=" + in.Body.Channel, "--json"}})
}

// InRepo names a repository.
type InRepo struct {
	Repo    string `json:"repo" minLength:"1" maxLength:"4096" doc:"a repository of which the daemon knows a loop"`
	Machine string `json:"machine,omitempty" maxLength:"64" doc:"the id of its machine, if several have a repository of this path"`
}

// OnMachine names a machine in a query.
type OnMachine struct {
	Machine string `query:"machine" maxLength:"64" doc:"only of the machine with this id"`
}
