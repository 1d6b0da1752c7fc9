package notify

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/redact"
)

// childEnv makes the test binary a supervisor that dies: "DIR\nURL\nSTEP".
const childEnv = "NOTIFY_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := child(strings.Split(part, "\n")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child opens the outbox in DIR, enqueues a message for the endpoint at URL, closes, and on the way dies of SIGKILL at
// the step of number STEP (counted over all durable steps; -1: never).
func child(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var mu sync.Mutex
	disk := durable.OS().WithFault(func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n == -1 {
			fmt.Println("died at", op)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	})
	w, err := NewWebhook("hook", redact.Secret(args[1]), WebhookOptions{})
	if err != nil {
		return err
	}
	b, err := Open(Options{Dir: args[0], Disk: disk, Channels: []Notifier{w}, FirstBackoff: 10 * time.Millisecond})
	if err != nil {
		return err
	}
	if err := b.Enqueue(opened("e1")); err != nil {
		return err
	}
	return b.Close(context.Background())
}

// opened is a usual message.
func opened(question string) Message {
	return Message{
		ID: question + ":opened", Escalation: question, Kind: Opened, Loop: "web", Repo: "/srv/shop", Iteration: 6,
		Type: "recovery_approval_required", Status: "pending", Reason: `matches require_human "*"`, Command: "bun install",
		WorkingDir: ".", Category: "dependency", Severity: "blocking", Confidence: "high", RootCause: "node_modules is missing", Digest: "sha256:0123456789abcdef",
		Evidence: []string{"test-output.txt:3: no such module"},
		Ways:     []escalation.Way{{Does: "approve", Line: "superloop approve-recovery --loop web"}, {Does: "reject", Line: "superloop reject-recovery --loop web"}},
		Created:  time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
	}
}

// script is a Notifier that answers as it is told, then with nil.
type script struct {
	name string
	// hold, if set, makes every Send wait for a value or the end of its context.
	hold chan struct{}

	mu      sync.Mutex
	answers []error
	got     []delivery
}

type delivery struct {
	id string
	at time.Time
}

func (s *script) Name() string { return s.name }

func (s *script) Send(ctx context.Context, m Message) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, delivery{m.ID, time.Now()})
	if len(s.answers) == 0 {
		return nil
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	if p, ok := answer.(panics); ok {
		panic(string(p))
	}
	return answer
}

// panics is an answer that is none.
type panics string

func (p panics) Error() string { return string(p) }

func (s *script) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, d := range s.got {
		ids = append(ids, d.id)
	}
	return ids
}

// heard collects events.
type heard struct {
	mu  sync.Mutex
	all []Event
}

func (h *heard) hear(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *heard) events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Event(nil), h.all...)
}

// open opens an outbox that the test closes if it has not done so itself.
func open(t *testing.T, o Options) *Outbox {
	t.Helper()
	b, err := opening(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, b) })
	return b
}

// opening is Open; while another test forks, its child holds a copy of the lock that was just given up until it execs.
func opening(o Options) (b *Outbox, err error) {
	for range 100_000 {
		if b, err = Open(o); !isLocked(err) {
			break
		}
		runtime.Gosched()
	}
	return b, err
}

// closeNow closes without waiting for what is under way.
func closeNow(t *testing.T, b *Outbox) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

func enqueue(t *testing.T, b *Outbox, m Message, channels ...string) {
	t.Helper()
	if err := b.Enqueue(m, channels...); err != nil {
		t.Fatal(err)
	}
}

// list is what lies in the files of b, the oldest first.
func list(t *testing.T, b *Outbox) []Item {
	t.Helper()
	items, err := List(b.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// states maps "channel id" to the state in the files.
func states(t *testing.T, dir string) map[string]State {
	t.Helper()
	items, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]State{}
	for _, i := range items {
		found[i.Channel+" "+i.ID] = i.State
	}
	return found
}

func deadline(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
