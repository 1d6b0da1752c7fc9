package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/logs"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
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
		return failf(exitFailed, "cp "+text.Paste(rep.FirstBad.Path)+" /somewhere/safe   (then compare it with a backup)", "%w", rep.FirstBad)
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

func (a *app) list(c *cli.Context) error {
	if c.Bool("all") {
		return a.listAll(c)
	}
	_, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	all, err := a.standings(loops)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		type row struct {
			ID        string    `json:"id"`
			Status    string    `json:"status"`
			SubStatus string    `json:"sub_status,omitempty"`
			Iteration int       `json:"iteration"`
			Running   bool      `json:"running"`
			UpdatedAt time.Time `json:"updated_at,omitzero"`
		}
		rows := make([]row, len(all))
		for i, s := range all {
			rows[i] = row{s.LoopID, string(s.Status), s.SubStatus, s.Iteration, s.Supervisor != nil, s.UpdatedAt}
		}
		return render.JSON(a.stdout, map[string]any{"loops": rows})
	}
	return table(a.stdout, "ID\tSTATUS\tITERATION\tLAST CHANGE\tSUPERVISOR", all, func(s standing) string {
		iteration, last, pid := "-", "-", "-"
		if s.Iteration > 0 {
			iteration = fmt.Sprint(s.Iteration)
			if s.Max > 0 {
				iteration += fmt.Sprintf("/%d", s.Max)
			}
			last = s.UpdatedAt.Local().Format(time.DateTime)
		}
		if s.Supervisor != nil {
			pid = fmt.Sprintf("pid %d", s.Supervisor.PID)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", s.LoopID, whole(s.Status, s.SubStatus), iteration, last, pid)
	})
}
