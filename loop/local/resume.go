package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery"
)

// newRunID makes the id of a run. Ids sort by time, and a random part makes two ids of one millisecond differ.
func newRunID(at time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail on any system that Go runs on
	return at.Format("20060102T150405.000Z") + "-" + hex.EncodeToString(b[:])
}

// open takes the loop's locks and opens its journal. It writes nothing before it knows that the configuration has the
// loop and that the directory is a git repository. Before it holds the locks it creates directories only.
func open(ctx context.Context, o Options) (_ *driver, err error) {
	cfg, ok := o.Config.Loop(o.LoopID)
	if !ok {
		return nil, fmt.Errorf("no loop %q in %s", o.LoopID, o.Config.Path)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = mathrand.Float64
	}
	paths, err := layout.NewPaths(o.Repo, o.LoopID, o.StateHome)
	if err != nil {
		return nil, err
	}
	defer func() { err = notDirectory(err, paths.Private) }()
	mended, err := worktree.MendHead(paths.Repo)
	if err != nil {
		return nil, err
	}
	repo, err := worktree.Open(ctx, paths.Repo, paths.Git())
	if err != nil {
		return nil, err
	}
	d := &driver{o: o, loop: cfg, paths: paths, repo: repo, log: o.Log.With(zap.String("component", "loop"))}
	repo.OnMoved(d.movedAside)
	o.Disk = o.Disk.Clearing(d.movedAside, paths.Super, paths.State)
	d.o.Disk = o.Disk
	d.noteHealed(mended)
	d.host = &effects.Host{LoopID: o.LoopID, Paths: paths, Repo: repo, Disk: o.Disk, Environ: o.Environ, Fast: o.Fast, Clock: o.Now, Random: o.Random, Log: o.Log.With(zap.String("component", "loop")), Admit: o.Admit}
	if o.Observer != nil {
		d.host.Said = o.Observer.Said
	}
	d.host.Settings, d.host.Moved = d.settings, d.movedAside
	d.equip()
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	for _, dir := range []struct {
		path string
		perm os.FileMode
	}{{paths.Private, 0o700}, {paths.Control(), 0o700}, {paths.Trees(), 0o700}, {paths.Loop, 0o755}, {paths.Proposals(), 0o755}, {paths.Policies(), 0o755}} {
		if err := o.Disk.MkdirAll("dirs", dir.path, dir.perm); err != nil {
			return nil, d.host.Full(err)
		}
	}
	if o.Held == nil {
		held, err := hold(o, paths)
		if err != nil {
			return nil, d.host.Full(err)
		}
		d.cleanup = append(d.cleanup, held.Release)
	}
	for _, dir := range []string{paths.Loop, paths.Private, paths.Trees()} {
		// These are unfinished files of a killed supervisor. The lock shows that no other supervisor is writing.
		if _, err := o.Disk.RemoveTemps("temps", dir); err != nil {
			return nil, d.host.Full(err)
		}
	}
	d.journal, err = d.openJournal()
	if err != nil {
		return nil, d.host.Full(err)
	}
	d.cleanup = append(d.cleanup, func() { _ = d.journal.Close() })
	d.view = journal.NewProjection(o.Disk, "state", paths.File("state.json"), 0o644, viewInterval)
	d.super = journal.NewProjection(o.Disk, "repo-state", filepath.Join(paths.Super, "state.json"), 0o644, viewInterval)
	d.cleanup = append(d.cleanup, func() { _, _ = d.view.Close(), d.super.Close() })
	return d, nil
}

// notDirectory returns what lies in the place of the private directory, or of one above it, if err follows from it.
func notDirectory(err error, dir string) error {
	if !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		info, serr := os.Stat(at)
		if exists(at) && (serr == nil && !info.IsDir() || errors.Is(serr, fs.ErrNotExist)) { // also a link that leads nowhere
			return &door.StateError{What: "the private state", Path: at, Err: errors.New("it is not a directory"), Without: "superloop begins anew"}
		}
	}
	return err
}

