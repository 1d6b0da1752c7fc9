// Package replay reads the journal of a loop again. A Fold judges again every command that the policy has judged: by the
// policies that did, or by another one. A Walk goes through the events, forward and back, with the state of the machine
// after each.
//
// Neither can execute anything. The package links nothing that starts a process, writes a file or asks the network, and
// a test of internal/archtest keeps that.
//
// # What is not known
//
// A verdict depends on the command, on facts about the world, and on what the run had done before. A journal has only
// the facts that somebody looked for, and the run went the way of its own verdicts. The package never guesses: it judges
// with every value that a missing fact could have. If all of them give the same verdict, that is the verdict. Otherwise
// the verdict is Unknown, and Missing names what it depends on.
//
// The history of a run becomes unknown in the same way. After the first decision of a run that differs, the number of
// automatic recoveries lies between two bounds, and so does the time of the last one.
package replay

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// Verdicts that only a replay gives, besides those of recovery.Decide.
const (
	Unknown action.Decision = "unknown" // it depends on what the journal does not say
	None    action.Decision = "none"    // with this policy nobody would have judged the command
)

// What a verdict may depend on and a journal may lack. The first four are facts of the events.
const (
	Confined   = "confined"
	Loose      = "loose"
	Changed    = "changed"
	Confidence = "confidence"
	History    = "history"  // what the run had done: earlier decisions of it differ
	Approval   = "approval" // what an approval was bound to
	Clock      = "clock"    // the cooldown ended in the milliseconds in which the command was judged
	Policy     = "policy"   // the policy that has judged: it is not kept beside the journal
)

// Options say what a Fold judges by.
type Options struct {
	// Policy judges every command. If it is nil, the policy judges that has judged the command before.
	Policy *recovery.Policy
	// Kept returns the policy with a digest. An error means that it is not kept.
	Kept  func(digest string) (*recovery.Policy, error)
	Since time.Time // only decisions from this time on are reported; zero: all
}

// Verdict is what a policy says of a command.
type Verdict struct {
	Verdict      action.Decision `json:"verdict"`
	Rule         string          `json:"rule"`
	Reason       string          `json:"reason"`
	PolicyDigest string          `json:"policy_digest,omitempty"`
	NotBefore    time.Time       `json:"not_before,omitzero"` // the end of the cooldown that the command waits for
}

// Decision is one verdict in a journal, and what the same command gets now.
type Decision struct {
	LoopID     string    `json:"loop_id"`
	RunID      string    `json:"run_id"`
	Seq        int64     `json:"seq"` // of the event
	At         time.Time `json:"timestamp"`
	Iteration  int       `json:"iteration"`
	N          int       `json:"n,omitempty"` // the recovery in the run; 0 of a command that was invalid
	Source     string    `json:"source,omitempty"`
	Command    string    `json:"command"`
	WorkingDir string    `json:"working_dir,omitempty"`
	Was        Verdict   `json:"was"`
	Now        Verdict   `json:"now"`
	Differs    bool      `json:"differs"` // Now is known and is another verdict than Was; a wait alone is not
	// Missing names what Now depends on and the journal lacks, and Possible the verdicts between which it decides. Both
	// are nil unless Now is Unknown.
	Missing  []string          `json:"missing,omitempty"`
	Possible []action.Decision `json:"possible,omitempty"`
	Became   Became            `json:"became"`
}

// Became is what really became of a command.
type Became struct {
	Asked    bool   `json:"asked,omitempty"`    // an operator was asked
	Answer   string `json:"answer,omitempty"`   // approve, reject or manual
	Approved string `json:"approved,omitempty"` // auto or human
	By       string `json:"by,omitempty"`       // who answered or approved
	Instead  string `json:"instead,omitempty"`  // the operator's own command, which ran in its place
	Denied   bool   `json:"denied,omitempty"`
	Runs     int    `json:"runs,omitempty"`      // how often the command was begun
	Ended    string `json:"ended,omitempty"`     // how its last execution ended: exited, timeout, ...
	ExitCode *int   `json:"exit_code,omitempty"` // of the last execution that ended
	Result   string `json:"result,omitempty"`    // what the tests said: verified, ineffective, harmful, unknown
	Again    int64  `json:"again,omitempty"`     // the event in which the recovery was judged again
	Undo     string `json:"undo,omitempty"`      // names what was kept of the files that it overwrote
	Undone   bool   `json:"undone,omitempty"`    // set by a caller who knows it: no journal holds it
}

// Hits counts the decisions that each entry of the judging policy has a say in.
type Hits struct {
	AutoApprove  []int `json:"auto_approve" nullable:"false"`  // by the index of the entry
	RequireHuman []int `json:"require_human" nullable:"false"` // by the index of the pattern
	OnUnknown    int   `json:"on_unknown"`                     // no list names the command
}

