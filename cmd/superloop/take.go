package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/page"
	"github.com/superloop/superloop/cmd/superloop/internal/take"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/local"
)

// taking opens the work of a loop, for the verbs with which a person takes it.
func (a *app) taking(c *cli.Context) (*take.Work, place, error) {
	p, err := a.theLoop(c)
	if err != nil {
		return nil, p, err
	}
	w, err := a.work(c.Context, p)
	return w, p, err
}

// work opens the work of a loop.
func (a *app) work(ctx context.Context, p place) (*take.Work, error) {
	var own *bool
	if cfg, err := a.config(p.Repo, p.id); err == nil { // else the work tree that is there decides
		if l, ok := cfg.Loop(p.id); ok {
			own = &l.Git.Worktree
		}
	}
	return take.Open(ctx, take.Work{ID: p.id, Paths: p.Paths, Disk: a.disk, Environ: os.Environ(), Say: a.stdout}, own)
}

// taken turns the refusal of a verb that takes work into a fault.
func taken(err error) error {
	r, ok := errors.AsType[*take.Refusal](err)
	switch {
	case !ok:
		return err
	case r.Nothing:
		return failf(exitNothing, r.Next, "%w", r.Err)
	}
	return failf(exitFailed, r.Next, "%w", r.Err)
}

// free returns a *local.HeldError if a supervisor runs the loop.
func (a *app) free(p place) error {
	if holder, alive := local.Supervisor(p.Paths); alive {
		return &local.HeldError{LoopID: p.id, Holder: *holder}
	}
	return nil
}

func (a *app) diff(c *cli.Context) error {
	w, p, err := a.taking(c)
	if err != nil {
		return err
	}
	patch, files, err := w.Diff(c.Context, c.Bool("stat"), cmp.Or(a.width(), 80))
	if err != nil {
		return taken(err)
	}
	if files == 0 {
		fmt.Fprintf(a.stderr, "loop %s has changed nothing since its run began\n", p.id)
	}
	if ttyOf(a.stdout) == nil || files == 0 {
		_, err := a.stdout.Write(patch)
		return err
	}
	pager := cmp.Or(a.env("GIT_PAGER"), a.env("PAGER"), "less")
	if _, missing := lookPath(a.env)(strings.Fields(pager + " .")[0]); missing != nil || pager == "cat" {
		_, err := a.stdout.Write(take.Coloured(patch))
		return err
	}
	return proc.Pager(pager, append([]string{"LESS=FRX", "LV=-c"}, os.Environ()...), take.Coloured(patch))
}

func (a *app) merge(c *cli.Context) error {
	w, p, err := a.taking(c)
	if err == nil {
		err = a.free(p)
	}
	if err != nil {
		return err
	}
	return taken(w.Merge(c.Context, take.MergeOptions{Squash: c.Bool("squash"), DryRun: c.Bool("dry-run"), Force: c.Bool("force")}))
}

func (a *app) pullRequest(c *cli.Context) error {
	w, p, err := a.taking(c)
	if err == nil {
		err = a.free(p)
	}
	if err != nil {
		return err
	}
	return taken(w.Pull(c.Context, take.PullOptions{Base: c.String("base"), Ready: c.Bool("ready"), DryRun: c.Bool("dry-run"), Force: c.Bool("force"),
		Env: a.env, LookPath: lookPath(a.env)}))
}

// reportPage writes the report of the last run as one file of HTML.
func (a *app) reportPage(c *cli.Context) error {
	w, p, err := a.taking(c)
	if err != nil {
		return err
	}
	res, err := w.Result(c.Context)
	if err != nil {
		return taken(err)
	}
	var b bytes.Buffer
	if err := page.Write(&b, res, time.Now()); err != nil {
		return err
	}
	file := cmp.Or(c.String("output"), p.File("report.html"))
	if file == "-" {
		_, err := a.stdout.Write(b.Bytes())
		return err
	}
	if err := a.disk.WriteProjection("report", file, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, relTo(p.Repo, file))
	return nil
}
