package slots

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever loops ask for, no bound is passed, and everybody is served in the end.
func TestNoBoundIsPassed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l := Limits{Loops: r.IntN(4), Roles: r.IntN(4), PerAccount: r.IntN(3)}
			table := New(l, nil)
			var loops, roles atomic.Int64
			accounts := [2]atomic.Int64{}
			within := func(what string, n int64, limit int) {
				if limit > 0 && n > int64(limit) {
					t.Errorf("seed %d: %d %s, the bound is %d", seed, n, what, limit)
				}
			}
			var all sync.WaitGroup
			for i := range 20 {
				id, pauses := fmt.Sprint("l", i), [4]time.Duration{}
				for k := range pauses {
					pauses[k] = time.Duration(r.IntN(50)) * time.Millisecond
				}
				account, priority, leaves := r.IntN(2), r.IntN(3), r.IntN(5) == 0
				all.Go(func() {
					for range 3 {
						ctx, stop := context.WithCancel(t.Context())
						if leaves {
							time.AfterFunc(pauses[0], stop)
						}
						time.Sleep(pauses[1])
						if table.Work(ctx, id, priority) == nil {
							within("loops", loops.Add(1), l.Loops)
							time.Sleep(pauses[2])
							loops.Add(-1)
							if leave, err := table.Role(ctx, id, priority, fmt.Sprint("a", account)); err == nil {
								within("loops", loops.Add(1), l.Loops)
								within("roles", roles.Add(1), l.Roles)
								within("of an account", accounts[account].Add(1), l.PerAccount)
								time.Sleep(pauses[3])
								accounts[account].Add(-1)
								roles.Add(-1)
								loops.Add(-1)
								leave()
							}
							table.Rest(id)
						}
						stop()
					}
				})
			}
			all.Wait()
			if left := table.Waiting(); len(left)+len(table.loops)+len(table.roles) != 0 {
				t.Errorf("seed %d: left over: %v, %v, %v", seed, left, table.loops, table.roles)
			}
		})
	}
}

// Who asked first is served first, after those with a higher priority, and the queue says who has what is missing.
func TestTheQueueExplainsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := New(Limits{Loops: 1, PerAccount: 1}, nil)
		if err := table.Work(t.Context(), "first", 0); err != nil {
			t.Fatal(err)
		}
		served := make(chan string, 3)
		for _, r := range []Request{{Loop: "second"}, {Loop: "third"}, {Loop: "urgent", Priority: 5}} {
			go func() {
				if table.Work(t.Context(), r.Loop, r.Priority) == nil {
					served <- r.Loop
				}
			}()
			synctest.Wait()
		}
		var said []string
		for _, w := range table.Waiting() {
			said = append(said, fmt.Sprintf("%d %s: %s", w.Ahead, w.Loop, w.Why))
		}
		if want := "0 urgent: 1 of 1 loops: first\n1 second: 1 of 1 loops: first\n2 third: 1 of 1 loops: first"; strings.Join(said, "\n") != want {
			t.Errorf("the queue:\n%s\nwant:\n%s", strings.Join(said, "\n"), want)
		}
		for _, want := range []string{"urgent", "second", "third"} {
			table.Rest(map[string]string{"urgent": "first", "second": "urgent", "third": "second"}[want])
			if got := <-served; got != want {
				t.Errorf("%s was served, want %s", got, want)
			}
			if table.Idle() {
				t.Error("it is idle although a loop has a place")
			}
		}
		if table.Rest("third"); !table.Idle() {
			t.Error("it is not idle although no loop has a place")
		}
	})
}

// A role that waits for its account gives the place of its loop to others.
func TestARoleThatWaitsTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := New(Limits{Loops: 2, PerAccount: 1}, nil)
		for _, loop := range []string{"a", "b"} {
			if err := table.Work(t.Context(), loop, 0); err != nil {
				t.Fatal(err)
			}
		}
		leave, err := table.Role(t.Context(), "a", 0, "x/1")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan func())
		go func() {
			leave, err := table.Role(t.Context(), "b", 0, "x/1")
			if err == nil {
				got <- leave
			}
		}()
		synctest.Wait()
		if err := table.Work(t.Context(), "c", 0); err != nil { // on b's place
			t.Fatal(err)
		}
		if w := table.Waiting(); len(w) != 1 || w[0].Why != "2 of 2 loops: a, c; 1 of 1 roles of x/1: a" {
			t.Errorf("%+v", w)
		}
		leave()
		table.Rest("a")
		(<-got)()
	})
}
