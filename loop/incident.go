package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/failures"
)

// Incident is what went wrong with one role, or with the tests, in an iteration, and what became of it. Reports for
// operators tell it.
type Incident struct {
	Role     string `json:"role"` // TestsTask for the tests
	Failures int    `json:"failures"`
	Last     string `json:"last"`              // the last failure: who failed, and how
	Cause    string `json:"cause,omitempty"`   // the root cause, with "possibly" if it is a guess
	Guess    bool   `json:"guess,omitempty"`   // superloop is not sure of the cause, so roles do not read of it
	Fix      string `json:"fix,omitempty"`     // what fixes the cause, and who does that
	Ran      string `json:"ran,omitempty"`     // the command that superloop ran to fix the cause, and how it ended
	Learned  string `json:"learned,omitempty"` // the id of the check that superloop learned from it
	Became   string `json:"became,omitempty"`  // "" while the failure goes on
}

// The values of Incident.Became. solvedBy is followed by the runner.
const (
	solvedBy     = "solved by "
	solved       = "solved"
	withOperator = "an operator was asked"
)

// String returns the incident as sentences for an operator.
func (i Incident) String() string {
	out := []string{fmt.Sprintf("%s failed %s, last: %s", i.Role, Times(i.Failures), i.Last)}
	for _, p := range [][2]string{{"cause: ", i.Cause}, {"to do about it: ", i.Fix}, {"ran: ", i.Ran},
		{"to retire the check that was learned: superloop doctor --retire ", i.Learned}, {"", i.Became}} {
		if p[1] != "" {
			out = append(out, p[0]+p[1])
		}
	}
	return strings.Join(out, "; ")
}

// ForRoles returns the incident as roles may read it: without a cause that is a guess, and how to fix that.
func (i Incident) ForRoles() Incident {
	if i.Guess {
		i.Cause, i.Fix = "", ""
	}
	return i
}

// incident returns the open incident of a role in this iteration, and opens it if there is none.
func (t *turn) incident(role string) *Incident {
	all := &t.s.Response.Incidents
	if i := slices.IndexFunc(*all, func(x Incident) bool { return x.Role == role }); i >= 0 {
		return &(*all)[i]
	}
	*all = append(*all, Incident{Role: role})
	return &(*all)[len(*all)-1]
}

// failedAgain adds a failure to the incident of a role.
func (t *turn) failedAgain(role, last string, n int) {
	i := t.incident(role)
	i.Failures, i.Last, i.Became = i.Failures+n, text.Line(last, maxIncident), ""
}

// explained adds a root cause to the incident that it explains.
func (t *turn) explained(f Analysed) {
	i := t.incident(f.Role)
	i.Cause = fmt.Sprintf("%s (%s, by %s, confidence %.1f)", text.Line(failures.Possibly(f.RootCause, f.Sure), maxIncident), f.Type, f.By, f.Confidence)
	i.Fix, i.Ran, i.Learned, i.Guess = "", "", f.Learned, !f.Sure
	if f.Instruction != "" {
		i.Fix = fmt.Sprintf("%s (%s)", text.Line(f.Instruction, maxIncident), f.Fix)
	}
}

// becomes says what became of the incident of a role, if it has one.
func (t *turn) becomes(role, what string) {
	for i := range t.s.Response.Incidents {
		if x := &t.s.Response.Incidents[i]; x.Role == role && x.Became == "" {
			x.Became = what
		}
	}
}

// maxIncident bounds each text of an Incident, in characters.
const maxIncident = 300
