package loop

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

// Sources of a proposal.
const (
	SourceTester    = "tester"
	SourceSuperloop = "superloop"
	SourceHuman     = "human"
	SourceAuto      = "auto" // of an approval: the policy
)

// Seen: a proposal lies in the loop's directory while its role still runs. It is for people who look on; nothing is
// decided by it, and it may be another one when the role has ended.
type Seen struct {
	Sighting
	Digest string `json:"digest,omitempty"`
}

// Proposed: a proposal is out of the agent's reach and was judged, or its fallback, or the same again because something
// had changed.
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
	Fallback bool           `json:"fallback,omitempty"`    // the attempt is the proposal's fallback
	Else     *action.Action `json:"alternative,omitempty"` // the fallback that has not been judged
	Notes    []string       `json:"notes,omitempty"`
	// PatternSeen says whether the proposal's error_pattern is in what the tests printed last; nil: not known.
	PatternSeen  *bool     `json:"pattern_seen,omitempty"`
	Verdict      string    `json:"verdict"` // auto, human, deny or invalid, and why
	Rule         string    `json:"rule"`
	Reason       string    `json:"reason"`
	Part         string    `json:"part,omitempty"`
	NotBefore    time.Time `json:"not_before,omitzero"`
	PolicyDigest string    `json:"policy_digest,omitempty"`
	InputsDigest string    `json:"inputs_digest,omitempty"`
	Of
}

