package notify

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/redact"
)

// arrivals is an endpoint that counts.
type arrivals struct {
	mu  sync.Mutex
	ids []string
	now func() // called while a request is answered
}

func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	a.mu.Lock()
	a.ids = append(a.ids, r.Header.Get("webhook-id"))
	a.mu.Unlock()
	if a.now != nil {
		a.now()
	}
}

func (a *arrivals) count() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.ids) }

func (a *arrivals) onlyOne(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range a.ids {
		if id != a.ids[0] {
			t.Errorf("one message came with two ids: %q", a.ids)
		}
	}
}

// die runs a supervisor on the outbox in dir that is killed at the durable step of number n, and says at which that was,
// or "" if it ended by itself.
func die(t *testing.T, dir, url string, n int) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
		Env:   append(os.Environ(), childEnv+"="+strings.Join([]string{dir, url, strconv.Itoa(n)}, "\n")),
		Files: []*os.File{nil, w, os.Stderr},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	step, ok := bytes.CutPrefix(said, []byte("died at "))
	if !ok {
		if !st.Success() {
			t.Fatalf("the supervisor failed: %v %s", st, said)
		}
		return ""
	}
	return strings.TrimSpace(string(step))
}

// TestKilledAtEachStep kills the supervisor at each durable step there is, starts it again, and looks how often the
// message came.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for n, step := range steps(t) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "outbox")
			var a arrivals
			s := server(t, a.ServeHTTP)
			if died := die(t, dir, s.URL+secretPath, n); died != step {
				t.Fatalf("died at %q", died)
			}
			before := a.count()
			if state := states(t, dir)["hook e1:opened"]; state == Delivered && before != 1 {
				t.Errorf("recorded as delivered, and it came %d times", before)
			}
			resume(t, dir, s.URL+secretPath)
			want := 1
			if op, part, _ := strings.Cut(step, ":"); op == "notify-done" && part != "dirsync" {
				want = 2 // it was sent, and nobody could know: the same id, once more
			}
			if a.count() != want {
				t.Errorf("it came %d times (%d before the restart), want %d", a.count(), before, want)
			}
			a.onlyOne(t)
		})
	}
}

// steps are all durable steps of a life without trouble, in order.
func steps(t *testing.T) []string {
	t.Helper()
	var a arrivals
	s := server(t, a.ServeHTTP)
	var mu sync.Mutex
	var seen []string
	disk := durable.OS().WithFault(func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, op)
		return nil
	})
	b := open(t, Options{Dir: filepath.Join(t.TempDir(), "outbox"), Disk: disk, Channels: []Notifier{hook(t, s.URL, WebhookOptions{})}})
	enqueue(t, b, opened("e1"))
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"notify-enqueue:rename", "notify-try:write", "notify-done:create", "notify-done:dirsync"} {
		if !slices.Contains(seen, step) {
			t.Errorf("there is no step %s among %q", step, seen)
		}
	}
	return seen
}

// resume opens the outbox again as a supervisor does, and returns when the message is delivered.
func resume(t *testing.T, dir, url string) {
	t.Helper()
	recorded := make(chan Event, 10)
	b := open(t, Options{Dir: dir, Channels: []Notifier{hook(t, url, WebhookOptions{})}, OnEvent: func(e Event) { recorded <- e }})
	enqueue(t, b, opened("e1"))
	if list(t, b)[0].State != Delivered {
		select {
		case e := <-recorded:
			if e.Name != EventSent {
				t.Errorf("event %+v", e)
			}
		case <-time.After(2 * time.Minute):
			t.Error("no outcome within 30 s")
		}
	}
	if state := states(t, dir)["hook e1:opened"]; state != Delivered {
		t.Errorf("in the end it is %q", state)
	}
	closeNow(t, b)
}

// TestKilledBetweenSendAndRecord: the endpoint has the message, the supervisor is killed before it hears so.
func TestKilledBetweenSendAndRecord(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "outbox")
	var a arrivals
	var child *os.Process
	started := make(chan struct{})
	a.now = func() {
		if a.count() == 1 {
			<-started
			if err := child.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	s := server(t, a.ServeHTTP)
	var err error
	child, err = os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
		Env: append(os.Environ(), childEnv+"="+dir+"\n"+s.URL+secretPath+"\n-1"), Files: []*os.File{nil, nil, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	close(started)
	if st, err := child.Wait(); err != nil || st.Success() {
		t.Fatalf("the supervisor was to be killed: %v, %v", st, err)
	}
	if state := states(t, dir)["hook e1:opened"]; state != Pending {
		t.Fatalf("after the kill the message is %q", state)
	}
	resume(t, dir, s.URL+secretPath)
	if a.count() != 2 {
		t.Errorf("it came %d times", a.count())
	}
	a.onlyOne(t)
	if state := states(t, dir)["hook e1:opened"]; state != Delivered {
		t.Errorf("in the end it is %q", state)
	}
}

// TestEachStepFails lets each durable step fail once, and go on: no failure of the disk may lose or repeat a message of
// which Enqueue said that it is kept.
func TestEachStepFails(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		dir := filepath.Join(t.TempDir(), "outbox")
		var a arrivals
		s := server(t, a.ServeHTTP)
		var mu sync.Mutex
		failed, i := "", 0
		disk := durable.OS().WithFault(func(op string) error {
			mu.Lock()
			defer mu.Unlock()
			if i++; i-1 == n {
				failed = op
				return errors.New("input/output error")
			}
			return nil
		})
		recorded := make(chan Event, 100)
		w, err := NewWebhook("hook", redact.Secret(s.URL+secretPath), WebhookOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Dir: dir, Disk: disk, Channels: []Notifier{w}, OnEvent: func(e Event) { recorded <- e }, FirstBackoff: time.Millisecond, Pace: time.Millisecond}
		b, err := opening(o)
		if err != nil {
			if b, err = opening(o); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Enqueue(opened("e1")); err != nil {
			noSecret(t, err.Error())
			if err := b.Enqueue(opened("e1")); err != nil {
				t.Fatal(err)
			}
		}
		if e := <-recorded; e.Name != EventSent {
			t.Errorf("event %+v", e)
		}
		ctx := t.Context()
		if err := b.Close(ctx); err != nil && !strings.HasPrefix(failed, "lock") {
			t.Errorf("%s failed: %v", failed, err)
		}
		if b, err = opening(o); err != nil {
			if b, err = opening(o); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Enqueue(opened("e1")); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
		if a.count() != 1 {
			t.Errorf("%s failed: the message came %d times", failed, a.count())
		}
		a.onlyOne(t)
		if state := states(t, dir)["hook e1:opened"]; state != Delivered {
			t.Errorf("%s failed: the message is %q", failed, state)
		}
		s.Close()
		if failed == "" {
			return
		}
	}
}
