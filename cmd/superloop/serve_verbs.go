package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/superloop/superloop/cmd/superloop/internal/metrics"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/registry"
)

// apiOptions are the options of the daemon's interface for programs.
func (a *app) apiOptions(state string, keep api.Keep, log *zap.Logger) api.Options {
	figures := metrics.NewCollector(nil)
	return api.Options{State: state, Disk: a.disk, Version: thisBuild().Version, Keep: keep, Log: log, Verb: a.verb, Say: sayOf,
		Start: func(_ context.Context, e registry.Entry) error {
			if _, err := a.loopOf(e.Repo, e.Loop); err != nil {
				return err
			}
			return registry.Store{Disk: a.disk, State: state}.Put(e)
		},
		Metrics: func(journals map[string]string) []byte {
			var sources []metrics.Source
			for id, file := range journals {
				sources = append(sources, metrics.Source{Loop: id, Journal: file})
			}
			slices.SortFunc(sources, func(x, y metrics.Source) int { return bytes.Compare([]byte(x.Loop), []byte(y.Loop)) })
			figures.Only(sources)
			return figures.Text()
		}}
}

// tones are the names of tones for programs.
var tones = map[screen.Tone]string{screen.Faint: "faint", screen.Good: "good", screen.Bad: "bad", screen.Ask: "ask"}

// sayOf tells an event as superloop events does.
func sayOf(ev journal.Event) (text, tone string) {
	return render.Describe(ev), cmp.Or(tones[render.ToneOf(ev)], "normal")
}

// verb carries out a verb in this process, as main does, and returns what it prints on stdout. Its streams are no
// terminals, so it asks nothing.
func (a *app) verb(ctx context.Context, call api.VerbCall) ([]byte, error) {
	var out, talk bytes.Buffer
	one := newApp(a.disk, bytes.NewReader(call.Stdin), &out, &talk)
	one.env, one.hurry, one.json = a.env, a.hurry, true
	one.intent = call.Intent
	if call.By.Channel != "" {
		one.by = &call.By
	}
	args := append([]string{"superloop"}, call.Args...)
	one.args = args
	c := one.cli()
	c.Flags = nil
	c.HideHelp = true
	alone(c.Commands)
	err := c.RunContext(ctx, args)
	if err == nil {
		return out.Bytes(), nil
	}
	f := classify(err)
	if f.quiet {
		return out.Bytes(), &api.Refused{Exit: f.code, Err: errors.New("the verb has printed why")}
	}
	return out.Bytes(), &api.Refused{Exit: f.code, Next: one.here(f.hint), Err: f.err}
}

// alone takes --help from verbs, for which the library has one variable that all of them would write at the same time.
func alone(verbs []*cli.Command) {
	for _, v := range verbs {
		v.HideHelp = true
		alone(v.Subcommands)
	}
}