// ProposalInvalid: what a role left is no proposal.
type ProposalInvalid struct {
	Role     string    `json:"role,omitempty"`
	Problems []Problem `json:"problems"`
	Digest   string    `json:"digest,omitempty"`
	File     string    `json:"file,omitempty"` // where it is kept
	Command  string    `json:"command,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Reason   string    `json:"reason"`
	Of
}

// Problem is one thing that is wrong with a file, and where.
type Problem struct {
	Pointer string `json:"pointer"` // RFC 6901
	Line    int    `json:"line"`    // from 1; 0: it has no place
	Column  int    `json:"column"`
	Found   string `json:"found,omitempty"`
	Allowed string `json:"allowed,omitempty"`
	Near    string `json:"near,omitempty"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// String is "line:column: pointer: message".
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

// RuleStale marks a proposal that is not judged: it is of another iteration, or was dealt with already.
const RuleStale = "stale"

// RuleRan makes a question of a proposal that rules had thought of before, and tried.
const RuleRan = "already_ran"

// ProposalStale: a proposal was set aside unjudged. Rule is RuleStale.
type ProposalStale struct {
	Role    string `json:"role,omitempty"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Command string `json:"command,omitempty"`
	Digest  string `json:"digest,omitempty"`
	File    string `json:"file,omitempty"`
	Of
}

// Executing is written, and on the disk, before the command is started.
type Executing struct {
	N            int    `json:"n"`
	ID           string `json:"id"`
	Source       string `json:"source"` // auto, human
	Command      string `json:"command"`
	WorkingDir   string `json:"working_dir"`
	TimeoutMS    int64  `json:"timeout_ms"`
	Network      string `json:"network"`
	PolicyDigest string `json:"policy_digest,omitempty"`
	InputsDigest string `json:"inputs_digest,omitempty"`
	Undo         string `json:"undo,omitempty"` // names what superloop undo puts back
	UndoNote     string `json:"undo_note,omitempty"`
	LogFile      string `json:"log_file,omitempty"`
}

// SandboxFact is what held a command.
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

// Executed is how the command ended. Its event is recovery_executed when it ended by itself with exit code 0, else
// recovery_failed.
type Executed struct {
	N          int    `json:"n"`
	ID         string `json:"id"`
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	Ended      string `json:"ended"` // exited, timeout, output_limit, killed, not_started
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	// OutputHead and OutputTail are the beginning and the end of what it printed, secrets masked; OutputBytes is all of
	// it.
	OutputHead  string       `json:"output_head,omitempty"`
	OutputTail  string       `json:"output_tail,omitempty"`
	OutputBytes int64        `json:"output_bytes"`
	LogFile     string       `json:"log_file,omitempty"`
	Sandbox     *SandboxFact `json:"sandbox,omitempty"`
	LeftBehind  int          `json:"left_behind,omitempty"`
	Appeared    []string     `json:"appeared,omitempty"` // protected paths that it has created
}

// EndedKilled is the end of a command that superloop has ended because it had to leave.
const EndedKilled = "killed"

func (e Executing) Effect() string { return e.ID }
func (e Executed) Effect() string  { return e.ID }

// OK reports whether the command did what commands do that succeed.
func (e Executed) OK() bool { return e.Ended == "exited" && e.ExitCode == 0 && e.Signal == "" }

// Verification is what the tests say of a recovery.
type Verification struct {
	Result string `json:"result"`
	Before string `json:"before,omitempty"` // status and failing commands
	After  string `json:"after,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Results of a verification.
const (
	Verified    = "verified"    // the failure that it was for is gone
	Ineffective = "ineffective" // it is as it was
	Harmful     = "harmful"     // something that worked does not any more
	Unverified  = "unknown"     // nothing says so or otherwise
)

// Reconfigured: the configuration was read again and is in force. Plan is set when the machine's part of it changed; it
// counts from the next iteration on.
type Reconfigured struct {
	Changes  []Change  `json:"changes"`
	Digest   string    `json:"digest,omitempty"`
	Warnings []Problem `json:"warnings,omitempty"`
	During   string    `json:"during,omitempty"` // the role that ran meanwhile
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

// Classified: rules have looked at what failed, before a token was spent on it.
type Classified struct {
	ID     string `json:"id,omitempty"` // of the effect; "" of a failure that nothing waits for
	Source string `json:"source"`       // test_command, recovery_command, role_process
	Role   string `json:"role,omitempty"`

	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`

	Category   string   `json:"category"`
	Handler    string   `json:"handler"` // "" if nothing is known of it
	Layer      string   `json:"layer"`
	Infra      bool     `json:"infra"`
	Code       bool     `json:"code"`
	Weak       bool     `json:"weak,omitempty"`
	Confidence float64  `json:"confidence"`
	Signature  string   `json:"signature"`
	Why        string   `json:"why"`
	Evidence   []string `json:"evidence"` // lines of the output, as path:line: text where they name one
	DurationUS int64    `json:"duration_us"`

	// Goal is the failed command's key, Options what may fix it, the best first, and Hints what an agent can do about
	// it.
	Goal    string        `json:"goal,omitempty"`
	Options []plan.Choice `json:"options,omitempty"`
	Hints   []string      `json:"hints,omitempty"`
	Gate    string        `json:"gate,omitempty"` // what would happen: auto, retry, propose, human, none
}

// ToolChecked is what a look at an installed tool has found. Its event is verify_self_repaired when only a changed
// check shows that the tool works, verify_self_repair_failed when nothing shows it, else tool_verified.
type ToolChecked struct {
	Tool   string `json:"tool"`   // the recipe's id
	Result string `json:"result"` // one of the Tool constants
	// Original is the recipe's check, ExitCode how it ended (-1: by a signal or its time limit, or it was not started).
	Original string `json:"original,omitempty"`
	ExitCode int    `json:"exit_code"`
	// Repaired to TimeSavedMS are those of a check that was repaired; the time is what an agent would have needed at
	// least to find it out.
	Repaired    string `json:"repaired,omitempty"`
	Method      string `json:"method,omitempty"`
	Mode        string `json:"mode,omitempty"`
	Pattern     string `json:"pattern,omitempty"`
	TimeSavedMS int64  `json:"time_saved_ms,omitempty"`
	Broken      bool   `json:"broken"` // there is evidence that the tool does not work
	Why         string `json:"why,omitempty"`
	Of
}

// Results of a look at a tool.
const (
	ToolWorks    = "works"
	ToolRepaired = "repaired" // the tool works, its recipe's check is wrong here
	ToolDoubtful = "doubtful" // nothing shows that it works
	ToolSkipped  = "skipped"  // it was not looked at; Why says why
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

// FailureFact is how a role has failed, and who could have its work now.
type FailureFact struct {
	failures.Event
	Candidates []failures.Candidate    `json:"candidates"`
	Tripped    *failures.TrippedFields `json:"tripped,omitempty"` // the runner became unfit by it
	// DetectMS is from the end of the process to this fact, ClassifyUS what classifying took, RespondUS what deciding
	// takes.
	DetectMS   int64 `json:"detect_ms"`
	ClassifyUS int64 `json:"classify_us"`
	RespondUS  int64 `json:"respond_us"`
}

// EnvironmentBroken: the pending role, the first of an iteration, was not started, because an environment check fails.
// Nothing was spent.
type EnvironmentBroken struct {
	failures.PreflightFields
	Role string `json:"role"`
	// Command fixes the first finding, where a rule knows one: a proposal for the gate. Category is that finding's.
	Command  *action.Action `json:"command,omitempty"`
	Category string         `json:"category"`
	Why      string         `json:"why"`
	Of
}

// What is done about a check that fails.
const (
	EnvironmentRecover  = "recover"
	EnvironmentPause    = "pause" // until the time that a finding tells
	EnvironmentOperator = "person"
)

// Analysed is what the search for a cause has come to.
type Analysed struct {
	failures.AnalysedFields
	EffectID    string               `json:"effect_id"`
	Analysis    failures.Analysis    `json:"analysis"`
	Instruction string               `json:"instruction,omitempty"` // what the fix is, in words, where it is no command
	Evidence    []string             `json:"evidence"`
	WhyChain    []string             `json:"why_chain,omitempty"`
	File        string               `json:"file,omitempty"`    // root-cause.json
	Command     *action.Action       `json:"command,omitempty"` // the environment's remedy, a proposal for the gate
	Candidates  []failures.Candidate `json:"candidates,omitempty"`
	// Runner, Usage and CostUSD are of the Diagnostician, if it was asked.
	Runner  string   `json:"runner,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

func (EnvironmentBroken) Event() string { return failures.EventPreflight }
func (Analysed) Event() string          { return failures.EventAnalysed }
func (a Analysed) Effect() string       { return a.EffectID }
