// Package failures decides what follows when a role has failed: which agent gets the task, when superloop looks for the
// cause, and when it asks an operator.
//
//	RoleOutcome -- Detect --> Event -- Next --> Decision
//	                            |                  |
//	                            |                  +-- retry, reassign: the same or another agent gets the task
//	                            |                  +-- wait: no agent can take the task before Until
//	                            |                  +-- root_cause: Analyse, then Analysed
//	                            |                  +-- escalate: the end; an operator decides
//	                            +--> History (why), Health (who is fit), Watch (is it more than one task)
//
// Detect classifies a failure by facts and by the class that an adapter gave it, never by text that somebody wrote. A
// failure does not count as a step of the failure policy if a provider, an account or the runner's settings caused it:
// then the task waits, another agent gets it, or superloop asks an operator. Nobody tries impossible work again.
//
// The failure policy, the history, the breakers, the triggers, the checks and the snapshots are plain values that
// superloop stores as JSON. This package has no clock and does no I/O: the caller passes in time and facts. Package
// preflight examines the system, and keeps the values in files.
package failures

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// CauseType says what kind of thing has to change.
type CauseType string

// These are the types of root-cause.json, and the kinds of a Fix, which say who carries out the fix.
const (
	CauseCode           CauseType = "code"
	CauseConfig         CauseType = "config"
	CauseDependency     CauseType = "dependency"
	CauseInfrastructure CauseType = "infrastructure"
	CauseUnknown        CauseType = "unknown"

	FixEnvironment = "environment" // superloop runs Command, if the recovery policy permits it
	FixCode        = "code"        // the implementer follows Instruction
	FixConfig      = "config"      // Instruction is a proposal for an operator
	FixPerson      = "person"      // only an operator can follow Instruction
	FixWait        = "wait"        // time fixes the cause
	FixNone        = "none"

	PromptNote CheckKind = "prompt_note" // the Kind of a Prevented that is a note and not a check

	ByRules     = "rules" // the value of RootCause.By for an analysis by rules
	maxWhys     = 5       // entries of RootCause.WhyChain
	maxEvidence = 12

	// VerifiedByCheck is the value of RootCause.Verified if a look at the environment, made when the failure happened,
	// found what the cause claims.
	VerifiedByCheck = "check"
)

// Fix describes how to fix a cause.
type Fix struct {
	Kind        string `json:"kind"`
	Command     string `json:"command,omitempty"`
	Instruction string `json:"instruction,omitempty"`
}

// Prevented describes how to keep a cause from coming back: a check, or a note for the prompts (Kind "prompt_note").
type Prevented struct {
	Kind CheckKind  `json:"kind"`
	Spec *CheckSpec `json:"spec,omitempty"`
	Note string     `json:"note,omitempty"`
}

// Quote is a line of an output that serves as evidence.
type Quote struct {
	Source string `json:"source,omitempty"` // a log, a report, git, the environment
	File   string `json:"file,omitempty"`   // the file that the line names
	Line   int    `json:"line,omitempty"`   // the line number in File
	Text   string `json:"text"`
}

// RootCause is the result of an analysis. Its JSON is root-cause.json.
type RootCause struct {
	Version   int       `json:"version"`
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
	LoopID    string    `json:"loop_id"`
	RunID     string    `json:"run_id,omitempty"`
	Iteration int       `json:"iteration"`
	TaskKey   string    `json:"task_key"`
	Type      CauseType `json:"type"`
	Category  string    `json:"category"`
	// ErrorClass is the class of the last failure. Rule is the name of the rule that found the cause.
	ErrorClass  string     `json:"error_class"`
	Rule        string     `json:"rule,omitempty"`
	Description string     `json:"root_cause"`
	Location    string     `json:"location,omitempty"` // file, or file:line
	Evidence    []Quote    `json:"evidence"`
	WhyChain    []string   `json:"why_chain"` // from the symptom to the cause; at most maxWhys
	Fix         Fix        `json:"fix"`
	Prevention  *Prevented `json:"prevention,omitempty"`
	Confidence  float64    `json:"confidence"`
	// Weak says that the cause rests on a classification that is a guess. Verified says what has confirmed the cause; ""
	// for nothing.
	Weak     bool   `json:"weak,omitempty"`
	Verified string `json:"verified,omitempty"`
	By       string `json:"by"` // "rules", or the runner's name
	// Others are other possible causes with a lower confidence, the likeliest first.
	Others   []string `json:"other_causes,omitempty"`
	Problems []string `json:"problems,omitempty"` // say what was wrong with the answer of a diagnosing agent
}

// MarshalJSON writes empty lists as [], and the time in UTC, truncated to milliseconds.
func (rc RootCause) MarshalJSON() ([]byte, error) {
	type plain RootCause
	rc.Timestamp = rc.Timestamp.UTC().Truncate(time.Millisecond)
	rc.Evidence, rc.WhyChain = append([]Quote{}, rc.Evidence...), append([]string{}, rc.WhyChain...)
	return json.Marshal(plain(rc))
}

