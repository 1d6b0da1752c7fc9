package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/logs"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/cmd/superloop/internal/watch"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/roles/agent/item"
)

// filter selects the events that superloop events prints.
type filter struct {
	globs []string
	c     *cli.Context
	run   string
	since time.Time
}

func (f filter) pass(ev journal.Event) bool {
	switch role := f.c.String("role"); {
	case f.c.IsSet("iteration") && ev.Iteration != f.c.Int("iteration"), f.run != "" && ev.RunID != f.run,
		!f.since.IsZero() && ev.Timestamp.Before(f.since), role != "" && render.Role(ev) != role:
		return false
	}
	return len(f.globs) == 0 || slices.ContainsFunc(f.globs, func(glob string) bool {
		ok, _ := path.Match(glob, ev.Event) // events has checked the pattern
		return ok
	})
}

func (a *app) events(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	if c.Bool("verify") {
		return a.verify(c, p)
	}
	f := filter{globs: c.StringSlice("event"), c: c, run: c.String("run")}
	for _, g := range f.globs {
		if _, err := path.Match(g, ""); err != nil {
			return failf(exitUsage, "superloop events --event 'role_*'", "--event %q is not a pattern: %w", g, err)
		}
	}
	if c.IsSet("since") {
		f.since = time.Now().Add(-c.Duration("since"))
	}
	tail := func(n int) ([]journal.Event, error) {
		last, err := journal.Tail(p.Events(), n)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return last, err
	}
	if f.run == "last" {
		last, err := tail(1)
		if err != nil {
			return err
		}
		if len(last) == 1 {
			f.run = last[0].RunID
		}
	}
	form, err := a.form(c, a.stdout)
	if err != nil {
		return err
	}
	show := func(ev journal.Event) error {
		if !f.pass(ev) {
			return nil
		}
		if c.Bool("json") {
			line, err := journal.AppendLine(nil, ev)
			if err == nil {
				_, err = a.stdout.Write(line)
			}
			return err
		}
		line := fmt.Sprintf("%6d %s %3d  %-20s %s", ev.Seq, ev.Timestamp.Local().Format("01-02 15:04:05.000"),
			ev.Iteration, ev.Event, render.DescribeFor(ev, a.here))
		return form.Print(a.stdout, render.ToneOf(ev), line, 32) // below the name of the event
	}
	from := c.Int64("from")
	if n := c.Int("tail"); n > 0 {
		last, err := tail(n)
		if err != nil {
			return err
		}
		for _, ev := range last {
			if err := show(ev); err != nil {
				return err
			}
			from = ev.Seq + 1
		}
		if !c.Bool("follow") {
			return nil
		}
	}
	if c.Bool("follow") {
		err = journal.Follow(c.Context, p.Events(), from, show)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	err = journal.Read(p.Events(), from, show)
	if errors.Is(err, fs.ErrNotExist) {
		return hasNotRun(p.id)
	}
	return err
}

func (a *app) verify(c *cli.Context, p place) error {
	rep, err := journal.Verify(p.Events())
	if err == nil && rep.FirstBad == nil {
		err = journal.CheckHead(p.Events(), p.Head())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hasNotRun(p.id)
	case err != nil:
		return err
	case rep.FirstBad != nil && !c.Bool("json"):
		return failf(exitFailed, "cp "+text.Paste(p.Events())+" /somewhere/safe   (then compare it with a backup)", "%w", rep.FirstBad)
	}
	return failedUnless(rep.FirstBad == nil, a.told(c, rep, "%s: %d events, the chain is whole, last %s\n", p.id, rep.Events, rep.LastHash))
}

func (a *app) logs(c *cli.Context) error {
	p, err := a.theLoop(c)
	if err != nil {
		return err
	}
	form, err := a.form(c, a.stdout)
	if err != nil {
		return err
	}
	newest := func() (string, error) { return logs.Newest(p.Paths, c.String("role"), c.Int("iteration")) }
	file, err := newest()
	none := errors.Is(err, fs.ErrNotExist)
	switch {
	case none && !c.Bool("follow"):
		return failf(exitNothing, "superloop events --loop "+p.id+" --event 'role_*'", "there is no such log in %s", p.File("logs"))
	case err != nil && !none:
		return err
	case c.Bool("path"):
		_, err = fmt.Fprintln(a.stdout, file)
		return err
	case c.Bool("follow"):
		return logs.Follow(c.Context, newest, file, func(log string) io.WriteCloser {
			if log != file {
				fmt.Fprintf(a.stderr, "==> %s\n", log)
			}
			file = log
			return a.logWriter(c, form, log)
		})
	}
	to := a.logWriter(c, form, file)
	return errors.Join((&logs.Tail{File: file}).Copy(to, nil), to.Close())
}

// logWriter returns a writer that prints a log: as items, or with --raw as it is.
func (a *app) logWriter(c *cli.Context, form screen.Form, file string) io.WriteCloser {
	if c.Bool("raw") {
		return struct {
			io.Writer
			io.Closer
		}{a.stdout, io.NopCloser(nil)}
	}
	return logs.Items(file, func(it item.Item) error { return render.PrintItem(a.stdout, form, it) }, func(skipped int64) {
		if skipped > 0 {
			fmt.Fprintf(a.stderr, "(%s left out that tell nothing of what the agent does; --raw prints everything)\n", render.Number(int(skipped), "event"))
		}
	})
}

// watch shows what the agents of loops do: full-screen on a terminal, else as lines.
func (a *app) watch(c *cli.Context) error {
	if c.Bool("all") && c.IsSet("loop") {
		return failf(exitUsage, "superloop watch --loop "+c.String("loop"), "--all and --loop exclude each other")
	}
	_, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	form, err := a.form(c, a.stdout)
	if err != nil {
		return err
	}
	ids, sources := []string{}, []watch.Source{}
	for _, p := range loops {
		ids = append(ids, p.id)
		sources = append(sources, watch.Source{ID: p.id, Paths: p.Paths, Read: a.watched(p)})
	}
	feed := func(ctx context.Context, send func(any)) { watch.Feed(ctx, sources, send) }
	in, out := ttyOf(a.stdin), ttyOf(a.stdout)
	if c.Bool("plain") || in == nil || out == nil || a.env("TERM") == "dumb" {
		return watch.Lines(c.Context, a.stdout, form, ids, feed)
	}
	desk := watchDesk{a, c, map[string]place{}}
	for _, p := range loops {
		desk.loops[p.id] = p
	}
	return watch.Full(c.Context, in, out, watch.NewModel(ids, form.Colour, desk, time.Now()), feed)
}

// watched returns a function that reads the state of a loop for watch. watch calls it once a second at least, so it reads
// again only if one of the files has changed or the supervisor is another one.
func (a *app) watched(p place) func() (watch.Loop, string, error) {
	var last string
	var loop watch.Loop
	return func() (watch.Loop, string, error) {
		now := ""
		for _, file := range []string{p.File("state.json"), filepath.Join(p.Questions(), escalation.File), p.Control(), configFile(p.Repo)} {
			if info, err := os.Stat(file); err == nil {
				now += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), " ")
			}
		}
		if holder, alive := a.supervisor(p.Paths); alive {
			now += holder.String()
		}
		if now == last {
			return loop, last, nil
		}
		all, err := a.standings([]place{p})
		if err != nil {
			return watch.Loop{}, "", err
		}
		s, most := all[0], a.budget(p)
		last, loop = now, watch.Loop{ID: p.id, Alive: s.Supervisor != nil, Show: func(now time.Time) render.Standing {
			out := summary(s, now)
			for i, f := range out.Facts {
				if f.Name == "spent" && most != "" {
					out.Facts[i].Value += "; the budget is " + most
				}
			}
			return out
		}}
		return loop, last, nil
	}
}

