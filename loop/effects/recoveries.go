package effects

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/undo"
)

// Executor judges and executes commands; *execute.Executor is the real one.
type Executor interface {
	Judge(context.Context, action.Action, recovery.Budget) (execute.Judgement, error)
	Execute(context.Context, execute.Order) (execute.Outcome, error)
	Learn(context.Context, learn.Outcome)
	Trust(context.Context, execute.Judgement) error
}

// Recoveries performs the effects of a recovery: TakeProposal, JudgeAttempt and ExecuteRecovery.
type Recoveries struct {
	*Host
	Journal   Journal
	Policies  *Policies
	Executor  Executor
	Approvals *Approvals // Approvals holds the escalation in which an operator has approved the command

	sighted string // the last proposal that Sight has reported
}

// Perform performs TakeProposal, JudgeAttempt or ExecuteRecovery.
func (r *Recoveries) Perform(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	if e.Kind != loop.TakeProposal && s.Recovery == nil {
		return nil, fmt.Errorf("performing %s: the loop deals with no recovery", e.Kind)
	}
	switch e.Kind {
	case loop.TakeProposal:
		return r.take(ctx, e, s)
	case loop.JudgeAttempt:
		return r.judgeAttempt(ctx, e, s)
	case loop.ExecuteRecovery:
		return r.execute(ctx, e, s)
	}
	return nil, fmt.Errorf("performing %s: it is no effect of a recovery", e.Kind)
}

// budget returns how much of the policy's budget the loop has used, for the judgement of a.
func budget(s loop.State, a action.Action) recovery.Budget {
	return recovery.Budget(s.Budget(a.Digest))
}

// judgeAttempt judges the present command again, or the fallback if the effect asks for it.
func (r *Recoveries) judgeAttempt(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	a, fallback := s.Recovery.Attempt, s.Recovery.Fallback
	if e.Reason == "fallback" && s.Recovery.Else != nil {
		a, fallback = *s.Recovery.Else, true
	}
	j, err := r.judge(ctx, s, a)
	if err != nil {
		return nil, err
	}
	return judged(e, s, a, fallback, j), nil
}

// judge judges a command, and keeps the policy that did.
func (r *Recoveries) judge(ctx context.Context, s loop.State, a action.Action) (execute.Judgement, error) {
	j, err := r.Executor.Judge(ctx, a, budget(s, a))
	if err == nil {
		err = r.Policies.Keep(j.Policy)
	}
	return j, err
}

func judged(e loop.Effect, s loop.State, a action.Action, fallback bool, j execute.Judgement) loop.Proposed {
	r := s.Recovery
	f := loop.Proposed{Of: loop.To(e), N: r.N, Source: r.Source, Role: r.Role, Digest: r.Digest, File: r.File, Category: r.Category, Severity: r.Severity,
		RootCause: r.RootCause, Pattern: r.Pattern, Action: a, Fallback: fallback}
	setVerdict(&f, j)
	return f
}

// execute runs the approved command. The fact says how the command ended. If something that the approval stands on has
// changed, the fact is the new verdict, and the command was not started.
func (r *Recoveries) execute(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	rec := s.Recovery
	log := filepath.Join(r.Paths.Logs(s.Iteration), logName(rec))
	out, err := r.File("log", log)
	if err != nil {
		return nil, err
	}
	order := execute.Order{Action: rec.Attempt, Budget: budget(s, rec.Attempt), Basis: execute.Basis{PolicyDigest: rec.PolicyDigest, Inputs: rec.InputsDigest},
		Limit: ms(e.LimitMS), Hurry: Hurry(ctx), Output: out, Label: undo.Label{Loop: r.LoopID, Run: s.RunID, Recovery: rec.N}}
	order.Signature, order.Option = against(s)
	if rec.Approved == loop.SourceHuman {
		order.Confirm = func(ctx context.Context, now execute.Judgement) (string, error) {
			return r.Approvals.begin(ctx, rec, now)
		}
	}
	order.Intend = func(i execute.Intent) error {
		if err := r.Policies.Keep(i.Judgement.Policy); err != nil {
			return err
		}
		_, err := r.Journal.Fact(loop.Executing{N: rec.N, ID: e.ID, Source: rec.Approved, Command: rec.Attempt.Command, WorkingDir: i.Judgement.Place.Dir,
			TimeoutMS: i.Timeout.Milliseconds(), Network: string(i.Network), PolicyDigest: i.Judgement.PolicyDigest, InputsDigest: i.Judgement.Inputs, Facts: i.Judgement.Facts,
			Undo: i.Undo.ID, UndoNote: i.Undo.Note(), LogFile: r.Paths.Rel(log)})
		return err
	}
	got, err := r.Executor.Execute(ctx, order)
	if cerr := out.Close(); cerr != nil && got.OutputErr == nil {
		got.OutputErr = cerr
	}
	if err != nil || got.Changed != "" {
		rerr := r.Full(r.Disk.Unlink("log", log)) // the command was not started, so it has written nothing to the log
		if ctx.Err() != nil {
			return nil, rerr
		}
		if err != nil {
			return nil, errors.Join(r.Full(err), rerr)
		}
		if err := r.Policies.Keep(got.Now.Policy); err != nil {
			return nil, err
		}
		f := judged(e, s, rec.Attempt, rec.Fallback, got.Now)
		if rec.Approved == loop.SourceHuman && got.Now.Decision != action.Invalid {
			f.Verdict, f.Rule, f.Reason = string(action.Human), loop.RuleDrift, got.Changed
		}
		return f, rerr
	}
	if got.OutputErr != nil {
		r.Log.Warn("the log of a recovery is not whole", zap.Error(got.OutputErr))
	}
	if got.End == execute.Lost {
		return loop.Lost{Of: loop.To(e), Why: got.Error}, nil
	}
	f := executed(e, rec, got)
	f.LogFile = r.Paths.Rel(log)
	if rec.Approved == loop.SourceHuman {
		r.Approvals.ended(ctx, rec, f)
	}
	return f, nil
}

