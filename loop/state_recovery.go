package loop

import (
	"maps"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/chain"
)

// RecoveryState is the proposal that the loop deals with.
type RecoveryState struct {
	N     int    `json:"n,omitempty"`
	After string `json:"after"` // the step that left it; the loop goes on behind that
	// Back: superloop itself tries a command, for this reason, and the loop goes on
	// in the step and not behind it.
	Back   string `json:"back,omitempty"`
	Role   string `json:"role"`
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"`
	File   string `json:"file,omitempty"`

	Category  string `json:"category,omitempty"`
	Severity  string `json:"severity,omitempty"`
	RootCause string `json:"root_cause,omitempty"`
	Pattern   string `json:"error_pattern,omitempty"`
	// Evidence is for the person who is asked.
	Evidence []string `json:"evidence,omitempty"`

	// Attempt is the command that is dealt with; Else the fallback that is not
	// judged yet; Fallback says that Attempt was it.
	Attempt  action.Action  `json:"attempt"`
	Else     *action.Action `json:"alternative,omitempty"`
	Fallback bool           `json:"fallback,omitempty"`

	// Ask is why a person decides about the attempt whatever the policy lists: rules
	// have thought of it, and do not trust themselves with it.
	Ask string `json:"ask,omitempty"`

	Verdict      string `json:"verdict,omitempty"`
	Rule         string `json:"rule,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Part         string `json:"part,omitempty"`
	PolicyDigest string `json:"policy_digest,omitempty"`
	InputsDigest string `json:"inputs_digest,omitempty"`

	// Approved is who approved the attempt: auto or human; By is the person.
	Approved string `json:"approved,omitempty"`
	By       string `json:"by,omitempty"`
	// Question is the record in which a person approved it.
	Question string `json:"question,omitempty"`
	// Tries counts the executions, Asked the questions.
	Tries int `json:"tries,omitempty"`
	Asked int `json:"asked,omitempty"`
	// Errors are what became of the attempts so far, one sentence each.
	Errors []string `json:"errors,omitempty"`
	// Chain is set while rules cure by themselves.
	Chain *chain.Chain `json:"chain,omitempty"`
	// Executed is the id of the execution that the tests are to verify.
	Executed string `json:"executed,omitempty"`
}

func (r *RecoveryState) clone() *RecoveryState {
	if r == nil {
		return nil
	}
	c := *r
	c.Errors = slices.Clone(r.Errors)
	if r.Chain != nil {
		other := r.Chain.Clone()
		c.Chain = &other
	}
	return &c
}

// maxRecent bounds the outcomes that are remembered for prompts.
const maxRecent = 5

// Recoveries are what a run has done about proposals.
type Recoveries struct {
	Proposed int `json:"proposed,omitempty"`
	// Used counts the automatic executions that were begun, Last is when the last
	// one was.
	Used int       `json:"used,omitempty"`
	Last time.Time `json:"last,omitzero"`
	// Rejected counts a person's refusals by the digest of the attempt.
	Rejected map[string]int `json:"rejected,omitempty"`
	// Handled are the digests of this iteration's proposals.
	Handled []string `json:"handled,omitempty"`
	// Ran are the attempts that rules have run in this iteration, by digest.
	Ran []string `json:"ran,omitempty"`
	// Recent are the last outcomes, oldest first; Problems what was wrong with
	// the last proposal, for the next tester.
	Recent   []RecoveryNote `json:"recent,omitempty"`
	Problems []string       `json:"problems,omitempty"`
}

// RecoveryNote is what became of a proposal, for the prompts.
type RecoveryNote struct {
	N         int    `json:"n"`
	Iteration int    `json:"iteration"`
	Command   string `json:"command"`
	Outcome   string `json:"outcome"`
	Note      string `json:"note,omitempty"`
}

func (r Recoveries) clone() Recoveries {
	r.Rejected = maps.Clone(r.Rejected)
	r.Handled = slices.Clone(r.Handled)
	r.Ran = slices.Clone(r.Ran)
	r.Recent = slices.Clone(r.Recent)
	return r
}

// Sighting is a proposal that lies there while its role still runs.
type Sighting struct {
	Role     string `json:"role"`
	Category string `json:"category,omitempty"`
	Command  string `json:"command,omitempty"`
	Verdict  string `json:"verdict"`
	Reason   string `json:"reason,omitempty"`
}
