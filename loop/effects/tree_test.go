package effects

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
)

// newGitWorld is a world whose repository is a real one, with one commit of a.txt.
func newGitWorld(t *testing.T) *gateWorld {
	t.Helper()
	w := newGateWorld(t)
	home := t.TempDir()
	w.host.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org"}
	w.git("init", "-q", "--template=", "-b", "main")
	w.put("a.txt", "one\n")
	w.git("add", "a.txt")
	w.git("commit", "-q", "-m", "first")
	repo, err := worktree.OpenEnv(t.Context(), w.host.Paths.Repo, w.host.Paths.Git(), w.host.Environ)
	gateMust(t, err)
	w.host.Repo = repo
	return w
}

func (w *gateWorld) git(args ...string) string {
	w.t.Helper()
	out, err := proc.Tool{Dir: w.host.Paths.Repo, Env: w.host.Environ}.Run(w.t.Context(), append([]string{"git"}, args...)...)
	gateMust(w.t, err)
	return strings.TrimSpace(string(out))
}

// begin takes the first snapshot, as the start of a loop does.
func (w *gateWorld) begin(tree *Tree) string {
	w.t.Helper()
	sig, err := tree.First(w.t.Context())
	gateMust(w.t, err)
	w.state.Stuck.Tree = sig
	return sig
}

func (w *gateWorld) look(tree *Tree) string {
	w.t.Helper()
	sig, err := tree.Look(w.t.Context(), w.state)
	gateMust(w.t, err)
	return sig
}