func logName(r *loop.RecoveryState) string {
	if r.Tries > 0 {
		return fmt.Sprintf("recovery-%d.try-%d.log", r.N, r.Tries+1)
	}
	return fmt.Sprintf("recovery-%d.log", r.N)
}

func executed(e loop.Effect, r *loop.RecoveryState, o execute.Outcome) loop.Executed {
	box := o.Sandbox
	return loop.Executed{N: r.N, ID: e.ID, Command: r.Attempt.Command, ExitCode: o.Code, Signal: o.Signal, Ended: string(o.End), Error: o.Error,
		DurationMS: o.Duration.Milliseconds(), OutputHead: o.Head, OutputTail: o.Tail, OutputBytes: o.Output.Bytes, LeftBehind: o.LeftBehind, Appeared: o.Appeared,
		Sandbox: &loop.SandboxFact{Level: string(box.Level), LandlockABI: box.LandlockABI, MountNS: box.MountNS, UserNS: box.UserNS,
			NetNS: box.NetNS, Tree: string(box.Tree), Cgroup: box.Cgroup, Notes: box.Notes}}
}

// against returns the signature of the failure that the present command is meant to fix, and the key of the option that
// the command is. Both are "" if they are not known.
func against(s loop.State) (signature, option string) {
	r := s.Recovery
	if p := r.Plan; p != nil && len(p.Levels) > 0 {
		l := p.Levels[len(p.Levels)-1]
		return l.Failure.Signature, l.Chosen
	}
	if g := s.Diagnosis; g != nil {
		signature = g.Signature
		for _, c := range g.Options {
			if c.Command == r.Attempt.Command {
				option = c.Key
			}
		}
	}
	return signature, option
}

// Learned notes the result of the tests for the present recovery. A failure to note it does not affect the loop,
// because these notes only adapt and order options.
func (r *Recoveries) Learned(ctx context.Context, s loop.State, result string) {
	rec := s.Recovery
	if rec == nil || rec.Attempt.Command == "" {
		return
	}
	o := learn.Outcome{Command: rec.Attempt.Command, Result: result, ByPerson: rec.Approved == loop.SourceHuman}
	o.Signature, o.Option = against(s)
	r.Executor.Learn(ctx, o)
}

// begin moves an operator's approval to executing. It does so once, and only if the command that would run is the
// command that the operator was shown. why says what differs; it is "" if nothing does.
func (a *Approvals) begin(ctx context.Context, r *loop.RecoveryState, now execute.Judgement) (why string, err error) {
	store := a.Store()
	rec, err := store.Load()
	if err != nil || rec.Question.ID != r.Question || rec.Question.Command == nil {
		return "the record of the approval is gone", nil
	}
	is := bindingOf(now)
	was, ok := rec.Run()
	if rec.Answer != nil && rec.Answer.Edit != nil {
		is.InputsDigest, was.InputsDigest = "", ""
	}
	if _, listed := now.Policy.Listed(r.Attempt.Command); listed && now.Decision != action.Deny {
		was.PolicyDigest = is.PolicyDigest // the policy now lists the command, which permits more than the approval did
	}
	if !ok {
		return "the approval does not hold any more: its record is " + string(rec.State), nil
	}
	if drift := was.Drift(is); len(drift) > 0 {
		return "since it was approved: " + strings.Join(drift, "; "), nil
	}
	if string(was.Text) != r.Attempt.Command {
		return "what was approved is another command", nil
	}
	_, err = store.Begin(ctx, r.Question)
	switch {
	case isError[*escalation.ExpiredError](err):
		return "the approval lapsed before it could begin", nil
	case isError[*escalation.StateError](err):
		return "the approval was begun already and has no outcome", nil
	}
	if err == nil && rec.Answer != nil && rec.Answer.Edit == nil && rec.Question.Command.GuardDiff == now.Diff {
		a.Warn("what the approved command reads stays a question", a.Executor.Trust(ctx, now))
	}
	return "", a.Full(err)
}

// ended notes in the escalation how an approved command ended. The journal holds the outcome in any case.
func (a *Approvals) ended(ctx context.Context, r *loop.RecoveryState, f loop.Executed) {
	o := escalation.Outcome{OK: f.OK(), Note: f.Error}
	if f.Ended == string(execute.Exited) {
		o.ExitCode = &f.ExitCode
	}
	rec, err := a.Store().Finish(context.WithoutCancel(ctx), r.Question, o)
	if err == nil {
		err = a.show(rec)
	}
	a.Warn("the escalation's outcome could not be noted; the journal holds it", err)
}

// bindingOf returns what an approval is bound to besides the command itself: the directory, the policy and the inputs.
func bindingOf(j execute.Judgement) escalation.Binding {
	return escalation.Binding{Dev: j.Place.DirID.Dev, Ino: j.Place.DirID.Ino, PolicyDigest: j.Policy.Digest, InputsDigest: j.Inputs}
}
