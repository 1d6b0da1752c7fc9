package effects

import (
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/plan"
)

// recRole is a loop that asks about a role whose runner does not work.
func recRole(kind string) loop.State {
	s := loop.State{LoopID: "l", RunID: "run-1", Iteration: 3, Pending: &loop.Effect{ID: "e-1", Kind: loop.AskHuman, Role: "tester"}}
	s.Human = &loop.HumanState{About: loop.AboutRole, ID: "e-1", Type: kind, Class: "login", Role: "tester", Runner: "claude", Text: "not logged in", Fix: "claude /login"}
	s.Plan.Respond = &loop.RespondPlan{}
	s.Response.Policy = &failures.State{Runs: 2, Tell: []string{"it said no"}}
	return s
}

func TestAskedThenOpened(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s, fact := r.asks(recQuestion("npm ci"))
	f := recAs[loop.Escalated](t, fact, nil)
	want := loop.Escalated{Type: loop.EscalationApproval, Reason: "no list names it", Awaiting: "human", ID: f.ID, Role: "tester", Error: "no list names it", N: 2, Digest: f.Digest,
		Command: "npm ci", Rule: "on_unknown", Expires: recStart.Add(escalation.DefaultPatience), Of: loop.Of{EffectID: "e-1"}}
	if f != want || len(f.ID) != 32 || len(f.Digest) != 64 {
		t.Errorf("%+v\nwant %+v", f, want)
	}
	if got := r.names(r.Paths.Questions()); got != nil {
		t.Errorf("it is open before the journal holds it: %v", got)
	}
	if fact, next := r.look(s, nil); fact != nil || !next.Equal(f.Expires) {
		t.Errorf("%v %v", fact, next)
	}
	rec := r.record()
	if rec.Question.ID != f.ID || rec.Digest != f.Digest || rec.State != escalation.Pending || r.views != 1 {
		t.Errorf("%+v, %d views", rec, r.views)
	}
	r.wantIn(r.read(r.Paths.File("escalation.json")), f.ID, "npm ci")
	if r.approvals.asking != nil {
		t.Error("what is open is still to be opened")
	}
	r.look(s, nil)
	if r.views != 1 {
		t.Error("it was opened twice")
	}
}

func TestNobodyIsAsked(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recQuestion("npm ci")
	if f, err := r.approvals.Perform(t.Context(), loop.Effect{Kind: loop.Wait}, s); f != nil || err == nil {
		t.Error(f, err)
	}
	s.Human = nil
	if f, err := r.approvals.Perform(t.Context(), *s.Pending, s); f != nil || err == nil {
		t.Error(f, err)
	}
	r.executor.judgeErr = errRec
	s = recQuestion("npm ci")
	f, err := r.approvals.Perform(t.Context(), *s.Pending, s)
	if r.wantErr(err, errRec); f != nil {
		t.Error(f)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	role, runner := recRole(failures.TypeRole), recRole(loop.EscalationRunner)
	plain, tests := recRole(loop.EscalationRunner), recRole(failures.TypeRole)
	plain.Plan.Respond, tests.Human.About = nil, loop.AboutTests
	alone := recRole(loop.EscalationRunner)
	alone.Response.Policy = nil
	preflight := recRole(failures.TypeRole)
	preflight.Human.About = loop.AboutPreflight
	for name, c := range map[string]struct {
		s        loop.State
		say      escalation.Method
		edit     string
		method   string
		believes bool
		other    bool // who can go on is told
		ends     escalation.State
	}{
		"a command, approved":           {recQuestion("npm ci"), escalation.Approve, "", loop.MethodApprove, false, false, escalation.Approved},
		"a command, edited":             {recQuestion("npm ci"), escalation.Approve, "npm i", loop.MethodApprove, false, false, escalation.Approved},
		"a command, rejected":           {recQuestion("npm ci"), escalation.Reject, "", loop.MethodReject, false, false, escalation.Rejected},
		"a command, done by hand":       {recQuestion("npm ci"), escalation.Resolve, "", loop.MethodManual, false, false, escalation.Resolved},
		"a role, go on":                 {role, escalation.Approve, "", loop.MethodManual, false, true, escalation.Done},
		"a role, no":                    {role, escalation.Reject, "", loop.MethodReject, false, false, escalation.Rejected},
		"a runner, mended":              {runner, escalation.Resolve, "", loop.MethodManual, true, true, escalation.Resolved},
		"a runner, go on":               {runner, escalation.Approve, "", loop.MethodManual, true, true, escalation.Done},
		"a runner, and no one responds": {plain, escalation.Resolve, "", loop.MethodManual, false, false, escalation.Resolved},
		"a runner before any failure":   {alone, escalation.Resolve, "", loop.MethodManual, true, false, escalation.Resolved},
		"the tests":                     {tests, escalation.Resolve, "", loop.MethodManual, false, false, escalation.Resolved},
		"the environment, all the same": {preflight, escalation.Approve, "", loop.MethodApprove, false, true, escalation.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := r.opens(c.s)
			r.answer(c.say, "a note", c.edit)
			views := r.views
			fact, _ := r.look(s, nil)
			f := recAs[loop.Resolved](t, fact, nil)
			if f.ID != s.Human.Question || f.By != "cli:ada" || f.Note != "a note" || f.Method != c.method || f.EffectID != "e-1" {
				t.Errorf("%+v", f)
			}
			if (len(r.believed) == 1 && r.believed[0] == "tester") != c.believes || (len(f.Candidates) == 1 && f.Candidates[0].Runner == "for-tester") != c.other {
				t.Errorf("believed %v, %v", r.believed, f.Candidates)
			}
			if (f.Edit != nil) != (c.edit != "") || f.Edit != nil && *f.Edit != recAction("npm ci").With("npm i") {
				t.Errorf("the edit is %+v", f.Edit)
			}
			if rec := r.record(); rec.State != c.ends || r.views != views+1 {
				t.Errorf("it is %s, %d views", rec.State, r.views)
			}
			r.wantIn(r.read(r.Paths.File("escalation.json")), `"by": "cli:ada"`)
		})
	}
}

