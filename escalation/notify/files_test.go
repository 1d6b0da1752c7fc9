package notify

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/redact"
)

func TestAFullDiskDoesNotSendTwice(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		var full atomic.Bool
		full.Store(true)
		n := &script{name: "n"}
		o := Options{Dir: dir, Channels: []Notifier{n}, Disk: durable.OS().WithFault(func(op string) error {
			if full.Load() && op == "notify-done:write" {
				return errors.New("no space left on device")
			}
			return nil
		})}
		b := open(t, o)
		enqueue(t, b, opened("e1"))
		pass(time.Minute)
		if got := states(t, dir)["n e1:opened"]; got != Pending {
			t.Fatalf("the file says %q", got)
		}
		full.Store(false)
		pass(time.Hour)
		if got := states(t, dir)["n e1:opened"]; got != Delivered || len(n.ids()) != 1 {
			t.Errorf("the file says %q after %d sendings", got, len(n.ids()))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.order["n"]) != 0 {
			t.Error("the lane still has work")
		}
	})
}

func TestWhatLiesInTheOutbox(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		n := &script{name: "n"}
		b := open(t, Options{Dir: dir, Channels: []Notifier{n}, Redact: redact.Values([]string{"s3cr3t-token"})})
		m := opened("e1")
		m.Command, m.RootCause = "deploy --token s3cr3t-token", strings.Repeat("x", 3*maxField)
		enqueue(t, b, m, "n")
		if _, err := Open(Options{Dir: dir}); !isLocked(err) {
			t.Errorf("a second owner: %v", err)
		}
		synctest.Wait()
		closeNow(t, b)
		foreign := filepath.Join(dir, "0123.json")
		if err := os.WriteFile(foreign, []byte(`{"version":1,"state":"pending"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "s3cr3t") {
				t.Errorf("%s holds the secret", f.Name())
			}
			if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
			}
		}
		items, err := List(dir)
		if err != nil || len(items) != 2 || items[1].State != Unreadable || items[1].Reason == "" {
			t.Fatalf("listed %+v, %v", items, err)
		}
		open(t, Options{Dir: dir})
		if data, err := os.ReadFile(foreign); err != nil || len(data) == 0 {
			t.Error("what is not ours was touched")
		}
		if items, err := List(filepath.Join(dir, "none")); err != nil || len(items) != 0 {
			t.Errorf("no directory: %v, %v", items, err)
		}
	})
}

func isLocked(err error) bool { _, ok := errors.AsType[*durable.LockedError](err); return ok }

func TestOldNewsIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		n := &script{name: "n"}
		b := open(t, Options{Dir: dir, Channels: []Notifier{n}})
		enqueue(t, b, opened("e1"))
		synctest.Wait()
		closeNow(t, b)
		pass(29 * 24 * time.Hour)
		b = open(t, Options{Dir: dir, Channels: []Notifier{n}})
		enqueue(t, b, opened("e1"))
		pass(time.Minute)
		closeNow(t, b)
		if len(n.ids()) != 1 {
			t.Error("sent again after 29 days")
		}
		pass(2 * 24 * time.Hour)
		closeNow(t, open(t, Options{Dir: dir, Channels: []Notifier{n}}))
		if got := states(t, dir); len(got) != 0 {
			t.Errorf("after 31 days: %v", got)
		}
	})
}

// TestAClockThatWasSetBack: a time in the files that lies far ahead must not park a message.
func TestAClockThatWasSetBack(t *testing.T) {
	bubble(t, func(t *testing.T, dir string) {
		b := open(t, Options{Dir: dir, Channels: []Notifier{&script{name: "n", answers: many(9)}}})
		enqueue(t, b, opened("e1"))
		synctest.Wait()
		closeNow(t, b)
		path := filepath.Join(dir, entryName("n", "e1:opened"))
		s, err := read(path)
		if err != nil {
			t.Fatal(err)
		}
		s.NextTry = time.Now().Add(1000 * time.Hour)
		if err := save(durable.OS(), "test", dir, s); err != nil {
			t.Fatal(err)
		}
		n := &script{name: "n"}
		open(t, Options{Dir: dir, Channels: []Notifier{n}})
		pass(61 * time.Minute)
		if len(n.ids()) != 1 {
			t.Error("the message is parked")
		}
	})
}

func TestFilesThatAreNotOurs(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(saved(t, dir, Pending))
	if err != nil {
		t.Fatal(err)
	}
	name := entryName("n", "e1:opened")
	if items, err := List(dir); err != nil || len(items) != 1 || items[0].State != Pending {
		t.Fatalf("%+v, %v", items, err)
	}
	for what, c := range map[string]struct{ name, data, want string }{
		"not json":      {name, "{", "no message of an outbox"},
		"empty":         {name, "", "no message of an outbox"},
		"a later one":   {name, strings.Replace(string(good), `"version":1`, `"version":2`, 1), "version 2"},
		"another name":  {"00" + name[2:], string(good), "another message than its name says"},
		"without text":  {name, strings.Replace(string(good), `"message":`, `"massage":`, 1), "no text"},
		"much too long": {name, strings.Repeat(" ", maxEntry+1), "more than"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		items, err := List(dir)
		if err != nil || len(items) != 1 || items[0].State != Unreadable || !strings.Contains(items[0].Reason, c.want) {
			t.Errorf("%s: %+v, %v", what, items, err)
		}
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(filepath.Join(dir, name), link); err != nil {
		t.Fatal(err)
	}
	if items, err := List(filepath.Dir(link)); err != nil || items[0].State != Unreadable {
		t.Errorf("a link: %+v, %v", items, err)
	}
}

// saved writes a message as an outbox does and gives its path.
func saved(t *testing.T, dir string, state State) string {
	t.Helper()
	m := opened("e1")
	s := stored{Item: Item{ID: m.ID, Channel: "n", State: state, Enqueued: time.Now()}, Message: &m}
	if err := save(durable.OS(), "test", dir, s); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, entryName("n", m.ID))
}
