package escalation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
)

// fast is a directory where a flush costs nothing, if there is one: the property
// is about the order of things, the flushes are tested elsewhere.
func fast(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "superloop-escalation-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// past is what a test remembers of one question.
type past struct {
	id, digest     string
	asked, expires time.Time
	answers        []Answer
	begins, ends   int
	closed         bool // superseded, withdrawn, expired
}

// However asking, answering, beginning and dying follow each other: one question
// at most is pending, each has one answer at most, and begins at most once, after
// an approval, before its time is over, while it is the loop's present one.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	top := fast(t)
	runs := 0
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		c := &clock{created}
		s := Store{Disk: durable.OS(), Dir: filepath.Join(top, "r", string(rune('a'+runs%26)), NewID()), Loop: "pinpoint-v1", Now: c.now}
		var all []*past
		pick := func() *past {
			if len(all) == 0 {
				return &past{id: idA, digest: sum(nil)}
			}
			// The last ones are the interesting ones.
			return all[len(all)-1-min(rapid.IntRange(0, 2).Draw(rt, "which"), len(all)-1)]
		}
		last := func() *past {
			if len(all) == 0 {
				return nil
			}
			return all[len(all)-1]
		}
		waits := func(p *past) bool { // for an answer, or to begin
			return p != nil && p == last() && !p.closed && p.ends == 0 && p.begins == 0 && (len(p.answers) == 0 || p.answers[0].Method == Approve)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			c.at = c.at.Add(time.Second)
			switch op := rapid.SampledFrom([]string{"open", "again", "answer", "answer", "answer", "begin", "begin", "finish", "interrupt", "withdraw", "wait", "expire"}).Draw(rt, "op"); op {
			case "open", "again":
				q := asking("", rapid.SampledFrom([]string{"npm ci", "bun install"}).Draw(rt, "command"))
				q.Created, q.Expires = c.at, c.at.Add(time.Hour)
				if op == "again" && len(all) > 0 {
					before, err := s.Load()
					if err != nil {
						rt.Fatal(err)
					}
					q = before.Question
				}
				r, err := s.Open(ctx, q)
				executing := last() != nil && last().begins > last().ends
				switch {
				case op == "again" && len(all) > 0:
					if err != nil || r.Question.ID != last().id {
						rt.Fatalf("asked again: %v", err)
					}
				case executing:
					if !errors.As(err, new(*StateError)) {
						rt.Fatalf("what is executing was superseded: %v", err)
					}
				case err != nil:
					rt.Fatal(err)
				default:
					if p := last(); waits(p) {
						p.closed = true
					}
					all = append(all, &past{id: r.Question.ID, digest: r.Digest, asked: c.at, expires: r.Question.Expires})
				}
			case "answer":
				req := AnswerRequest{Method: rapid.SampledFrom([]Method{Approve, Reject, Resolve}).Draw(rt, "method"), By: alice}
				p := last()
				if rapid.Bool().Draw(rt, "bound") {
					p = pick()
					req.ID, req.Digest = p.id, p.digest
				}
				r, err := s.Answer(ctx, req)
				may := waits(p) && len(p.answers) == 0 && c.at.Before(p.expires)
				if may != (err == nil) {
					rt.Fatalf("%v, may %v", err, may)
				}
				if err == nil {
					p.answers = append(p.answers, *r.Answer)
				}
				if p != nil && errors.As(err, new(*ExpiredError)) && p == last() {
					p.closed = true
				}
				if d := new(DecidedError); errors.As(err, &d) && (p == nil || len(p.answers) == 0 || d.First.At != p.answers[0].At) {
					rt.Fatalf("told of another answer: %v", err)
				}
			case "begin":
				p := pick()
				_, err := s.Begin(ctx, p.id)
				may := waits(p) && len(p.answers) == 1 && c.at.Before(p.expires)
				if may != (err == nil) {
					rt.Fatalf("%v, may %v", err, may)
				}
				if err == nil {
					p.begins++
				}
				if errors.As(err, new(*ExpiredError)) {
					p.closed = true
				}
			case "finish", "interrupt":
				p := pick()
				var err error
				if op == "finish" {
					_, err = s.Finish(ctx, p.id, Outcome{OK: true})
				} else {
					_, err = s.Interrupt(ctx, p.id)
				}
				if (p.begins > p.ends && p == last()) != (err == nil) {
					rt.Fatal(err)
				}
				if err == nil {
					p.ends++
				}
			case "withdraw":
				p := pick()
				_, err := s.Withdraw(ctx, p.id, "x")
				if waits(p) != (err == nil) {
					rt.Fatal(err)
				}
				if err == nil {
					p.closed = true
				}
			case "wait":
				c.at = c.at.Add(40 * time.Minute)
			case "expire":
				_, lapsed, err := s.Expire(ctx, c.at)
				p := last()
				if want := waits(p) && !c.at.Before(p.expires); err != nil || lapsed != want {
					rt.Fatalf("%v, %v", lapsed, err)
				}
				if lapsed {
					p.closed = true
				}
			}
			if present, err := s.Load(); len(all) > 0 && (err != nil || present.Question.ID != last().id) {
				rt.Fatalf("%s is not the last question: %v", present.Question.ID, err)
			}
		}
		agree(rt, s, all)
	})
}

// agree compares the disk with what the test remembers.
func agree(rt *rapid.T, s Store, all []*past) {
	present, err := s.Load()
	if len(all) == 0 {
		if !errors.Is(err, ErrNothingPending) {
			rt.Fatal(err)
		}
		return
	}
	old, errArchive := s.Archive()
	if err := errors.Join(err, errArchive); err != nil {
		rt.Fatal(err)
	}
	records := append(old, present)
	if len(records) != len(all) {
		rt.Fatalf("%d records of %d questions", len(records), len(all))
	}
	slices.SortFunc(records, func(a, b Record) int { return a.Question.Created.Compare(b.Question.Created) })
	for i, r := range records {
		p := all[i]
		if r.Question.ID != p.id || r.Digest != p.digest {
			rt.Fatalf("%s is not %s", r.Question.ID, p.id)
		}
		if r.State.Open() && i < len(all)-1 {
			rt.Fatalf("an old question is %s", r.State)
		}
		if len(p.answers) > 1 || p.begins > 1 || p.ends > p.begins || (r.Answer != nil) != (len(p.answers) == 1) || r.Begun.IsZero() != (p.begins == 0) {
			rt.Fatalf("%+v is not %+v", r, p)
		}
		if r.Answer != nil && *r.Answer.By.UID != 1000 || r.Answer != nil && (r.Answer.Method != p.answers[0].Method || r.Answer.At != p.answers[0].At) {
			rt.Fatalf("the answer has changed: %+v", r.Answer)
		}
	}
}
