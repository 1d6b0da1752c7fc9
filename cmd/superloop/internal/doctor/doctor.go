// Package doctor looks whether a loop can run in a repository: at git, the
// configuration, the agents, the state that superloop keeps, and the machine.
//
// It looks and never mends: nothing is written. What a person can do about a
// finding stands beside it, as the command to type where there is one.
package doctor

import (
	"context"
	"time"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Status is how grave a finding is.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn" // a loop runs, but a person should know
	Fail Status = "fail" // a loop does not run, or not as promised
)

// Result is what one check found.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Fix is what to do about it; "" when there is nothing to do.
	Fix string `json:"fix"`
	// Enforcement is set by the check of that name.
	Enforcement *Enforcement `json:"enforcement,omitempty"`
	// Check is how a runner's program has shown whether it works, of which nothing
	// is known.
	Check *preflight.Check `json:"check,omitempty"`
}

// Check is one thing to look at. A program that Run starts is ended after
// 10 s (an agent CLI later, see preflight.Examiner), or soon after ctx ends. The
// name of the Result is filled in by Examine.
type Check struct {
	Name string
	Run  func(ctx context.Context) Result
}

// Target is what is looked at.
type Target struct {
	Repo       string // absolute
	ConfigPath string
	// Config is nil when it could not be loaded; ConfigErr says why.
	Config    *config.Config
	ConfigErr error
	// Loops are the places of the loops that are known, also of an invalid
	// configuration.
	Loops []Place
	// PlacesErr is why the places of the loops could not be worked out.
	PlacesErr error
	// Path is the PATH on which programs are looked for.
	Path string
	Now  func() time.Time
}

// Place is where one loop keeps what it knows.
type Place struct {
	ID      string
	Private string // the loop's directory outside the repository
	Events  string
	Head    string // the journal's anchor, inside Private
	State   string // state.json
	Locks   []string
	// Holder says who wrote the text of a lock file.
	Holder func(raw []byte) string
}

// Checks are all checks of the patient, in the order in which a person would
// mend what they find: what others build on comes first. They are carried out
// one after the other.
func Checks(p Target) []Check {
	list := []Check{
		{"git", p.git},
		{"repository", p.repository},
		{"work-tree", p.workTree},
		{"config", p.config},
		{"config-permissions", p.permissions},
		{"specs", p.specs},
		{"bash", p.bash},
	}
	examiner := &preflight.Examiner{Verify: Prove}
	for _, r := range p.runners() {
		list = append(list, Check{"runner:" + r.Name, func(ctx context.Context) Result { return p.runner(ctx, examiner, r) }})
	}
	list = append(list, Check{"private-state", p.privateState})
	for _, l := range p.Loops {
		list = append(list,
			Check{"supervisor:" + l.ID, func(context.Context) Result { return l.supervisor() }},
			Check{"journal:" + l.ID, func(context.Context) Result { return l.journal() }},
			Check{"state:" + l.ID, func(context.Context) Result { return l.state() }})
	}
	list = append(list, Check{"containment", containment})
	if limitsKnown(inotifyLimits) {
		list = append(list, Check{"inotify", func(context.Context) Result { return inotify(inotifyLimits) }})
	}
	return append(append(list, Check{"disk", p.disk}, Check{"clock", p.clock}), p.enforcement()...)
}

// Examine carries the checks out, one after the other, and hands each result
// to each as soon as it is known. It ends early, with ctx's error, when ctx
// ends. Healthy is whether nothing failed.
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
