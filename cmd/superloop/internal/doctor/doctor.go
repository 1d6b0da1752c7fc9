// Package doctor looks whether a loop can run in a repository: at git, the configuration, the agents, the state that
// superloop keeps, and the machine.
//
// It writes nothing and repairs nothing. What an operator can do about a finding stands beside it, as the command to
// type where there is one.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Status is how grave a finding is.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn" // a loop runs, but the operator should know
	Fail Status = "fail" // a loop does not run, or not as promised
)

// Result is what one check found.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"` // what to do about it; "" when there is nothing to do

	Enforcement *Enforcement `json:"enforcement,omitempty"` // set by the check of that name
	// Check is how a runner's program has shown whether it works, if superloop does not know the program.
	Check *preflight.Check `json:"check,omitempty"`
}

func ok(format string, args ...any) Result {
	return Result{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func warn(fix, format string, args ...any) Result {
	return Result{Status: Warn, Fix: fix, Detail: fmt.Sprintf(format, args...)}
}

func fail(fix, format string, args ...any) Result {
	return Result{Status: Fail, Fix: fix, Detail: fmt.Sprintf(format, args...)}
}

// Check is one thing to look at. A program that Run starts is ended after 10 s (an agent CLI later, see
// preflight.Examiner), or soon after ctx ends. The name of the Result is filled in by Examine.
type Check struct {
	Name string
	Run  func(ctx context.Context) Result
}

// Target is the target of the checks.
type Target struct {
	Repo       string // absolute
	ConfigPath string
	Config     *config.Config // nil when it could not be loaded
	ConfigErr  error          // says why
	Loops      []Place        // of the loops that are known, also of an invalid configuration
	PlacesErr  error          // why the places of the loops could not be worked out
	Path       string         // the PATH on which programs are looked for
	Now        func() time.Time
}

// Place is where one loop keeps what it knows.
type Place struct {
	ID      string
	Private string // the loop's directory outside the repository
	Events  string
	Head    string // the journal's anchor, inside Private
	State   string // state.json
	Locks   []string
	Holder  func(raw []byte) string // says who wrote the text of a lock file
}

// Checks are all checks of the target, in the order in which an operator would repair what they find: what others build
// on comes first. They are carried out one after the other.
func Checks(p Target) []Check {
	list := []Check{{"git", p.git}, {"repository", p.repository}, {"work-tree", p.workTree}, {"config", p.config},
		{"config-permissions", p.permissions}, {"specs", p.specs}, {"bash", p.bash}}
	examiner := &preflight.Examiner{Verify: Prove}
	if p.Config != nil {
		for _, r := range Runners(p.Config) {
			list = append(list, Check{"runner:" + r.Name, func(ctx context.Context) Result { return p.runner(ctx, examiner, r) }})
		}
	}
	list = append(list, Check{"private-state", p.privateState})
	for _, l := range p.Loops {
		list = append(list, Check{"supervisor:" + l.ID, l.supervisor}, Check{"journal:" + l.ID, l.journal}, Check{"state:" + l.ID, l.state})
	}
	list = append(list, Check{"containment", containment})
	if exists(inotifyLimits) {
		list = append(list, Check{"inotify", func(context.Context) Result { return inotify(inotifyLimits) }})
	}
	return append(append(list, Check{"disk", p.disk}, Check{"clock", p.clock}), p.enforcement()...)
}

// Examine carries the checks out, one after the other, and hands each result to each as soon as it is known. It ends
// early, with ctx's error, when ctx ends. Healthy is whether nothing failed.
func Examine(ctx context.Context, checks []Check, each func(Result)) (healthy bool, err error) {
	healthy = true
	for _, c := range checks {
		r := c.Run(ctx)
		if err := ctx.Err(); err != nil {
			return false, err // what the check found may only be that it was ended
		}
		r.Name = c.Name
		healthy = healthy && r.Status != Fail
		each(r)
	}
	return healthy, nil
}

// Writer prints results for an operator as they come, one line each, and the fix on a line of its own below.
func Writer(w io.Writer) func(Result) {
	return func(r Result) {
		fmt.Fprintf(w, "%-4s %-20s %s\n", r.Status, r.Name, render.Clean(r.Detail))
		if r.Fix != "" {
			fmt.Fprintf(w, "     fix: %s\n", render.Clean(r.Fix))
		}
	}
}

// firstOf shows the first problem, and how many there are besides it.
func firstOf(problems []config.Problem) string {
	return problems[0].String() + render.More(len(problems)-1)
}

func notes(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}
