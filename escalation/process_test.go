package escalation

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/superloop/superloop/internal/durable"
)

// Fifty processes answer at the same moment: one wins, one begins, and the others
// are told who was first.
func TestConcurrentAnswers(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	s.Now = nil
	q := sample(idA)
	q.Created = time.Time{}
	r := mustOpen(t, s, q)
	const many = 50
	gate, open, err := os.Pipe()
	check(t, err)
	defer gate.Close()
	outs := make([]*bufio.Reader, many)
	waits := make([]func() error, many)
	for i := range many {
		method, digest := []Method{Approve, Approve, Approve, Reject, Resolve}[i%5], ""
		if i%2 == 0 {
			digest = r.Digest
		}
		cmd := child(t, []string{"GOMAXPROCS=1"}, "answer", s.Dir, string(method), "p"+strconv.Itoa(i), digest)
		cmd.Stdin = gate
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		outs[i], waits[i] = bufio.NewReader(out), cmd.Wait
	}
	for _, out := range outs { // all of them are up
		if line, err := out.ReadString('\n'); line != "ready\n" {
			t.Errorf("%q, %v", line, err)
		}
	}
	check(t, open.Close())
	won, begun := "", 0
	first := map[string]int{}
	for i, out := range outs {
		text, err := io.ReadAll(out)
		if err := errors.Join(err, waits[i]()); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		for line := range strings.Lines(string(text)) {
			switch f := strings.Fields(line); f[0] {
			case "won":
				if won != "" {
					t.Errorf("p%d and %s have won", i, won)
				}
				won = "p" + strconv.Itoa(i)
			case "decided":
				first[f[1]]++
			case "begun":
				begun++
			default:
				t.Errorf("p%d: %s", i, line)
			}
		}
	}
	last, err := s.Load()
	check(t, err)
	if len(first) != 1 || first[won] != many-1 || last.Answer.By.User != won {
		t.Errorf("%s won, the others say %v, the record says %s", won, first, last.Answer.By.User)
	}
	if approved := last.Answer.Method == Approve; approved != (begun == 1) || begun > 1 || approved && last.State != Executing {
		t.Errorf("%s, begun %d times, %s", last.Answer.Method, begun, last.State)
	}
}

// An answer of another process wakes whoever watches the directory, and is whole
// when it does.
func TestAnswerWakes(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	s.Now = nil
	q := sample(idA)
	q.Created = time.Time{}
	mustOpen(t, s, q)
	w, err := fsnotify.NewWatcher()
	check(t, err)
	defer w.Close()
	check(t, w.Add(s.Dir))
	cmd := child(t, nil, "answer", s.Dir, "reject", "bob", "")
	check(t, cmd.Start())
	give := time.NewTimer(patience)
	defer give.Stop()
	for woken := false; !woken; {
		select {
		case ev := <-w.Events:
			if filepath.Base(ev.Name) != File {
				continue
			}
			r, err := s.Load()
			if err != nil || r.State != Rejected || r.Answer.By.User != "bob" {
				t.Errorf("woken by %v to %+v, %v", ev, r, err)
			}
			woken = true
		case err := <-w.Errors:
			t.Fatal(err)
		case <-give.C:
			t.Fatal("nobody was woken")
		}
	}
	check(t, cmd.Wait())
}

// crashes are the steps in which a process is killed: what was before, what it
// does, and the states that it may leave.
var crashes = []struct {
	name          string
	before        func(ctx context.Context, s Store) error
	step          func(ctx context.Context, s Store) error
	old, new      State // of the question that is there before, and after
	oldID, nextID string
}{
	{"open", nil, func(ctx context.Context, s Store) error { _, err := s.Open(ctx, sample(idA)); return err }, "", Pending, "", idA},
	{"supersede", opened, func(ctx context.Context, s Store) error { _, err := s.Open(ctx, sample(idB)); return err }, Pending, Pending, idA, idB},
	{"supersede approved", answered, func(ctx context.Context, s Store) error { _, err := s.Open(ctx, sample(idB)); return err }, Approved, Pending, idA, idB},
	{"approve", opened, answerOnce, Pending, Approved, idA, idA},
	{"reject", opened, func(ctx context.Context, s Store) error {
		_, err := s.Answer(ctx, AnswerRequest{Method: Reject, By: alice})
		return err
	}, Pending, Rejected, idA, idA},
	{"begin", answered, func(ctx context.Context, s Store) error { _, err := s.Begin(ctx, idA); return err }, Approved, Executing, idA, idA},
	{"finish", begun, func(ctx context.Context, s Store) error { _, err := s.Finish(ctx, idA, Outcome{OK: true}); return err }, Executing, Done, idA, idA},
	{"interrupt", begun, func(ctx context.Context, s Store) error { _, err := s.Interrupt(ctx, idA); return err }, Executing, Interrupted, idA, idA},
	{"expire", opened, func(ctx context.Context, s Store) error {
		_, _, err := s.Expire(ctx, created.Add(48*time.Hour))
		return err
	}, Pending, Expired, idA, idA},
}

