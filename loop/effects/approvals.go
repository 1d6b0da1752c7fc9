package effects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/recovery/failures"
)

// preflightEvery is how often a failing environment check is made again while a human is asked about it: it may have
// been mended without a word.
const preflightEvery = 5 * time.Second

// Approvals performs AskHuman: it opens an escalation, and turns its answer into a fact. An escalation is a private
// record that whichever process answers, with escalation.json as its view.
type Approvals struct {
	*Host
	Journal  Journal
	Executor Executor // judges the command that is asked about
	Outbox   *Outbox
	Tree     Looker // Tree tells whether the work tree is the one whose completion was asked for
	// Runners are who can go on with a role, once a human has answered.
	Runners interface {
		Candidates(s loop.State, role string) []failures.Candidate
		// Believed forgets what speaks against the runners of a role: a human has mended them, or says so.
		Believed(s loop.State, role string)
	}
	Whole func(context.Context, loop.State) bool // reports whether the environment checks pass that failed
	// Views brings state.json up to date: who finds escalation.json finds the loop's state in step with it.
	Views func() error

	asking *escalation.Question // noted down and not opened yet; lost, it is asked anew
}

// Mended is a wish to go on at once: what was asked for is there.
type Mended struct{ By, Note, IntentID string }

// Store holds the loop's escalations.
func (a *Approvals) Store() escalation.Store {
	return escalation.Store{Disk: a.Disk, Dir: a.Paths.Questions(), Loop: a.LoopID, Now: a.Clock}
}

// Perform makes the escalation and gives its id; it is opened when that is on the disk (Answer), so that an answer
// always finds the loop that asked.
func (a *Approvals) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	if e.Kind != loop.AskHuman || s.Human == nil {
		return nil, fmt.Errorf("performing %s: nobody is to be asked", e.Kind)
	}
	return a.request(ctx, s)
}

// request makes what is asked, and the fact that names it.
func (a *Approvals) request(ctx context.Context, s loop.State) (loop.Fact, error) {
	q, err := a.question(ctx, s)
	if err != nil {
		return nil, err
	}
	q = q.Complete(q.Created) // as it is kept: the digest is that of the record
	digest, err := q.Digest()
	if err != nil {
		return nil, fmt.Errorf("making the escalation: %w", err)
	}
	a.asking = &q
	h := s.Human
	f := loop.Escalated{Of: loop.To(*s.Pending), Type: h.Type, Reason: h.Class, Awaiting: "human", ID: q.ID, Digest: digest, Role: h.Role, Runner: h.Runner,
		Error: h.Text, Fix: h.Fix, Expires: q.Expires}
	if h.About == loop.AboutCompletion {
		if err := a.writeApproval(ctx, s); err != nil {
			return nil, err
		}
		return loop.ApprovalRequested{Of: f.Of, File: a.Paths.Rel(a.Paths.File("approval.json")), ID: f.ID, Digest: f.Digest, Expires: f.Expires}, nil
	}
	if r := s.Recovery; r != nil {
		f.Reason, f.N, f.Command, f.Rule = h.Text, r.N, r.Attempt.Command, r.Rule
	}
	return f, nil
}

// Answer looks for the answer to what the state asks. mended is a wish to go on, nil without one. A nil fact means that
// there is no answer yet: call it again when something happens in the store's directory, and at next at the latest.
// Another escalation takes the place of one whose record is gone or damaged, or that lapsed; silence is never consent.
func (a *Approvals) Answer(ctx context.Context, s loop.State, mended *Mended) (fact loop.Fact, next time.Time, err error) {
	rec, fact, err := a.Open(ctx, s)
	if err != nil || fact != nil {
		return fact, next, err
	}
	if mended == nil && rec.State == escalation.Pending && s.Human.About == loop.AboutPreflight && a.Whole(ctx, s) {
		mended = &Mended{By: "superloop", Note: "a look finds the environment whole again"}
	}
	switch {
	case mended != nil && rec.State == escalation.Pending:
		fact, err = a.mended(ctx, s, rec, *mended)
		return fact, a.Clock(), err
	case rec.Lapsed(a.Clock()): // also what was approved, and cannot begin any more
		fact, err = a.lapsed(ctx, s)
		return fact, a.Clock(), err
	case rec.State != escalation.Pending:
		fact, err = a.heard(ctx, s, rec)
		return fact, next, err
	}
	next = a.Outbox.Opened(rec)
	if s.Human.About == loop.AboutPreflight {
		next = earlier(next, a.Clock().Add(preflightEvery))
	}
	return nil, next, nil
}

