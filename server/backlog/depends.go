package backlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/markdown"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server/registry"
)

// maxDeps bounds the loops on which one item depends.
const maxDeps = 100

// WaitError says why no loop is made of a spec now. It passes when what it names has changed.
type WaitError struct{ Why string }

func (e *WaitError) Error() string { return e.Why }

// depends matches the content of a line that says on what a spec depends, and link a link of Markdown.
var (
	depends = pattern.Lazy(`(?i)^[*_]*(depends on|after)[*_]*:[*_]*(?:[ \t]+(.*))?$`)
	link    = pattern.Lazy(`\[([^\]]*)\]\([^)]*\)`)
)

// Names returns what a line that is no heading names behind "Depends on:", or behind "After:" if also is set; is says whether the line is such a
// one. Names are separated by commas; "none" is no name. Marks of Markdown around a name are taken away.
func Names(l markdown.Line, also bool) (names []string, is bool) {
	m := depends().FindStringSubmatch(l.Content)
	if m == nil || l.Fenced || !also && !strings.EqualFold(m[1], "depends on") {
		return nil, false
	}
	rest := link().ReplaceAllString(m[2], "$1")
	for name := range strings.SplitSeq(rest, ",") {
		name = strings.Trim(strings.TrimSpace(name), "`\"'*_ \t")
		if name != "" && !strings.EqualFold(strings.TrimSuffix(name, "."), "none") {
			names = append(names, name)
		}
	}
	return names, true
}

// DependsOn returns the loops on which a spec depends, as it names them: in its lines "Depends on: a, b" that stand before
// the second heading and not between fences.
func DependsOn(spec []byte) (names []string) {
	all := markdown.Headings(string(spec))
	for l := range markdown.Lines(string(spec)) {
		if len(all) > 1 && l.N >= all[1].Line {
			break
		}
		if len(all) > 0 && l.N >= all[0].Line && l.N <= all[0].Last {
			continue
		}
		some, _ := Names(l, false)
		for _, name := range some {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Graph knows on which loops the items of a backlog depend, for one look at it.
type Graph struct {
	store Store
	repo  string
	items map[string]Item     // of List, by loop
	after map[string][]string // of the items that have not begun, as far as they were read
}

// Graph returns the graph of a backlog, whose items List has returned. It reads what it needs when it needs it.
func (s Store) Graph(repo string, items []Item) *Graph {
	g := &Graph{s, repo, map[string]Item{}, map[string][]string{}}
	for _, it := range items {
		if it.State != Refused {
			g.items[it.Loop] = it
		}
	}
	return g
}

// Settle sets After of an item that Waits, and Why as long as one of these loops is not completed. It refuses an item that
// depends on what there is not, or on itself.
func (g *Graph) Settle(it Item) Item {
	if it.State != Waits {
		return it
	}
	names := DependsOn(it.spec)
	if len(names) > maxDeps {
		return it.Refuse("it depends on %d loops; %d are the most", len(names), maxDeps)
	}
	it.After = g.loops(names)
	g.after[it.Loop] = it.After
	for i, dep := range it.After {
		if way := g.way(dep, it.Loop, map[string]bool{}); way != nil {
			return it.Refuse("it depends on itself: %s", strings.Join(append([]string{it.Loop}, way...), " depends on "))
		}
		if !g.there(dep) {
			return it.Refuse("it depends on %s, which is neither a loop nor a file of the backlog", text.Line(names[i], MaxID))
		}
	}
	for _, dep := range it.After {
		if why := g.why(dep); why != "" {
			it.Why = "waits for " + dep + ", " + why
			break
		}
	}
	return it
}

// loops returns the ids of loops that are named by them, or by the names of their files. A name that is none stays.
func (g *Graph) loops(names []string) []string {
	return loop.Map(names, func(name string) string {
		slug := text.Slug(strings.TrimSuffix(name, ".md"), MaxID)
		if name == slug || g.there(name) || !g.there(slug) {
			return name
		}
		return slug
	})
}

// there reports whether there is a loop or an item of a name.
func (g *Graph) there(id string) bool {
	if _, item := g.items[id]; item {
		return true
	}
	p, err := g.store.paths(g.repo, id)
	if err != nil || id == "" || filepath.Base(p.Loop) != id {
		return false
	}
	if _, err := g.store.Loops.Get(g.repo, id); err == nil || exists(p.OwnConfig()) || exists(p.Events()) {
		return true
	}
	cfg, err := config.Load(filepath.Join(p.Super, "config.json"))
	if err != nil {
		return false
	}
	_, ok := cfg.Loop(id)
	return ok
}

// way returns how an item depends on another one: the loops from it on, nil if it does not.
func (g *Graph) way(from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, next := range g.afterOf(from) {
		if way := g.way(next, to, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}

// afterOf returns on what an item depends that has not begun. What has begun waits for nothing any more.
func (g *Graph) afterOf(id string) []string {
	if known, ok := g.after[id]; ok {
		return known
	}
	g.after[id] = nil
	it, ok := g.items[id]
	if !ok {
		return nil
	}
	p, err := g.store.paths(g.repo, id)
	if err != nil {
		return nil
	}
	if begun, err := g.store.known(p, id); err != nil || begun {
		return nil
	}
	spec, err := door.Read(filepath.Join(p.Backlog(), it.File), MaxSpec)
	if err == nil {
		g.after[id] = g.loops(DependsOn(spec))
	}
	return g.after[id]
}

// ends says how a loop has ended that is not completed.
var ends = map[loop.Status]string{loop.Failed: "has failed", loop.Cancelled: "was cancelled", loop.StuckEnd: "has ended stuck", loop.LimitReached: "has reached a limit"}

// why says why the work of a loop cannot be built on now, "" if the loop is completed.
func (g *Graph) why(id string) string {
	p, err := g.store.paths(g.repo, id)
	if err != nil {
		return err.Error()
	}
	e, err := g.store.Loops.Get(g.repo, id)
	entered := err == nil
	view, err := local.ReadView(p)
	if err == nil && view.Status == loop.Completed {
		// An agent can write state.json.
		fold, ferr := local.Fold(p.Events())
		if err = ferr; err == nil {
			view = loop.ViewOf(fold.State, fold.Events, 0)
		}
	}
	running := entered && e.Wanted == registry.Running
	switch {
	case errors.Is(err, fs.ErrNotExist) && running:
		return "which waits for a place"
	case errors.Is(err, fs.ErrNotExist):
		return g.unbegun(id)
	case err != nil:
		return fmt.Sprintf("of which is not known whether it is completed: %v", err)
	case view.Status == loop.Completed && !running:
		return ""
	case running && view.Status.Ended():
		return "which is about to run, or has just ended"
	case view.Status.Ended():
		why := "which " + ends[view.Status]
		if view.Detail != "" {
			why += ": " + text.Line(view.Detail, 200)
		}
		return why + "; what to do: superloop status --loop " + id + " --repo " + text.Paste(g.repo)
	}
	return "which is " + strings.ReplaceAll(string(view.Status), "_", " ")
}

// unbegun says why a loop has not begun.
func (g *Graph) unbegun(id string) string {
	if it, ok := g.items[id]; ok {
		if it, err := g.store.Look(it, false); err == nil && it.State == Refused {
			return "which cannot begin: " + it.Why
		}
		return "which has not begun"
	}
	return "which has not run; to begin it: superloop start --loop " + id + " --repo " + text.Paste(g.repo)
}
