// Package failures decides what follows when a role has failed: who goes on with the task, when the cause is looked
// for, and when an operator is asked.
//
//	RoleOutcome -- Detect --> Event -- Next --> Decision
//	                            |                  |
//	                            |                  +-- retry, reassign: another runner has the task
//	                            |                  +-- wait: nobody can take it before Until
//	                            |                  +-- root_cause: Analyse, then Analysed
//	                            |                  +-- escalate: the end; an operator has it
//	                            +--> History (why), Health (who is fit), Watch (is it more than one task)
//
// A failure is classified first, by facts and by the class that an adapter gave it, never by what somebody wrote. Only
// what can be the fault of whoever did the task goes through the failure policy; a provider that is down is waited for,
// work that cannot be done is not tried again.
//
// The failure policy, the history, the breakers, the triggers, the checks and the snapshots are plain values that are
// written down as JSON. This package has no clock, does no I/O and imports nothing of ours: time and facts come in.
// Package preflight looks at the system, and keeps values in files.
package failures

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// CauseType is what kind of thing has to change.
type CauseType string

// The types of root-cause.json, and the kinds of a Fix: who carries it out.
const (
	CauseCode           CauseType = "code"
	CauseConfig         CauseType = "config"
	CauseDependency     CauseType = "dependency"
	CauseInfrastructure CauseType = "infrastructure"
	CauseUnknown        CauseType = "unknown"

	FixEnvironment = "environment" // Command, if the one gate lets it run
	FixCode        = "code"        // Instruction, for the implementer
	FixConfig      = "config"      // Instruction, a proposal for an operator
	FixPerson      = "person"      // Instruction, nobody else can
	FixWait        = "wait"        // time
	FixNone        = "none"

	PromptNote CheckKind = "prompt_note" // the Kind of a Prevented that is no check

	ByRules     = "rules" // RootCause.By of an analysis by rules
	maxWhys     = 5       // of a RootCause
	maxEvidence = 12
	sure        = 0.7 // confidence from which a cause is acted on
)

// Fix is what would fix a cause.
type Fix struct {
	Kind        string `json:"kind"`
	Command     string `json:"command,omitempty"`
	Instruction string `json:"instruction,omitempty"`
}

// Prevented is what would keep a cause from coming back: a check, or a note for the prompts (Kind "prompt_note").
type Prevented struct {
	Kind CheckKind  `json:"kind"`
	Spec *CheckSpec `json:"spec,omitempty"`
	Note string     `json:"note,omitempty"`
}

// Quote is a line of an output that speaks for something.
type Quote struct {
	Source string `json:"source,omitempty"` // a log, a report, git, the environment
	File   string `json:"file,omitempty"`   // that the line names
	Line   int    `json:"line,omitempty"`   // in File
	Text   string `json:"text"`
}

// RootCause is what an analysis came to; as JSON it is root-cause.json.
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
	// ErrorClass is the class of the last failure, Rule the rule that was sure.
	ErrorClass  string     `json:"error_class"`
	Rule        string     `json:"rule,omitempty"`
	Description string     `json:"root_cause"`
	Location    string     `json:"location,omitempty"` // file, or file:line
	Evidence    []Quote    `json:"evidence"`
	WhyChain    []string   `json:"why_chain"` // at most maxWhys, from the symptom to the cause
	Fix         Fix        `json:"fix"`
	Prevention  *Prevented `json:"prevention,omitempty"`
	Confidence  float64    `json:"confidence"`
	By          string     `json:"by"` // rules, or the runner's name
	// Others are causes that less speaks for, the likeliest first.
	Others   []string `json:"other_causes,omitempty"`
	Problems []string `json:"problems,omitempty"` // what was wrong with a diagnostician's answer
}

// MarshalJSON keeps the lists lists and the time in whole milliseconds of UTC.
func (rc RootCause) MarshalJSON() ([]byte, error) {
	type plain RootCause
	rc.Timestamp = rc.Timestamp.UTC().Truncate(time.Millisecond)
	rc.Evidence, rc.WhyChain = append([]Quote{}, rc.Evidence...), append([]string{}, rc.WhyChain...)
	return json.Marshal(plain(rc))
}

// Analysis is the cause for the failure policy.
func (rc RootCause) Analysis() Analysis {
	if rc.Type == CauseUnknown {
		return Analysis{}
	}
	a := Analysis{Summary: rc.Description}
	if rc.Location != "" {
		a.Summary += " (" + rc.Location + ")"
	}
	if rc.Fix.Kind == FixCode {
		a.Instruction = rc.Fix.Instruction
	}
	if rc.Fix.Kind == FixPerson && rc.Confidence >= sure {
		a.Person, a.Why = true, rc.Description+": "+rc.Fix.Instruction
	}
	return a
}

// Check is the prevention as a check to be added; ok is false for none, or when the cause is not sure enough.
func (rc RootCause) Check() (p Prevention, ok bool) {
	p, ok = rc.Suspicion()
	return p, ok && rc.Confidence >= sure
}

// Suspicion is the same however sure the cause is: worth adding when a look finds it broken at once.
func (rc RootCause) Suspicion() (p Prevention, ok bool) {
	if rc.Prevention == nil || rc.Prevention.Spec == nil {
		return Prevention{}, false
	}
	p = NewCheck(rc.Prevention.Kind, *rc.Prevention.Spec, rc.Description, rc.By)
	return p, p.Valid() == nil
}

// Case is everything that rules look at.
type Case struct {
	RunID     string
	Iteration int
	Task      Task
	History   []Entry // of the task, oldest first
	// Evidence are lines that stand in the outputs; Captures what the rules of recovery/classify took out of the last
	// one (pkg, tool, path, port, script).
	Evidence []Quote
	Captures map[string]string
	Facts    Facts
	// Command is a remedy that rules know of for the last failure (remedy's recommended option), "" for none.
	Command string
}

// clean is the case with every text of others made fit for a record.
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

// lastEntry is the failure that is looked at; zero without any.
func (c Case) lastEntry() Entry {
	if len(c.History) == 0 {
		return Entry{}
	}
	return c.History[len(c.History)-1]
}

// same is how many of the failures have the last one's signature.
func (c Case) same() int {
	return count(c.History, func(e Entry) bool { return e.Signature == c.lastEntry().Signature })
}

// providers is how many providers have failures of a sort.
func (c Case) providers(have func(Entry) bool) int {
	all := map[string]bool{}
	for _, e := range c.History {
		if have(e) {
			all[e.Agent.provider()] = true
		}
	}
	return len(all)
}

// change is the first change of a kind since the last success.
func (c Case) change(what string, names ...string) (Change, bool) {
	for _, ch := range c.Facts.Changes {
		if ch.What == what && (len(names) == 0 || slices.Contains(names, ch.Name)) {
			return ch, true
		}
	}
	return Change{}, false
}

// fromChange is a change as evidence.
func fromChange(ch Change) Quote {
	q := Quote{Source: "environment", Text: ch.String()}
	if ch.What == ChangeLock || ch.What == ChangeConfig {
		q.File = ch.Name
	}
	return q
}

// fromCommit is a commit as evidence.
func fromCommit(co CommitFact, file string) Quote {
	return Quote{Source: "git", File: file, Text: fmt.Sprintf("commit %.12s changed %s: %s", co.SHA, file, clip(co.Subject))}
}
