package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
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
	newest := func() (string, error) { return newestLog(p.Paths, c.String("role"), c.Int("iteration")) }
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
	case !c.Bool("follow"):
		return a.copyFrom(file, new(int64))
	}
	return a.followLogs(c.Context, newest, file)
}

// newestLog returns the log that was written to last among those of role and iteration. "" stands for every role, 0 for
// every iteration. It returns fs.ErrNotExist if there is no such log.
func newestLog(p layout.Paths, role string, iteration int) (string, error) {
	if role == "tests" && iteration == 0 {
		file := p.File("test-output.txt")
		_, err := os.Stat(file)
		return file, err
	}
	dirs, err := os.ReadDir(p.File("logs"))
	if err != nil {
		return "", err
	}
	best, at := "", time.Time{}
	for _, d := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(d.Name(), "iter-"))
		if err != nil || (iteration > 0 && n != iteration) {
			continue
		}
		files, err := os.ReadDir(p.Logs(n))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			name := f.Name()
			if !strings.HasSuffix(name, ".log") || (role != "" && name != role+".log" && !strings.HasPrefix(name, role+".")) {
				continue
			}
			if info, err := f.Info(); err == nil && !info.ModTime().Before(at) {
				best, at = filepath.Join(p.Logs(n), name), info.ModTime()
			}
		}
	}
	if best == "" {
		return "", fs.ErrNotExist
	}
	return best, nil
}

// copyFrom prints a file from offset *at to its end and moves *at there. A file that is shorter than *at was begun
// anew, so copyFrom prints all of it.
func (a *app) copyFrom(file string, at *int64) error {
	f, _, err := door.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() < *at {
		*at = 0
	}
	if *at > 0 {
		if _, err := f.Seek(*at, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := io.Copy(a.stdout, f)
	*at += n
	return err
}

// followLogs prints what agents append to the newest log until ctx ends, and changes to the next log when another role
// begins. It polls four times a second, because a log grows many times a second.
func (a *app) followLogs(ctx context.Context, newest func() (string, error), file string) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var at int64
	for {
		if file != "" {
			if err := a.copyFrom(file, &at); err != nil {
				return err
			}
		}
		if next, err := newest(); err == nil && next != file {
			file, at = next, 0
			fmt.Fprintf(a.stderr, "==> %s\n", file)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