// trees are the snapshots that are kept.
func (w *gateWorld) trees() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.host.Paths.Trees())
	gateMust(w.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// changed are the paths that differ from the tree before the iteration, as the last look found.
func changed(t *testing.T, tree *Tree) []string {
	t.Helper()
	counted, _, err := tree.diff()
	gateMust(t, err)
	return append([]string{}, counted...)
}

func TestLook(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.set.Loop.Stuck.Ignore = []string{"*.log"}
	tree := &Tree{Host: w.host}
	first := w.begin(tree)
	if info, err := os.Stat(w.host.Paths.Baseline()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the baseline: %v %v", info, err)
	}
	gateEqual(t, "nothing has changed", w.look(tree), first)
	gateEqual(t, "changed", changed(t, tree), []string{})
	w.put("b.txt", "new")
	w.put("x.log", "new")
	second := w.look(tree)
	if second == first {
		t.Error("a new file does not show")
	}
	gateEqual(t, "changed", changed(t, tree), []string{"b.txt"})

	// Another one, as after a restart, finds the same with what lies on the disk.
	again := &Tree{Host: w.host}
	gateEqual(t, "after a restart", w.look(again), second)
	gateEqual(t, "changed after a restart", changed(t, again), []string{"b.txt"})

	// The state says when the next iteration has begun.
	w.state.Stuck.Tree = second
	w.put("c.txt", "new")
	w.look(tree)
	gateEqual(t, "changed in the next iteration", changed(t, tree), []string{"c.txt"})
	w.state.Stuck.Tree = first
	w.look(tree)
	gateEqual(t, "compared with another one", changed(t, tree), []string{"b.txt", "c.txt"})

	w.set.Loop.Stuck.Ignore = []string{"["}
	if counted, ignored, sig, err := tree.iteration(t.Context(), w.state); err == nil {
		t.Errorf("an ignore list that cannot be read: %v, %v, %q", counted, ignored, sig)
	}
	w.set.Loop.Stuck.Ignore = nil
	gateMust(t, os.RemoveAll(filepath.Join(w.host.Paths.Repo, ".git")))
	if sig, err := tree.Look(t.Context(), w.state); err == nil || sig != "" {
		t.Errorf("without a repository: %q, %v", sig, err)
	}
	if sig, err := (&Tree{Host: w.host}).Look(t.Context(), loop.State{}); err == nil || sig != "" {
		t.Errorf("without a repository and a snapshot: %q, %v", sig, err)
	}
	if sig, err := tree.First(t.Context()); err == nil || sig != "" {
		t.Errorf("without a repository at the start: %q, %v", sig, err)
	}
}

// A snapshot that is gone makes the loop look idle once, and no more often.
func TestTheSnapshotBeforeTheIterationIsGone(t *testing.T) {
	t.Parallel()
	for _, was := range []string{"no-such-tree", ""} {
		w := newGitWorld(t)
		w.state.Stuck.Tree = was
		tree := &Tree{Host: w.host}
		w.look(tree)
		gateEqual(t, "it is compared with itself", changed(t, tree), []string{})
		w.put("b.txt", "new")
		w.look(tree)
		gateEqual(t, "from then on", changed(t, tree), []string{"b.txt"})
	}
}

// A look that has begun is taken to its end.
func TestLookWhileLeaving(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	ctx, stop := cancelled(t)
	defer stop()
	tree := &Tree{Host: w.host}
	first, err := tree.First(ctx)
	gateMust(t, err)
	w.state.Stuck.Tree = first
	for _, tree := range []*Tree{tree, {Host: w.host}} {
		if sig, err := tree.Look(ctx, w.state); sig != first || err != nil {
			t.Errorf("%q, %v", sig, err)
		}
	}
	w.state.Stuck.Tree = "gone"
	if _, err := (&Tree{Host: w.host}).Look(ctx, w.state); err != nil {
		t.Error(err)
	}
}

func TestBranch(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	tree := &Tree{Host: w.host}
	gateEqual(t, "the branch", tree.Branch(t.Context()), "main")
	w.git("checkout", "-q", "-b", "other")
	gateEqual(t, "another one", tree.Branch(t.Context()), "other")
	w.git("checkout", "-q", "--detach")
	gateEqual(t, "detached", tree.Branch(t.Context()), "")
}

func TestStuck(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.set.Loop.Stuck.Ignore = []string{"*.log"}
	w.state.Stuck.Count = 1
	g := w.gates()
	first := w.begin(g.Tree)
	check := func() loop.StuckChecked {
		t.Helper()
		fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckStuck}, w.state)
		gateMust(t, err)
		return fact.(loop.StuckChecked)
	}
	stuck := func() (s gate.StuckState) {
		t.Helper()
		gateMust(t, json.Unmarshal([]byte(w.file("stuck.json")), &s))
		return s
	}
	of := loop.Of{EffectID: "e1"}
	next := func(f loop.StuckChecked) {
		w.state.Stuck.Count, w.state.Stuck.Tree, w.state.Iteration = f.Streak, f.Tree, w.state.Iteration+1
	}

	// Only ignored files: nothing has changed. The look is taken again, since nobody has.
	w.put("x.log", "1")
	f := check()
	logged := f.Tree
	gateEqual(t, "ignored", f, loop.StuckChecked{Of: of, Ignored: 1, Tree: logged, Streak: 2, Threshold: 3, Reason: gate.ReasonNoChange})
	gateEqual(t, "stuck.json", stuck(), gate.StuckState{CodeSignature: logged, Streak: 2, Threshold: 3, Reason: gate.ReasonNoChange,
		UpdatedAt: gateDay, SinceIteration: 3, RunID: "r1", Iteration: 3})
	gateEqual(t, "snapshots", w.trees(), sorted(first, logged))
	gateEqual(t, "no report yet", w.file("stuck-report.md"), "")
	gateEqual(t, "asked again, it is not counted twice", check(), f)
	next(f)

	// The threshold is reached.
	w.state.Tree = w.look(g.Tree)
	w.state.Gates.Promise = "false"
	f = check()
	gateEqual(t, "triggered", f, loop.StuckChecked{Of: of, Tree: logged, Streak: 3, Threshold: 3, Triggered: true, Reason: gate.ReasonNoChange, Action: "report_and_stop"})
	report := gate.StuckReport{LoopID: "l", State: stuck(), Ignored: []string{}, Patterns: []string{"*.log"}, Missing: w.state.MissingGates(), At: gateDay}
	gateEqual(t, "since when", stuck().SinceIteration, 3)
	gateEqual(t, "stuck-report.md", w.file("stuck-report.md"), string(report.Markdown()))
	next(f)

	// A change ends the streak. What the state no longer refers to goes, but for the
	// tree of the loop's start.
	w.put("b.txt", "new")
	w.state.Tree = w.look(g.Tree)
	w.steps = nil
	f = check()
	gateEqual(t, "changed", f, loop.StuckChecked{Of: of, Changed: 1, Tree: w.state.Tree, Threshold: 3})
	gateEqual(t, "snapshots", w.trees(), sorted(first, logged, f.Tree))
	gateEqual(t, "the tree is saved before it is told", w.steps[0], "snapshot:create")
	if _, err := worktree.Load(w.host.Paths.Tree(f.Tree)); err != nil {
		t.Error(err)
	}
	next(f)
	w.put("c.txt", "new")
	was := f.Tree
	w.state.Tree = w.look(g.Tree)
	f = check()
	gateEqual(t, "snapshots", w.trees(), sorted(first, was, f.Tree))
	next(f)
	w.steps = nil
	check()
	if slices.ContainsFunc(w.steps, func(s string) bool { return strings.HasPrefix(s, "snapshot:") }) {
		t.Errorf("a tree that is the same is saved again: %q", w.steps)
	}
	gateMust(t, g.Tree.Prune(w.state))
	gateEqual(t, "snapshots at a start", w.trees(), sorted(first, f.Tree))
}

