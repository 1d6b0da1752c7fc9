// Package permit judges what an agent asks for while it works: each use of a tool, before it runs. The judge is pure: from
// a policy, a request and facts about the work tree it makes a verdict with its rule and its reason.
//
// Four rules hold the package together:
//
//   - What the package does not know is never automatic. on_unknown chooses between a refusal and a question to an
//     operator; there is no third value.
//   - A command runs without a question if recovery.Decide finds its very bytes in a list, or if each simple command in it
//     begins with the words of a program that the policy grants. The second, weaker grant is for live requests alone: the
//     agent runs such commands inside of its sandbox anyway. A recovery stays byte for byte.
//   - What deny, require_human or a pattern of recovery.require_human names is never loosened by a grant.
//   - A request that shows only a title, and not the bytes that will run, is never automatic.
//
// The judge is a tripwire and no wall: an agent that may run one program of the repository can do by it what it likes.
// The sandbox of the agent is the wall (recovery/sandbox).
package permit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/superloop/superloop/recovery/action"
)

// Kind says what a tool does, in words that all agent CLIs share.
type Kind string

// The kinds. The adapter of a CLI translates the CLI's own tools into them; what it does not know is Other.
const (
	Command  Kind = "command"  // runs Request.Command in a shell
	Write    Kind = "write"    // makes, changes, moves or removes Request.Paths
	Read     Kind = "read"     // reads or searches Request.Paths
	Fetch    Kind = "fetch"    // loads from Request.Host
	MCP      Kind = "mcp"      // uses the tool Request.Tool of an MCP server
	Question Kind = "question" // asks the operator something, on the agent's own account
	Internal Kind = "internal" // does nothing outside of the agent: its list of tasks, a sub-agent whose own tools are judged
	Other    Kind = "other"
)

// Request is one use of a tool that an agent asks for.
type Request struct {
	Kind Kind
	Tool string // the CLI's own name of the tool; for an MCP tool the name with which the policy lists it
	// Input is what the CLI would run: the bytes of the tool's arguments, as they came. An answer "allow" is for these
	// bytes and no others. Operators are shown them.
	Input []byte
	// Exact says that Input is what will run. If it is false, the request has only a title for display.
	Exact bool
	// Command is the script that a shell gets, for Command: the inner script where the CLI wraps it in `bash -lc`.
	Command string
	Dir     string   // the directory in which the tool works, absolute; "" means that nobody has said it
	Paths   []string // what Write and Read are about, absolute or relative to Dir; none means Dir itself
	Host    string   // for Fetch: the name of the host, without port; "" if it is not known
	// Session and ToolUse are the CLI's ids of the conversation and of this use; Agent is that of a sub-agent. "" means
	// that the CLI did not say. They do not change the verdict.
	Session, ToolUse, Agent string
}

// Digest is the SHA-256, in hex, of what would run: tool, kind, directory and the very bytes. Two requests with the same
// digest ask for the same thing, whichever sub-agent asks.
func (r Request) Digest() string {
	h := sha256.New()
	for _, part := range []string{string(r.Kind), r.Tool, r.Dir, string(r.Input)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Verdict is the result of Judge.
type Verdict struct {
	Decision action.Decision // action.Auto, action.Human or action.Deny
	Rule     string          // one of the Rule constants, or a rule of recovery.Decide
	// Reason is one sentence for operators and for the agent. Quoted text in it went through text.Display.
	Reason string
	Part   string // the part of the command or the path that the rule is about, or ""; foreign text
}

// The rules of verdicts, besides those of recovery.Decide.
const (
	RuleAutoApprove = "auto_approve"          // auto: a list has the bytes of the command
	RulePrograms    = "auto_approve_programs" // auto: each part begins with a granted program
	RuleDeny        = "deny"                  // deny: a pattern of deny fits, or may fit
	RuleHuman       = "require_human"         // human: a pattern of require_human fits, or may fit
	RuleUnknown     = "on_unknown"            // human or deny: nothing grants it
	RulePaths       = "paths"                 // auto: inside of the work tree
	RuleProtected   = "protected"             // deny: the path belongs to superloop, git or the settings of agents, or to paths.deny
	RuleSecret      = "paths.secret"          // deny: the path holds secrets
	RuleOutside     = "outside"               // human: the path or the directory is not in the work tree
	RuleHosts       = "hosts"                 // auto: hosts has the host
	RuleTools       = "tools"                 // auto: tools has the MCP tool
	RuleInternal    = "internal"              // auto: nothing outside of the agent is touched
	RuleQuestion    = "question"              // deny: the agent asks a person
	RuleDisplay     = "display"               // human: the request shows only a title
	RuleFailed      = "failed"                // human: the judge itself has failed
)

// Decision is what an adapter tells its CLI.
type Decision string

const (
	Allow Decision = "allow" // run exactly Request.Input, this once
	Deny  Decision = "deny"  // do not run it, and go on; never more than that: a refusal does not end the turn
	// Leave leaves the decision to the CLI's own rules, as if nobody had been asked. It is the answer to everything in the
	// mode observe. If the CLI has asked because its own rules would ask a person, the adapter refuses, as the CLI does
	// that has nobody to ask.
	Leave Decision = "leave"
)

// Answer is the answer to a Request.
type Answer struct {
	Decision Decision
	Message  string // what the agent is told, for Deny: one line of plain text
}

// Ask answers one request of an agent. It is the seam between the policy and the protocol of an agent CLI: whoever
// writes the client of a CLI's protocol calls an Ask once for each request of the CLI, and gives the answer back.
//
//   - Ask may block for as long as an operator thinks, at most Conversation.Hold of roles/agent. So the client calls it
//     from a goroutine of its own, and goes on to read the CLI. The clocks of the run stand still meanwhile; Ask sees to it.
//   - Ask may be called from many goroutines at once. The client does not join equal requests; Ask does.
//   - The client ends ctx when the CLI no longer wants the answer: it has cancelled the request, or it has ended. Ask then
//     returns at once, and its answer, always Deny, is not sent. A question that is open then is superseded, and never
//     becomes an approval.
//   - An answer is for one use. The client never takes an offer of the CLI to remember it ("always", a rule for a
//     prefix), and sends Request.Input back unchanged where the protocol lets it say what is to run.
//   - A client that cannot read a request, or does not know its kind, asks with the kind Other or answers with an error of
//     the protocol; it never lets the CLI wait, and never allows by itself.
type Ask func(ctx context.Context, r Request) Answer
