package loop

import (
	"maps"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

// Origin says why the loop deals with a command.
type Origin string

// The origins. The first three are a detour behind a step, and the loop goes on with the step after it; the last two
// are a detour within a role's step, and the role runs again.
const (
	OriginProposal    Origin = "proposal"    // a role left recovery.json
	OriginRemediation Origin = "remediation" // rules know what may fix the tests, and try it
	OriginSuggestion  Origin = "suggestion"  // rules are sure of a command that only a human may approve
	OriginRootCause   Origin = "root_cause"  // the cause of a failing role has a command
	OriginPreflight   Origin = "preflight"   // an environment check has one
)

// Phase says what a recovery waits for. Each has one kind of pending effect, but for the two waits.
type Phase string

// The phases.
const (
	PhaseTaking     Phase = "taking"     // TakeProposal
	PhaseDiagnosing Phase = "diagnosing" // Diagnose
	PhaseJudging    Phase = "judging"    // JudgeAttempt
	PhaseCooldown   Phase = "cooldown"   // Wait: the policy lets the command run later
	PhaseRetryWait  Phase = "retry_wait" // Wait: the plan's next move has its time
	PhaseExecuting  Phase = "executing"  // ExecuteRecovery
	PhaseChecking   Phase = "checking"   // CheckTool
	PhaseTesting    Phase = "testing"    // RunTests
	PhaseAwaiting   Phase = "asking"     // AskHuman
)

// RecoveryState is what the loop does about one failure of the environment.
type RecoveryState struct {
	Origin Origin `json:"origin"`
	Phase  Phase  `json:"phase"`
	N      int    `json:"n,omitempty"` // N numbers the proposals of the run, from 1; 0 before there is a command.
	After  string `json:"after"`       // the step that the detour began in
	Role   string `json:"role"`
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"` // of the proposal's file
	File   string `json:"file,omitempty"`   // where that is kept

	Category  string `json:"category,omitempty"`
	Severity  string `json:"severity,omitempty"`
	RootCause string `json:"root_cause,omitempty"`
	Pattern   string `json:"error_pattern,omitempty"`
	// PatternBefore says whether Pattern was in the tests' output when the proposal was taken; nil: not known.
	PatternBefore *bool    `json:"pattern_before,omitempty"`
	Evidence      []string `json:"evidence,omitempty"` // for the human who is asked

	// Attempt is the command that is dealt with; Else the fallback that is not judged yet; Fallback says that Attempt
	// was it.
	Attempt  action.Action  `json:"attempt"`
	Else     *action.Action `json:"alternative,omitempty"`
	Fallback bool           `json:"fallback,omitempty"`
	Withheld string         `json:"withheld,omitempty"` // why a suggestion does not run by itself

	Judgement

	Approved string `json:"approved,omitempty"` // who approved the attempt: auto or human; By is the human
	By       string `json:"by,omitempty"`
	Question string `json:"question,omitempty"` // the escalation in which a human approved it
	// Tries counts the executions, Asked the escalations, Steps the effects.
	Tries  int         `json:"tries,omitempty"`
	Asked  int         `json:"asked,omitempty"`
	Steps  int         `json:"steps,omitempty"`
	Errors []string    `json:"errors,omitempty"` // what became of the attempts so far, one sentence each
	Plan   *plan.Chain `json:"chain,omitempty"`  // the remediation plan of OriginRemediation, nil before there is one
	// LastRun is how the last execution ended; Executed is its id while the tests are to verify it.
	LastRun  *Run   `json:"last_run,omitempty"`
	Executed string `json:"executed,omitempty"`
	// RanMS is the wall time of all executions, AnsweredMS the time until humans had answered, AskedAt when the open
	// escalation was recorded.
	RanMS      *int64    `json:"ran_ms,omitempty"`
	AnsweredMS *int64    `json:"answered_ms,omitempty"`
	AskedAt    time.Time `json:"asked_at,omitzero"`
}

// Judgement is the policy's verdict on an attempt, and what it stands on.
type Judgement struct {
	Verdict      string `json:"verdict,omitempty"`
	Rule         string `json:"rule,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Part         string `json:"part,omitempty"`
	PolicyDigest string `json:"policy_digest,omitempty"`
	InputsDigest string `json:"inputs_digest,omitempty"`
}

// Run is how a command of a recovery ended.
type Run struct {
	ID         string `json:"id"` // of the effect
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	Ended      string `json:"ended"`
	DurationMS int64  `json:"duration_ms"`
	LogFile    string `json:"log_file,omitempty"`
}

// within reports whether the detour goes on in the step that it began in.
func (r *RecoveryState) within() bool {
	return r.Origin == OriginRootCause || r.Origin == OriginPreflight
}

// installs is the recipe whose tool the attempt brings or renews, "" for any other command: that of the plan's option
// whose command it is, or of the diagnosed option that somebody has proposed word by word.
func (r *RecoveryState) installs(d *Diagnosis) string {
	if r.Attempt.Command == "" {
		return ""
	}
	if r.Plan != nil {
		for _, l := range slices.Backward(r.Plan.Levels) {
			if o, ok := l.Option(l.Chosen); ok && l.Chosen != "" && o.Command == r.Attempt.Command {
				return o.Dep
			}
		}
		return ""
	}
	if d != nil {
		for _, o := range d.Options {
			if o.Command == r.Attempt.Command && o.Dep != "" {
				return o.Dep
			}
		}
	}
	return ""
}

func (r *RecoveryState) clone() *RecoveryState {
	if r == nil {
		return nil
	}
	c := *r
	c.Errors = slices.Clone(r.Errors)
	if r.Plan != nil {
		other := r.Plan.Clone()
		c.Plan = &other
	}
	return &c
}

// maxRecent bounds the outcomes that are remembered for prompts.
const maxRecent = 5

// Recoveries are what a run has done about proposals.
type Recoveries struct {
	Proposed int `json:"proposed,omitempty"`
	// Used counts the automatic executions that were begun, Last is when the last one was.
	Used     int            `json:"used,omitempty"`
	Last     time.Time      `json:"last,omitzero"`
	Rejected map[string]int `json:"rejected,omitempty"` // counts a human's refusals by the digest of the attempt
	Handled  []string       `json:"handled,omitempty"`  // the digests of this iteration's proposals
	Ran      []string       `json:"ran,omitempty"`      // the attempts that rules have run in this iteration, by digest
	// Recent are the last outcomes, oldest first; Problems what was wrong with the last proposal, for the next tester.
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
	Verdict  string `json:"verdict"` // as it would be now, or invalid
	Reason   string `json:"reason,omitempty"`
}

// Diagnosis is what rules say of a failure, for the prompts of the roles to come and for the operator who is asked.
type Diagnosis struct {
	Iteration int           `json:"iteration"`
	Command   string        `json:"command"`
	Category  string        `json:"category"`
	Handler   string        `json:"handler,omitempty"`
	Infra     bool          `json:"infra"`
	Code      bool          `json:"code"`
	Signature string        `json:"signature"`
	Why       string        `json:"why"`
	Evidence  []string      `json:"evidence,omitempty"`
	Hints     []string      `json:"hints,omitempty"`
	Options   []plan.Choice `json:"options,omitempty"` // those that have a command and were not carried out
}

// maxDiagnosed bounds the options that are remembered.
const maxDiagnosed = 6

// diagnosisOf is what is kept of a classification.
func diagnosisOf(f Classified, iteration int) *Diagnosis {
	d := &Diagnosis{Iteration: iteration, Command: f.Command, Category: f.Category, Handler: f.Handler, Infra: f.Infra, Code: f.Code,
		Signature: f.Signature, Why: f.Why, Evidence: f.Evidence, Hints: f.Hints}
	for _, o := range f.Options {
		if o.Command != "" && o.Availability != "impossible" && len(d.Options) < maxDiagnosed {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Aid counts what was fixed by rules alone.
type Remediation struct {
	Diagnosed int `json:"diagnosed,omitempty"` // failures that were classified
	Chains    int `json:"chains,omitempty"`    // that were opened
	Remedied  int `json:"cured,omitempty"`     // and led to passing tests
}

// RespondPlan is what the machine needs to know to answer a role that fails.
type RespondPlan struct {
	Limits failures.Limits `json:"limits"`
	// SameTests is how many iterations in a row may fail the tests in the same way before an operator is asked; 0 never
	// asks.
	SameTests int `json:"same_tests,omitempty"`
	// Preflight: the environment is looked at before the first role of an iteration.
	Preflight bool `json:"preflight,omitempty"`
}

// Response is what a run knows of the failures of its roles, and what it is doing about the present one.
type Response struct {
	// Policy is that of the role that the loop stands at, nil while it has not failed in this iteration.
	Policy  *failures.State  `json:"ladder,omitempty"`
	History failures.History `json:"history,omitzero"` // what failed lately
	Cause   *Cause           `json:"cause,omitempty"`  // the last one that was found for what still fails
	Found   *Found           `json:"found,omitempty"`  // what an analysis came to, while its remedy is tried
	// Same counts the iterations in a row whose tests have failed in the same way, although something was changed, and
	// nothing was proposed against it.
	Same SameTests `json:"same_tests,omitzero"`
	// Environment is why the iteration cannot begin, as a look has found; nil while nothing is known to be wrong.
	// Overruled is the iteration in which an operator has said to go on all the same.
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
	// Instruction is what is to be done about it, and Fix who does that: code is the implementer's, config and operator a
	// operator's.
	Fix         string   `json:"fix,omitempty"`
	Instruction string   `json:"instruction,omitempty"`
	By          string   `json:"by"`
	Confidence  float64  `json:"confidence"` // from 0 to 1
	Evidence    []string `json:"evidence,omitempty"`
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
	Tried     []string           `json:"tried,omitempty"` // the digests of the commands that were tried on it
}

func (r Response) clone() Response {
	r.Policy, r.Environment, r.History = copied(r.Policy), copied(r.Environment), r.History.Clone()
	return r
}
