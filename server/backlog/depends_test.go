package backlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/server/registry"
)

func TestDependsOn(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"":                                   "",
		"# A\nDepends on: a, b":              "a|b",
		"depends ON:a":                       "",
		"Depends on:\ta , ,b,a":              "a|b",
		"- **Depends on:** `a`, [b](b.md)\n": "a|b",
		"> *Depends on*: 'c.md'":             "c.md",
		"# A\n## B\nDepends on: a\n":         "",
		"Text.\n\nA\n=\n\nDepends on: a\n\nB\n-\nDepends on: b": "a",
		"Depends on: none":                         "",
		"Depends on: None.":                        "",
		"After: a":                                 "",
		"It depends on: a":                         "",
		"```\nDepends on: a\n```\n":                "",
		"\ufeffDepends on: a\r\nDepends on: b\r\n": "a|b",
	} {
		if got := strings.Join(DependsOn([]byte(spec)), "|"); got != want {
			t.Errorf("%q: %q, want %q", spec, got, want)
		}
	}
}

// stands puts down what is known of a loop: what its view says, and whether its journal says that it is completed.
func (p *place) stands(id string, status loop.Status, detail string, completed bool) {
	p.t.Helper()
	dir := filepath.Join(p.w.Repo, ".superloop", "loops", id)
	view, err := json.Marshal(loop.View{Version: 1, LoopID: id, RunID: "r", Status: status, Detail: detail})
	err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "state.json"), view, 0o600), os.WriteFile(filepath.Join(dir, "config.json"), nil, 0o600))
	if err != nil {
		p.t.Fatal(err)
	}
	if !completed {
		return
	}
	events, err := os.ReadFile("../../loop/testdata/rules1-shell.jsonl") // of a run that was completed
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "events.jsonl"), events, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// settle returns what is said of the items.
func (p *place) settle() string {
	p.t.Helper()
	items, err := p.List(p.w)
	if err != nil {
		p.t.Fatal(err)
	}
	g := p.Graph(p.w.Repo, items)
	var all []string
	for _, it := range items {
		if it, err = p.Look(it, false); err != nil {
			p.t.Fatal(err)
		}
		it = g.Settle(it)
		why, _, _ := strings.Cut(it.Why, ";")
		all = append(all, strings.TrimRight(fmt.Sprintf("%s %s %v %s", it.Loop, it.State, it.After, why), " "))
	}
	return strings.Join(all, "\n")
}

func TestWhatItemsWaitFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.put("a.md", "x")
	p.put("B c.md", "Depends on: A")
	p.put("d.md", "Depends on: b-c, one")
	p.put("e.md", "Depends on: B c.md, nobody")
	p.put("f.md", "Depends on: f")
	p.put("g.md", "Depends on: ../loops/a")
	if err := os.WriteFile(filepath.Join(p.w.Repo, ".superloop", "config.json"), []byte(`{"runners": {"sh": {"command": ["sh"]}}, "loops": [{"id": "one", "spec_file": "s.md", "completion_promise": "D", "completion": {"allow_ungated": true}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want := func(step, text string) {
		t.Helper()
		got := strings.Split(p.settle(), "\n")
		if !slices.Contains(got, text) {
			t.Errorf("%s: no %q in\n%s", step, text, strings.Join(got, "\n"))
		}
	}
	want("first", "a waits []")
	want("first", "b-c waits [a] waits for a, which has not begun")
	want("first", "d waits [b-c one] waits for b-c, which has not begun")
	want("first", "e refused [b-c nobody] it depends on nobody, which is neither a loop nor a file of the backlog")
	want("first", "f refused [f] it depends on itself: f depends on f")
	want("first", "g refused [../loops/a] it depends on ../loops/a, which is neither a loop nor a file of the backlog")
	if began, err := p.begin(p.Store, func(string, []byte) error { return nil }); err != nil || len(began) < 2 {
		t.Fatal(began, err) // begin looks at no dependency
	}
	for _, id := range []string{"a", "b-c", "d", "e", "f", "g"} {
		if e, err := p.Loops.Get(p.w.Repo, id); err == nil && id != "a" {
			if err := p.Loops.Drop(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	want("in the registry", "b-c waits [a] waits for a, which waits for a place")
	p.stands("a", loop.AwaitingHuman, "", false)
	want("asks", "b-c waits [a] waits for a, which is awaiting human")
	p.stands("a", loop.Failed, "out of money\n\x1b[31m", false)
	want("failed, as far as its view says", "b-c waits [a] waits for a, which is about to run, or has just ended")
	e, err := p.Loops.Get(p.w.Repo, "a")
	if err != nil {
		t.Fatal(err)
	}
	e.Wanted = registry.Ended
	if err := p.Loops.Put(e); err != nil {
		t.Fatal(err)
	}
	for status, said := range map[loop.Status]string{loop.Failed: "has failed: no", loop.Cancelled: "was cancelled: no", loop.StuckEnd: "has ended stuck: no", loop.LimitReached: "has reached a limit: no"} {
		p.stands("a", status, "no", false)
		want("ended", "b-c waits [a] waits for a, which "+said)
	}
	p.stands("a", loop.Completed, "", false)
	want("an agent has written the view", "b-c waits [a] waits for a, which has not begun")
	p.stands("a", loop.Completed, "", true)
	want("completed", "b-c waits [a]")
	e.Wanted = registry.Running
	if err := p.Loops.Put(e); err != nil {
		t.Fatal(err)
	}
	want("again", "b-c waits [a] waits for a, which is about to run, or has just ended")
	if err := p.Forget(e); err != nil {
		t.Fatal(err)
	}
	want("forgotten", "b-c waits [a]")
	want("forgotten", "d waits [b-c one] waits for b-c, which has not begun")
	p.stands("b-c", loop.Completed, "", true)
	want("a loop of the configuration", "d waits [b-c one] waits for one, which has not run")
}

// Whatever depends on whatever: what is refused is on a circle, or depends on what there is not, and no circle waits.
func TestCircles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		g := p.Graph(p.w.Repo, nil)
		edges := make([][]int, n)
		for i := range n {
			edges[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, n, rapid.ID[int]).Draw(t, "edges")
			id := fmt.Sprint("n", i)
			g.items[id] = Item{Repo: p.w.Repo, Loop: id, State: Waits}
			g.after[id] = loop.Map(edges[i], func(j int) string { return fmt.Sprint("n", j) })
		}
		reach := make([][]bool, n)
		for i := range n {
			reach[i] = make([]bool, n)
			todo := slices.Clone(edges[i])
			for len(todo) > 0 {
				j := todo[0]
				todo = todo[1:]
				if !reach[i][j] {
					reach[i][j] = true
					todo = append(todo, edges[j]...)
				}
			}
		}
		for i := range n {
			id := fmt.Sprint("n", i)
			it := g.Settle(NewItem(p.w.Repo, "", id, []byte("Depends on: "+strings.Join(g.after[id], ", "))))
			if (it.State == Refused) != reach[i][i] {
				t.Fatalf("%d of %v: %+v", i, edges, it)
			}
			if it.State == Waits && (it.Why == "") != (len(edges[i]) == 0) {
				t.Fatalf("%d of %v: %+v", i, edges, it)
			}
		}
	})
}

// Whatever step a kill comes before, the branch of an item begins with the work of the others, once.
func TestStackedKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for step := 1; ; step++ {
		p := newPlace(t)
		git := func(args ...string) string {
			t.Helper()
			cmd := exec.Command("git", append([]string{"-C", p.w.Repo, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
			cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		git("init", "-q", "--template=", "-b", "main")
		git("commit", "-q", "--allow-empty", "-m", "begin")
		for _, name := range []string{"x", "y"} {
			git("checkout", "-q", "-b", "superloop/"+name, "main")
			if err := os.WriteFile(filepath.Join(p.w.Repo, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
			git("add", name)
			git("commit", "-q", "-m", name)
		}
		git("checkout", "-q", "main")
		git("config", "user.name", "n")
		git("config", "user.email", "e@example.com")
		p.put("a.md", "Depends on: x, y")
		n := 0
		fault := func(string) error {
			if n++; n >= step {
				return errKilled
			}
			return nil
		}
		write := func(fault func(string) error) func(string, []byte) error {
			return func(id string, _ []byte) error {
				r, err := worktree.OpenEnv(t.Context(), p.w.Repo, filepath.Join(p.w.Repo, "..", "private"), append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null"))
				if err == nil {
					err = fault("before")
				}
				if err == nil {
					err = r.Stack(t.Context(), "superloop/"+id, []string{"superloop/x", "superloop/y"}, "Begin\n", false)
				}
				if err == nil {
					err = fault("after")
				}
				return err
			}
		}
		dying := p.Store
		dying.Loops.Disk = durable.OS().WithFault(fault)
		_, err := p.begin(dying, write(fault))
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		was := ""
		if git("branch", "--list", "superloop/a") != "" {
			was = git("rev-parse", "superloop/a")
		}
		if _, err := p.begin(p.Store, write(func(string) error { return nil })); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if now := git("rev-parse", "superloop/a"); was != "" && now != was || git("show", "superloop/a:x") != "x" || git("show", "superloop/a:y") != "y" {
			t.Fatalf("step %d: the branch was %s and is %s", step, was, now)
		}
		if all, _ := p.Loops.All(); len(all) != 1 {
			t.Fatalf("step %d: %+v", step, all)
		}
		if err == nil {
			if step < 10 {
				t.Fatalf("only %d steps", step)
			}
			return
		}
	}
}