// budget says how much a loop may spend, "" if there is no bound. A configuration that is invalid has no budgets:
// validate says why.
func (a *app) budget(p place) string {
	cfg, err := a.config(p.Repo)
	if err != nil {
		return ""
	}
	var most []string
	if l, ok := cfg.Loop(p.id); ok && l.MaxCostUSD > 0 {
		most = append(most, render.Dollars(l.MaxCostUSD, math.Floor))
	}
	if l, ok := cfg.Loop(p.id); ok && l.MaxTokens > 0 {
		most = append(most, render.Count(l.MaxTokens)+" tokens")
	}
	return strings.Join(most, " and ")
}

// watchDesk does what a key of watch asks for, by the same functions as the verbs. It refuses the same callers.
type watchDesk struct {
	app   *app
	c     *cli.Context
	loops map[string]place
}

// told turns the error of an action into what the view shows: with the next command to type.
func (d watchDesk) told(said string, err error) (string, error) {
	if err == nil {
		return said, nil
	}
	if f := classify(err); f.hint != "" {
		err = fmt.Errorf("%w; next: %s", err, d.app.here(f.hint))
	}
	return "", err
}

func (d watchDesk) Question(id string, approve bool, width int) (said string, answer func() (string, error), err error) {
	if err := d.app.operator(); err != nil {
		return "", nil, err
	}
	q, err := d.app.questionIn(d.c.Context, d.loops[id])
	switch {
	case err != nil:
		err = d.app.notAnswered(q, err)
	case q.rec.State != escalation.Pending:
		err = d.app.notAnswered(q, escalation.ErrNothingPending)
	}
	if err != nil {
		_, err = d.told("", err)
		return "", nil, err
	}
	method := map[bool]escalation.Method{true: escalation.Approve, false: escalation.Reject}[approve]
	return escalation.Describe(q.rec, width), func() (string, error) {
		if err := d.app.operator(); err != nil {
			return "", err
		}
		req := d.app.answerOf(d.c, method)
		req.Digest = q.rec.Digest // what was shown, and nothing that has replaced it
		_, said, err := d.app.record(d.c.Context, q, req)
		return d.told(said, err)
	}, nil
}

func (d watchDesk) Kick(id string) (string, error) {
	if err := d.app.operator(); err != nil {
		return "", err
	}
	_, said, err := d.app.kickLoop(d.c, d.loops[id])
	return d.told(said, err)
}

func (d watchDesk) Cancel(id string) (string, error) {
	if err := d.app.operator(); err != nil {
		return "", err
	}
	_, said, err := d.app.cancelLoop(d.c, d.loops[id])
	return d.told(said, err)
}

// ownFiles are files that superloop itself writes in the repository: they are no work of an agent.
var ownFiles = []string{"--", ".", ":(exclude).superloop/loops", ":(exclude).superloop/state.json"}

func (d watchDesk) Diff(id string) (string, error) {
	repo, err := gitcmd.Open(d.c.Context, d.loops[id].Repo, "", os.Environ())
	if err != nil {
		return d.told("", err)
	}
	git := func(args ...string) string {
		out, gerr := repo.Run(d.c.Context, nil, slices.Concat(args, ownFiles)...)
		err = errors.Join(err, gerr)
		return string(out)
	}
	head := "HEAD"
	if _, none := repo.Run(d.c.Context, nil, "rev-parse", "--verify", "-q", "HEAD"); none != nil {
		head = "--cached" // nothing is committed yet
	}
	said := git("diff", "--no-color", "--no-ext-diff", "--no-textconv", head)
	if files := git("ls-files", "--others", "--exclude-standard"); files != "" {
		said += "\nfiles that git does not know yet:\n" + files
	}
	return d.told(said, err)
}
