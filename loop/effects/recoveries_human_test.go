package effects

import (
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/execute"
)

// recHuman is a command that a human has approved, and the state that is to
// execute it. A command of their own takes the place of the asked one.
func recHuman(r *recHost, edit string) loop.State {
	s := r.opens(recQuestion("npm ci"))
	r.answer(escalation.Approve, "", edit)
	return recTaken(s, edit)
}

// recHumanFor is the same with another command.
func recHumanFor(r *recHost, command string) loop.State {
	s := r.opens(recQuestion(command))
	r.answer(escalation.Approve, "", "")
	return recTaken(s, "")
}

// recTaken is the state behind an approval.
func recTaken(s loop.State, edit string) loop.State {
	s.Pending = &loop.Effect{ID: "e-2", Kind: loop.ExecuteRecovery}
	rec := *s.Recovery
	rec.Approved, rec.Question = loop.SourceHuman, s.Human.Question
	if edit != "" {
		rec.Attempt = rec.Attempt.With(edit)
	}
	s.Recovery = &rec
	return s
}

func TestExecuteByAHuman(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out  execute.Outcome
		ends escalation.State
		want escalation.Outcome
	}{
		"well":      {execute.Outcome{End: execute.Exited}, escalation.Done, escalation.Outcome{OK: true, ExitCode: new(int)}},
		"timed out": {execute.Outcome{End: execute.TimedOut, Code: -1, Error: "too long"}, escalation.Failed, escalation.Outcome{Note: "too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := recHuman(r, "")
			r.executor.outcome = c.out
			r.executor.run = func(execute.Order) {
				if rec := r.record(); rec.State != escalation.Executing {
					t.Errorf("it runs, and the record is %s", rec.State)
				}
			}
			got, err := r.perform(s)
			recAs[loop.Executed](t, got, err)
			r.wantSteps("recovery_executing, run")
			rec := r.record()
			if rec.State != c.ends || !reflect.DeepEqual(*rec.Outcome, c.want) || r.journal.facts[0].(loop.Executing).Source != "human" {
				t.Errorf("%+v", rec)
			}
			r.wantIn(r.read(r.Paths.File("escalation.json")), string(c.ends))
		})
	}
}

// The journal holds an outcome that the escalation cannot be told of.
func TestOutcomeCannotBeNoted(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recHuman(r, "")
	r.executor.outcome.End = execute.Exited
	r.executor.run = func(execute.Order) { r.noErr(os.Remove(filepath.Join(r.Paths.Questions(), escalation.File))) }
	got, err := r.perform(s)
	if f := recAs[loop.Executed](t, got, err); !f.OK() || r.logged.FilterMessageSnippet("could not be noted").Len() != 1 {
		t.Errorf("%+v %v", f, r.logged.All())
	}
}

