package loop

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

// Sources of a proposal and of an approval.
const (
	SourceTester    = "tester"
	SourceSuperloop = "superloop"
	SourceHuman     = "human"
	SourceAuto      = "auto" // of an approval: the policy approved the command
)

// Seen says that a proposal lies in the loop's directory while its role still runs. The event only informs observers.
// superloop decides nothing by it, and the agent may still replace the proposal before the role ends.
type Seen struct {
	Sighting
	Digest string `json:"digest,omitempty"`
}

// Proposed says that superloop has judged a command: a proposal that it moved out of the agent's reach, the fallback of
// a proposal, a remedy of its own, or an attempt that it judged before and whose inputs have changed since.
type Proposed struct {
	N         int      `json:"n"` // counts the proposals of the run, from 1
	Source    string   `json:"source"`
	Role      string   `json:"role,omitempty"`
	Digest    string   `json:"digest,omitempty"` // SHA-256 of the file
	File      string   `json:"file,omitempty"`
	Category  string   `json:"category,omitempty"`
	Severity  string   `json:"severity,omitempty"`
	RootCause string   `json:"root_cause,omitempty"`
	Pattern   string   `json:"error_pattern,omitempty"`
	Evidence  []string `json:"evidence,omitempty"`
	action.Action
	Fallback bool `json:"fallback,omitempty"` // Action is the proposal's fallback
	// Else is the proposal's fallback, which superloop has not judged yet.
	Else  *action.Action `json:"alternative,omitempty"`
	Notes []string       `json:"notes,omitempty"`
	// PatternSeen says whether the last output of the tests contains the proposal's error_pattern. nil means that it is
	// not known.
	PatternSeen  *bool     `json:"pattern_seen,omitempty"`
	Verdict      string    `json:"verdict"` // auto, human, deny or invalid; Rule and Reason say why
	Rule         string    `json:"rule"`
	Reason       string    `json:"reason"`
	Part         string    `json:"part,omitempty"`
	ProposedAt   time.Time `json:"proposed_at,omitzero"` // as the proposal itself says
	NotBefore    time.Time `json:"not_before,omitzero"`
	PolicyDigest string    `json:"policy_digest,omitempty"`
	InputsDigest string    `json:"inputs_digest,omitempty"`
	// Facts are what the policy with PolicyDigest was told of the world.
	Facts action.Facts `json:"facts,omitzero"`
	Of
}

// ProposalInvalid says that recovery.json does not hold a valid proposal.
type ProposalInvalid struct {
	Role     string    `json:"role,omitempty"`
	Problems []Problem `json:"problems"`
	Digest   string    `json:"digest,omitempty"`
	File     string    `json:"file,omitempty"` // where superloop keeps it
	Command  string    `json:"command,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Reason   string    `json:"reason"`
	// PolicyDigest and Facts are set if a policy has judged the command.
	PolicyDigest string       `json:"policy_digest,omitempty"`
	Facts        action.Facts `json:"facts,omitzero"`
	Of
}

// Problem is one mistake in a file, and its place.
type Problem struct {
	Pointer string `json:"pointer"` // RFC 6901
	Line    int    `json:"line"`    // counts from 1; 0: the problem has no line
	Column  int    `json:"column"`
	Found   string `json:"found,omitempty"`
	Allowed string `json:"allowed,omitempty"`
	Near    string `json:"near,omitempty"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// String returns "line:column: pointer: message", without the parts that are not known.
func (p Problem) String() string {
	out := p.Message
	if p.Pointer != "" {
		out = p.Pointer + ": " + out
	}
	if p.Line > 0 {
		out = fmt.Sprintf("%d:%d: %s", p.Line, p.Column, out)
	}
	return out
}

// Change is one value of the configuration that has changed.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from"`
	To   any    `json:"to"`
}

// RuleStale marks a proposal that superloop does not judge: the proposal belongs to another iteration, or superloop has
// already handled it.
const RuleStale = "stale"

// RuleDrift is the rule of a command that is asked about again: what it was approved on has changed.
const RuleDrift = "drift"

// RuleRan is the rule of a proposal whose command superloop has already run in this iteration. superloop asks a human
// about it, with ReasonRan.
const RuleRan = "already_ran"

// ReasonRan is the reason of RuleRan.
const ReasonRan = "superloop has run this very command in this iteration, and the tests fail all the same"

