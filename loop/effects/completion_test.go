package effects

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

// recCompletion is a loop whose gates pass, and which asks whether it is done.
func recCompletion() loop.State {
	s := loop.State{LoopID: "l", RunID: "run-1", Iteration: 3, Tree: "tree-1", Pending: &loop.Effect{ID: "e-1", Kind: loop.AskHuman},
		Plan:  loop.Plan{Roles: []string{"implementer", "reviewer"}, Promise: "DONE"},
		Gates: loop.Gates{Promise: "true", Tests: "ok", Checklist: "ok", Evidence: "ok", Approval: "pending"},
		Roles: map[string]loop.RoleResult{"reviewer": {Attempt: 2}}, IterationAt: recStart.Add(-2 * time.Hour), UpdatedAt: recStart.Add(-time.Hour)}
	s.Approval = &loop.ApprovalState{Status: "pending", Iteration: 3, Tree: "tree-1", Requested: recStart}
	s.Human = &loop.HumanState{About: loop.AboutCompletion, ID: "e-1", Type: loop.EscalationCompletion}
	return s
}

func (r *recHost) approval() gate.Approval {
	r.t.Helper()
	a, err := gate.ParseApproval([]byte(r.read(r.Paths.File("approval.json"))))
	r.noErr(err)
	return a
}

func TestCompletionIsAsked(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.git()
	r.put(filepath.Join(r.Paths.Logs(3), "reviewer.attempt-2.last-message.md"), "fine\n<promise>DONE</promise>\n")
	for _, name := range []string{"review.md", "gate-summary.txt"} {
		r.put(r.Paths.File(name), "x")
	}
	s, fact := r.asks(recCompletion())
	f := recAs[loop.ApprovalRequested](t, fact, nil)
	want := loop.ApprovalRequested{File: ".superloop/loops/l/approval.json", ID: f.ID, Digest: f.Digest, Expires: recStart.Add(escalation.DefaultPatience), Of: loop.Of{EffectID: "e-1"}}
	if f != want || f.ID == "" {
		t.Errorf("%+v", f)
	}
	a := r.approval()
	if a.Status != gate.StatusPending || a.LoopID != "l" || a.RunID != "run-1" || a.Iteration != 3 || a.Tree != "tree-1" || a.Head != "" ||
		!strings.HasPrefix(a.RequestedAt, "2026-11-22T12:00:00") || !strings.HasPrefix(a.IterationStartedAt, "2026-11-22T10") || !strings.HasPrefix(a.IterationEndedAt, "2026-11-22T11") {
		t.Errorf("%+v", a)
	}
	if p := a.Candidate.Promise; !p.Matched || p.Expected != "DONE" || a.Candidate.Gates.Tests != "ok" {
		t.Errorf("%+v", a.Candidate)
	}
	dir := ".superloop/loops/l/"
	if a.Files != (gate.ApprovalFiles{GateSummary: dir + "gate-summary.txt", Evidence: dir + "evidence.json", ReviewerReport: dir + "review.md",
		TestReport: dir + "test-report.md", Plan: dir + "plan.md", IterationNotes: dir + "iteration_notes.md"}) {
		t.Errorf("%+v", a.Files)
	}
	r.look(s, nil)
	q := r.record().Question
	if q.Type != escalation.CompletionApproval || q.Reason != "All gates of iteration 3 pass. Is the loop done?" || q.Rule != "" || q.Manual != "" || q.Command != nil {
		t.Errorf("%+v", q)
	}
	if want := "promise: true\ntests: ok\nchecklist: ok\nevidence: ok\napproval: pending\nread: " + dir + "review.md\nread: " + dir +
		"gate-summary.txt\nIf it is not done, the next planner reads your note.\n"; q.Details != want {
		t.Errorf("%s\nwant %s", q.Details, want)
	}
}

func TestCompletionCannotBeAsked(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*recHost) error{
		"no repository": func(r *recHost) error { r.noErr(os.RemoveAll(r.Paths.Repo)); return nil },
		"a full disk":   func(r *recHost) error { r.fail["approval:write"] = syscall.ENOSPC; return syscall.ENOSPC },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.git()
			want := spoil(r)
			s := recCompletion()
			f, err := r.approvals.Perform(t.Context(), *s.Pending, s)
			if f != nil || err == nil {
				t.Errorf("%+v %v", f, err)
			}
			if want != nil {
				r.wantErr(err, want)
			}
		})
	}
}

