package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// following runs Follow in a goroutine; each event comes over the channel.
func following(t *testing.T, path string, from int64) (<-chan Event, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got, done := make(chan Event), make(chan error, 1)
	go func() {
		done <- Follow(ctx, path, from, func(ev Event) error {
			select {
			case got <- ev:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	stop := func() error {
		cancel()
		return <-done
	}
	return got, stop
}

func expect(t *testing.T, got <-chan Event, seqs ...int64) {
	t.Helper()
	for _, seq := range seqs {
		select {
		case ev := <-got:
			if ev.Seq != seq {
				t.Fatalf("event %d, want %d", ev.Seq, seq)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("event %d does not come", seq)
		}
	}
}

// TestFollow takes a journal through its life while someone watches: no file
// yet, events that were there, events that come, half a line, another file in
// its place.
func TestFollow(t *testing.T) {
	t.Parallel()
	_, data := journalOf(t, 50)
	lines := bytes.SplitAfter(data, []byte("\n"))
	path := filepath.Join(t.TempDir(), "events.jsonl")
	got, stop := following(t, path, 2)
	a, err := durable.OS().OpenAppend("test", path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	add := func(parts ...[]byte) {
		t.Helper()
		for _, p := range parts {
			if err := a.Append(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(lines[0], bytes.Join(lines[1:3], nil))
	expect(t, got, 2, 3)
	for i := 3; i < 23; i++ {
		add(lines[i])
		expect(t, got, int64(i)+1)
	}
	for i := 23; i < 30; i++ {
		add(lines[i][:i], lines[i][i:]) // half a line is no event
		expect(t, got, int64(i)+1)
	}
	add(lines[30][:9])
	mustWrite(t, path+".new", bytes.Join(lines[:33], nil))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	expect(t, got, 31, 32, 33)
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("err is %v", err)
	}
}

func TestFollowOfADirectoryThatComes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "loops", "x")
	got, stop := following(t, filepath.Join(dir, "events.jsonl"), 0)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, durable.OS(), filepath.Join(dir, "events.jsonl"), Options{})
	for i := range 3 {
		if _, err := j.Append(false, event(i)); err != nil {
			t.Fatal(err)
		}
		expect(t, got, int64(i)+1)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("err is %v", err)
	}
}

// TestFollowAcrossARepair: the torn end of a crash is cut off below the follower.
func TestFollowAcrossARepair(t *testing.T) {
	t.Parallel()
	path, data := journalOf(t, 3)
	mustWrite(t, path, append(data, `{"seq":4,"time`...))
	got, stop := following(t, path, 0)
	expect(t, got, 1, 2, 3)
	j := mustOpen(t, durable.OS(), path, Options{})
	if j.Repaired().Cut == 0 {
		t.Fatal("nothing was repaired")
	}
	if _, err := j.Append(false, event(4)); err != nil {
		t.Fatal(err)
	}
	expect(t, got, 4)
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("err is %v", err)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	path, data := journalOf(t, 3)
	if err := Follow(t.Context(), path, 2, func(Event) error { return ErrStop }); err != nil {
		t.Errorf("ErrStop: %v", err)
	}
	enough := errors.New("enough")
	if err := Follow(t.Context(), path, 2, func(Event) error { return enough }); err != enough {
		t.Errorf("an error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Follow(ctx, path, 1, func(Event) error { t.Error("called"); return nil }); err != context.Canceled {
		t.Errorf("a context that has ended: %v", err)
	}
	mustWrite(t, path, append(data, "{}\n"...))
	var bad *CorruptError
	if err := Follow(t.Context(), path, 1, func(Event) error { return nil }); !errors.As(err, &bad) || bad.Line != 4 {
		t.Errorf("a broken line: %v", err)
	}
}
