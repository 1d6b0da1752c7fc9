package escalation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "superloop")
	if items, err := Inbox(root, created); err != nil || len(items) != 0 {
		t.Errorf("%v, %v", items, err)
	}
	ctx := context.Background()
	ask := func(repo, loop string, at time.Time, change func(*Question)) Store {
		s := Store{Disk: durable.OS(), Dir: filepath.Join(root, repo, "loops", loop, Folder), Loop: loop}
		q := sample("")
		q.Loop, q.Created, q.Expires = loop, at, at.Add(48*time.Hour)
		if change != nil {
			change(&q)
		}
		mustOpen(t, s, q)
		return s
	}
	hour := func(n int) time.Time { return created.Add(time.Duration(n) * time.Hour) }
	ask("r1", "young", hour(5), nil)
	ask("r1", "old", hour(1), nil)
	ask("r2", "old-degraded", hour(0), func(q *Question) { q.Command.Severity = "degraded" })
	ask("r2", "policy", hour(2), func(q *Question) { q.Type, q.Command = PolicyChange, nil })
	ask("r2", "lapsed", hour(0), func(q *Question) { q.Expires = hour(3) })
	ask("r3", "login", hour(3), func(q *Question) { q.Type, q.Command = RunnerUnavailable, nil })
	decided := ask("r3", "decided", hour(0), nil)
	_, err := decided.Answer(ctx, AnswerRequest{Method: Reject, By: alice})
	if err == nil || !errors.As(err, new(*ExpiredError)) { // its clock is the real one
		t.Errorf("%v", err)
	}
	torn := ask("r4", "torn", hour(0), nil)
	check(t, os.Truncate(filepath.Join(torn.Dir, File), 100))
	moved := ask("r4", "moved", hour(0), nil)
	check(t, os.Rename(filepath.Dir(moved.Dir), filepath.Join(root, "r4", "loops", "elsewhere")))
	check(t, os.MkdirAll(filepath.Join(root, "r5", "loops", "empty"), 0o700))
	check(t, os.MkdirAll(filepath.Join(root, "cooldowns"), 0o700))
	check(t, os.WriteFile(filepath.Join(root, "cooldowns", "loops"), nil, 0o600))
	check(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))

	items, err := Inbox(root, hour(6))
	var got []string
	for _, i := range items {
		line := i.Record.Question.Loop + " " + i.Waiting.String()
		if i.Lapsed {
			line += " lapsed"
		}
		got = append(got, line)
		if r, err := (Store{Disk: durable.OS(), Dir: i.Dir, Loop: i.Record.Question.Loop}).Load(); err != nil || r.Digest != i.Record.Digest {
			t.Errorf("%+v, %v", r, err)
		}
	}
	want := "old 5h0m0s,login 3h0m0s,young 1h0m0s,old-degraded 6h0m0s,policy 4h0m0s,lapsed 6h0m0s lapsed"
	if strings.Join(got, ",") != want {
		t.Errorf("%v", got)
	}
	var damaged *DamagedError
	if !errors.As(err, &damaged) || strings.Count(err.Error(), "cannot be believed") != 2 || !strings.Contains(err.Error(), `loop "moved", not of "elsewhere"`) {
		t.Errorf("%v", err)
	}
}

// A question that waits is light: a thousand loops may wait in one process.
func TestMemory(t *testing.T) {
	s, _ := newStore(t)
	mustOpen(t, s, judged(t, sample(idA)))
	const loops, most = 1000, 4 << 10
	held := make([]Record, loops)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range held {
		r, err := s.Load()
		check(t, err)
		held[i] = r
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / loops
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("a record that waits takes %d bytes, not %d", each, most)
	}
	runtime.KeepAlive(held)
}

func BenchmarkAnswer(b *testing.B) {
	for _, what := range []string{"load", "answer"} {
		b.Run(what, func(b *testing.B) {
			s, _ := newStore(b)
			for n := range b.N {
				if what == "load" && n > 0 {
					if _, err := s.Load(); err != nil {
						b.Fatal(err)
					}
					continue
				}
				b.StopTimer()
				q := sample("")
				q.Run = "run-" + strconv.Itoa(n)
				mustOpen(b, s, q)
				b.StartTimer()
				if what == "answer" {
					if _, err := s.Answer(context.Background(), approve()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