// Open gives the record of the escalation that the state names, and opens it if that was not done yet. The fact is
// another escalation in its place: the record is lost or damaged.
func (a *Approvals) Open(ctx context.Context, s loop.State) (escalation.Record, loop.Fact, error) {
	store := a.Store()
	again := func(why string) (escalation.Record, loop.Fact, error) {
		a.Log.Warn("the escalation is asked anew", zap.String("why", why))
		f, err := a.request(ctx, s)
		return escalation.Record{}, f, err
	}
	rec, err := store.Load()
	damaged, isDamaged := errors.AsType[*escalation.DamagedError](err)
	switch {
	case isDamaged:
		if _, err := store.SetAside(ctx); err != nil {
			return rec, nil, a.Full(err)
		}
		if err := a.Journal.Record("escalation_damaged", map[string]any{"error": damaged.Error()}); err != nil {
			return rec, nil, err
		}
		return again("its record was damaged")
	case err != nil && !errors.Is(err, escalation.ErrNothingPending):
		return rec, nil, err
	case err == nil && rec.Question.ID == s.Human.Question:
		a.asking = nil
		return rec, nil, nil
	case a.asking == nil || a.asking.ID != s.Human.Question:
		return again("its record is gone")
	}
	if err == nil && rec.State == escalation.Executing {
		if _, err := store.Interrupt(ctx, rec.Question.ID); err != nil {
			return rec, nil, a.Full(err)
		}
	}
	if rec, err = store.Open(ctx, *a.asking); err != nil {
		return rec, nil, a.Full(err)
	}
	a.asking = nil
	return rec, nil, a.show(rec)
}

func (a *Approvals) show(rec escalation.Record) error {
	if err := a.Views(); err != nil {
		return err
	}
	data, err := escalation.View(rec)
	if err != nil {
		return fmt.Errorf("writing escalation.json: %w", err)
	}
	return a.Write("escalation.json", data)
}

// mended answers in the name of whoever wants the loop to go on. Nil: it was answered, or has lapsed, in this moment.
func (a *Approvals) mended(ctx context.Context, s loop.State, rec escalation.Record, m Mended) (loop.Fact, error) {
	rec, err := a.Store().Answer(ctx, escalation.AnswerRequest{Method: escalation.Resolve, ID: rec.Question.ID, Note: m.Note,
		By: escalation.By{Channel: escalation.CLI, User: m.By, Method: "process"}})
	if isError[*escalation.DecidedError](err) || isError[*escalation.ExpiredError](err) {
		return nil, nil
	}
	if err != nil {
		return nil, a.Full(err)
	}
	a.Outbox.Ended(rec)
	f := loop.Resolved{Of: loop.To(*s.Pending), ID: rec.Question.ID, By: m.By, Method: loop.MethodManual, Note: m.Note, IntentID: m.IntentID}
	return a.resolved(s, f), a.show(rec)
}

// heard turns the answer into a fact.
func (a *Approvals) heard(ctx context.Context, s loop.State, rec escalation.Record) (loop.Fact, error) {
	if err := a.show(rec); err != nil {
		return nil, err
	}
	f := loop.Resolved{Of: loop.To(*s.Pending), ID: rec.Question.ID}
	if ans := rec.Answer; ans != nil {
		a.Outbox.Ended(rec)
		f.By, f.Note = ans.By.String(), ans.Note
	}
	about, state := s.Human.About, rec.State
	if rec.Question.Command == nil && (state == escalation.Executing || state == escalation.Done) {
		state = escalation.Approved // the supervisor that took it died before the journal had it; nothing was run
	}
	switch state {
	case escalation.Approved:
		f.Method = loop.MethodApprove
		if rec.Question.Command == nil && about != loop.AboutCompletion && about != loop.AboutPreflight {
			f.Method = loop.MethodManual // "go on": try it again
		}
		if rec.Question.Command != nil && rec.Answer.Edit != nil {
			e := s.Recovery.Attempt
			e.Command, e.Digest = string(rec.Answer.Edit.Text), rec.Answer.Edit.Digest
			f.Edit = &e
		}
	case escalation.Rejected:
		f.Method = loop.MethodReject
	case escalation.Resolved:
		f.Method = loop.MethodManual
	default: // it was begun by a supervisor that died, lapsed or taken back
		return a.request(ctx, s)
	}
	var fact loop.Fact
	var err error
	if about == loop.AboutCompletion {
		fact, err = a.completionAnswered(ctx, s, rec, f.Method)
	} else {
		fact = a.resolved(s, f)
	}
	if err == nil && state == escalation.Approved && rec.Question.Command == nil {
		err = a.finish(ctx, rec)
	}
	return fact, err
}

// resolved adds to an answer who can go on with the role that it is about. Whoever was unfit until a human has mended
// it counts as mended.
func (a *Approvals) resolved(s loop.State, f loop.Resolved) loop.Fact {
	h := s.Human
	if s.Recovery != nil || f.Method == loop.MethodReject || s.Plan.Respond == nil || h.About == loop.AboutTests {
		return f
	}
	if h.Type == loop.EscalationRunner {
		a.Runners.Believed(s, h.Role)
	}
	if s.Response.Policy != nil {
		f.Candidates = a.Runners.Candidates(s, h.Role)
	}
	return f
}