// lastMessage takes nothing for a message that is none.
func TestNoLastMessage(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recCompletion()
	for name, make := range map[string]func(string) error{
		"a directory": func(p string) error { return os.Mkdir(p, 0o755) },
		"a link":      func(p string) error { return os.Symlink("/etc/hostname", p) },
		"nothing":     func(string) error { return nil },
	} {
		path := filepath.Join(r.Paths.Logs(3), "reviewer.attempt-2.last-message.md")
		r.noErr(os.RemoveAll(r.Paths.Logs(3)))
		r.noErr(os.MkdirAll(r.Paths.Logs(3), 0o755))
		r.noErr(make(path))
		if text, err := r.lastMessage(s); text != "" || err != nil {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
	s.Roles = nil
	r.put(filepath.Join(r.Paths.Logs(3), "reviewer.last-message.md"), "of another time")
	if text, err := r.lastMessage(s); text != "" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	s.Roles = map[string]loop.RoleResult{"reviewer": {Attempt: 1}}
	if text, err := r.lastMessage(s); text != "of another time" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

func TestCompletionAnswered(t *testing.T) {
	t.Parallel()
	uid := 1000
	by := func(c escalation.Channel, user string) escalation.By {
		return escalation.By{Channel: c, User: user, UID: &uid, Method: "x"}
	}
	for name, c := range map[string]struct {
		say     escalation.Method
		by      escalation.By
		tree    string
		status  string
		who     string
		changed bool
		ends    escalation.State
	}{
		"approved":                      {escalation.Approve, by(escalation.CLI, "ada"), "tree-1", "approved", "ada", false, escalation.Done},
		"approved by chat":              {escalation.Approve, by(escalation.Slack, "U1"), "tree-1", "approved", "slack:U1 (uid 1000)", false, escalation.Done},
		"approved by nobody we know":    {escalation.Approve, by(escalation.CLI, ""), "tree-1", "approved", "cli (uid 1000)", false, escalation.Done},
		"approved, but the tree is new": {escalation.Approve, by(escalation.CLI, "ada"), "tree-2", "approved", "ada", true, escalation.Done},
		"resolved by hand":              {escalation.Resolve, by(escalation.CLI, "ada"), "tree-1", "approved", "ada", true, escalation.Resolved},
		"rejected":                      {escalation.Reject, by(escalation.CLI, "ada"), "tree-2", "rejected", "ada", false, escalation.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.git()
			s := r.opens(recCompletion())
			r.now, r.tree = recStart.Add(time.Minute), c.tree
			_, err := r.approvals.Store().Answer(t.Context(), escalation.AnswerRequest{Method: c.say, By: c.by, Note: "a\nnote"})
			r.noErr(err)
			fact, _ := r.look(s, nil)
			f := recAs[loop.ApprovalDecided](t, fact, nil)
			want := loop.ApprovalDecided{ID: s.Human.Question, Status: c.status, By: c.who, Note: "a\nnote", TreeChanged: c.changed, Of: loop.Of{EffectID: "e-1"}}
			if f != want {
				t.Errorf("%+v\nwant %+v", f, want)
			}
			if r.record().State != c.ends {
				t.Error(r.record().State)
			}
			a := r.approval()
			if a.Status != c.status || a.DecidedBy != c.who || a.DecidedNote != "a\nnote" || !strings.HasPrefix(a.DecidedAt, "2026-11-22T12:01:00") {
				t.Errorf("%+v", a)
			}
			var line map[string]any
			r.noErr(json.Unmarshal([]byte(r.read(r.Paths.File("decisions.jsonl"))), &line))
			delete(line, "timestamp")
			if !maps.Equal(line, map[string]any{"loop_id": "l", "run_id": "run-1", "iteration": 3.0, "decision": c.status, "by": c.who, "note": "a\nnote", "approval_file": ".superloop/loops/l/approval.json"}) {
				t.Error(line)
			}
			r.wantIn(r.read(r.Paths.File("decisions.md")), "- Decision: "+c.status+"\n", "- By: "+c.who)
		})
	}
}

// A decision that a killed supervisor has written down is not written twice, and
// a "go on" that it had taken is not asked for again.
func TestCompletionAnsweredBeforeACrash(t *testing.T) {
	t.Parallel()
	for _, state := range []escalation.State{escalation.Approved, escalation.Executing} {
		r := newRecHost(t)
		r.git()
		s := r.opens(recCompletion())
		r.answer(escalation.Approve, "", "")
		if state == escalation.Executing {
			_, err := r.approvals.Store().Begin(t.Context(), s.Human.Question)
			r.noErr(err)
		}
		for range 2 {
			fact, _ := r.look(s, nil)
			if f := recAs[loop.ApprovalDecided](t, fact, nil); f.Status != "approved" {
				t.Errorf("%s: %+v", state, f)
			}
		}
		if rec := r.record(); rec.State != escalation.Done || strings.Count(r.read(r.Paths.File("decisions.jsonl")), "\n") != 1 {
			t.Errorf("%s: it is %s; %s", state, rec.State, r.read(r.Paths.File("decisions.jsonl")))
		}
	}
}

func TestDecisionIsNotNoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*recHost)
		want  error
	}{
		"the view is gone":   {func(r *recHost) { r.noErr(os.Remove(r.Paths.File("approval.json"))) }, nil},
		"the view is broken": {func(r *recHost) { r.put(r.Paths.File("approval.json"), "{") }, nil},
		"the view is a directory": {func(r *recHost) {
			p := r.Paths.File("approval.json")
			r.noErr(os.Remove(p))
			r.noErr(os.Mkdir(p, 0o755))
		}, nil},
		"the view on a full disk": {func(r *recHost) { r.fail["approval:write"] = syscall.ENOSPC }, syscall.ENOSPC},
		"the log on a full disk":  {func(r *recHost) { r.fail["decisions:append"] = syscall.ENOSPC }, syscall.ENOSPC},
		"the tree":                {func(r *recHost) { r.treeErr = errRec }, errRec},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.git()
			s := r.opens(recCompletion())
			r.answer(escalation.Approve, "", "")
			c.spoil(r)
			fact, _, err := r.approvals.Answer(t.Context(), s, nil)
			r.wantErr(err, c.want)
			if f, ok := fact.(loop.ApprovalDecided); c.want == nil && (!ok || f.Status != "approved") {
				t.Errorf("%+v", fact)
			}
			if c.want != nil && r.record().State != escalation.Approved {
				t.Errorf("it is %s although nothing came of it", r.record().State)
			}
			if c.want == nil && r.read(r.Paths.File("decisions.md")) != "" {
				t.Error("it is noted without a view")
			}
		})
	}
}