// stuck.json is a view: the count is the journal's.
func TestStuckOfAnother(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"another run":     `{"streak":7,"run_id":"r0","iteration":2,"since_iteration":1}`,
		"garbage":         `garbage`,
		"edited":          `{"streak":7,"run_id":"r1","iteration":9,"since_iteration":3}`,
		"this iteration":  `{"streak":7,"run_id":"r1","iteration":3,"since_iteration":3}`,
		"nobody has made": ``,
	} {
		w := newGitWorld(t)
		g := w.gates()
		w.begin(g.Tree)
		w.state.Stuck.Count = 1
		w.put("@stuck.json", text)
		fact, err := g.Perform(t.Context(), loop.Effect{Kind: loop.CheckStuck}, w.state)
		gateMust(t, err)
		var st gate.StuckState
		gateMust(t, json.Unmarshal([]byte(w.file("stuck.json")), &st))
		if f := fact.(loop.StuckChecked); f.Streak != 2 || f.Triggered || st.SinceIteration != 3 || st.Iteration != 3 {
			t.Errorf("%s: %+v, %+v", name, f, st)
		}
	}
	w := newGitWorld(t)
	g := w.gates()
	w.begin(g.Tree)
	gateMust(t, os.Mkdir(w.host.Paths.File("stuck.json"), 0o755))
	if fact, err := g.Perform(t.Context(), loop.Effect{Kind: loop.CheckStuck}, w.state); err == nil || fact != nil {
		t.Errorf("%v, %v", fact, err)
	}
}

func TestCheckPromise(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	g := w.gates()
	first := w.begin(g.Tree)
	w.says("<promise>DONE</promise>")
	done := "DONE"
	for tests, changed := range map[string]bool{"": false, first: false, "another": true} {
		w.state.TestsTree = tests
		fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckPromise}, w.state)
		gateMust(t, err)
		files, err := g.Tree.Files(t.Context())
		gateMust(t, err)
		gateEqual(t, "tests of "+tests, fact, loop.Fact(loop.PromiseChecked{Of: loop.Of{EffectID: "e1"}, Expected: "DONE", Text: &done, Matched: true,
			Tree: first, TreeChanged: changed, Files: files}))
	}
	gateMust(t, os.RemoveAll(filepath.Join(w.host.Paths.Repo, ".git")))
	w.state.Tree = "another"
	for range 2 {
		for _, kind := range []loop.EffectKind{loop.CheckPromise, loop.CheckStuck} {
			if fact, err := g.Perform(t.Context(), loop.Effect{Kind: kind}, w.state); err == nil || fact != nil {
				t.Errorf("%s: %v, %v", kind, fact, err)
			}
		}
		g.Tree, w.state.Stuck.Tree = &Tree{Host: w.host}, "gone"
	}
}

