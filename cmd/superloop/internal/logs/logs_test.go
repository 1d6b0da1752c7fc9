package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/roles/agent/item"
)

// aLoop returns the paths of a loop in a new repository, and a function that writes a log of its first iteration.
func aLoop(t *testing.T) (p layout.Paths, write func(name, content string) (file string)) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	p, err := layout.NewPaths(t.TempDir(), "one", os.Getenv("XDG_STATE_HOME"))
	if err != nil {
		t.Fatal(err)
	}
	return p, func(name, content string) string {
		file := filepath.Join(p.Logs(1), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
}

func said(text string) string {
	return fmt.Sprintf(`{"type":"item.completed","item":{"type":"agent_message","text":%q}}`+"\n", text)
}

// TestLive: each look gives what is new, a log that was begun anew or another log is fresh, and of a long one only the
// end is read.
func TestLive(t *testing.T) {
	p, write := aLoop(t)
	live := &Live{Paths: p}
	look := func(wantFile string, wantFresh bool, want ...string) {
		t.Helper()
		file, fresh, items, err := live.Look()
		var got []string
		for _, it := range items {
			got = append(got, it.Text)
		}
		if err != nil || filepath.Base(file) != filepath.Base(wantFile) || fresh != wantFresh || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("%s, %v, %q, %v", file, fresh, got, err)
		}
	}
	look("", false)
	half := said("two")
	write("planner.log", said("one")+half[:20])
	look("planner.log", true, "one")
	look("planner.log", false)
	write("planner.log", said("one")+half)
	look("planner.log", false, "two")
	write("planner.log", said("anew"))
	look("planner.log", true, "anew")
	write("tester.log", strings.Repeat(said("long"), recent/40)+said("last"))
	file, fresh, items, err := live.Look()
	if err != nil || !fresh || filepath.Base(file) != "tester.log" || len(items) == 0 || len(items) > recent/60 || items[len(items)-1].Text != "last" || items[0].Kind != item.Said {
		t.Fatal(file, fresh, len(items), err)
	}
}

// TestWhatIsNoAgent: the output of tests and of a recovery holds no events, whatever it looks like.
func TestWhatIsNoAgent(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]item.Kind{"test-output.txt": item.Plain, "logs/iter-1/recovery-1.log": item.Plain, "logs/iter-1/tester.log": item.Said} {
		r := Reader(file, func(it item.Item) {
			if it.Kind != want {
				t.Errorf("%s: %s", file, it.Kind)
			}
		})
		r.Write([]byte(said("x")))
		r.Close()
	}
}

// TestFollow goes from one log into the next and stops with its context.
func TestFollow(t *testing.T) {
	p, write := aLoop(t)
	first := write("planner.log", "one\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	looks := 0
	newest := func() (string, error) {
		if looks++; looks == 2 {
			return write("tester.log", "two\n"), nil
		}
		if looks > 2 {
			defer stop()
		}
		return Newest(p, "", 0)
	}
	closed := 0
	err := Follow(ctx, newest, first, func(file string) io.WriteCloser {
		fmt.Fprintf(&out, "%s: ", filepath.Base(file))
		return Items(file, func(it item.Item) error { _, err := fmt.Fprintln(&out, it.Text); return err }, func(int64) { closed++ })
	})
	if err != nil || out.String() != "planner.log: one\ntester.log: two\n" || closed != 2 {
		t.Errorf("%v, %q, closed %d times", err, out.String(), closed)
	}
}

// TestAWriteThatFails ends the copy.
func TestAWriteThatFails(t *testing.T) {
	_, write := aLoop(t)
	file := write("planner.log", said("one")+said("two"))
	full, calls := errors.New("full"), 0
	w := Items(file, func(item.Item) error { calls++; return full }, func(int64) {})
	if err := (&Tail{File: file}).Copy(w, nil); !errors.Is(err, full) || calls != 1 {
		t.Error(err, calls)
	}
}