// Report is what a Fold has found.
type Report struct {
	Events    int64      `json:"events"`    // that were read
	Judged    int        `json:"judged"`    // decisions that were judged again
	Differ    int        `json:"differ"`    // of them: another verdict
	Unknown   int        `json:"unknown"`   // of them: not known
	Decisions []Decision `json:"decisions"` // in the order of the journal
	Hits      Hits       `json:"hits"`
}

// Fold judges the decisions of one journal again.
type Fold struct {
	o     Options
	fold  *loop.Replay
	run   history
	kept  map[string]*recovery.Policy // nil: not kept
	memo  map[asked]recovery.Verdict
	out   Report
	open  map[int]int    // the last decision of each recovery of the run, as an index of out.Decisions
	about map[string]int // the decision that a question is about
}

// New returns a Fold without events.
func New(o Options) *Fold {
	f := &Fold{o: o, fold: loop.NewReplay(), kept: map[string]*recovery.Policy{}, memo: map[asked]recovery.Verdict{}}
	f.out.Decisions = []Decision{}
	f.out.Hits = Hits{AutoApprove: []int{}, RequireHuman: []int{}}
	if p := o.Policy; p != nil {
		f.out.Hits = Hits{AutoApprove: make([]int, len(p.Settings.AutoApprove)), RequireHuman: make([]int, len(p.Settings.RequireHuman))}
	}
	f.begin()
	return f
}

// begin forgets the last run.
func (f *Fold) begin() {
	f.run, f.open, f.about = history{unasked: map[string]int{}, asked: map[string]int{}, diverged: map[int]bool{}, ran: map[string]int{}}, map[int]int{}, map[string]int{}
}

// Add takes the next event of the journal. Events have to come in order, from the first. An error means that the event
// cannot be read, or that the journal was written under rules that this build does not know.
func (f *Fold) Add(ev journal.Event) error {
	line := loop.Line{Seq: ev.Seq, Timestamp: ev.Timestamp, Event: ev.Event, LoopID: ev.LoopID, RunID: ev.RunID, Iteration: ev.Iteration, Fields: ev.Fields}
	var err error
	switch ev.Event {
	case "loop_start":
		f.begin()
	case "recovery_proposed":
		var p loop.Proposed
		if err = text.Decode(ev.Fields, &p); err == nil && p.PolicyDigest != "" {
			f.judge(ev, question{command: p.Action, facts: p.Facts, n: p.N, source: p.Source,
				was: Verdict{action.Decision(p.Verdict), p.Rule, p.Reason, p.PolicyDigest, p.NotBefore}, inputs: p.InputsDigest, sure: true})
		}
	case "recovery_invalid":
		var p loop.ProposalInvalid
		if err = text.Decode(ev.Fields, &p); err == nil && p.PolicyDigest != "" {
			f.judge(ev, question{command: action.Draft{Command: p.Command}.Action(), facts: p.Facts, source: p.Role, was: Verdict{action.Invalid, p.Rule, p.Reason, p.PolicyDigest, time.Time{}}})
		}
	default:
		err = f.became(ev)
	}
	if err == nil {
		err = f.fold.Add(line)
	} else {
		err = fmt.Errorf("event %d: reading the fields of %s: %w", ev.Seq, ev.Event, err)
	}
	f.out.Events++
	return err
}

// Report returns what was found so far. The caller must not change it while it adds events.
func (f *Fold) Report() Report { return f.out }

// became notes what an event says of a decision.
func (f *Fold) became(ev journal.Event) error {
	switch ev.Event {
	case "recovery_approved", "recovery_denied", "recovery_escalated", "recovery_resolved", "recovery_executing", "recovery_executed", "recovery_failed", "recovery_verified":
	default:
		return nil
	}
	var d struct {
		N        int    `json:"n"`
		Source   string `json:"source"`
		By       string `json:"by"`
		ID       string `json:"escalation_id"`
		Method   string `json:"method"`
		Ended    string `json:"ended"`
		ExitCode *int   `json:"exit_code"`
		Result   string `json:"result"`
		Undo     string `json:"undo"`
		Edited   struct {
			Command string `json:"command"`
		} `json:"edited"`
	}
	if err := text.Decode(ev.Fields, &d); err != nil {
		return err
	}
	at, ok := f.open[d.N]
	if ev.Event == "recovery_resolved" {
		at, ok = f.about[d.ID]
	}
	if !ok {
		return nil
	}
	b := &f.out.Decisions[at].Became
	switch ev.Event {
	case "recovery_approved":
		b.Approved, b.By = d.Source, d.By
	case "recovery_denied":
		b.Denied = true
	case "recovery_escalated":
		b.Asked = true
		if d.ID != "" {
			f.about[d.ID] = at
		}
	case "recovery_resolved":
		b.Answer, b.By, b.Instead = d.Method, d.By, d.Edited.Command
	case "recovery_executing":
		b.Runs++
		b.Undo = d.Undo
	case "recovery_executed", "recovery_failed":
		b.Ended, b.ExitCode = d.Ended, d.ExitCode
	case "recovery_verified":
		b.Result = d.Result
	}
	return nil
}