// Work is what differs from the tree before the first role, whatever was committed since, and not the list of things to do.
func TestWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(w *gateWorld)
		want    string
		changed int
	}{
		"nothing":              {func(*gateWorld) {}, loop.ChangeNone, 0},
		"undone":               {func(w *gateWorld) { w.put("a.txt", "two\n"); w.put("a.txt", "one\n") }, loop.ChangeNone, 0},
		"ignored":              {func(w *gateWorld) { w.put("x.log", "new\n") }, loop.ChangeNone, 0},
		"the spec":             {func(w *gateWorld) { w.put("docs/spec.md", "build nothing\n") }, loop.ChangeNone, 0},
		"a box is ticked":      {func(w *gateWorld) { w.put("tasks/one/todo.md", "- [x] all\n") }, loop.ChangeNone, 0},
		"superloop's own":      {func(w *gateWorld) { w.put(".superloop/specs/x.md", "new\n") }, loop.ChangeNone, 0},
		"blanks":               {func(w *gateWorld) { w.put("a.txt", "\none  \n") }, loop.ChangeSpace, 1},
		"a word":               {func(w *gateWorld) { w.put("a.txt", "two\n") }, loop.ChangeOK, 1},
		"what tests wrote":     {func(w *gateWorld) { w.put("out.txt", "3\n") }, loop.ChangeNone, 0},
		"committed":            {func(w *gateWorld) { w.put("b.txt", "new\n"); w.git("add", "."); w.git("commit", "-q", "-m", "b") }, loop.ChangeOK, 1},
		"the tree is lost":     {func(w *gateWorld) { w.put("a.txt", "two\n"); gateMust(w.t, os.RemoveAll(w.host.Paths.Trees())) }, loop.ChangeUnknown, 0},
		"the baseline is lost": {func(w *gateWorld) { w.put("a.txt", "two\n"); gateMust(w.t, os.Remove(w.host.Paths.Baseline())) }, loop.ChangeUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newGitWorld(t)
			w.set.Loop.Stuck.Ignore, w.set.Loop.SpecFile, w.set.Loop.Checklists = []string{"*.log"}, "docs/spec.md", []string{"tasks/**/*.md"}
			w.state.Plan.Completion = &loop.Completion{Change: true}
			w.begin(&Tree{Host: w.host})
			w.put("out.txt", "1\n")
			gateMust(t, (&Tree{Host: w.host}).TestsWrote(t.Context(), w.state))
			w.put("out.txt", "2\n")
			w.says("<promise>DONE</promise>")
			// An iteration has passed, and superloop was started anew.
			w.put("c.log", "x")
			tree := &Tree{Host: w.host}
			w.state.Stuck.Tree = w.look(tree)
			gateMust(t, tree.keep(w.state))
			c.change(w)
			g := &Gates{Host: w.host, Tree: &Tree{Host: w.host}}
			fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckPromise}, w.state)
			gateMust(t, err)
			f := fact.(loop.PromiseChecked)
			if f.Change != c.want || f.Changed != c.changed {
				t.Errorf("%s, %d changed; want %s, %d", f.Change, f.Changed, c.want, c.changed)
			}
			if want := map[bool]string{true: loop.ChangeUnknown, false: loop.ChangeNone}[c.want == loop.ChangeUnknown]; f.TestChange != want {
				t.Errorf("tests: %s; want %s", f.TestChange, want)
			}
			if c.want == loop.ChangeOK {
				w.put("a_test.go", "package a\n")
				fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckPromise}, w.state)
				if f := fact.(loop.PromiseChecked); err != nil || f.TestChange != loop.ChangeOK {
					t.Errorf("with a test: %s, %v", f.TestChange, err)
				}
			}
			w.says("not yet")
			fact, err = g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckPromise}, w.state)
			if f := fact.(loop.PromiseChecked); err != nil || f.Change != "" {
				t.Errorf("without a promise: %q, %v", f.Change, err)
			}
		})
	}
}

// A promise needs a review of its own iteration, and no earlier one over again.
func TestReports(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	g := w.gates()
	w.begin(g.Tree)
	w.says("<promise>DONE</promise>")
	put := func(file, text string) {
		t.Helper()
		path := w.host.Paths.File(file)
		gateMust(t, os.MkdirAll(filepath.Dir(path), 0o755))
		gateMust(t, os.WriteFile(path, []byte(text), 0o644))
	}
	put("archive/run-1/review.md", "All of  it\n\nis done\n")
	put("archive/run-1/plan.md", "do this\n")
	put("archive/notes", "a file of a human\n")
	w.state.Plan.Roles = []string{"planner", "reviewer"}
	w.state.Plan.Completion = &loop.Completion{Reports: reportersOf(w.state.Plan, []string{"plan", "implementer", "test-report", "review"})}
	last := w.state.Roles["reviewer"]
	for _, c := range []struct {
		name, plan, review, output, want string
		earlier                          []string
	}{
		{"both are new", "a plan", "fine", "fresh", "ok", nil},
		{"a plan of an earlier run", "do this", "fine", "fresh", "plan.md:repeated", nil},
		{"a review of an earlier run", "a plan", "All of it is\tdone", "fresh", "review.md:repeated", nil},
		{"a review of an earlier iteration", "a plan", "fine ", "fresh", "review.md:repeated", []string{}},
		{"an old review", "a plan", "other", "stale", "review.md:stale", nil},
		{"no review", "a plan", "other", "missing", "review.md:missing", nil},
		{"emptied since", "a plan", " \n", "fresh", "review.md:empty", nil},
	} {
		put("plan.md", c.plan)
		put("review.md", c.review)
		w.state.Reports = nil
		if c.earlier != nil {
			w.state.Reports = []string{ReportDigest(w.host.Paths.File("review.md"))}
		}
		last.Output = c.output
		w.state.Roles = map[string]loop.RoleResult{"planner": {Attempt: 1, Output: "fresh"}, "reviewer": last}
		fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckPromise}, w.state)
		gateMust(t, err)
		gateEqual(t, c.name, fact.(loop.PromiseChecked).Reports, c.want)
	}
	w.state.Plan.Completion.Reports = reportersOf(loop.Plan{Roles: []string{"planner", "tester"}}, []string{"review"})
	gateEqual(t, "who promises", w.state.Plan.Completion.Reports, []string{"tester"})
	fact, err := g.Perform(t.Context(), loop.Effect{ID: "e1", Kind: loop.CheckPromise}, w.state)
	gateMust(t, err)
	gateEqual(t, "a role that did not run", fact.(loop.PromiseChecked).Reports, "test-report.md:missing")
}