// A refused remedy is remembered for the next runs; a refused command that no rule has is not, and neither is any other
// answer before the command has run.
//
// Conforms: 002-future-3-across
func TestRefusalsAreRemembered(t *testing.T) {
	t.Parallel()
	remedy := recQuestion("npm ci")
	remedy.Diagnosis = &loop.Diagnosis{Signature: "s", Options: []plan.Choice{{Key: "h/o", Draft: action.Draft{Command: "npm ci"}}}}
	for name, c := range map[string]struct {
		s    loop.State
		say  escalation.Method
		want []learn.Outcome
	}{
		"a remedy, refused":    {remedy, escalation.Reject, []learn.Outcome{{Signature: "s", Option: "h/o", Command: "npm ci", Result: learn.Refused, ByPerson: true}}},
		"a remedy, approved":   {remedy, escalation.Approve, nil},
		"a remedy, by hand":    {remedy, escalation.Resolve, nil},
		"no remedy of a rule":  {recQuestion("npm ci"), escalation.Reject, nil},
		"another than offered": {recQuestion("npm ci --force"), escalation.Reject, nil},
	} {
		r := newRecHost(t)
		s := r.opens(c.s)
		r.answer(c.say, "a note", "")
		fact, _ := r.look(s, nil)
		recAs[loop.Resolved](t, fact, nil)
		if !reflect.DeepEqual(r.executor.learned, c.want) {
			t.Errorf("%s: %+v", name, r.executor.learned)
		}
	}
}

func TestLapsed(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	r.config.Escalation.ExpiresAfter = time.Hour
	s := r.opens(recQuestion("npm ci"))
	r.now = recStart.Add(time.Hour - 1)
	if fact, next := r.look(s, nil); fact != nil || !next.Equal(recStart.Add(time.Hour)) {
		t.Fatal(fact, next)
	}
	r.now = recStart.Add(time.Hour)
	fact, next := r.look(s, nil)
	again := recAsked(t, s, fact)
	if again.Human.Question == s.Human.Question || !next.Equal(r.now) || r.record().State != escalation.Expired {
		t.Errorf("%+v, %s", fact, r.record().State)
	}
	if fact, next := r.look(again, nil); fact != nil || !next.Equal(recStart.Add(2*time.Hour)) {
		t.Error(fact, next)
	}
	if rec := r.record(); rec.Question.ID != again.Human.Question || rec.State != escalation.Pending {
		t.Errorf("%+v", rec)
	}
	old, err := r.approvals.Store().Archive()
	if r.noErr(err); len(old) != 1 || old[0].Question.ID != s.Human.Question {
		t.Errorf("%+v", old)
	}
}

