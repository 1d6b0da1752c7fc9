package effects

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
)

// What a dead supervisor has begun is not begun again: it is put away as
// interrupted, and asked anew.
func TestExecutingRecordOfADeadSupervisor(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := r.opens(recQuestion("npm ci"))
	r.answer(escalation.Approve, "", "")
	_, err := r.approvals.Store().Begin(t.Context(), s.Human.Question)
	r.noErr(err)
	fact, _ := r.look(s, nil)
	again := recAsked(t, s, fact)
	if again.Human.Question == s.Human.Question || r.record().State != escalation.Executing {
		t.Errorf("%+v %s", fact, r.record().State)
	}
	if fact, _ = r.look(again, nil); fact != nil {
		t.Errorf("%+v", fact)
	}
	old, err := r.approvals.Store().Archive()
	if r.noErr(err); len(old) != 1 || old[0].State != escalation.Interrupted || r.record().State != escalation.Pending {
		t.Errorf("%+v", old)
	}
}

func TestAskingInTrouble(t *testing.T) {
	t.Parallel()
	begun := func(r *recHost, s loop.State) loop.State {
		r.answer(escalation.Approve, "", "")
		_, err := r.approvals.Store().Begin(t.Context(), s.Human.Question)
		r.noErr(err)
		s, _ = r.asks(s)
		return s
	}
	answered := func(m escalation.Method) func(*recHost, loop.State) loop.State {
		return func(r *recHost, s loop.State) loop.State { r.answer(m, "", ""); return s }
	}
	role := recRole(failures.TypeRole)
	for name, c := range map[string]struct {
		s     loop.State
		after func(*recHost, loop.State) loop.State // it is open, unless it is nil
		wish  *Mended
		step  string
		want  error
	}{
		"opening, and the disk is full":     {s: role, step: "escalation:write", want: syscall.ENOSPC},
		"interrupting, and it is full":      {s: recQuestion("npm ci"), after: begun, step: "escalation:write", want: syscall.ENOSPC},
		"the view, and it is full":          {s: role, step: "escalation:rename", want: syscall.EDQUOT},
		"a wish, and it is full":            {s: role, after: func(_ *recHost, s loop.State) loop.State { return s }, wish: &Mended{By: "eve"}, step: "escalation:write", want: syscall.ENOSPC},
		"an answer, and the view cannot":    {s: recQuestion("npm ci"), after: answered(escalation.Reject), step: "views", want: errRec},
		"going on, and it is full":          {s: role, after: answered(escalation.Approve), step: "finish", want: syscall.ENOSPC},
		"lapsed, and it is full":            {s: role, after: func(r *recHost, s loop.State) loop.State { r.now = r.now.Add(escalation.DefaultPatience); return s }, step: "escalation:write", want: syscall.ENOSPC},
		"opening, and state.json cannot":    {s: role, step: "views", want: errRec},
		"a wish, and state.json cannot":     {s: role, after: func(_ *recHost, s loop.State) loop.State { return s }, wish: &Mended{By: "eve"}, step: "views", want: errRec},
		"asking anew, and nobody can judge": {s: recQuestion("npm ci"), after: func(r *recHost, s loop.State) loop.State { r.now = r.now.Add(escalation.DefaultPatience); return s }, step: "judge", want: errRec},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			var s loop.State
			if c.after == nil {
				s, _ = r.asks(c.s)
			} else {
				s = c.after(r, r.opens(c.s))
			}
			switch c.step {
			case "views":
				r.viewsErr = c.want
			case "judge":
				r.executor.judgeErr = c.want
			case "finish": // not the view of the answer, but what follows it
				r.at, r.then = "escalation:chmod", func() { r.fail["escalation:sync"] = c.want }
			default:
				r.fail[c.step] = c.want
			}
			fact, _, err := r.approvals.Answer(t.Context(), s, c.wish)
			if r.wantErr(err, c.want); fact != nil && err == nil {
				t.Errorf("%+v", fact)
			}
		})
	}
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say  escalation.Method
		ends escalation.State
	}{"open": {"", escalation.Superseded}, "approved": {escalation.Approve, escalation.Superseded}, "rejected": {escalation.Reject, escalation.Rejected}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			r.opens(recQuestion("npm ci"))
			if c.say != "" {
				r.answer(c.say, "", "")
			}
			r.noErr(r.approvals.Withdraw("the loop is cancelled"))
			rec := r.record()
			if rec.State != c.ends || (c.ends == escalation.Superseded) != (rec.Why == "the loop is cancelled") {
				t.Errorf("%+v", rec)
			}
			if c.ends == escalation.Superseded {
				r.wantIn(r.read(r.Paths.File("escalation.json")), "the loop is cancelled", "superseded")
			}
		})
	}
}

func TestWithdrawInTrouble(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	if err := r.approvals.Withdraw("x"); err != nil || r.names(r.Paths.Questions()) != nil {
		t.Errorf("nothing is asked, and: %v", err)
	}
	r.opens(recQuestion("npm ci"))
	r.fail["escalation:write"] = syscall.ENOSPC
	r.wantErr(r.approvals.Withdraw("x"), syscall.ENOSPC)
	delete(r.fail, "escalation:write")
	r.viewsErr = errRec
	r.wantErr(r.approvals.Withdraw("x"), errRec)
	recDamage(r)
	if err := r.approvals.Withdraw("x"); err != nil {
		t.Error(err)
	}
}

// An answer in the moment of the withdrawal ends it too.
func TestWithdrawnAsItIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.opens(recQuestion("npm ci"))
	r.at, r.then = "lock:open", func() { // behind the look, before the lock
		other := escalation.Store{Disk: durable.OS(), Dir: filepath.Join(r.Paths.Private, escalation.Folder), Loop: "l", Now: r.Clock}
		_, err := other.Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Reject, By: escalation.By{Channel: escalation.Slack}})
		r.noErr(err)
	}
	r.noErr(r.approvals.Withdraw("x"))
	if rec := r.record(); rec.State != escalation.Rejected || r.views != 1 {
		t.Errorf("%+v, %d views", rec, r.views)
	}
}

// Whoever cannot judge the command cannot ask about it, and nothing is opened.
func TestAskedAnewWithoutAVerdict(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recQuestion("npm ci")
	s.Human.Question = escalation.NewID()
	r.executor.judgeErr = errRec
	fact, _, err := r.approvals.Answer(t.Context(), s, nil)
	if r.wantErr(err, errRec); fact != nil || r.approvals.asking != nil {
		t.Errorf("%+v", fact)
	}
}
