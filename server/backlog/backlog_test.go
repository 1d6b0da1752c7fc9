package backlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/server/registry"
)

// place is a repository with a backlog that an operator has switched on.
type place struct {
	t *testing.T
	Store
	w Watch
}

func newPlace(t *testing.T) *place {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t, Store{registry.Store{Disk: durable.OS(), State: filepath.Join(top, "state", "superloop")}}, Watch{Repo: filepath.Join(top, "repo"), By: "eve", Since: time.Now()}}
	if err := os.MkdirAll(filepath.Join(p.w.Repo, ".superloop", "backlog"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(p.w); err != nil {
		t.Fatal(err)
	}
	return p
}

// put writes a file of the backlog that nobody is writing any more.
func (p *place) put(name, text string) {
	p.t.Helper()
	path, then := filepath.Join(p.w.Repo, ".superloop", "backlog", name), time.Now().Add(-time.Minute)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Chtimes(path, then, then); err != nil {
		p.t.Fatal(err)
	}
}

// show returns the items as text.
func (p *place) show(changes bool) string {
	p.t.Helper()
	items, err := p.List(p.w)
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	for _, it := range items {
		if it, err = p.Look(it, changes); err != nil {
			p.t.Fatal(err)
		}
		why, _, _ := strings.Cut(it.Why, " ")
		all = append(all, strings.TrimSpace(fmt.Sprint(it.File, " ", it.State, " ", why)))
	}
	return strings.Join(all, ", ")
}

// begin makes loops of what waits, as the daemon does, and returns the names of the files. write is called for each loop.
func (p *place) begin(s Store, write func(loop string, spec []byte) error) (began []string, err error) {
	p.t.Helper()
	items, err := s.List(p.w)
	for _, it := range items {
		if it, err = s.Look(it, false); err == nil && it.State == Waits {
			if err = s.Begin(p.w, it, func() error { return write(it.Loop, it.Spec()) }); err == nil {
				began = append(began, it.File)
			}
		}
		if err != nil {
			return began, err
		}
	}
	return began, err
}

var errKilled = errors.New("killed")

// Whatever step a kill comes before, each item becomes one loop, with what its file says when it begins, and what is
// taken away meanwhile becomes none.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for step := 1; ; step++ {
		p := newPlace(t)
		p.put("a.md", "first")
		p.put("b.md", "second")
		n, puts := 0, map[string]int{}
		dying := p.Store
		dying.Loops.Disk = durable.OS().WithFault(func(op string) error {
			n++
			if n >= step {
				return errKilled
			}
			return nil
		})
		wrote := map[string]string{}
		write := func(s Store) func(string, []byte) error {
			return func(loop string, spec []byte) error {
				dir := filepath.Join(p.w.Repo, ".superloop", "loops", loop)
				if err := s.disk().MkdirAll("files", dir, 0o755); err != nil {
					return err
				}
				wrote[loop] = string(spec)
				return s.disk().WriteFile("files", filepath.Join(dir, "config.json"), spec, 0o644)
			}
		}
		first, err := p.begin(dying, write(dying))
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		before, _ := p.Loops.All()
		p.put("b.md", "second, and more")
		next, err2 := p.begin(p.Store, write(p.Store))
		if err2 != nil {
			t.Fatalf("step %d: %v", step, err2)
		}
		again, _ := p.begin(p.Store, write(p.Store))
		all, errs := p.Loops.All()
		for _, e := range all {
			puts[e.Loop]++
		}
		if len(errs) > 0 || len(all) != 2 || puts["a"] != 1 || puts["b"] != 1 || len(again) > 0 {
			t.Fatalf("step %d: %v then %v then %v: %+v %v", step, first, next, again, all, errs)
		}
		for _, e := range before {
			if slices.Contains(next, e.Loop+".md") {
				t.Fatalf("step %d: %s was begun twice", step, e.Loop)
			}
			if now, _ := p.Loops.Get(e.Repo, e.Loop); !now.Since.Equal(e.Since) || now.By != "eve" {
				t.Fatalf("step %d: %+v became %+v", step, e, now)
			}
		}
		if slices.Contains(next, "b.md") && wrote["b"] != "second, and more" {
			t.Fatalf("step %d: b was made of %q", step, wrote["b"])
		}
		if err == nil {
			if step < 20 {
				t.Fatalf("only %d steps", step)
			}
			return
		}
	}
}