// An answer that comes between the look and the lapse counts.
func TestAnsweredAsItLapses(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := r.opens(recQuestion("npm ci"))
	before := r.approvals.Store()
	before.Now = func() time.Time { return recStart.Add(time.Hour) }
	r.now = recStart.Add(escalation.DefaultPatience)
	clock, late := r.Clock, false
	r.Clock = func() time.Time {
		if !late {
			late = true
			_, err := before.Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Reject, By: escalation.By{Channel: escalation.Slack, User: "U1"}})
			r.noErr(err)
		}
		return clock()
	}
	fact, next := r.look(s, nil)
	if fact != nil || !next.Equal(r.now) {
		t.Fatalf("%+v %v", fact, next)
	}
	fact, _ = r.look(s, nil)
	if f := recAs[loop.Resolved](t, fact, nil); f.Method != loop.MethodReject || f.By != "slack:U1" {
		t.Errorf("%+v", f)
	}
}

// Silence is no consent, and neither is an approval whose time is over.
func TestApprovedAndLapsed(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := r.opens(recRole(failures.TypeRole))
	r.answer(escalation.Approve, "", "")
	r.now = recStart.Add(escalation.DefaultPatience)
	fact, next := r.look(s, nil)
	if again := recAsked(t, s, fact); again.Human.Question == s.Human.Question || !next.Equal(r.now) || r.record().State != escalation.Expired {
		t.Errorf("%+v", fact)
	}
}

func TestMended(t *testing.T) {
	t.Parallel()
	wish := &Mended{By: "eve", Note: "retry", IntentID: "i-1"}
	r := newRecHost(t)
	s := r.opens(recRole(loop.EscalationRunner))
	fact, next := r.look(s, wish)
	f := recAs[loop.Resolved](t, fact, nil)
	if f.By != "eve" || f.Note != "retry" || f.IntentID != "i-1" || f.Method != loop.MethodManual || f.ID != s.Human.Question || f.EffectID != "e-1" || len(f.Candidates) != 1 {
		t.Errorf("%+v", f)
	}
	if !next.Equal(r.now) || len(r.believed) != 1 {
		t.Error(next, r.believed)
	}
	rec := r.record()
	if rec.State != escalation.Resolved || rec.Answer.By.String() != "cli:eve" || rec.Answer.By.Method != "process" || rec.Answer.Note != "retry" || rec.Answer.Bound != "id" {
		t.Errorf("%+v", rec)
	}
	r.wantIn(r.read(r.Paths.File("escalation.json")), "cli:eve")
	if fact, _ = r.look(s, wish); recAs[loop.Resolved](t, fact, nil).By != "cli:eve" {
		t.Errorf("the answer that is there does not count: %+v", fact)
	}
}

// What a wish is told when an answer, or the end of the time, was first.
func TestMendedTooLate(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(*recHost){
		"answered": func(r *recHost) { r.answer(escalation.Reject, "", "") },
		"lapsed":   func(r *recHost) { r.now = recStart.Add(escalation.DefaultPatience) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := r.opens(recRole(loop.EscalationRunner))
			rec := r.record()
			say(r)
			if fact, err := r.approvals.mended(t.Context(), s, rec, Mended{By: "eve"}); fact != nil || err != nil {
				t.Errorf("%+v %v", fact, err)
			}
			fact, _ := r.look(s, nil)
			if _, isEnd := fact.(loop.Resolved); fact == nil || isEnd != (name == "answered") {
				t.Errorf("%+v", fact)
			}
		})
	}
}