// Sure reports whether superloop acts on the cause: it rests on no guess, and its confidence reaches Sure or something
// has confirmed it. Any other cause is for operators only, as "possibly".
func (rc RootCause) Sure() bool {
	return rc.Type != CauseUnknown && !rc.Weak && (rc.Confidence >= Sure || rc.Verified != "")
}

// Possibly returns the cause in the words for an operator.
func (rc RootCause) Possibly() string { return Possibly(rc.Description, rc.Sure()) }

// Possibly marks a text for an operator that superloop is not sure of.
func Possibly(text string, sure bool) string {
	if sure {
		return text
	}
	return "possibly: " + text
}

// Analysis returns the result in the form that the failure policy uses. It is empty unless the cause is sure.
func (rc RootCause) Analysis() Analysis {
	if !rc.Sure() {
		return Analysis{}
	}
	a := Analysis{Summary: rc.Description}
	if rc.Location != "" {
		a.Summary += " (" + rc.Location + ")"
	}
	if rc.Fix.Kind == FixCode {
		a.Instruction = rc.Fix.Instruction
	}
	if rc.Fix.Kind == FixPerson && rc.Confidence >= Sure {
		a.Person, a.Why = true, rc.Description+": "+rc.Fix.Instruction
	}
	return a
}

// Check returns the prevention as a check with a scope. ok is false if there is none, or if the cause rests on a guess
// of the rules or of an agent.
// The caller learns the check only if the check finds its fault at once: otherwise it would not have seen this failure
// coming. A role that has to change the code creates what is missing itself, so no check is made of that.
func (rc RootCause) Check(scope Scope) (p Prevention, ok bool) {
	guess := rc.Weak || rc.Type == CauseUnknown || rc.By != ByRules && rc.Confidence < Sure
	if guess || rc.Prevention == nil || rc.Prevention.Spec == nil || rc.Fix.Kind == FixCode {
		return Prevention{}, false
	}
	p = NewCheck(rc.Prevention.Kind, *rc.Prevention.Spec, rc.Description, rc.By)
	p.Scope = scope
	p.ID = p.id()
	return p, p.Valid() == nil
}

// Case holds everything that the rules of an analysis examine.
type Case struct {
	RunID     string
	Iteration int
	Task      Task
	History   []Entry // the failures of the task, oldest first
	// Evidence are lines of the outputs. Captures are the values that the rules of recovery/classify extracted from the
	// last output (pkg, tool, path, port, script).
	Evidence []Quote
	Captures map[string]string
	Facts    Facts
	// Command is the remedy that rules recommend for the last failure (the recommended option of package remedy), or
	// "".
	Command string
}

// clean returns the case with all foreign text made fit for a record.
func (c Case) clean() Case {
	captures := map[string]string{}
	for k, v := range c.Captures {
		captures[k] = clip(v)
	}
	c.Captures = captures
	c.Evidence = each(c.Evidence, func(q Quote) Quote {
		return Quote{Source: clip(q.Source), File: clip(q.File), Line: max(0, q.Line), Text: clip(q.Text)}
	})
	f := &c.Facts
	f.Changes = each(f.Changes, func(ch Change) Change { return Change{ch.What, clip(ch.Name), clip(ch.Before), clip(ch.After)} })
	f.Commits = each(f.Commits, func(co CommitFact) CommitFact {
		return CommitFact{SHA: clip(co.SHA), At: co.At, Subject: clip(co.Subject), Files: each(co.Files, clip)}
	})
	f.Others = each(f.Others, func(o Elsewhere) Elsewhere { o.Loop = clip(o.Loop); return o })
	return c
}

func each[T any](list []T, do func(T) T) []T {
	out := make([]T, len(list))
	for i, v := range list {
		out[i] = do(v)
	}
	return out
}

// lastEntry returns the last failure, which the analysis is about; zero if there is none.
func (c Case) lastEntry() Entry {
	if len(c.History) == 0 {
		return Entry{}
	}
	return c.History[len(c.History)-1]
}

// same returns the number of failures that have the signature of the last failure.
func (c Case) same() int {
	return count(c.History, func(e Entry) bool { return e.Signature == c.lastEntry().Signature })
}

// providers returns the number of providers that have a failure for which have returns true.
func (c Case) providers(have func(Entry) bool) int {
	all := map[string]bool{}
	for _, e := range c.History {
		if have(e) {
			all[e.Agent.provider()] = true
		}
	}
	return len(all)
}

// change returns the first change of the given kind, and of one of the names if there are any, since the last success.
func (c Case) change(what string, names ...string) (Change, bool) {
	for _, ch := range c.Facts.Changes {
		if ch.What == what && (len(names) == 0 || slices.Contains(names, ch.Name)) {
			return ch, true
		}
	}
	return Change{}, false
}

// fromChange returns a change as evidence.
func fromChange(ch Change) Quote {
	q := Quote{Source: "environment", Text: ch.String()}
	if ch.What == ChangeLock || ch.What == ChangeConfig {
		q.File = ch.Name
	}
	return q
}

// fromCommit returns a commit as evidence.
func fromCommit(co CommitFact, file string) Quote {
	return Quote{Source: "git", File: file, Text: fmt.Sprintf("commit %.12s changed %s: %s", co.SHA, file, clip(co.Subject))}
}
