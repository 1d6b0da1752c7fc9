package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/add"
	"github.com/superloop/superloop/cmd/superloop/internal/plan"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/backlog"
)

// splitting is a plan that was taken apart, and what of it is to be written.
type splitting struct {
	plan.Split
	Files   []string `json:"files"` // those that are not there yet, relative to the repository
	Written bool     `json:"written"`

	p       layout.Paths
	missing []plan.Spec
}

// planSplit makes the specs of a backlog of a plan.
func (a *app) planSplit(c *cli.Context) error {
	split, err := a.split(c)
	if err != nil {
		return err
	}
	watched, err := a.worksOff(split.p.Repo)
	if err != nil {
		return err
	}
	if !c.Bool("dry-run") {
		if err := a.writeSpecs(split); err != nil {
			return err
		}
		split.Written = true
	}
	split.Files, split.Done, split.Context = orEmpty(split.Files), orEmpty(split.Done), orEmpty(split.Context)
	for i := range split.Specs {
		split.Specs[i].After = orEmpty(split.Specs[i].After)
	}
	return a.write(c, split, func(w io.Writer) {
		_ = table(w, "FILE\tLOOP\tBOXES\tAFTER", split.Specs, func(s plan.Spec) string {
			boxes := "-"
			if s.Open+s.Done > 0 {
				boxes = fmt.Sprintf("%d of %d open", s.Open, s.Open+s.Done)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s", s.File, s.Loop, boxes, cmp.Or(strings.Join(s.After, ", "), "-"))
		})
		for _, list := range []struct {
			what   string
			titles []string
		}{{"done, and left out", split.Done}, {"context of each spec", split.Context}} {
			if len(list.titles) > 0 {
				fmt.Fprintf(w, "%s: %s\n", list.what, text.Line(strings.Join(list.titles, ", "), 400))
			}
		}
		if split.Cut {
			fmt.Fprintln(w, "the context is longer than 16 KiB, and was cut in the specs")
		}
		next := "superloop queue watch"
		if watched {
			next = "superloop queue"
		}
		dir := relTo(split.p.Repo, split.p.Backlog())
		switch {
		case len(split.missing) == 0:
			fmt.Fprintf(w, "%s has all of these already; nothing is changed\nnext: %s\n", dir, a.here(next))
		case !split.Written:
			fmt.Fprintf(w, "would write %d of these to %s; no file is written: superloop plan split without --dry-run writes\n", len(split.missing), dir)
		default:
			fmt.Fprintf(w, "wrote %d of these to %s\nnext: %s\n", len(split.missing), dir, a.here(next))
		}
	})
}

// split takes the plan apart that the operator has named, and looks what is there already. It writes nothing.
func (a *app) split(c *cli.Context) (s splitting, err error) {
	file := c.Args().First()
	switch words := c.Args().Slice(); {
	case len(words) == 0:
		return s, failf(exitUsage, "superloop plan split --dry-run PLAN.md", "plan split wants the FILE of a plan, or - for standard input")
	case len(words) > 1:
		return s, failf(exitUsage, "superloop plan split "+shellWords(append(words[1:], file)), "plan split wants one FILE, behind the flags")
	}
	prefix := c.String("prefix")
	if prefix != text.Slug(prefix, plan.MaxPrefix) {
		return s, failf(exitUsage, "superloop plan split --prefix "+cmp.Or(text.Slug(prefix, plan.MaxPrefix), "WORD")+" "+text.Paste(file), "--prefix %q: a prefix consists of a-z, 0-9 and dashes between them, at most %d", prefix, plan.MaxPrefix)
	}
	data, err := a.planText(c, file)
	if err != nil {
		return s, err
	}
	name := "the plan"
	if file != "-" {
		name = filepath.Base(file)
	}
	s.Split, err = plan.Make(data, plan.Options{File: name, Prefix: prefix, Independent: c.Bool("independent")})
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		return s, failf(exitConfig, "superloop plan split --help", "%w; nothing is written", bad)
	} else if err != nil {
		return s, err
	}
	repo, err := a.repo(c)
	if err == nil {
		s.p, err = a.paths(repo, "any")
	}
	if err == nil {
		err = a.newSpecs(&s, file)
	}
	return s, err
}

