package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/undo"
)

func (a *app) undo(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	id, n := p.id, c.Int("recovery")
	if c.IsSet("recovery") && n < 1 {
		return failf(exitUsage, "superloop undo --list --loop "+id, "--recovery %d: recoveries are counted from 1", n)
	}
	store := undo.Store{Disk: a.disk, Dir: p.Undo()}
	all, unread := store.List()
	sets := setsOf(all, id, n)
	if c.Bool("list") {
		if c.Bool("json") {
			return cmp.Or(render.JSON(a.stdout, map[string]any{"loop_id": id, "sets": sets}), unread)
		}
		return cmp.Or(printSets(a.stdout, id, sets), unread)
	}
	if len(sets) == 0 && unread != nil {
		return unread
	}
	if len(sets) == 0 {
		what := "a recovery"
		if n > 0 {
			what = fmt.Sprintf("recovery %d", n)
		}
		return failf(exitNothing, "superloop undo --list --loop "+id, "there is nothing to undo: nothing is kept of %s of loop %s", what, id)
	}
	set := sets[len(sets)-1]
	store.Repo = set.Repo
	if info, err := os.Stat(set.Repo); err != nil || !info.IsDir() {
		return failf(exitNotFound, "superloop undo --list --loop "+id, "the work tree %s, in which recovery %d ran, is gone", set.Repo, set.Label.Recovery)
	}
	if err := a.idle(p); err != nil {
		return err
	}
	report, err := restoreTries(c.Context, store, sets, undo.Options{Force: c.Bool("force")})
	if told := a.tellUndo(c.Bool("json"), id, set, report); told != nil {
		return told
	}
	return undone(id, set, report, c.Bool("force"), err)
}

// setsOf returns the undo sets of a loop, the oldest first. If n is not 0, it returns only those of recovery n.
func setsOf(all []undo.Kept, id string, n int) []undo.Kept {
	return orEmpty(slices.DeleteFunc(slices.Clone(all), func(k undo.Kept) bool { return k.Label.Loop != id || n != 0 && k.Label.Recovery != n }))
}

// restoreTries restores the recovery of the last of sets. Each try of a recovery has a set of its own. restoreTries
// restores the last try first, and stops at a try that it cannot restore completely. A second call restores what is
// still missing.
func restoreTries(ctx context.Context, store undo.Store, sets []undo.Kept, o undo.Options) (whole undo.Report, err error) {
	last := sets[len(sets)-1].Label
	sets = slices.DeleteFunc(slices.Clone(sets), func(s undo.Kept) bool { return s.Label.Run != last.Run || s.Label.Recovery != last.Recovery })
	for set := range lastFirst(sets) {
		var r undo.Report
		r, err = store.Restore(ctx, set.ID, o)
		whole.Add(r)
		if err != nil || !r.Complete() {
			break
		}
	}
	return whole, err
}

// lastFirst yields the sets that were kept one after the other, in the order in which they are restored. It leaves out
// those that have been restored, except for the first one, whose set holds how everything was.
func lastFirst(sets []undo.Kept) iter.Seq[undo.Kept] {
	return func(yield func(undo.Kept) bool) {
		for i, set := range slices.Backward(sets) {
			if (i == 0 || !set.Restored) && !yield(set) {
				return
			}
		}
	}
}

// idle fails while a supervisor has agents or commands at work in the work tree. A supervisor that waits for an
// operator or for a provider does no harm. If it goes on during the undo, it works on files as they are before or after
// a recovery.
func (a *app) idle(p place) error {
	holder, alive := local.Supervisor(p.Paths)
	if !alive {
		return nil
	}
	view, err := local.ReadView(p.Paths)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && !atWork(view.Status):
		return nil
	}
	what := "at work"
	switch {
	case view.Status == loop.Recovering:
		what = "carrying out a recovery"
	case view.Role != "":
		what = "running the " + view.Role
	}
	return failf(exitHeld, fmt.Sprintf("superloop status --watch --loop %[1]s   (or superloop cancel --loop %[1]s, and then superloop undo)", p.id),
		"a supervisor (%s) is %s in loop %s; undo would change files under its hands", holder, what, p.id)
}

// atWork reports whether a supervisor of a loop in this status has agents or commands at work in the work tree, or is
// about to.
func atWork(s loop.Status) bool {
	switch s {
	case loop.AwaitingHuman, loop.AwaitingApproval, loop.RateLimited, loop.Paused:
		return false
	}
	return !s.Ended()
}

// tellUndo prints what Restore did, also if Restore was interrupted.
func (a *app) tellUndo(asJSON bool, id string, set undo.Kept, r undo.Report) error {
	if !asJSON {
		printUndo(a.stdout, id, set, r)
		return nil
	}
	return render.JSON(a.stdout, struct {
		LoopID   string `json:"loop_id"`
		RunID    string `json:"run_id"`
		Recovery int    `json:"recovery"`
		ID       string `json:"id"`
		Command  string `json:"command"`
		Complete bool   `json:"complete"`
		undo.Report
	}{id, set.Label.Run, set.Label.Recovery, set.ID, set.Label.Command, r.Complete(), r})
}