func TestEnvironmentIsWholeAgain(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recRole(failures.TypeRole)
	s.Human.About = loop.AboutPreflight
	s = r.opens(s)
	if fact, next := r.look(s, nil); fact != nil || !next.Equal(recStart.Add(5*time.Second)) {
		t.Error(fact, next)
	}
	r.whole = true
	fact, _ := r.look(s, nil)
	if f := recAs[loop.Resolved](t, fact, nil); f.By != "superloop" || f.Method != loop.MethodManual || f.Note == "" {
		t.Errorf("%+v", f)
	}
	other := newRecHost(t)
	other.whole = true
	if fact, _ := other.look(other.opens(recRole(failures.TypeRole)), nil); fact != nil {
		t.Errorf("a look at the environment answers another question: %+v", fact)
	}
}

// recDamage makes a record that cannot be believed.
func recDamage(r *recHost) { r.put(filepath.Join(r.Paths.Questions(), escalation.File), "{") }

func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := r.opens(recQuestion("npm ci"))
	recDamage(r)
	fact, _ := r.look(s, nil)
	again := recAsked(t, s, fact)
	if again.Human.Question == s.Human.Question {
		t.Error("it has the same id")
	}
	if len(r.journal.records) != 1 || r.journal.records[0] != "escalation_damaged" || !strings.Contains(r.journal.fields[0].(map[string]any)["error"].(string), "cannot be believed") {
		t.Error(r.journal.records, r.journal.fields)
	}
	if got := strings.Join(r.names(r.Paths.Questions()), " "); strings.Contains(got, escalation.File) || !strings.Contains(got, "damaged-20261122T120000.000Z-") {
		t.Errorf("it is not aside: %s", got)
	}
	if fact, _ := r.look(again, nil); fact != nil || r.record().Question.ID != again.Human.Question {
		t.Error(fact)
	}
}

func TestDamagedRecordAndTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step string
		want error
	}{"a full disk": {"escalation:rename", syscall.ENOSPC}, "no journal": {"", errRec}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecHost(t)
			s := r.opens(recQuestion("npm ci"))
			recDamage(r)
			if c.step == "" {
				r.journal.err = c.want
			} else {
				r.fail[c.step] = c.want
			}
			fact, _, err := r.approvals.Answer(t.Context(), s, nil)
			if r.wantErr(err, c.want); fact != nil {
				t.Errorf("%+v", fact)
			}
		})
	}
}

// A record of another loop is as good as a damaged one.
func TestRecordOfAnotherLoop(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	other := escalation.Store{Disk: r.Disk, Dir: r.Paths.Questions(), Loop: "other", Now: r.Clock}
	_, err := other.Open(t.Context(), escalation.Question{Loop: "other", Run: "run", Type: escalation.RoleFailure, Repo: "/r", Reason: "why"})
	r.noErr(err)
	_, err = other.Answer(t.Context(), escalation.AnswerRequest{Method: escalation.Approve, By: escalation.By{Channel: escalation.CLI}})
	r.noErr(err)
	s, _ := r.asks(recQuestion("npm ci"))
	fact, _ := r.look(s, nil)
	if again := recAsked(t, s, fact); again.Human.Question == s.Human.Question || len(r.journal.records) != 1 {
		t.Errorf("%+v %v", fact, r.journal.records)
	}
}

func TestRecordIsGone(t *testing.T) {
	t.Parallel()
	r := newRecHost(t)
	s := recQuestion("npm ci")
	s.Human.Question = escalation.NewID() // asked by a supervisor that died before it opened it
	fact, _ := r.look(s, nil)
	again := recAsked(t, s, fact)
	if again.Human.Question == s.Human.Question {
		t.Error("it has the same id")
	}
	if fact, _ = r.look(again, nil); fact != nil {
		t.Errorf("%+v", fact)
	}
	// The next supervisor does not know what was noted down: only its id is.
	r.approvals.asking = nil
	other := recQuestion("npm ci")
	other.Human.Question = escalation.NewID()
	if fact, _ = r.look(other, nil); recAsked(t, other, fact).Human.Question == again.Human.Question || r.record().State != escalation.Pending {
		t.Errorf("%+v", fact)
	}
	// And one that has noted down another question has lost this one all the same.
	third := recAsked(t, other, fact)
	third.Human.Question = escalation.NewID()
	if fact, _ = r.look(third, nil); fact == nil {
		t.Error("another question was opened")
	}
}
