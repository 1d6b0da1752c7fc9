package effects

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/permit"
)

// askedFields are the fields of permission_asked.
type askedFields struct {
	ID       string          `json:"id"`
	Role     string          `json:"role"`
	Tool     string          `json:"tool"`
	Kind     permit.Kind     `json:"kind"`
	Command  string          `json:"command,omitempty"`
	Dir      string          `json:"dir,omitempty"`
	Paths    []string        `json:"paths,omitempty"`
	Host     string          `json:"host,omitempty"`
	Exact    bool            `json:"exact"`
	Verdict  action.Decision `json:"verdict"`
	Rule     string          `json:"rule"`
	Reason   string          `json:"reason"`
	Observed bool            `json:"observed,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	Session  string          `json:"session,omitempty"`
	ToolUse  string          `json:"tool_use_id,omitempty"`
	Digest   string          `json:"digest"`
}

// answeredFields are the fields of permission_answered.
type answeredFields struct {
	ID       string `json:"id"` // that of permission_asked, and of the question
	Decision string `json:"decision"`
	By       string `json:"by,omitempty"`
	Note     string `json:"note,omitempty"`
	WaitedMS int64  `json:"waited_ms"`
}

// The decisions of permission_answered.
const (
	permissionApproved   = "approved"   // the agent did it
	permissionRejected   = "rejected"   // an operator refused
	permissionWaitOver   = "wait_over"  // nobody answered in time; the question waits on
	permissionSuperseded = "superseded" // the agent no longer waited, or another question took the place
	permissionGranted    = "granted"    // the answer came too late for the agent that asked, and in time for the next request of the same
)

// MaxRecorded bounds a command in the journal, in bytes.
const MaxRecorded = 2 << 10

// keep writes what an agent asked for into the journal. It has the id of the question, if there is one.
func (x *permits) keep(id string, r permit.Request, v permit.Verdict) {
	if id == "" {
		x.mu.Lock()
		twice := x.told[r.Digest()] || len(x.told) >= 1000
		x.told[r.Digest()] = true
		x.mu.Unlock()
		if twice {
			return
		}
		id = escalation.NewID()
	}
	paths := make([]string, 0, len(r.Paths))
	for _, p := range r.Paths[:min(len(r.Paths), 20)] {
		paths = append(paths, x.clean(p))
	}
	x.Warn("what an agent asked for could not be recorded", x.Journal.Record("permission_asked", askedFields{ID: id, Role: x.role.Name, Tool: x.clean(r.Tool), Kind: r.Kind, Command: x.clean(r.Command),
		Dir: x.clean(r.Dir), Paths: paths, Host: x.clean(r.Host), Exact: r.Exact, Verdict: v.Decision, Rule: v.Rule, Reason: x.clean(v.Reason), Observed: x.mode == permit.Observe,
		Agent: x.clean(r.Agent), Session: x.clean(r.Session), ToolUse: x.clean(r.ToolUse), Digest: r.Digest()}))
}

// clean prepares text of an agent for the journal: without secrets, bounded, valid.
func (x *permits) clean(s string) string {
	return text.Head(strings.ToValidUTF8(x.redact.String(s), "?"), MaxRecorded)
}

// put puts one question to an operator and waits for the answer. ctx ends when the agent no longer waits.
func (x *permits) put(ctx context.Context, q *pending, r permit.Request, v permit.Verdict, p *permit.Policy) permit.Answer {
	failed := func(err error) permit.Answer {
		x.Warn("an agent's question could not be asked", err)
		return permit.Answer{Decision: permit.Deny, Message: "superloop: an operator would have to be asked, and that failed. Go on with what you can"}
	}
	select {
	case x.slot <- struct{}{}:
		defer func() { <-x.slot }()
	case <-ctx.Done():
		return permit.Answer{Decision: permit.Deny}
	}
	begun, digest := x.Clock(), r.Digest()
	rec, err := x.store().Load()
	if err != nil && !errors.Is(err, escalation.ErrNothingPending) {
		return failed(err)
	}
	late := false
	if t := rec.Question.Tool; err == nil && t != nil && t.Digest == digest && p != nil && t.PolicyDigest == p.Digest && rec.Question.Run == x.state.RunID && !rec.Lapsed(begun) &&
		(rec.State == escalation.Pending || rec.State == escalation.Approved) {
		late = true // it was asked before: the agent did not wait for the answer
		_, err = x.store().Hold(ctx, rec.Question.ID, begun.Add(x.limits.Wait))
		if !isError[*escalation.StateError](err) { // it may be answered by now
			x.Warn("that the agent is held again could not be noted", err)
		}
	} else {
		question := x.question(r, v, p)
		x.keep(question.ID, r, v)
		if rec, err = x.store().Open(ctx, question); err != nil {
			return failed(err)
		}
		x.show(rec)
		x.Outbox.Opened(rec, x.state)
	}
	id, end := rec.Question.ID, begun.Add(x.limits.Wait)
	look := x.Watches.Dir(ctx, x.Paths.Questions(), func(file string) bool { return filepath.Base(file) == escalation.File })
	for {
		if rec, err = x.store().Load(); err != nil {
			return failed(err)
		}
		if rec.Question.ID != id {
			return x.over(r, id, permissionSuperseded, escalation.Record{}, begun, "superloop: another question took the place of this one. Go on with what you can")
		}
		switch rec.State {
		case escalation.Pending:
		case escalation.Approved:
			return x.approved(ctx, q, r, rec, begun, late)
		case escalation.Rejected, escalation.Resolved:
			x.Outbox.Ended(rec)
			x.show(rec)
			x.over(r, id, permissionRejected, rec, begun, "")
			why := "superloop: an operator refused this"
			if rec.State == escalation.Resolved {
				why = "superloop: an operator has done this by hand"
			}
			if rec.Answer.Note != "" {
				why += ": " + rec.Answer.Note
			}
			return x.refuse(ctx, r, why+". Do not try it another way")
		default:
			return x.over(r, id, permissionSuperseded, rec, begun, "superloop: the question about this was withdrawn. Go on with what you can")
		}
		left := end.Sub(x.Clock())
		if left <= 0 {
			return x.over(r, id, permissionWaitOver, rec, begun, fmt.Sprintf("superloop: nobody answered in %s; this is not a refusal. Go on with something else; if an operator allows it later, it will run when you ask for exactly the same again", x.limits.Wait))
		}
		select {
		case <-ctx.Done():
			x.Warn("a question could not be withdrawn", x.withdraw(id, "the agent no longer waits"))
			return x.over(r, id, permissionSuperseded, rec, begun, "superloop: nobody waits for this any more")
		case <-look:
		case <-time.After(left):
		}
	}
}

// approved takes an approval, once, if the policy does not forbid it meanwhile. If no agent waits when the approval is
// taken, the record says that nothing was done by it.
func (x *permits) approved(ctx context.Context, q *pending, r permit.Request, rec escalation.Record, begun time.Time, late bool) permit.Answer {
	id := rec.Question.ID
	if v, _ := x.judge(r); v.Decision == action.Deny {
		x.Warn("a question could not be withdrawn", x.withdraw(id, "the policy refuses it now: "+v.Reason))
		x.over(r, id, permissionSuperseded, rec, begun, "")
		return x.refuse(ctx, r, "superloop: "+v.Reason)
	}
	alive := func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return q.alive()
	}
	if !alive() {
		x.Warn("a question could not be withdrawn", x.withdraw(id, "the agent no longer waits"))
		return x.over(r, id, permissionSuperseded, rec, begun, "")
	}
	rec, err := x.store().Begin(context.WithoutCancel(ctx), id)
	allowed := alive() // from here to the answer on the agent's standard input nothing waits
	if err == nil {
		out := escalation.Outcome{OK: allowed, Note: "the agent was allowed it"}
		if !allowed {
			out.Note = "the agent had gone, and nothing was done"
		}
		rec, err = x.store().Finish(context.WithoutCancel(ctx), id, out)
	}
	if err != nil { // somebody was faster, or the disk failed: it may run once, so it does not run now
		x.Warn("an approval could not be taken", err)
		return x.over(r, id, permissionSuperseded, rec, begun, "superloop: the approval of this could not be used. Ask again if you still need it")
	}
	x.Outbox.Ended(rec)
	x.show(rec)
	if !allowed {
		return x.over(r, id, permissionSuperseded, rec, begun, "")
	}
	how := permissionApproved
	if late {
		how = permissionGranted
	}
	x.over(r, id, how, rec, begun, "")
	return permit.Answer{Decision: permit.Allow}
}

// over records the end of a question, or of the wait for it, and returns a refusal with the message.
func (x *permits) over(_ permit.Request, id, decision string, rec escalation.Record, begun time.Time, message string) permit.Answer {
	f := answeredFields{ID: id, Decision: decision, WaitedMS: x.Clock().Sub(begun).Milliseconds()}
	if a := rec.Answer; a != nil {
		f.By, f.Note = a.By.String(), a.Note
	}
	x.Warn("an answer to an agent could not be recorded", x.Journal.Record("permission_answered", f))
	return permit.Answer{Decision: permit.Deny, Message: message}
}

// withdraw ends an open question of an agent.
func (x *permits) withdraw(id, why string) error {
	rec, err := x.store().Withdraw(context.Background(), id, why)
	if isError[*escalation.StateError](err) {
		return nil // it was answered in the meantime, or another one took its place
	}
	if err == nil {
		x.Outbox.Ended(rec)
		x.show(rec)
	}
	return err
}

// show writes escalation.json, the view of the question.
func (x *permits) show(rec escalation.Record) {
	data, err := escalation.View(rec)
	if err == nil {
		err = x.Disk.WriteFile("escalation", x.Paths.File("escalation.json"), data, 0o644)
	}
	x.Warn("escalation.json could not be written", err)
}

// question makes the question about a request. It shows the very bytes.
func (x *permits) question(r permit.Request, v permit.Verdict, p *permit.Policy) escalation.Question {
	now := x.Clock().UTC()
	q := escalation.Question{ID: escalation.NewID(), Loop: x.LoopID, Run: x.state.RunID, Iteration: x.state.Iteration, Type: escalation.ToolPermission, Repo: x.Paths.Repo,
		Reason: fmt.Sprintf("The %s (%s) asks to use %s: %s.", x.role.Name, x.role.Runner, text.Display(text.Cut(r.Tool, 100)), v.Reason), Rule: v.Rule, Created: now, Expires: now.Add(patience(x.Settings().Config)),
		Tool: &escalation.Tool{Name: r.Tool, Input: r.Input, Dir: r.Dir, Digest: r.Digest(), PolicyDigest: strings.Repeat("0", hex.EncodedLen(32)), Session: r.Session, ToolUse: r.ToolUse, Agent: r.Agent, Until: now.Add(x.limits.Wait)}}
	if p != nil {
		q.Tool.PolicyDigest = p.Digest
	}
	dir := r.Dir
	if rel, err := filepath.Rel(x.Paths.Repo, dir); err == nil && filepath.IsLocal(rel) {
		dir = rel
	}
	if r.Kind == permit.Command && r.Exact && dir != "" {
		c := escalation.NewCommand(action.Draft{Command: r.Command, WorkingDir: dir, TimeoutMS: 1}.Action())
		c.Source, c.Role, c.PolicyDigest = x.role.Name, x.role.Name, q.Tool.PolicyDigest
		q.Command = &c
	}
	q.Details = fmt.Sprintf("The agent is held until %s; then it is refused, and an approval counts for its next request of exactly the same.\nDirectory: %s\nInput: %s\n",
		q.Tool.Until.Format(time.RFC3339), text.Display(r.Dir), text.Display(string(r.Input)))
	return q
}