func opened(ctx context.Context, s Store) error { _, err := s.Open(ctx, sample(idA)); return err }

func answerOnce(ctx context.Context, s Store) error { _, err := s.Answer(ctx, approve()); return err }

func answered(ctx context.Context, s Store) error {
	if err := opened(ctx, s); err != nil {
		return err
	}
	return answerOnce(ctx, s)
}

func begun(ctx context.Context, s Store) error {
	if err := answered(ctx, s); err != nil {
		return err
	}
	_, err := s.Begin(ctx, idA)
	return err
}

// Killed before any act on the disk, a step has happened or it has not; what is
// there is whole, the next process goes on from it, and nothing begins twice.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range crashes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var sawOld, sawNew bool
			for n := 0; ; n++ {
				s, _ := newStore(t)
				if c.before != nil {
					check(t, c.before(ctx, s))
				}
				cmd := child(t, nil, "step", c.name, s.Dir, strconv.Itoa(n))
				err := cmd.Run()
				status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
				if err != nil && status.Signal() != syscall.SIGKILL {
					t.Fatalf("step %d: %v", n, err)
				}
				r, loadErr := s.Load()
				switch {
				case c.old == "" && errors.Is(loadErr, ErrNothingPending):
					sawOld = true
				case loadErr != nil:
					t.Fatalf("after %d acts: %v", n, loadErr)
				case r.Question.ID == c.nextID && r.State == c.new:
					sawNew = true
				case r.Question.ID == c.oldID && r.State == c.old:
					sawOld = true
				default:
					t.Fatalf("after %d acts: %s is %s", n, r.Question.ID, r.State)
				}
				goesOn(t, ctx, s, r)
				if err == nil { // it was not killed any more
					break
				}
				if n > 60 {
					t.Fatal("a step without an end")
				}
			}
			if !sawOld || !sawNew {
				t.Errorf("old %v, new %v: the test has not seen both", sawOld, sawNew)
			}
		})
	}
}

// goesOn is the next supervisor, after a crash that left r.
func goesOn(t *testing.T, ctx context.Context, s Store, r Record) {
	t.Helper()
	id := r.Question.ID
	switch r.State {
	case "", Pending:
		q := sample(idB)
		if id == idB {
			q = r.Question
		}
		next := mustOpen(t, s, q)
		_, err := s.Answer(ctx, AnswerRequest{Method: Approve, By: alice, Digest: next.Digest})
		check(t, err)
		_, err = s.Begin(ctx, next.Question.ID)
		check(t, err)
	case Approved:
		_, err := s.Begin(ctx, id)
		check(t, err)
		if _, err := s.Begin(ctx, id); err == nil {
			t.Error("it began twice")
		}
	case Executing:
		if _, err := s.Begin(ctx, id); err == nil {
			t.Error("it began twice")
		}
		_, err := s.Interrupt(ctx, id)
		check(t, err)
	default:
		mustOpen(t, s, sample(NewID()))
	}
	old, err := s.Archive()
	check(t, err)
	for _, o := range old {
		if o.State.Open() {
			t.Errorf("the archive holds an open question: %s is %s", o.Question.ID, o.State)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, ".*.tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A full disk leaves what was, and says so.
func TestFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, step := range []string{"create", "write", "chmod", "sync", "close", "rename"} {
		s, _ := newStore(t)
		mustOpen(t, s, sample(idA))
		bad := s
		bad.Disk = durable.OS().WithFault(func(op string) error {
			if op == "escalation:"+step {
				return syscall.ENOSPC
			}
			return nil
		})
		if _, err := bad.Answer(ctx, approve()); !durable.IsFull(err) {
			t.Errorf("%s: %v", step, err)
		}
		if r, err := s.Load(); err != nil || r.State != Pending {
			t.Errorf("%s: %+v, %v", step, r, err)
		}
	}
	// A failing archive does not lose the question that is there.
	s, _ := newStore(t)
	mustOpen(t, s, sample(idA))
	bad := s
	bad.Disk = durable.OS().WithFault(func(op string) error {
		if op == "escalation-archive:write" {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := bad.Open(ctx, sample(idB)); !durable.IsFull(err) {
		t.Errorf("%v", err)
	}
	if r, err := s.Load(); err != nil || r.Question.ID != idA || r.State != Pending {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whoever waits for the lock can be told to give up.
func TestLockIsAwaited(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	mustOpen(t, s, sample(idA))
	lock, err := durable.OS().Lock(filepath.Join(s.Dir, ".lock"), nil)
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Answer(ctx, approve()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	check(t, lock.Unlock())
	if _, err := s.Answer(context.Background(), approve()); err != nil {
		t.Error(err)
	}
}
