package watch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whatever is wrong with the file, what is in force stays, and it is said once.
// Conforms: 004-p3.2
func TestRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm  func(w *world) error
		codes string
	}{
		"gone":     {func(w *world) error { return os.Remove(w.path) }, "no_file "},
		"empty":    {func(w *world) error { return os.WriteFile(w.path, nil, 0o644) }, "empty "},
		"half":     {func(w *world) error { return os.Truncate(w.path, 1) }, "syntax "},
		"no JSON":  {func(w *world) error { return os.WriteFile(w.path, []byte("{]"), 0o644) }, "syntax "},
		"trailing": {func(w *world) error { return os.WriteFile(w.path, append(text(base()), '}'), 0o644) }, "trailing_data "},
		"defaults": {func(w *world) error { return os.WriteFile(w.path, []byte("{}"), 0o644) }, "missing_key /loops | missing_key /runners"},
		"typo":     {func(w *world) error { w.write(set(base(), "recovery/on_unknown", "Allow")); return nil }, "not_allowed /recovery/on_unknown"},
		"twice": {func(w *world) error {
			return os.WriteFile(w.path, bytes.Replace(text(base()), []byte(`"loops"`), []byte(`"recovery": {}, "loops"`), 1), 0o644)
		}, "duplicate_key /recovery"},
		"huge": {func(w *world) error { return os.Truncate(w.path, 1<<30) }, "too_large "},
		"pipe": {func(w *world) error { return errors.Join(os.Remove(w.path), syscall.Mkfifo(w.path, 0o600)) }, "unreadable "},
		"folder": {func(w *world) error {
			return errors.Join(os.Remove(w.path), os.Mkdir(w.path, 0o755))
		}, "unreadable "},
		"link to nowhere": {func(w *world) error { return errors.Join(os.Remove(w.path), os.Symlink("nowhere", w.path)) }, "no_file "},
		"program":         {func(w *world) error { w.write(set(base(), "runners/a/command", "nowhere")); return nil }, "not_found /runners/a/command"},
		"loop gone":       {func(w *world) error { w.write(set(base(), "loops", []any{})); return nil }, "running_loop /loops"},
		"other id":        {func(w *world) error { w.write(set(base(), "loops/0/id", "two")); return nil }, "running_loop /loops"},
		"other spec":      {func(w *world) error { w.write(set(base(), "loops/0/spec_file", "other.md")); return nil }, "running_loop /loops/0/spec_file"},
		"same spec":       {func(w *world) error { w.write(set(base(), "loops/0/spec_file", "./x/../spec.md")); return nil }, ""},
		"work tree": {func(w *world) error { w.write(set(base(), "loops/0/git", obj{"worktree": true})); return nil },
			"running_loop /loops/0/git/worktree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r, _ := w.start(w.options())
			was := r.Config()
			w.ok(c.harm(w))
			first := r.Check(w.now)
			if data, _, err := read(w.path); (err != nil || !whole(data)) && (first.Kind != Unchanged || first.Again != settled) {
				t.Fatalf("it could be half-written, but %+v", first)
			}
			out := first
			if first.Kind == Unchanged && c.codes != "" {
				out = w.check(r)
			}
			if c.codes == "" {
				if l, _ := out.Config.Loop("one"); l.SpecFile != "spec.md" || len(out.Problems) > 0 {
					t.Errorf("%+v", out)
				}
				return
			}
			w.is(out, Rejected)
			if got := codes(out.Problems); got != c.codes {
				t.Errorf("problems: %s: %v", got, out.Problems)
			}
			for _, p := range out.Problems {
				if strings.HasPrefix(p.Pointer, "/") && (p.Line == 0 || p.Column == 0) {
					t.Errorf("no place: %+v", p)
				}
			}
			if r.Config() != was || out.Config != was {
				t.Error("something else is in force")
			}
			for range 3 {
				w.is(w.check(r), Unchanged)
			}
			w.ok(os.RemoveAll(w.path))
			w.write(base())
			w.is(w.check(r), Unchanged)
			w.ok(c.harm(w))
			w.check(r)
			if out := w.check(r); out.Kind == Reloaded || r.Config().Digest != was.Digest {
				t.Errorf("the second time: %+v", out)
			}
		})
	}
}

// The same bytes are rejected again when something else is wrong with them, and
// taken when nothing is.
func TestFactsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Running = nil
	r, _ := w.start(o)
	w.write(set(base(), "loops/0/spec_file", "later.md"))
	w.is(w.check(r), Rejected)
	w.is(w.check(r), Unchanged)
	later := filepath.Join(w.repo, "later.md")
	w.ok(os.WriteFile(later, nil, 0o644))
	if out := w.is(w.check(r), Rejected); codes(out.Problems) != "unreadable /loops/0/spec_file" {
		t.Errorf("%v", out.Problems)
	}
	w.ok(os.WriteFile(later, []byte("x"), 0o644))
	w.is(w.check(r), Reloaded)
}

// A file that stays half-written, and one that changes for ever.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.start(w.options())
	start := w.now
	at := func(ms int) Outcome { return r.Check(start.Add(time.Duration(ms) * time.Millisecond)) }
	data := text(set(base(), "loops/0/max_iterations", 4))
	put := func(n int) { w.ok(os.WriteFile(w.path, data[:n], 0o644)) }
	put(10)
	if out := at(0); out.Kind != Unchanged || out.Again != settled {
		t.Fatalf("%+v", out)
	}
	if out := at(300); out.Kind != Unchanged || out.Again != 200*time.Millisecond {
		t.Fatalf("%+v", out)
	}
	put(20)
	if out := at(400); out.Kind != Unchanged || out.Again != settled {
		t.Fatalf("%+v", out)
	}
	put(len(data))
	w.is(at(401), Reloaded)
	// One that is never whole is reported in the end, then each content in its
	// own time again.
	ms := 1000
	for i := 1; ; i++ {
		put(i)
		out := at(ms)
		if out.Kind == Rejected {
			break
		}
		if ms > 1000+int(longest.Milliseconds()) {
			t.Fatal("it is never reported")
		}
		ms += 400
	}
	if ms < 1000+int(longest.Milliseconds()) {
		t.Errorf("it is reported after %d ms", ms-1000)
	}
	put(50)
	if out := at(ms + 400); out.Kind != Unchanged || out.Again != settled {
		t.Fatalf("%+v", out)
	}
}