// Each thing that an approval stands on, changed alone.
func TestApprovalThatNoLongerHolds(t *testing.T) {
	t.Parallel()
	change := func(f func(*execute.Judgement)) func(*recHost, *loop.State) {
		return func(r *recHost, _ *loop.State) { r.executor.change = f }
	}
	policy := func(text string) func(*recHost, *loop.State) {
		return func(r *recHost, _ *loop.State) {
			c := *r.config
			c.Recovery = []byte(text)
			r.config = &c
		}
	}
	record := filepath.Join(escalation.Folder, escalation.File)
	for name, c := range map[string]struct {
		edit  string
		spoil func(*recHost, *loop.State)
		want  string // "": it runs
	}{
		"all is as it was":     {"", func(*recHost, *loop.State) {}, ""},
		"its directory":        {"", change(func(j *execute.Judgement) { j.Place.DirID.Ino++ }), "since it was approved: the working directory is another one"},
		"its file system":      {"", change(func(j *execute.Judgement) { j.Place.DirID.Dev++ }), "since it was approved: the working directory is another one"},
		"the policy":           {"", policy(`{"network": "none"}`), "since it was approved: the policy has changed"},
		"the policy lists it":  {"", policy(`{"auto_approve": ["npm ci"]}`), ""},
		"its inputs":           {"", change(func(j *execute.Judgement) { j.Inputs = "in-2" }), "since it was approved: what the command reads has changed"},
		"inputs and directory": {"", change(func(j *execute.Judgement) { j.Inputs = "in-2"; j.Place.DirID.Ino++ }), "since it was approved: the working directory is another one; what the command reads has changed"},
		"its bytes":            {"", func(_ *recHost, s *loop.State) { s.Recovery.Attempt = recAction("npm ci ") }, "what was approved is another command"},
		"an edit":              {"npm i", func(*recHost, *loop.State) {}, ""},
		"an edit's inputs":     {"npm i", change(func(j *execute.Judgement) { j.Inputs = "in-2" }), ""},
		"an edit's directory":  {"npm i", change(func(j *execute.Judgement) { j.Place.DirID.Ino++ }), "since it was approved: the working directory is another one"},
		"before the edit":      {"npm i", func(_ *recHost, s *loop.State) { s.Recovery.Attempt = recAction("npm ci") }, "what was approved is another command"},
		"its time":             {"", func(r *recHost, _ *loop.State) { r.now = recStart.Add(escalation.DefaultPatience) }, "the approval lapsed before it could begin"},
		"another question":     {"", func(_ *recHost, s *loop.State) { s.Recovery.Question = escalation.NewID() }, "the record of the approval is gone"},
		"no record":            {"", func(r *recHost, _ *loop.State) { r.noErr(os.Remove(filepath.Join(r.Paths.Private, record))) }, "the record of the approval is gone"},
		"a damaged record":     {"", func(r *recHost, _ *loop.State) { recDamage(r) }, "the record of the approval is gone"},
		"begun already": {"", func(r *recHost, s *loop.State) {
			_, err := r.approvals.Store().Begin(r.t.Context(), s.Recovery.Question)
			r.noErr(err)
		}, "the approval was begun already and has no outcome"},
		"done already": {"", func(r *recHost, s *loop.State) {
			_, err := r.approvals.Store().Begin(r.t.Context(), s.Recovery.Question)
			r.noErr(err)
			_, err = r.approvals.Store().Finish(r.t.Context(), s.Recovery.Question, escalation.Outcome{OK: true})
			r.noErr(err)
		}, "the approval does not hold any more: its record is done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := recHuman(r, c.edit)
			c.spoil(r, &s)
			r.executor.outcome.End = execute.Exited
			got, err := r.perform(s)
			if c.want == "" {
				recAs[loop.Executed](t, got, err)
				r.wantSteps("recovery_executing, run")
				return
			}
			f := recAs[loop.Proposed](t, got, err)
			r.wantSteps("")
			if f.Verdict != "human" || f.Rule != loop.RuleDrift || f.Reason != c.want || f.EffectID != "e-2" || len(r.logs(s)) != 0 {
				t.Errorf("%+v %v", f, r.logs(s))
			}
		})
	}
}

// A policy that denies a listed command gives it nothing.
func TestDeniedCommandIsNotListed(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recHuman(r, "")
	c := *r.config
	c.Recovery = []byte(`{"auto_approve": ["npm ci"]}`)
	r.config = &c
	r.executor.change = func(j *execute.Judgement) { j.Decision = action.Deny }
	got, err := r.perform(s)
	if f := recAs[loop.Proposed](t, got, err); f.Reason != "since it was approved: the policy has changed" {
		t.Errorf("%+v", f)
	}
}

// A directory that is none is that, whoever has approved the command.
func TestApprovedCommandBecomesInvalid(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recHuman(r, "")
	r.executor.change = func(j *execute.Judgement) {
		j.Decision, j.Rule, j.Reason = action.Invalid, recovery.RuleWorkingDir, "it is gone"
	}
	got, err := r.perform(s)
	if f := recAs[loop.Proposed](t, got, err); f.Verdict != "invalid" || f.Rule != recovery.RuleWorkingDir || f.Reason != "it is gone" {
		t.Errorf("%+v", f)
	}
}

func TestApprovalCannotBeTaken(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recHuman(r, "")
	r.fail["escalation:write"] = syscall.ENOSPC
	got, err := r.perform(s)
	if r.wantErr(err, syscall.ENOSPC); got != nil || len(r.logs(s)) != 0 {
		t.Error(got)
	}
	r.wantSteps("")
}
