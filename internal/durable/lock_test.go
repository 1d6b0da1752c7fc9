package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestLockDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	c := spawn(t, "lock", path)
	if said, err := c.out.ReadString('\n'); said != "locked\n" {
		t.Fatalf("child said %q, %v", said, err)
	}
	text, locked, err := Holder(path)
	if !locked || string(text) != "the child" || err != nil {
		t.Errorf("Holder gives %q, %v, %v", text, locked, err)
	}
	_, err = OS().Lock(path, []byte("the parent"))
	var held *LockedError
	if !errors.As(err, &held) || string(held.Holder) != "the child" || held.Path != path {
		t.Fatalf("err is %v", err)
	}
	if err := c.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.wait(t)
	l, err := OS().Lock(path, []byte("the parent"))
	if err != nil {
		t.Fatalf("the lock outlives its process: %v", err)
	}
	oneOf("lock", "the parent")(t, filepath.Dir(path))
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if text, locked, err := Holder(path); locked || text != nil || err != nil {
		t.Errorf("after Unlock: %q, %v, %v", text, locked, err)
	}
}

func TestLockExcludesWithinAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := OS().Lock(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	_, err = OS().Lock(path, nil)
	var held *LockedError
	if !errors.As(err, &held) {
		t.Fatalf("err is %v", err)
	}
	if !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("message: %v", err)
	}
}

// TestProbesDoNotDisturb: while others only look, a free lock is always to be
// had.
func TestProbesDoNotDisturb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, _, err := Holder(path); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 500 {
		l, err := OS().Lock(path, []byte("me"))
		if err != nil {
			t.Error(err)
			break
		}
		if _, locked, _ := Holder(path); !locked {
			t.Error("a held lock looks free")
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestLockCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := OS().Lock(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if err := l.Check(); !errors.As(err, &changed) {
		t.Errorf("deleted: %v", err)
	}
	l2, err := OS().Lock(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Unlock()
	if err := l.Check(); !errors.As(err, &changed) {
		t.Errorf("replaced: %v", err)
	}
}

func TestLockedErrorIsFitForATerminal(t *testing.T) {
	e := &LockedError{Path: "/x/lock", Holder: []byte("pid 1\x1b[2J\nroot\x00\xff" + strings.Repeat("y", 1000))}
	s := e.Error()
	if strings.ContainsAny(s, "\x1b\n\x00") || len(s) > 400 || !strings.Contains(s, "pid 1") {
		t.Errorf("message is %q", s)
	}
}

// Fifty that wait get the lock one after the other in the order of their calls, and do not keep the processor busy.
func TestLockWaitIsAQueue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		disk := OS().WithFault(func(op string) error {
			if op == "lock:open" {
				tries.Add(1)
			}
			return nil
		})
		first, err := disk.Lock(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		const n = 50
		var mu sync.Mutex
		var order []int
		for i := range n {
			go func() {
				l, err := disk.LockWait(t.Context(), path, nil, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				_ = l.Unlock()
			}()
			synctest.Wait() // it waits behind those before it
		}
		gone, stop := context.WithCancel(t.Context())
		go stop()
		if _, err := disk.LockWait(gone, path, nil, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("one that gives up: %v", err)
		}
		time.Sleep(time.Second)
		_ = first.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if !slices.IsSorted(order) || len(order) != n {
			t.Errorf("they came as %v", order)
		}
		if got, most := tries.Load(), int64(2+60+n*6); got > most {
			t.Errorf("%d tries, want %d at most", got, most)
		}
	})
}
