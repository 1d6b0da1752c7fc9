package loop

import (
	"maps"
	"slices"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

// Origin says where the command of a recovery comes from.
type Origin string

// The origins. With the first three the recovery comes after a step, and the loop then goes on with the next step. With
// the last two the recovery comes within the step of a role, and the role then runs again.
const (
	OriginProposal    Origin = "proposal"    // a role left recovery.json
	OriginRemediation Origin = "remediation" // rules know a remedy for the failed tests, and superloop tries it
	OriginSuggestion  Origin = "suggestion"  // rules are sure of a remedy that needs a human's approval
	OriginRootCause   Origin = "root_cause"  // the root cause analysis of a failing role gave a command
	OriginPreflight   Origin = "preflight"   // an environment check that fails has a remedy
)

// Phase says what a recovery waits for. Each phase has one kind of pending effect.
type Phase string

// The phases.
const (
	PhaseTaking     Phase = "taking"     // TakeProposal
	PhaseDiagnosing Phase = "diagnosing" // Diagnose
	PhaseJudging    Phase = "judging"    // JudgeAttempt
	PhaseCooldown   Phase = "cooldown"   // Wait: the command's cooldown is not over
	PhaseRetryWait  Phase = "retry_wait" // Wait: the time of the plan's next move has not come
	PhaseExecuting  Phase = "executing"  // ExecuteRecovery
	PhaseChecking   Phase = "checking"   // CheckTool
	PhaseTesting    Phase = "testing"    // RunTests
	PhaseAwaiting   Phase = "asking"     // AskHuman
)

// RecoveryState is the recovery that the loop is in: what it does about one failure of the environment.
type RecoveryState struct {
	Origin Origin `json:"origin"`
	Phase  Phase  `json:"phase"`
	N      int    `json:"n,omitempty"` // counts the proposals of the run, from 1; 0 before there is a command
	After  string `json:"after"`       // the step after or within which the recovery began
	Role   string `json:"role"`
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"` // of recovery.json
	File   string `json:"file,omitempty"`   // the private copy of recovery.json
	// ProposedAt is the time that recovery.json names.
	ProposedAt time.Time `json:"proposed_at,omitzero"`

	Category  string `json:"category,omitempty"`
	Severity  string `json:"severity,omitempty"`
	RootCause string `json:"root_cause,omitempty"`
	Pattern   string `json:"error_pattern,omitempty"`
	// PatternBefore says whether the tests' output contained Pattern when superloop took the proposal. nil means that
	// it is not known.
	PatternBefore *bool    `json:"pattern_before,omitempty"`
	Evidence      []string `json:"evidence,omitempty"` // for the human who decides

	// Attempt is the present command. Else is the fallback, which superloop has not judged yet. Fallback says that
	// Attempt is the fallback.
	Attempt  action.Action  `json:"attempt"`
	Else     *action.Action `json:"alternative,omitempty"`
	Fallback bool           `json:"fallback,omitempty"`
	Withheld string         `json:"withheld,omitempty"` // why a suggestion does not run without approval

	Judgement

	// Approved says who approved the attempt: auto or human. By is the name of that human, or "rule".
	Approved string `json:"approved,omitempty"`
	By       string `json:"by,omitempty"`
	Question string `json:"question,omitempty"` // the escalation in which a human approved the attempt
	// Tries counts the executions, Asked the escalations, and Steps the effects of this recovery.
	Tries  int         `json:"tries,omitempty"`
	Asked  int         `json:"asked,omitempty"`
	Steps  int         `json:"steps,omitempty"`
	Errors []string    `json:"errors,omitempty"` // one sentence for each attempt that failed
	Plan   *plan.Chain `json:"chain,omitempty"`  // the remediation plan of OriginRemediation, nil before it exists
	// LastRun is how the last execution ended. Executed is the id of that execution until the tests have verified it.
	LastRun  *Run   `json:"last_run,omitempty"`
	Executed string `json:"executed,omitempty"`
	// RanMS is the wall time of all executions. AnsweredMS is the time that humans took to answer. Both are in
	// milliseconds. AskedAt is when the open escalation was recorded.
	RanMS      *int64    `json:"ran_ms,omitempty"`
	AnsweredMS *int64    `json:"answered_ms,omitempty"`
	AskedAt    time.Time `json:"asked_at,omitzero"`
}

// Judgement is the policy's verdict on an attempt, with its rule, its reason and the digests that an approval is bound
// to.
type Judgement struct {
	Verdict      string `json:"verdict,omitempty"`
	Rule         string `json:"rule,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Part         string `json:"part,omitempty"`
	PolicyDigest string `json:"policy_digest,omitempty"`
	InputsDigest string `json:"inputs_digest,omitempty"`
}

// Run says how a command of a recovery ended.
type Run struct { // the id of the effect
	ID         string `json:"id"` // of the effect
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	Ended      string `json:"ended"`
	DurationMS int64  `json:"duration_ms"`
	LogFile    string `json:"log_file,omitempty"`
}

// within reports whether the recovery lies within the step of a role.
func (r *RecoveryState) within() bool {
	return r.Origin == OriginRootCause || r.Origin == OriginPreflight
}

// installs returns the recipe of the tool that the attempt installs or renews, "" for any other command. With a
// remediation plan it looks at the chosen options of the plan, without one at the options of the diagnosis d. It finds
// an option only if its command equals the attempt's command.
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

// maxRecent is how many outcomes the loop remembers for prompts.
const maxRecent = 5

// Recoveries counts the recoveries of a run and remembers the last of them.
type Recoveries struct {
	Proposed int `json:"proposed,omitempty"`
	// Used counts the executions that a rule approved and that were begun. Last is when the last of them began.
	Used     int            `json:"used,omitempty"`
	Last     time.Time      `json:"last,omitzero"`
	Rejected map[string]int `json:"rejected,omitempty"` // counts a human's refusals, by the digest of the command
	Handled  []string       `json:"handled,omitempty"`  // the digests of the proposals of this iteration
	Ran      []string       `json:"ran,omitempty"`      // the digests of the remedies run in this iteration
	// Done is the last command if it was executed and confirmed in this iteration, and if nothing has failed since.
	Done *action.Done `json:"done,omitempty"`
	// Recent are the last outcomes, oldest first. Problems are the mistakes in the last proposal, for the next tester.
	Recent   []RecoveryNote `json:"recent,omitempty"`
	Problems []string       `json:"problems,omitempty"`
}

// RecoveryNote says what happened to one proposal. Prompts show it.
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
	r.Done = copied(r.Done)
	r.Recent = slices.Clone(r.Recent)
	return r
}

// Sighting is a proposal that lies in the loop's directory while its role still runs.
type Sighting struct {
	Role     string `json:"role"`
	Category string `json:"category,omitempty"`
	Command  string `json:"command,omitempty"`
	Verdict  string `json:"verdict"` // what the policy says of the proposal at this time, or invalid
	Reason   string `json:"reason,omitempty"`
}

// Diagnosis is what rules say about a failure. A question to the operator shows it, and prompts if it is firm.
type Diagnosis struct {
	Iteration int    `json:"iteration"`
	Command   string `json:"command"`
	Category  string `json:"category"`
	Handler   string `json:"handler,omitempty"`
	Infra     bool   `json:"infra"`
	Code      bool   `json:"code"`
	// Weak and Confidence say how sure the diagnosis is. Prompts show only one that is firm (failures.Firm).
	Weak       bool          `json:"weak,omitempty"`
	Confidence float64       `json:"confidence"`
	Signature  string        `json:"signature"`
	Why        string        `json:"why"`
	Evidence   []string      `json:"evidence,omitempty"`
	Hints      []string      `json:"hints,omitempty"`
	Options    []plan.Choice `json:"options,omitempty"` // options that have a command and are possible
}

// maxDiagnosed is how many options a Diagnosis holds at most.
const maxDiagnosed = 6

// diagnosisOf makes the Diagnosis of a classified failure.
func diagnosisOf(f Classified, iteration int) *Diagnosis {
	d := &Diagnosis{Iteration: iteration, Command: f.Command, Category: f.Category, Handler: f.Handler, Infra: f.Infra, Code: f.Code, Weak: f.Weak, Confidence: f.Confidence,
		Signature: f.Signature, Why: f.Why, Evidence: f.Evidence, Hints: f.Hints}
	for _, o := range f.Options {
		if o.Command != "" && o.Availability != "impossible" && len(d.Options) < maxDiagnosed {
			d.Options = append(d.Options, o)
		}
	}
	return d
}

// Remediation counts what rules remedied without a role.
type Remediation struct {
	Diagnosed int `json:"diagnosed,omitempty"` // failures that were classified
	Chains    int `json:"chains,omitempty"`    // remediation plans that were opened
	Remedied  int `json:"cured,omitempty"`     // remediation plans after which the tests passed
	// Told is the signature of the failure whose remedy an operator was last told, because nothing is executed.
	Told string `json:"told,omitempty"`
}

// RespondPlan is the failure policy's part of a Plan.
type RespondPlan struct {
	Limits failures.Limits `json:"limits"`
	// SameTests is the number of iterations in a row with the same failure of the tests after which superloop asks an
	// operator. 0 means that it never asks.
	SameTests int `json:"same_tests,omitempty"`
	// Preflight says that superloop runs the environment checks before the first role of an iteration.
	Preflight bool `json:"preflight,omitempty"`
}

// Response is what a run knows about the failures of its roles, and what it does about the present one.
type Response struct {
	// Policy is the state of the failure policy for the current role. It is nil while the role has not failed in this
	// iteration.
	Policy  *failures.State  `json:"ladder,omitempty"`
	History failures.History `json:"history,omitzero"` // the latest failures
	Cause   *Cause           `json:"cause,omitempty"`  // the last root cause that was found, while its failure goes on
	Found   *Found           `json:"found,omitempty"`  // the result of an analysis, while superloop tries the remedy
	// Same counts the iterations in a row whose tests failed in the same way. It counts only iterations that changed
	// the tree. It starts again after an iteration with a recovery.
	Same SameTests `json:"same_tests,omitzero"`
	// Environment is why the iteration cannot begin, as the environment checks found. It is nil while they have found
	// nothing. Overruled is the iteration that an operator let begin in spite of a failing check.
	Environment *EnvironmentState `json:"ground,omitempty"`
	Overruled   int               `json:"overruled,omitempty"`
	// Incidents are what went wrong in this iteration, in the order in which it began.
	Incidents []Incident `json:"incidents,omitempty"`
}

// Cause is a root cause as the loop remembers it. Screens show it, and prompts if it is sure.
type Cause struct {
	ID        string `json:"id"`
	Iteration int    `json:"iteration"`
	Role      string `json:"role"`
	Type      string `json:"type"`
	Summary   string `json:"summary"`
	Location  string `json:"location,omitempty"`
	// Instruction says in words what repairs the cause. Fix says where: code is for the implementer to change, config
	// and operator are for an operator.
	Fix         string  `json:"fix,omitempty"`
	Instruction string  `json:"instruction,omitempty"`
	By          string  `json:"by"`
	Confidence  float64 `json:"confidence"` // from 0 to 1
	// Sure says that superloop acts on the cause. Otherwise only operators read of it, as "possibly".
	Sure     bool     `json:"sure"`
	Evidence []string `json:"evidence,omitempty"`
}

// Found is the result of a root cause analysis. The failure policy gets it after superloop has tried the remedy.
type Found struct {
	Analysis   failures.Analysis    `json:"analysis"`
	Candidates []failures.Candidate `json:"candidates,omitempty"`
}

// SameTests counts how often in a row the tests failed in the same way.
type SameTests struct {
	Signature string `json:"signature,omitempty"`
	Count     int    `json:"count,omitempty"`
	Iteration int    `json:"iteration,omitempty"` // the last iteration with this failure
	Tree      string `json:"tree,omitempty"`      // the tree of the last counted iteration
}

// EnvironmentState says which environment checks keep a role from starting.
type EnvironmentState struct {
	Iteration int                `json:"iteration"`
	Role      string             `json:"role"`
	Findings  []failures.Finding `json:"findings"`
	Tried     []string           `json:"tried,omitempty"` // the digests of the remedies that were tried
}

func (r Response) clone() Response {
	r.Policy, r.Environment, r.History = copied(r.Policy), copied(r.Environment), r.History.Clone()
	r.Incidents = slices.Clone(r.Incidents)
	return r
}
