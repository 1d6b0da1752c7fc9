package loop

import (
	"github.com/superloop/superloop/recovery/failures"
)

// RespondPlan is what the machine needs to know to answer a role that fails.
type RespondPlan struct {
	Limits failures.Limits `json:"limits"`
	// SameTests is how many iterations in a row may fail the tests in the same way
	// before a person is asked; 0 never asks.
	SameTests int `json:"same_tests,omitempty"`
	// Preflight: the environment is looked at before the first role of an iteration.
	Preflight bool `json:"preflight,omitempty"`
}

// Response is what a run knows of the failures of its roles, and what it is doing about the present one.
type Response struct {
	// Policy is that of the role that the loop stands at, nil while it has not failed in this iteration.
	Policy *failures.State `json:"ladder,omitempty"`
	// History is what failed lately.
	History failures.History `json:"history,omitzero"`
	// Cause is the last one that was found for what still fails.
	Cause *Cause `json:"cause,omitempty"`
	// Found is what an analysis came to, while its remedy is tried.
	Found *Found `json:"found,omitempty"`
	// Same counts the iterations in a row whose tests have failed in the same way,
	// although something was changed, and nothing was proposed against it.
	Same SameTests `json:"same_tests,omitzero"`
	// Environment is why the iteration cannot begin, as a look has found; nil while nothing is known to be wrong.
	// Overruled is the iteration in which a person has said to go on all the same.
	Environment *EnvironmentState `json:"ground,omitempty"`
	Overruled   int               `json:"overruled,omitempty"`
}

// Cause is a root cause as the loop remembers it, for prompts and people.
type Cause struct {
	ID        string `json:"id"`
	Iteration int    `json:"iteration"`
	Role      string `json:"role"`
	Type      string `json:"type"`
	Summary   string `json:"summary"`
	Location  string `json:"location,omitempty"`
	// Instruction is what is to be done about it, and Fix who does that: code is the
	// implementer's, config and person a person's.
	Fix         string `json:"fix,omitempty"`
	Instruction string `json:"instruction,omitempty"`
	By          string `json:"by"`
	// Confidence is from 0 to 1.
	Confidence float64  `json:"confidence"`
	Evidence   []string `json:"evidence,omitempty"`
}

// Found is what the failure policy is told when the remedy of a cause was tried.
type Found struct {
	Analysis   failures.Analysis    `json:"analysis"`
	Candidates []failures.Candidate `json:"candidates,omitempty"`
}

// SameTests is a failure of the tests that comes back.
type SameTests struct {
	Signature string `json:"signature,omitempty"`
	Count     int    `json:"count,omitempty"`
	Iteration int    `json:"iteration,omitempty"` // the last one that had it
	Tree      string `json:"tree,omitempty"`      // that it was last counted for
}

// EnvironmentState is a broken environment that a role was kept from.
type EnvironmentState struct {
	Iteration int                `json:"iteration"`
	Role      string             `json:"role"`
	Findings  []failures.Finding `json:"findings"`
	// Tried are the digests of the commands that were tried on it.
	Tried []string `json:"tried,omitempty"`
}

func (r Response) clone() Response {
	if r.Policy != nil {
		l := *r.Policy
		r.Policy = &l
	}
	r.History = r.History.Clone()
	if r.Environment != nil {
		g := *r.Environment
		r.Environment = &g
	}
	return r
}
