package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/control"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/respond"
)

// questions are the loop's questions to people: a private record that whichever
// process answers, with escalation.json as its view.
func (d *driver) questions() escalation.Store {
	return escalation.Store{Disk: d.o.Disk, Dir: d.paths.Questions(), Loop: d.o.LoopID, Now: d.o.Now}
}

// askPerson puts the question where people see it and waits until one of them
// has answered, which costs nothing.
func (d *driver) askPerson(shutdown context.Context) (loop.Fact, error) {
	if !d.state.Begun {
		return d.newQuestion(shutdown)
	}
	rec, fact, err := d.asked(shutdown)
	if err != nil || fact != nil {
		return fact, err
	}
	if fact, err := d.mended(shutdown, rec); err != nil || fact != nil {
		return fact, err
	}
	if fact, err := d.groundWhole(shutdown, rec); err != nil || fact != nil {
		return fact, err
	}
	if rec.State != escalation.Pending {
		return d.heard(shutdown, rec)
	}
	if rec.Lapsed(d.o.Now()) {
		return d.lapsed(shutdown)
	}
	if err := d.flushViews(); err != nil {
		return nil, err
	}
	next := d.announceOpen(rec)
	if d.state.Human.About == loop.AboutPreflight {
		next = earlier(next, d.o.Now().Add(groundEvery))
	}
	timer := time.NewTimer(next.Sub(d.o.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.answered:
	case <-d.post.news:
	case <-d.look:
	case <-d.newConfig:
	case <-shutdown.Done():
	}
	return nil, nil
}

// newQuestion makes the question and notes its id down; it is opened when the
// id is on the disk, so that an answer always finds the loop that asked.
func (d *driver) newQuestion(ctx context.Context) (loop.Fact, error) {
	q, err := d.question(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := q.Digest()
	if err != nil {
		return nil, fmt.Errorf("making the question: %w", err)
	}
	d.asking = &q
	h := d.state.Human
	f := loop.Escalated{Of: d.to(), Type: h.Type, Reason: h.Class, Awaiting: "human", ID: q.ID, Digest: digest, Role: h.Role, Runner: h.Runner,
		Error: h.Text, Fix: h.Fix, Expires: q.Expires}
	if h.About == loop.AboutCompletion {
		return d.completionAsked(ctx, f)
	}
	if r := d.state.Recovery; r != nil {
		f.Reason, f.N, f.Command, f.Rule = h.Text, r.N, r.Attempt.Command, r.Rule
	}
	return f, nil
}

// binding is what an approval stands on besides the command itself.
func binding(j judged) escalation.Binding {
	return escalation.Binding{Dev: j.place.DirID.Dev, Ino: j.place.DirID.Ino, PolicyDigest: j.policy.Digest, InputsDigest: j.inputs}
}

// asked gives the record of the question that the state names, and opens it if
// that was not done yet. The fact is another question in its place: the record
// is lost, damaged, or was ended without an answer.
func (d *driver) asked(ctx context.Context) (escalation.Record, loop.Fact, error) {
	h, s := d.state.Human, d.questions()
	again := func(why string) (escalation.Record, loop.Fact, error) {
		d.log.Warn("the question is asked anew", zap.String("why", why))
		f, err := d.newQuestion(ctx)
		return escalation.Record{}, f, err
	}
	rec, err := s.Load()
	var damaged *escalation.DamagedError
	switch {
	case errors.As(err, &damaged):
		if _, err := s.SetAside(ctx); err != nil {
			return rec, nil, d.host.Full(err)
		}
		if err := d.record("escalation_damaged", map[string]any{"error": damaged.Error()}); err != nil {
			return rec, nil, err
		}
		return again("its record was damaged")
	case err != nil && !errors.Is(err, escalation.ErrNothingPending):
		return rec, nil, err
	case err == nil && rec.Question.ID == h.Question:
		d.asking = nil
		return rec, nil, d.watchAnswers(ctx)
	case d.asking == nil || d.asking.ID != h.Question:
		return again("its record is gone")
	}
	if err == nil && rec.State == escalation.Executing {
		if _, err := s.Interrupt(ctx, rec.Question.ID); err != nil {
			return rec, nil, d.host.Full(err)
		}
	}
	if rec, err = s.Open(ctx, *d.asking); err != nil {
		return rec, nil, d.host.Full(err)
	}
	d.asking = nil
	if err := d.watchAnswers(ctx); err != nil {
		return rec, nil, err
	}
	return rec, nil, d.showQuestion(rec)
}

// watchAnswers has answers wake the loop.
func (d *driver) watchAnswers(ctx context.Context) error {
	if d.answered == nil {
		if err := d.o.Disk.MkdirAll("dirs", d.paths.Questions(), 0o700); err != nil {
			return d.host.Full(err)
		}
		d.answered = d.watches.Dir(d.life, d.paths.Questions(), func(path string) bool {
			return filepath.Base(path) == escalation.File
		})
	}
	return nil
}

// showQuestion writes escalation.json; who finds it there finds the loop's state
// in step with it.
func (d *driver) showQuestion(rec escalation.Record) error {
	if err := d.flushViews(); err != nil {
		return err
	}
	data, err := escalation.View(rec)
	if err != nil {
		return fmt.Errorf("writing escalation.json: %w", err)
	}
	return d.host.Write("escalation.json", data)
}

// mended takes a kick, and the start of a supervisor where it is an answer: who
// starts a loop again whose login was missing has mended it, or wants to know,
// and asking the provider costs nothing when it still refuses.
func (d *driver) mended(ctx context.Context, rec escalation.Record) (loop.Fact, error) {
	in, kicked := d.kick()
	if !kicked && d.restarted {
		in, kicked = control.Intent{By: "superloop run"}, true
	}
	d.restarted = false
	if !kicked || rec.State != escalation.Pending {
		return nil, nil
	}
	return d.mendedBy(ctx, rec, in)
}

// groundWhole answers the question about broken ground that has become whole
// without a word: a service is back, space was made.
func (d *driver) groundWhole(ctx context.Context, rec escalation.Record) (loop.Fact, error) {
	if d.state.Human.About != loop.AboutPreflight || rec.State != escalation.Pending || len(respond.Problems(d.lookAtGround(ctx, false))) > 0 {
		return nil, nil
	}
	return d.mendedBy(ctx, rec, control.Intent{By: "superloop", Note: "a look finds the ground whole again"})
}

// mendedBy answers a question in somebody's name.
func (d *driver) mendedBy(ctx context.Context, rec escalation.Record, in control.Intent) (loop.Fact, error) {
	rec, err := d.questions().Answer(ctx, escalation.AnswerRequest{Method: escalation.Resolve, ID: rec.Question.ID, Note: in.Note,
		By: escalation.By{Channel: escalation.CLI, User: in.By, Method: "process"}})
	var decided *escalation.DecidedError
	var expired *escalation.ExpiredError
	if errors.As(err, &decided) || errors.As(err, &expired) {
		return nil, nil // answered, or lapsed, in this moment
	}
	if err != nil {
		return nil, d.host.Full(err)
	}
	if in.ID != "" {
		d.intents[in.ID] = true
	}
	d.announceEnd(rec)
	return d.resolved(loop.Resolved{Of: d.to(), ID: rec.Question.ID, By: in.By, Method: loop.MethodManual, Note: in.Note, IntentID: in.ID}), d.showQuestion(rec)
}

// heard turns the answer into a fact.
func (d *driver) heard(ctx context.Context, rec escalation.Record) (loop.Fact, error) {
	if err := d.showQuestion(rec); err != nil {
		return nil, err
	}
	if rec.Answer != nil {
		d.announceEnd(rec)
	}
	a := rec.Answer
	f := loop.Resolved{Of: d.to(), ID: rec.Question.ID}
	if a != nil {
		f.By, f.Note = a.By.String(), a.Note
	}
	switch rec.State {
	case escalation.Approved:
		f.Method = loop.MethodApprove
		if d.state.Human.About == loop.AboutCompletion {
			break
		}
		if rec.Question.Command == nil { // "go on": try it again, or all the same
			if d.state.Human.About != loop.AboutPreflight {
				f.Method = loop.MethodManual
			}
			return d.resolved(f), d.finishQuestion(ctx, rec.Question.ID, true)
		}
		if a.Edit != nil {
			e := d.state.Recovery.Attempt.With(string(a.Edit.Text))
			f.Edit = &e
		}
	case escalation.Rejected:
		f.Method = loop.MethodReject
	case escalation.Resolved:
		f.Method = loop.MethodManual
	default: // it was begun by a supervisor that died, lapsed or taken back
		return d.newQuestion(ctx)
	}
	if d.state.Human.About == loop.AboutCompletion {
		fact, err := d.completionAnswered(ctx, rec, f.Method)
		if err == nil && rec.State == escalation.Approved {
			err = d.finishQuestion(ctx, rec.Question.ID, true)
		}
		return fact, err
	}
	return d.resolved(f), nil
}

// resolved adds to an answer who can go on with the role that it is about. Whoever
// was unfit until a person has mended it counts as mended.
func (d *driver) resolved(f loop.Resolved) loop.Fact {
	h := d.state.Human
	if h == nil || d.state.Recovery != nil || f.Method == loop.MethodReject || d.state.Plan.Respond == nil || h.Role == loop.TestsTask {
		return f
	}
	if h.Type == loop.EscalationRunner {
		d.believed(h.Role)
	}
	if l := d.state.Response.Ladder; l != nil {
		f.Candidates = d.candidates(d.roleConfig(h.Role))
	}
	return f
}

// lapsed ends a question that nobody has answered, and asks again: silence is
// never consent.
func (d *driver) lapsed(ctx context.Context) (loop.Fact, error) {
	_, lapsed, err := d.questions().Expire(ctx, d.o.Now())
	if err != nil || !lapsed {
		return nil, d.host.Full(err)
	}
	return d.newQuestion(ctx)
}

// withdrawQuestion ends a question that nobody needs to answer any more: its loop
// has ended, or begins anew.
func (d *driver) withdrawQuestion(why string) error {
	s := d.questions()
	rec, err := s.Load()
	if err != nil || rec.State != escalation.Pending && rec.State != escalation.Approved {
		return nil // none, or one that the next question puts aside
	}
	rec, err = s.Withdraw(context.Background(), rec.Question.ID, why)
	var state *escalation.StateError
	if errors.As(err, &state) {
		return nil // rejected or resolved in this moment, which ends it too
	}
	if err != nil {
		return d.host.Full(err)
	}
	d.announceEnd(rec)
	return d.showQuestion(rec)
}

// finishQuestion begins and ends what was approved without a command.
func (d *driver) finishQuestion(ctx context.Context, id string, ok bool) error {
	s := d.questions()
	_, err := s.Begin(ctx, id)
	if err == nil {
		_, err = s.Finish(ctx, id, escalation.Outcome{OK: ok})
	}
	return d.host.Full(err)
}

// begin takes a person's approval to its execution: once, and only if what they
// were shown is what would run. The fact asks again.
func (d *driver) beginApproved(ctx context.Context, r *loop.RecoveryState, j judged) (loop.Fact, error) {
	again := func(why string) (loop.Fact, error) {
		fact, err := d.judgeAnew(ctx, r.Attempt, r.Fallback)
		if f, ok := fact.(loop.Proposed); ok {
			f.Verdict, f.Rule, f.Reason = string(action.Human), recovery.RuleGuard, why
			fact = f
		}
		return fact, err
	}
	s := d.questions()
	rec, err := s.Load()
	if err != nil || rec.Question.ID != r.Question || rec.Question.Command == nil {
		return again("the record of the approval is gone")
	}
	now := binding(j)
	was, ok := rec.Run()
	if rec.Answer != nil && rec.Answer.Edit != nil {
		now.InputsDigest, was.InputsDigest = "", ""
	}
	if _, listed := j.policy.Listed(r.Attempt.Command); listed && j.Decision != action.Deny {
		was.PolicyDigest = now.PolicyDigest // what the policy has become gives it more than the person did
	}
	if drift := was.Drift(now); ok && len(drift) > 0 {
		return again("since it was approved: " + strings.Join(drift, "; "))
	}
	if j.place == (cage.Place{}) {
		return again("its working directory is gone")
	}
	if !ok || string(was.Text) != r.Attempt.Command {
		return again("what was approved is another command")
	}
	_, err = s.Begin(ctx, r.Question)
	var state *escalation.StateError
	var expired *escalation.ExpiredError
	switch {
	case errors.As(err, &expired):
		return again("the approval lapsed before it could begin")
	case errors.As(err, &state):
		return again("the approval was begun already and has no outcome")
	}
	return nil, d.host.Full(err)
}

// endApproved notes how an approved command went.
func (d *driver) endApproved(ctx context.Context, r *loop.RecoveryState, f loop.Executed) {
	o := escalation.Outcome{OK: f.OK(), Note: f.Error}
	if f.Ended == "exited" {
		o.ExitCode = &f.ExitCode
	}
	rec, err := d.questions().Finish(context.WithoutCancel(ctx), r.Question, o)
	if err == nil {
		err = d.showQuestion(rec)
	}
	if err != nil {
		d.log.Warn("the question's outcome could not be noted; the journal holds it", zap.Error(err))
	}
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
