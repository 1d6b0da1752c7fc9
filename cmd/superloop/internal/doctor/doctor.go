// Package doctor checks whether a loop can run in a repository. It examines git, the configuration, the agents, the
// state that superloop keeps, and the machine.
//
// The checks write nothing and repair nothing. Each finding says what an operator can do about it, as a command where
// one exists.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/steering"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Status is the severity of a finding.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn" // a loop runs, but the operator should know
	Fail Status = "fail" // a loop does not run, or not as promised
)

// Result is the finding of one check.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"` // what the operator can do about the finding; "" when there is nothing to do

	Enforcement *Enforcement `json:"enforcement,omitempty"` // set by the check "enforcement" only
	// Protection lists what steers other programs outside of the repository; set by the check "enforcement:home" only.
	Protection []steering.Place `json:"protection,omitempty"`
	// Check says how superloop found out whether the runner's program works. It is set only if superloop does not know
	// the program.
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

// Check is one check of doctor. Run ends a program that it starts after 10 s (an agent CLI later, see
// preflight.Examiner), or soon after ctx ends. Examine fills in the name of the Result.
type Check struct {
	Name string
	Run  func(ctx context.Context) Result
}

// Target is the repository and machine that the checks examine.
type Target struct {
	Repo       string // absolute
	ConfigPath string
	Config     *config.Config // nil if it could not be loaded
	ConfigErr  error          // why Config is nil
	Loops      []Place        // of the known loops, even if the configuration is invalid
	PlacesErr  error          // why superloop could not determine the places of the loops
	Path       string         // the PATH on which the checks look for programs
	Now        func() time.Time
	Kept       []layout.Paths // of any loop of this repository, and then of the others that the daemon knows
}

// Place holds the paths of the files in which superloop keeps the state of one loop.
type Place struct {
	ID      string
	Private string // the loop's directory outside the repository
	Events  string
	Head    string // the journal's anchor, inside Private
	State   string // state.json
	Locks   []string
	Holder  func(raw []byte) string // returns who wrote raw, the text of a lock file
}

// Checks returns all checks of the target, in the order in which an operator would repair their findings: a check comes
// after the checks that it depends on. The caller runs the checks one after the other.
func Checks(p Target) []Check {
	list := []Check{{"git", p.git}, {"repository", p.repository}, {"work-tree", p.workTree}, {"config", p.config},
		{"config-permissions", p.permissions}, {"specs", p.specs}, {"bash", p.bash}}
	examiner := &preflight.Examiner{Verify: Prove}
	if p.Config != nil {
		for _, r := range Runners(p.Config) {
			list = append(list, Check{"runner:" + r.Name, func(ctx context.Context) Result { return p.runner(ctx, examiner, r) }})
		}
	}
	if p.Config != nil {
		list = append(list, Check{"switched-off", p.switchedOff})
	}
	list = append(list, Check{"private-state", p.privateState})
	for _, l := range p.Loops {
		list = append(list, Check{"supervisor:" + l.ID, l.supervisor}, Check{"journal:" + l.ID, l.journal}, Check{"state:" + l.ID, l.state})
	}
	list = append(list, Check{"containment", containment})
	if exists(inotifyLimits) {
		list = append(list, Check{"inotify", func(context.Context) Result { return inotify(inotifyLimits) }})
	}
	return append(append(list, Check{"disk", p.disk}, Check{"space", p.space}, Check{"clock", p.clock}), p.enforcement()...)
}

// Examine runs the checks one after the other and calls each with every result as soon as it is known. When ctx ends,
// Examine returns ctx's error and runs no further check. Healthy reports whether no check failed.
func Examine(ctx context.Context, checks []Check, each func(Result)) (healthy bool, err error) {
	healthy = true
	for _, c := range checks {
		r := c.Run(ctx)
		if err := ctx.Err(); err != nil {
			return false, err // the check may have failed only because ctx ended
		}
		r.Name = c.Name
		healthy = healthy && r.Status != Fail
		each(r)
	}
	return healthy, nil
}

// Writer returns a function that prints a result for an operator: one line for the result, and below it a line for the
// fix, if there is one.
func Writer(w io.Writer) func(Result) {
	return func(r Result) {
		fmt.Fprintf(w, "%-4s %-20s %s\n", r.Status, r.Name, render.Clean(r.Detail))
		if r.Fix != "" {
			fmt.Fprintf(w, "     fix: %s\n", render.Clean(r.Fix))
		}
	}
}

// firstOf returns the first problem and the number of the others.
func firstOf(problems []config.Problem) string {
	return problems[0].String() + render.More(len(problems)-1)
}

func notes(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}