func TestTreesOnAFullDisk(t *testing.T) {
	t.Parallel()
	everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
		w := newGitWorld(t)
		return w, func() error { _, err := w.gates().Tree.First(t.Context()); return err }
	})
	everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
		w := newGitWorld(t)
		g := w.gates()
		w.begin(g.Tree)
		w.put("b.txt", "new")
		w.state.Stuck.Count = 2
		w.state.Plan.StuckThreshold = 0
		gateMust(t, os.WriteFile(w.host.Paths.Tree("old"), nil, 0o600))
		return w, func() error {
			_, err := g.Perform(t.Context(), loop.Effect{Kind: loop.CheckStuck}, w.state)
			return err
		}
	})
	everyStep(t, func(t *testing.T) (*gateWorld, func() error) { // the report
		w := newGitWorld(t)
		g := w.gates()
		w.begin(g.Tree)
		w.state.Stuck.Count = 2
		return w, func() error {
			_, err := g.Perform(t.Context(), loop.Effect{Kind: loop.CheckStuck}, w.state)
			return err
		}
	})
	everyStep(t, func(t *testing.T) (*gateWorld, func() error) {
		w := newGateWorld(t)
		return w, (&Tree{Host: w.host}).Ignore
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t)
	tree := &Tree{Host: w.host}
	for _, name := range []string{"a", "b", "c"} {
		gateMust(t, os.WriteFile(w.host.Paths.Tree(name), nil, 0o600))
	}
	w.state.Stuck.Tree = "b"
	gateMust(t, os.WriteFile(w.host.Paths.Baseline(), []byte(`{"tree":"c"}`), 0o600))
	w.fail = func(op string) error {
		if op == "trees:remove" {
			return os.ErrNotExist // somebody was faster
		}
		return nil
	}
	gateMust(t, tree.Prune(w.state))
	w.fail = nil
	gateMust(t, tree.Prune(w.state))
	gateEqual(t, "kept", w.trees(), []string{"b", "c"})
	gateMust(t, os.WriteFile(w.host.Paths.Baseline(), []byte(`garbage`), 0o600))
	gateMust(t, tree.Prune(w.state))
	gateEqual(t, "kept without a baseline", w.trees(), []string{"b"})
	gateMust(t, os.RemoveAll(w.host.Paths.Trees()))
	if err := tree.Prune(w.state); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	tree := &Tree{Host: w.host}
	gateMust(t, tree.Ignore())
	file := filepath.Join(w.host.Paths.Super, ".gitignore")
	data, err := os.ReadFile(file)
	gateMust(t, err)
	gateEqual(t, "what is ignored", string(data), layout.Gitignore)
	if !slices.Contains(w.steps, "gitignore:sync") {
		t.Errorf("it is not flushed: %q", w.steps)
	}
	w.put("@logs/x.log", "x")
	w.put(".superloop/worktrees/l/x", "x")
	w.put(".superloop/state.json", "x")
	gateEqual(t, "what git sees", w.git("status", "--porcelain", "--untracked-files=all"), "?? .superloop/.gitignore")
	gateMust(t, os.WriteFile(file, []byte("mine"), 0o644))
	gateMust(t, tree.Ignore())
	data, err = os.ReadFile(file)
	gateMust(t, err)
	gateEqual(t, "what a human has written", string(data), "mine")
	gateMust(t, os.Truncate(file, maxIgnore+1))
	gateMust(t, tree.Ignore())
	data, err = os.ReadFile(file)
	gateMust(t, err)
	gateEqual(t, "instead of a megabyte", string(data), layout.Gitignore)
	gateMust(t, os.Remove(file))
	gateMust(t, os.Symlink("/nowhere", file))
	gateMust(t, tree.Ignore())
	if to, err := os.Readlink(file); to != "/nowhere" || err != nil {
		t.Errorf("a link of a human: %q, %v", to, err)
	}
}
