package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// counted is a disk that counts the versions that are put in place, and fails
// while fail is set.
type counted struct {
	mu   sync.Mutex
	at   []time.Time
	fail error
}

func (c *counted) disk() durable.Disk {
	return durable.OS().WithFault(func(op string) error {
		if op != "state:rename" {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.at = append(c.at, time.Now())
		return c.fail
	})
}

func (c *counted) set(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

func fileIs(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if string(got) != want || want != "" && err != nil {
		t.Errorf("the file has %q, want %q (%v)", got, want, err)
	}
}

func version(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

func TestProjectionWritesTheNewestNowAndThen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		var c counted
		p := NewProjection(c.disk(), "state", path, 0o644, 100*time.Millisecond)
		p.Put(version("v0"))
		synctest.Wait()
		fileIs(t, path, "v0") // the first one does not wait
		for i := range 1000 {
			p.Put(version(fmt.Sprintf("v%d", i+1)))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		fileIs(t, path, "v1000") // the last one is never left out
		if n := len(c.at); n < 10 || n > 12 {
			t.Errorf("%d writes in a second", n)
		}
		for i := 1; i < len(c.at); i++ {
			if gap := c.at[i].Sub(c.at[i-1]); gap < 100*time.Millisecond {
				t.Errorf("writes %v apart", gap)
			}
		}
		p.Put(version("flushed"))
		if err := p.Flush(); err != nil {
			t.Error(err)
		}
		fileIs(t, path, "flushed")
		n := len(c.at)
		if err := p.Flush(); err != nil || len(c.at) != n {
			t.Errorf("a flush with nothing new: %v, %d writes", err, len(c.at)-n)
		}
		p.Put(version("closed"))
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
		fileIs(t, path, "closed")
		n = len(c.at)
		p.Put(version("too late"))
		time.Sleep(time.Hour)
		if fileIs(t, path, "closed"); len(c.at) != n {
			t.Error("written after Close")
		}
	}) // synctest fails if a goroutine is left
}

func TestProjectionKeepsErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		var c counted
		p := NewProjection(c.disk(), "state", path, 0o644, 100*time.Millisecond)
		c.set(syscall.ENOSPC)
		p.Put(version("a"))
		synctest.Wait()
		if err := p.Flush(); !durable.IsFull(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("Flush gives %v", err)
		}
		c.set(nil)
		if err := p.Flush(); err != nil {
			t.Errorf("when there is room: %v", err)
		}
		fileIs(t, path, "a")
		unmade := errors.New("it cannot be made")
		p.Put(func() ([]byte, error) { return nil, unmade })
		if err := p.Flush(); !errors.Is(err, unmade) {
			t.Errorf("Flush of what cannot be made gives %v", err)
		}
		fileIs(t, path, "a")
		c.set(syscall.EIO)
		p.Put(version("b"))
		if err := p.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Close gives %v", err)
		}
		fileIs(t, path, "a")
	})
}

func TestProjectionNeverGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	p := NewProjection(durable.OS(), "state", path, 0o644, time.Microsecond)
	for i := range 300 {
		v := fmt.Sprintf("%04d", i)
		p.Put(version(v))
		if i%3 == 0 {
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
			fileIs(t, path, v)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	fileIs(t, path, "0299")
}
