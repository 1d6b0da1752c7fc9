package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/watch"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/local"
)

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
		for _, file := range []string{p.File("state.json"), filepath.Join(p.Questions(), escalation.File), p.Control(), a.configPath(p.Repo, p.id)} {
			if info, err := os.Stat(file); err == nil {
				now += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), " ")
			}
		}
		if holder, alive := local.Supervisor(p.Paths); alive {
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
	cfg, err := a.config(p.Repo, p.id)
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

func (d watchDesk) Diff(id string) (string, error) {
	w, err := d.app.work(d.c.Context, d.loops[id])
	if err != nil {
		return d.told("", taken(err))
	}
	patch, _, err := w.Diff(d.c.Context, false, 0)
	return d.told(string(patch), taken(err))
}