// takeUp computes the state from the journal, appends the records that the last write lacked, and starts or resumes the
// loop.
func (d *driver) takeUp(ctx context.Context) (err error) {
	if err = d.fold(); err != nil {
		return err
	}
	life, stop := context.WithCancel(ctx)
	d.cleanup = append(d.cleanup, stop)
	d.life, d.watches = life, d.o.Watches
	if d.watches == nil {
		d.watches = dirwatch.NewWatches(life)
	}
	d.look = d.watches.Dir(life, d.paths.Control(), func(string) bool { return true })

	fresh := d.state.Version == 0 || d.o.Fresh
	if !fresh && d.state.Status == loop.Completed {
		d.cleanup = append(d.cleanup, d.outbox.Close)
		d.outbox.Configure() // a supervisor that was killed may have told nobody
		d.putViews()
		return d.settle()
	}
	if err := escalation.Forget(d.o.Disk, d.paths.Private); err != nil {
		return d.host.Full(err)
	}
	// What the run leaves is looked at when its processes are gone, so this cleanup comes before that of the spawner.
	d.cleanup = append(d.cleanup, func() {
		d.host.Warn("changes of files that listed commands read stay questions", d.executor.Unpin(context.WithoutCancel(ctx)))
	})
	hold := proc.Options{Level: d.o.Containment}
	if d.o.Unprotected {
		hold = proc.OnHost(d.o.Containment)
	}
	if d.spawner, err = proc.Start(hold); err != nil {
		return fmt.Errorf("starting the process that runs agents: %w", err)
	}
	d.cleanup = append(d.cleanup, func() { _ = d.spawner.Close() })
	if err := d.sameRepository(fresh); err != nil {
		return err
	}
	if err := d.heal(ctx, d.repo); err != nil {
		return err
	}
	if err := d.enterWorktree(ctx); err != nil {
		return err
	}
	d.equip() // the spawner and the work tree are known now
	if err := d.tree.Ignore(); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() { d.surroundings.Close() })
	d.protect(ctx)
	news, err := d.startConfig()
	if err != nil {
		return err
	}
	d.proposals = d.watches.Dir(life, d.paths.Loop, func(path string) bool { return filepath.Base(path) == recovery.ProposalFile })
	d.cleanup = append(d.cleanup, d.outbox.Close)
	d.outbox.Configure()
	// A loop without recovery begins here, too: what its agents change is not the operator's.
	if err := d.executor.Pin(ctx, d.paths.Lock(), d.state.Version == 0); err != nil {
		return d.host.Full(err)
	}
	if fresh {
		err = d.start(ctx)
	} else {
		err = d.resume()
	}
	if err != nil {
		return err
	}
	d.executor.Marker = effects.Mark(d.state.RunID)
	return d.tellLoaded(news)
}

// fold computes the state from the journal, appends the records that the last write lacked, and records a repair of the
// journal.
func (d *driver) fold() error {
	fold, err := Fold(d.paths.Events())
	if err != nil {
		return err
	}
	d.state, d.intents = fold.State, fold.Intents
	if len(fold.Owed) > 0 {
		if err := d.append(true, d.state, eventsOf(fold.Owed)); err != nil {
			return err
		}
	}
	if rep := d.journal.Repaired(); rep.Cut > 0 {
		return d.record("journal_repaired", map[string]any{"cut_bytes": rep.Cut, "kept_in": d.paths.Rel(rep.Broken)})
	}
	return nil
}

// start begins the loop from the start. It archives what an earlier run left.
func (d *driver) start(ctx context.Context) error {
	if d.state.Version != 0 {
		if err := d.archive(); err != nil {
			return err
		}
	}
	if err := d.checklist(); err != nil {
		return err
	}
	tree, err := d.tree.First(ctx)
	if err != nil {
		return err
	}
	return d.step(loop.Started{Plan: effects.PlanOf(d.settings().Next, d.loop), Version: d.o.Version, PID: os.Getpid(),
		SpecFile: d.loop.SpecFile, Tree: tree, Containment: string(d.spawner.Level()), Rules: loop.CurrentRules})
}

// resume continues the loop where the journal ends.
func (d *driver) resume() error {
	if err := d.checklist(); err != nil {
		return err
	}
	f := loop.Resumed{Plan: effects.PlanOf(d.settings().Next, d.loop), Version: d.o.Version, PID: os.Getpid(), Status: d.state.Status,
		Containment: string(d.spawner.Level()), Rules: loop.CurrentRules}
	if p := d.state.Pending; p != nil && d.state.Begun && p.Kind != loop.AskHuman {
		f.Interrupted, f.Reason = p.ID, loop.ReasonCrash
		// The helper processes ended the dead supervisor's processes when it died. Sweep ends what is left if the
		// helper was killed, too.
		f.Killed = proc.Sweep(effects.Mark(d.state.RunID))
	}
	if err := d.step(f); err != nil {
		return err
	}
	d.restarted = !d.o.Woken && d.state.Human != nil && d.state.Human.Type == loop.EscalationRunner
	return d.tree.Prune(d.state)
}

// enterWorktree makes the loop's own git work tree and works there, if the configuration asks for one.
func (d *driver) enterWorktree(ctx context.Context) error {
	if !d.loop.Git.Worktree {
		return nil
	}
	dir := filepath.Dir(d.paths.OwnTree())
	if err := d.o.Disk.MkdirAll("worktree", dir, 0o755); err != nil {
		return d.host.Full(err)
	}
	// Without this file git would show the work trees as untracked files of the repository.
	if ignore := filepath.Join(dir, ".gitignore"); !exists(ignore) {
		if err := d.o.Disk.WriteFile("worktree", ignore, []byte("*\n"), 0o644); err != nil {
			return d.host.Full(err)
		}
	}
	repo, err := d.repo.AddWorktree(ctx, d.paths.OwnTree(), d.paths.OwnBranch())
	if err != nil {
		return fmt.Errorf("making the loop's own work tree: %w", err)
	}
	d.repo, d.host.Repo = repo, repo
	return d.heal(ctx, repo)
}