// An item that has begun stays so, whatever the operator does to its loop; a changed one is named; one of another loop's
// name and one that is being written are not taken.
func TestWhatBecameOfItems(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	none := func(string, []byte) error { return nil }
	p.put("a.md", "first")
	p.put("gone.md", "x")
	p.put("notes.txt", "x")
	p.put(".hidden.md", "x")
	if got := p.show(false); got != "a.md waits, gone.md waits" {
		t.Fatal(got)
	}
	if err := os.Remove(filepath.Join(p.w.Repo, ".superloop/backlog/gone.md")); err != nil {
		t.Fatal(err)
	}
	if began, err := p.begin(p.Store, none); err != nil || !slices.Equal(began, []string{"a.md"}) {
		t.Fatal(began, err)
	}
	for _, w := range []registry.Wanted{registry.Ended, registry.Stopped, registry.Paused} {
		e, err := p.Loops.Get(p.w.Repo, "a")
		if err != nil {
			t.Fatal(err)
		}
		e.Wanted = w
		if err := p.Loops.Put(e); err != nil {
			t.Fatal(err)
		}
		if got := p.show(true); got != "a.md begun" {
			t.Fatal(w, got)
		}
	}
	p.put("a.md", "other")
	p.put("A!.md", "x")
	if err := os.MkdirAll(filepath.Join(p.w.Repo, ".superloop/loops/mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.put("mine.md", "x")
	p.put("ü.md", "x")
	p.put("z.md", "x")
	if err := os.Chtimes(filepath.Join(p.w.Repo, ".superloop/backlog/z.md"), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	p.put("big.md", strings.Repeat("x", MaxSpec+1))
	if got := p.show(true); got != "A!.md refused there, a.md refused its, big.md refused reading, mine.md refused there, z.md writing, ü.md refused its" {
		t.Fatal(got)
	}
	if began, err := p.begin(p.Store, none); err != nil || len(began) > 0 {
		t.Fatal(began, err)
	}
	// The registry forgets the loop, which has run.
	e, err := p.Loops.Get(p.w.Repo, "a")
	if err == nil {
		err = p.Loops.Drop(e)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(p.w.Repo, ".superloop/loops/a"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.w.Repo, ".superloop/loops/a/events.jsonl"), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.w.Repo, ".superloop/backlog/A!.md")); err != nil {
		t.Fatal(err)
	}
	if got := p.show(false); !strings.HasPrefix(got, "a.md begun") {
		t.Fatal(got)
	}
}

// What lies in the place of the backlog cannot lead the daemon elsewhere, nor keep it busy.
// What an operator has forgotten before it ran does not begin again.
func TestForgottenBeforeItRan(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.put("a.md", "first")
	if began, err := p.begin(p.Store, func(string, []byte) error { return nil }); err != nil || len(began) != 1 {
		t.Fatal(began, err)
	}
	e, err := p.Loops.Get(p.w.Repo, "a")
	if err == nil {
		err = p.Forget(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := p.show(true); got != "a.md begun" {
		t.Error(got)
	}
	if began, err := p.begin(p.Store, func(string, []byte) error { return nil }); err != nil || len(began) > 0 {
		t.Error(began, err)
	}
	if all, _ := p.Loops.All(); len(all) > 0 {
		t.Error(all)
	}
}

func TestABacklogThatIsNone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir, away := filepath.Join(p.w.Repo, ".superloop", "backlog"), t.TempDir()
	if err := os.WriteFile(filepath.Join(away, "x.md"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(dir), os.Symlink(away, dir)); err != nil {
		t.Fatal(err)
	}
	if items, err := p.List(p.w); err == nil {
		t.Errorf("a link was followed: %+v", items)
	}
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for i := range maxItems + 1 {
		p.put(fmt.Sprint(i, ".md"), "x")
	}
	if items, err := p.List(p.w); err == nil {
		t.Errorf("%d items", len(items))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := p.show(true); got != "" {
		t.Error(got)
	}
	if err := p.Drop(p.w.Repo); err != nil {
		t.Error(err)
	}
	if all, errs := p.All(); len(all)+len(errs) > 0 {
		t.Error(all, errs)
	}
}
