package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
)

// aFeed returns a feed of one loop whose supervisor lives until dead is set, and a function that appends to its log.
func aFeed(t *testing.T, dead *atomic.Bool) (feed func(context.Context, func(any)), write func(name, line string)) {
	t.Helper()
	p, err := layout.NewPaths(t.TempDir(), "one", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	source := Source{ID: "one", Paths: p, Read: func() (Loop, string, error) {
		status := loop.Running
		if dead.Load() {
			status = loop.Completed
		}
		return aLoop("one", status), string(status), nil
	}}
	write = func(name, line string) {
		file := filepath.Join(p.Logs(1), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	return func(ctx context.Context, send func(any)) { Feed(ctx, []Source{source}, send) }, write
}

// TestLines prints each change and each item once, and ends when no supervisor runs the loop any more, after the last
// item.
func TestLines(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	feed, write := aFeed(t, &dead)
	write("planner.log", "first\n")
	var out bytes.Buffer
	step := 0
	err := Lines(t.Context(), &out, screen.Form{}, []string{"one"}, func(ctx context.Context, send func(any)) {
		feed(ctx, func(msg any) {
			send(msg)
			if added, ok := msg.(Added); ok {
				switch step += len(added.Items); step {
				case 1:
					write("planner.log", "second\n")
				case 2:
					write("tester.log", "\x1b[2Jthird\n")
					dead.Store(true)
				}
			}
		})
	})
	got := out.String()
	want := []string{"==> one: logs/iter-1/planner.log\n", "\nfirst\n", "one: running; gates: ", "\nsecond\n", "==> one: logs/iter-1/tester.log\n", "\nthird\n", "one: completed; gates: "}
	at := 0
	for _, part := range want {
		i := strings.Index("\n"+got[at:], part)
		if i < 0 || err != nil {
			t.Fatalf("no %q, in this order, in\n%s\n%v", part, got, err)
		}
		at += max(0, i-1)
	}
	if strings.Count(got, "first") != 1 || strings.Count(got, "one: running") != 1 {
		t.Errorf("%s", got)
	}
}

// TestLinesSayWhatFails: a loop that cannot be read is said once, not once a second, and ends nothing.
func TestLinesSayWhatFails(t *testing.T) {
	t.Parallel()
	p, err := layout.NewPaths(t.TempDir(), "one", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	reads := 0
	source := Source{ID: "one", Paths: p, Read: func() (Loop, string, error) {
		if reads++; reads == 3 {
			stop()
		}
		return Loop{}, "", fmt.Errorf("state.json is damaged")
	}}
	if err := Lines(ctx, &out, screen.Form{}, []string{"one"}, func(ctx context.Context, send func(any)) { Feed(ctx, []Source{source}, send) }); err != nil || out.String() != "one: state.json is damaged\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}