// ProposalStale says that superloop set a proposal aside without judging it. Rule is RuleStale.
type ProposalStale struct {
	Role    string `json:"role,omitempty"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Command string `json:"command,omitempty"`
	Digest  string `json:"digest,omitempty"`
	File    string `json:"file,omitempty"`
	Of
}

// Executing says that a command is about to start. The event is on the disk before the command starts.
type Executing struct {
	N            int          `json:"n"`
	ID           string       `json:"id"`
	Source       string       `json:"source"` // auto, human
	Command      string       `json:"command"`
	WorkingDir   string       `json:"working_dir"`
	TimeoutMS    int64        `json:"timeout_ms"`
	Network      string       `json:"network"`
	PolicyDigest string       `json:"policy_digest,omitempty"`
	InputsDigest string       `json:"inputs_digest,omitempty"`
	Facts        action.Facts `json:"facts,omitzero"` // as in Proposed, right before the start
	Undo         string       `json:"undo,omitempty"` // names the saved files that superloop undo restores
	UndoNote     string       `json:"undo_note,omitempty"`
	LogFile      string       `json:"log_file,omitempty"`
}

// SandboxFact says which parts of the sandbox really confined a command.
type SandboxFact struct {
	Level       string   `json:"level"`
	LandlockABI int      `json:"landlock_abi"`
	MountNS     bool     `json:"mountns"`
	UserNS      bool     `json:"userns"`
	NetNS       bool     `json:"netns"`
	Tree        string   `json:"tree"`
	Cgroup      bool     `json:"cgroup"`
	Notes       []string `json:"notes,omitempty"`
}

// Executed says how the command ended. Its event is recovery_executed if the command exited by itself with exit code 0,
// and recovery_failed otherwise.
type Executed struct {
	N          int    `json:"n"`
	ID         string `json:"id"`
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	Ended      string `json:"ended"` // exited, timeout, output_limit, killed, not_started
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	// OutputHead and OutputTail are the beginning and the end of the command's output, with masked secrets. OutputBytes
	// is the size of the whole output.
	OutputHead  string       `json:"output_head,omitempty"`
	OutputTail  string       `json:"output_tail,omitempty"`
	OutputBytes int64        `json:"output_bytes"`
	LogFile     string       `json:"log_file,omitempty"`
	Sandbox     *SandboxFact `json:"sandbox,omitempty"`
	LeftBehind  int          `json:"left_behind,omitempty"`
	Appeared    []string     `json:"appeared,omitempty"` // protected paths that the command has created
}

// EndedKilled is the end of a command that superloop killed because the supervisor had to leave.
const EndedKilled = "killed"

func (e Executing) Effect() string { return e.ID }
func (e Executed) Effect() string  { return e.ID }

// OK reports whether the command exited by itself with exit code 0.
func (e Executed) OK() bool { return e.Ended == "exited" && e.ExitCode == 0 && e.Signal == "" }

// Verification says whether the tests show that a recovery helped.
type Verification struct {
	Result string `json:"result"`
	Before string `json:"before,omitempty"` // the status of the tests and the failing commands
	After  string `json:"after,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Results of a verification.
const (
	Verified    = "verified"    // the failure that the recovery was for is gone
	Ineffective = "ineffective" // the failure is still there
	Harmful     = "harmful"     // something that worked before fails now
	Unverified  = "unknown"     // the tests do not show whether it helped
)

// Reconfigured says that superloop has read the configuration again and that it is in force. Plan is set if the
// machine's part of the configuration changed. The new plan counts from the next iteration on.
type Reconfigured struct {
	Changes  []Change  `json:"changes"`
	Digest   string    `json:"digest,omitempty"`
	Warnings []Problem `json:"warnings,omitempty"`
	During   string    `json:"during,omitempty"` // the role that ran at that time
	Plan     *Plan     `json:"plan,omitempty"`
}

func (Seen) Event() string            { return "recovery_seen" }
func (Proposed) Event() string        { return "recovery_proposed" }
func (ProposalInvalid) Event() string { return "recovery_invalid" }
func (ProposalStale) Event() string   { return "recovery_denied" }
func (Executing) Event() string       { return "recovery_executing" }
func (Reconfigured) Event() string    { return "config_reloaded" }

func (e Executed) Event() string {
	if e.OK() {
		return "recovery_executed"
	}
	return "recovery_failed"
}

// Classified says how rules classified a failure. Rules cost no tokens.
type Classified struct {
	ID     string `json:"id,omitempty"` // the id of the Diagnose effect, "" if no effect waits for the classification
	Source string `json:"source"`       // test_command, recovery_command, role_process
	Role   string `json:"role,omitempty"`

	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`

	Category   string   `json:"category"`
	Handler    string   `json:"handler"` // "" if no handler knows the failure
	Layer      string   `json:"layer"`
	Infra      bool     `json:"infra"`
	Code       bool     `json:"code"`
	Weak       bool     `json:"weak,omitempty"`
	Confidence float64  `json:"confidence"`
	Signature  string   `json:"signature"`
	Why        string   `json:"why"`
	Evidence   []string `json:"evidence"` // lines of the output; path:line: text if a line names a place
	DurationUS int64    `json:"duration_us"`

	// Goal identifies the failed command. Options are the possible remedies, the best first. Hints say what an agent
	// can do about the failure.
	Goal    string        `json:"goal,omitempty"`
	Options []plan.Choice `json:"options,omitempty"`
	Hints   []string      `json:"hints,omitempty"`
	Gate    string        `json:"gate,omitempty"` // what the policy would decide: auto, retry, propose, human, none
}

// ToolChecked is the result of checking an installed tool. Its event is verify_self_repaired if only a changed check
// shows that the tool works, verify_self_repair_failed if no check shows it, and tool_verified otherwise.
type ToolChecked struct {
	Tool   string `json:"tool"`   // the recipe's id
	Result string `json:"result"` // one of the Tool constants
	// Original is the check of the recipe. ExitCode is the exit code of that check, or -1 if a signal or the time limit
	// ended it or it was not started.
	Original string `json:"original,omitempty"`
	ExitCode int    `json:"exit_code"`
	// Repaired, Method, Mode, Pattern and TimeSavedMS describe a check that superloop repaired. TimeSavedMS is the
	// least time that an agent would have needed to repair the check.
	Repaired    string `json:"repaired,omitempty"`
	Method      string `json:"method,omitempty"`
	Mode        string `json:"mode,omitempty"`
	Pattern     string `json:"pattern,omitempty"`
	TimeSavedMS int64  `json:"time_saved_ms,omitempty"`
	Broken      bool   `json:"broken"` // superloop has evidence that the tool does not work
	Why         string `json:"why,omitempty"`
	Of
}

// Results of a tool check.
const (
	ToolWorks    = "works"
	ToolRepaired = "repaired" // the tool works, and the recipe's check does not fit this system
	ToolDoubtful = "doubtful" // no check shows that the tool works
	ToolSkipped  = "skipped"  // superloop did not check the tool; Why says why
)

func (Classified) Event() string    { return "failure_classified" }
func (c Classified) Effect() string { return c.ID }

func (c ToolChecked) Event() string {
	switch c.Result {
	case ToolRepaired:
		return "verify_self_repaired"
	case ToolDoubtful:
		return "verify_self_repair_failed"
	}
	return "tool_verified"
}

// FailureFact says how a role failed and which runners could take its work now.
type FailureFact struct {
	failures.Event
	Candidates []failures.Candidate    `json:"candidates"`
	Tripped    *failures.TrippedFields `json:"tripped,omitempty"` // the runner became unfit by this failure
	// DetectMS is the time from the end of the process to this fact, in milliseconds. ClassifyUS is how long the
	// classification took and RespondUS how long the decision takes, both in microseconds.
	DetectMS   int64 `json:"detect_ms"`
	ClassifyUS int64 `json:"classify_us"`
	RespondUS  int64 `json:"respond_us"`
}

// EnvironmentBroken says that superloop did not start the pending role, the first of an iteration, because an
// environment check fails. Nothing was spent.
type EnvironmentBroken struct {
	failures.PreflightFields
	Role string `json:"role"`
	// Command is a remedy for the first finding that a rule has a remedy for. It goes through the policy as a proposal
	// does. Category is the category of that finding.
	Command  *action.Action `json:"command,omitempty"`
	Category string         `json:"category"`
	Why      string         `json:"why"`
	Of
}

// What superloop does about an environment check that fails.
const (
	EnvironmentRecover  = "recover"
	EnvironmentPause    = "pause" // wait until the time that a finding gives
	EnvironmentOperator = "person"
)

// Analysed is the result of a root cause analysis.
type Analysed struct {
	failures.AnalysedFields
	EffectID    string            `json:"effect_id"`
	Analysis    failures.Analysis `json:"analysis"`
	Instruction string            `json:"instruction,omitempty"` // the remedy in words, if it is no command
	Evidence    []string          `json:"evidence"`
	WhyChain    []string          `json:"why_chain,omitempty"`
	File        string            `json:"file,omitempty"`    // root-cause.json
	Learned     string            `json:"learned,omitempty"` // the id of the check that superloop learned from the cause
	// Command is the remedy for the environment. The policy judges it as it judges a proposal.
	Command    *action.Action       `json:"command,omitempty"`
	Candidates []failures.Candidate `json:"candidates,omitempty"`
	// Runner, Usage and CostUSD are those of the Diagnostician, if superloop asked it.
	Runner  string   `json:"runner,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

func (EnvironmentBroken) Event() string { return failures.EventPreflight }
func (Analysed) Event() string          { return failures.EventAnalysed }
func (a Analysed) Effect() string       { return a.EffectID }