func (a *app) planText(c *cli.Context, file string) (data []byte, err error) {
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(reading{c.Context, a.stdin}, plan.MaxPlan+1))
	} else if file, err = filepath.Abs(file); err == nil {
		data, err = door.ReadOwn(file, plan.MaxPlan+1)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failf(exitNotFound, "superloop plan split -   (reads it from standard input)", "there is no plan %s", text.Paste(file))
	case err != nil:
		return nil, fmt.Errorf("reading the plan: %w", err)
	case len(data) > plan.MaxPlan:
		return nil, failf(exitConfig, "superloop plan split --help", "the plan has more than %d MiB", plan.MaxPlan>>20)
	}
	return data, nil
}

// newSpecs finds out which specs are not in the backlog yet. What is there and says something else, and a loop that has the
// name of a new one, are errors.
func (a *app) newSpecs(s *splitting, file string) error {
	store, err := a.backlogs()
	if err != nil {
		return err
	}
	items, err := store.List(backlog.Watch{Repo: s.p.Repo})
	if err != nil {
		return err
	}
	configured, err := fileLoops(configFile(s.p.Repo))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failf(exitConfig, "superloop validate", "%w", err)
	}
	again := "superloop plan split --prefix WORD " + text.Paste(file)
	for _, one := range s.Specs {
		path := filepath.Join(s.p.Backlog(), one.File)
		was, err := door.Read(path, backlog.MaxSpec)
		switch {
		case err == nil && bytes.Equal(was, one.Text):
			continue
		case err == nil:
			return failf(exitFailed, again, "%s is there already and says something else; nothing is written. Take it away, or begin the names with a word of your own", relTo(s.p.Repo, path))
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("looking at %s: %w", relTo(s.p.Repo, path), err)
		}
		other, err := store.Other(s.p.Repo, one.Loop, one.File)
		if err != nil {
			return err
		}
		if other || add.Taken(configured)(one.Loop) {
			return failf(exitFailed, again, "there is a loop %s already; nothing is written. Begin the names with a word of your own", one.Loop)
		}
		if at := slices.IndexFunc(items, func(it backlog.Item) bool { return it.Loop == one.Loop && it.File != one.File }); at >= 0 {
			return failf(exitFailed, again, "the file %s of the backlog makes a loop %s already; nothing is written. Begin the names with a word of your own", text.Display(items[at].File), one.Loop)
		}
		s.missing = append(s.missing, one)
		s.Files = append(s.Files, relTo(s.p.Repo, path))
	}
	return nil
}

// writeSpecs writes the specs that are missing, the last one first: what others depend on comes last, so that nothing begins
// before all are there. If one cannot be written, none is left.
func (a *app) writeSpecs(s splitting) error {
	if len(s.missing) == 0 {
		return nil
	}
	if err := a.disk.MkdirAll("plan", s.p.Backlog(), 0o755); err != nil {
		return err
	}
	for i, one := range slices.Backward(s.missing) {
		err := a.disk.WriteFile("plan", filepath.Join(s.p.Backlog(), one.File), one.Text, 0o644)
		if err == nil {
			continue
		}
		for _, done := range s.missing[i:] {
			if rerr := a.disk.Remove("plan-back", filepath.Join(s.p.Backlog(), done.File)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
		return fmt.Errorf("writing the specs: %w", err)
	}
	return nil
}

// worksOff reports whether the daemon works off the backlog of a repository.
func (a *app) worksOff(repo string) (bool, error) {
	store, err := a.backlogs()
	if err != nil {
		return false, err
	}
	all, _ := store.All() // superloop queue says which are damaged
	return slices.ContainsFunc(all, func(w backlog.Watch) bool { return w.Repo == repo }), nil
}