// lapsed ends an escalation that nobody has answered, and asks again. Nil: it was answered in this moment.
func (a *Approvals) lapsed(ctx context.Context, s loop.State) (loop.Fact, error) {
	_, lapsed, err := a.Store().Expire(ctx, a.Clock())
	if err != nil || !lapsed {
		return nil, a.Full(err)
	}
	return a.request(ctx, s)
}

// Withdraw ends an escalation that nobody needs to answer any more: its loop has ended, or begins anew.
func (a *Approvals) Withdraw(why string) error {
	store := a.Store()
	rec, err := store.Load()
	if err != nil || rec.State != escalation.Pending && rec.State != escalation.Approved {
		return nil // none, or one that the next escalation puts aside
	}
	rec, err = store.Withdraw(context.Background(), rec.Question.ID, why)
	if isError[*escalation.StateError](err) {
		return nil // rejected or resolved in this moment, which ends it too
	}
	if err != nil {
		return a.Full(err)
	}
	a.Outbox.Ended(rec)
	return a.show(rec)
}

// finish begins and ends what was approved without a command, from where it is.
func (a *Approvals) finish(ctx context.Context, rec escalation.Record) (err error) {
	store, id := a.Store(), rec.Question.ID
	if rec.State == escalation.Approved {
		rec, err = store.Begin(ctx, id)
	}
	if err == nil && rec.State == escalation.Executing {
		_, err = store.Finish(ctx, id, escalation.Outcome{OK: true})
	}
	return a.Full(err)
}

// writeApproval writes approval.json, the view of a request that is about the end of the loop.
func (a *Approvals) writeApproval(ctx context.Context, s loop.State) error {
	p, err := a.promise(s)
	if err != nil {
		return err
	}
	head, err := a.Repo.Head(context.WithoutCancel(ctx)) // short: who leaves now leaves with the question asked
	if err != nil {
		return err
	}
	rel := func(name string) string { return a.Paths.Rel(a.Paths.File(name)) }
	asked := gate.Approval{LoopID: a.LoopID, RunID: s.RunID, Iteration: s.Iteration, Tree: s.Tree, Head: head,
		Files: gate.ApprovalFiles{GateSummary: rel("gate-summary.txt"), Evidence: rel("evidence.json"), ReviewerReport: rel("review.md"),
			TestReport: rel("test-report.md"), Plan: rel("plan.md"), IterationNotes: rel("iteration_notes.md")}}
	return a.Write("approval.json", asked.Pending(p, s.Gates, s.Approval.Requested, s.IterationAt, s.UpdatedAt).JSON())
}

// completionAnswered turns the answer into a fact: with whether the tree is still the one that was to be approved.
// Whoever has changed it by hand wants the gates to look once more.
func (a *Approvals) completionAnswered(ctx context.Context, s loop.State, rec escalation.Record, method string) (loop.Fact, error) {
	f := loop.ApprovalDecided{Of: loop.To(*s.Pending), ID: rec.Question.ID, Status: "approved", By: rec.Answer.By.User, Note: rec.Answer.Note}
	if f.By == "" || rec.Answer.By.Channel != escalation.CLI {
		f.By = rec.Answer.By.String()
	}
	if method == loop.MethodReject {
		f.Status = "rejected"
	} else {
		tree, err := a.Tree.Look(ctx, s)
		if err != nil {
			return nil, err
		}
		f.TreeChanged = tree != s.Approval.Tree || method == loop.MethodManual
	}
	return f, a.recordDecision(rec.Answer.At, f)
}

// recordDecision writes the decision into the files that people read; the event is the record.
func (a *Approvals) recordDecision(at time.Time, f loop.ApprovalDecided) error {
	data, err := os.ReadFile(a.Paths.File("approval.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	was, err := gate.ParseApproval(data)
	if err != nil {
		return nil // a view that somebody broke
	}
	dec := gate.Decision{Status: f.Status, By: f.By, Note: f.Note, At: at, File: a.Paths.Rel(a.Paths.File("approval.json"))}
	decided, err := was.Decide(dec)
	if errors.Is(err, gate.ErrNotPending) {
		return nil // written before a crash
	}
	if err != nil {
		return err
	}
	if err := a.Write("approval.json", decided.JSON()); err != nil {
		return err
	}
	for name, line := range map[string][]byte{"decisions.jsonl": decided.LogLine(dec), "decisions.md": decided.LogMarkdown(dec)} {
		if err := a.Append("decisions", name, line); err != nil {
			return fmt.Errorf("noting the decision: %w", err)
		}
	}
	return nil
}