// undone returns the error with which the verb ends after Restore, nil if Restore has put everything back.
func undone(id string, set undo.Kept, r undo.Report, forced bool, err error) error {
	again := fmt.Sprintf("superloop undo --loop %s --recovery %d", id, set.Label.Recovery)
	_, held := errors.AsType[*durable.LockedError](err)
	switch {
	case held:
		return failf(exitHeld, again, "undoing recovery %d of loop %s: %w", set.Label.Recovery, id, err)
	case errors.Is(err, context.Canceled):
		return &fault{code: exitInterrupted, err: err, hint: again + "   (goes on with what is missing)"}
	case err != nil:
		return failf(exitFailed, again, "undoing recovery %d of loop %s: %w", set.Label.Recovery, id, err)
	case r.Complete():
		return nil
	}
	var not []string
	for _, n := range slices.Concat(r.Conflicts, r.Failed) {
		not = append(not, render.Clean(n.Path))
	}
	hint := again + "   (tries again what failed)"
	switch {
	case len(r.Conflicts) > 0 && !forced:
		hint = again + " --force   (moves what has changed since beside, to a name ending in .superloop-undo-conflict)"
	case set.Ref != "":
		hint = fmt.Sprintf("git -C %s diff %s   (what differs from what was kept of tracked files)", text.Paste(set.Repo), set.Ref)
	}
	if most := 5; len(not) > most {
		not = append(not[:most], fmt.Sprintf("and %d more", len(not)-most))
	}
	return failf(exitFailed, hint, "not put back: %s", strings.Join(not, ", "))
}

func printSets(w io.Writer, id string, sets []undo.Kept) error {
	if len(sets) == 0 {
		fmt.Fprintf(w, "%s: nothing is kept\n", id)
		return nil
	}
	return table(w, "RECOVERY\tRUN\tWHEN\tKEPT\tNOT KEPT\tCOMMAND", sets, func(k undo.Kept) string {
		not := "-"
		if len(k.NotKept) > 0 {
			not = render.Number(len(k.NotKept), "path")
		}
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s", k.Label.Recovery, render.Clean(k.Label.Run), k.Time.Local().Format(time.DateTime), keptLine(k), not,
			render.Cut(render.Clean(k.Label.Command), 60))
	})
}

// keptLine says in a few words what an undo set holds.
func keptLine(k undo.Kept) string {
	var out []string
	if k.Ref != "" {
		out = append(out, "tracked files")
	}
	trees := 0
	for _, t := range k.Trees {
		if t.Method != "none" {
			trees++
		}
	}
	if trees > 0 {
		out = append(out, render.Number(trees, "tree"))
	}
	if k.Files > 0 {
		out = append(out, render.Number(k.Files, "file"))
	}
	if k.Bytes > 0 {
		out = append(out, render.Bytes(k.Bytes))
	}
	return cmp.Or(strings.Join(out, ", "), "nothing")
}

// maxShown bounds how many paths of each group printUndo shows.
const maxShown = 40

func printUndo(w io.Writer, id string, set undo.Kept, r undo.Report) {
	fmt.Fprintf(w, "%s: recovery %d of run %s, %s\n", id, set.Label.Recovery, render.Clean(set.Label.Run), render.Cut(render.Clean(set.Label.Command), 120))
	plain := func(list []string) []undo.Named {
		out := make([]undo.Named, len(list))
		for i, p := range list {
			out[i].Path = p
		}
		return out
	}
	for _, group := range []struct {
		title string
		list  []undo.Named
	}{
		{"put back", plain(r.Restored)},
		{"moved beside, because it has changed since the command", r.Aside},
		{"left, because the command did not change it and somebody did since", plain(r.Left)},
		{"left, because the command made it where nothing was", plain(r.Created)},
		{"in conflict, not touched", r.Conflicts},
		{"failed", r.Failed},
		{"never kept, so it cannot be put back", r.NotKept},
	} {
		if len(group.list) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s:\n", group.title)
		for i, n := range group.list {
			if i == maxShown {
				fmt.Fprintf(w, "  and %d more; --json tells all\n", len(group.list)-i)
				break
			}
			line := render.Clean(n.Path)
			if n.Why != "" {
				line += ": " + render.Clean(n.Why)
			}
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if r.Complete() && len(r.Restored) == 0 {
		fmt.Fprintln(w, "nothing had to be put back: what was kept is as it was")
	}
}

// chainUndo restores the files that the remedies of a chain overwrote, the last remedy first.
func (a *app) chainUndo(c *cli.Context) error {
	args, err := atMost(c, 1)
	if err != nil {
		return err
	}
	l, err := a.oneChain(c, args[0])
	if err != nil {
		return err
	}
	repo, paths, err := a.private(c)
	if err == nil {
		err = a.nobodyAtWork(repo)
	}
	if err != nil {
		return err
	}
	store := undo.Store{Disk: a.disk, Dir: paths.Undo()}
	all, err := store.List()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(k undo.Kept) bool { return k.Label.Loop != "" || k.Label.Run != l.ID })
	if len(all) == 0 {
		return failf(exitNothing, "superloop chain show "+l.ID, "there is nothing to undo: nothing is kept of chain %s", l.ID)
	}
	reports, whole := []undo.Report{}, true
	for set := range lastFirst(all) {
		store.Repo = set.Repo
		r, err := store.Restore(c.Context, set.ID, undo.Options{Force: c.Bool("force")})
		if err != nil {
			if c.Context.Err() != nil {
				return interrupted(c.Context)
			}
			return failf(exitFailed, "superloop chain undo "+l.ID, "undoing remedy %d of chain %s: %w", set.Label.Recovery, l.ID, err)
		}
		reports, whole = append(reports, r), whole && r.Complete()
		if !c.Bool("json") {
			printUndo(a.stdout, "chain", set, r)
		}
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"chain_id": l.ID, "complete": whole, "reports": reports}); err != nil {
			return err
		}
	}
	if !whole {
		return failf(exitFailed, "superloop chain undo --force "+l.ID, "not everything is put back")
	}
	return nil
}
