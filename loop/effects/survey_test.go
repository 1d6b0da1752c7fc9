package effects

import (
	"fmt"
	"testing"

	"github.com/superloop/superloop/loop"
)

// A file that git tracks, or would, and that changes while the tests run was perhaps not what they read, so it counts as changed. One that
// changes in each run is written by the tests themselves.
func TestFilesWhileTestsRun(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	tree := &Tree{Host: w.host}
	w.put(".gitignore", "ignored\n")
	w.begin(tree)
	tests := func(during func()) (found, now string) {
		t.Helper()
		gateMust(t, tree.BeforeTests(t.Context()))
		during()
		w.look(tree)
		found, err := tree.AfterTests(t.Context())
		gateMust(t, err)
		now, err = tree.Files(t.Context())
		gateMust(t, err)
		w.state.TestsFiles = found
		return found, now
	}
	if found, now := tests(func() {}); found != now || len(found) != 64 {
		t.Errorf("%q, %q", found, now)
	}
	if found, now := tests(func() { w.put("made.txt", "x"); w.put("dist/b.js", "x") }); found != now {
		t.Error("what tests make is no change")
	}
	if found, now := tests(func() { w.put("ignored", "x") }); found != now {
		t.Error("what tests make is no change")
	}
	if found, now := tests(func() { w.put("ignored", "y") }); found != now {
		t.Error("a change of a file that git ignores is the tests' own")
	}
	if found, now := tests(func() { w.put("made.txt", "y") }); found == now {
		t.Error("a file that will be committed and changed meanwhile was not tested")
	}
	if found, now := tests(func() { w.put("a.txt", "two\n") }); found == now {
		t.Error("a tracked file that changed meanwhile was not tested")
	}
	gateEqual(t, "what changed", tree.touched(w.state), []string{"a.txt"})
	if found, now := tests(func() { w.put("a.txt", "three\n") }); found != now {
		t.Error("a tracked file that changes in each run is written by the tests")
	}
	if found, now := tests(func() {}); found != now {
		t.Error("it rests")
	}
	if found, now := tests(func() { w.put("a.txt", "four\n") }); found == now {
		t.Error("it changes anew")
	}
}

// What validation or a formatter writes beside the tracked files is its own. Nothing is taken for granted that was not
// seen from the tests on.
func TestFilesOfCommandsBehindTheTests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, during func(w *gateWorld, tree *Tree)
		stays, ok      bool // the signature that counts stays; it is the one of the files now
	}{
		"nothing":              {nil, nil, true, true},
		"a build":              {nil, func(w *gateWorld, _ *Tree) { w.put("dist/b.js", "x") }, false, true},
		"a formatter":          {nil, func(w *gateWorld, _ *Tree) { w.put("a.txt", "two\n") }, true, false},
		"changed before":       {func(w *gateWorld, _ *Tree) { w.put("made", "x") }, func(w *gateWorld, _ *Tree) { w.put("dist/b.js", "x") }, true, false},
		"another supervisor":   {func(_ *gateWorld, tree *Tree) { tree.seen = sight{} }, func(w *gateWorld, _ *Tree) { w.put("dist/b.js", "x") }, true, false},
		"tests of another one": {func(w *gateWorld, _ *Tree) { w.state.TestsFiles = "another" }, nil, true, false},
		"no tests":             {func(w *gateWorld, _ *Tree) { w.state.TestsFiles = "" }, nil, true, false},
	} {
		w := newGitWorld(t)
		tree := &Tree{Host: w.host}
		w.begin(tree)
		gateMust(t, tree.BeforeTests(t.Context()))
		w.look(tree)
		found, err := tree.AfterTests(t.Context())
		gateMust(t, err)
		w.state.TestsFiles = found
		for i, act := range []func(*gateWorld, *Tree){c.before, c.during} {
			if act != nil {
				act(w, tree)
			}
			if i == 0 {
				gateMust(t, tree.Before(t.Context()))
			}
		}
		files, err := tree.After(t.Context(), w.state)
		gateMust(t, err)
		if stays := files == ""; stays != c.stays {
			t.Errorf("%s: %q", name, files)
		}
		if files == "" {
			files = w.state.TestsFiles
		}
		fact, err := w.gates().Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckTree}, w.state)
		gateMust(t, err)
		if now := fact.(loop.TreeChecked).Files; (now == files) != c.ok {
			t.Errorf("%s: %q and now %q", name, files, now)
		}
	}
}

// The last look names the first of the paths that changed, and none after a restart.
func TestCheckTree(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	g := w.gates()
	w.begin(g.Tree)
	look := func() loop.TreeChecked {
		t.Helper()
		fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckTree}, w.state)
		gateMust(t, err)
		return fact.(loop.TreeChecked)
	}
	if f := look(); f.Changed || f.Files == "" {
		t.Errorf("without tests: %+v", f)
	}
	gateMust(t, g.Tree.BeforeTests(t.Context()))
	found, err := g.Tree.AfterTests(t.Context())
	gateMust(t, err)
	w.state.TestsFiles = found
	if f := look(); f.Changed || f.Files != found {
		t.Errorf("%+v", f)
	}
	for i := range 7 {
		w.put(fmt.Sprint("new/", i), "x")
	}
	f := look()
	gateEqual(t, "what changed", f.Paths, []string{"new/0", "new/1", "new/2", "new/3", "new/4"})
	g.Tree = &Tree{Host: w.host}
	f.Paths = nil
	gateEqual(t, "after a restart", look(), f)
	w.set.Loop.Tests.Outputs = []string{"/new/"}
	if f := look(); f.Changed {
		t.Errorf("an output of the configuration: %+v", f)
	}
}
