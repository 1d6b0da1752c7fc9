package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/internal/workdir"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/learn"
)

// explained is what policy check --json prints.
type explained struct {
	recovery.Verdict
	Command string `json:"command"`
	// Display is the command as an operator may see it: in one line, hidden characters by their numbers.
	Display    string         `json:"display"`
	WorkingDir string         `json:"working_dir"`
	Loop       string         `json:"loop,omitempty"`
	EntryText  string         `json:"entry_text,omitempty"`
	PatternIs  string         `json:"pattern_text,omitempty"`
	Pointer    string         `json:"pointer,omitempty"` // of the rule, in the config
	File       string         `json:"file"`
	Line       int            `json:"line,omitempty"`
	Column     int            `json:"column,omitempty"`
	Nearest    *recovery.Near `json:"nearest,omitempty"`
}

func (a *app) policyCheck(c *cli.Context) error {
	switch {
	case c.Bool("batch") && (c.IsSet("command") || c.IsSet("loop")):
		return failf(exitUsage, "superloop policy check --batch < FILE", "--batch judges the lines of stdin, each by its own policy")
	case c.Bool("batch"):
		return a.policyBatch(c)
	case !c.IsSet("command"):
		return failf(exitUsage, "superloop policy check --command 'npm install'", "which command? give it as one argument")
	}
	f, cfg, err := a.policies(c)
	if err != nil {
		return err
	}
	loop, err := pickOf(c, cfg)
	if err != nil {
		return err
	}
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	p := f.of(loop)
	command := recovery.Command{Text: c.String("command"), WorkingDir: c.String("working-dir")}
	root, err := workdir.OpenRoot(repo)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only looked through
	if command.DirProblem, err = dirProblem(root, command.WorkingDir); err != nil {
		return err
	}
	// What only a run knows is taken as harmless: the rules are asked about.
	v := recovery.Decide(p, command, recovery.Facts{LooseOK: true, Confined: true})
	v = recovery.Limit(p, v, recovery.Budget{}, time.Now())
	e := f.explain(p, command, v)
	e.Loop = loop
	if c.Bool("json") {
		return render.JSON(a.stdout, e)
	}
	return a.report("verdict", f.shown(p, e))
}

// dirProblem says why a working directory is none, "" if it is one.
func dirProblem(root *workdir.Root, dir string) (string, error) {
	d, err := root.Resolve(dir)
	var bad *workdir.Error
	switch {
	case errors.As(err, &bad):
		return bad.Error(), nil
	case err != nil:
		return "", err
	}
	return "", d.Close()
}

// explain adds to a verdict what it comes from.
func (f *policyFile) explain(p *recovery.Policy, command recovery.Command, v recovery.Verdict) explained {
	e := explained{Verdict: v, Command: command.Text, Display: text.Display(command.Text), WorkingDir: command.WorkingDir, File: f.path}
	if v.Entry >= 0 {
		e.EntryText = p.Settings.AutoApprove[v.Entry]
	}
	switch {
	case v.Pattern >= 0:
		e.PatternIs = p.Settings.RequireHuman[v.Pattern]
		e.Pointer = p.Pointer("require_human")
		if p.Has("require_human") {
			e.Pointer = p.Pointer("require_human", v.Pattern)
		}
	case v.Rule == recovery.RuleDisabled:
		e.Pointer = p.Pointer("enabled")
	case v.Rule == recovery.RuleBudget:
		e.Pointer = p.Pointer("max_auto_recoveries_per_run")
	case v.Decision == action.Invalid:
	case v.Entry >= 0:
		e.Pointer = p.Pointer("auto_approve", v.Entry)
	default:
		e.Pointer = p.Pointer("on_unknown")
	}
	if e.Pointer != "" {
		e.Line, e.Column = f.position(e.Pointer)
	}
	if near, ok := p.Nearest(command.Text); ok && near.Text != command.Text {
		e.Nearest = &near
	}
	return e
}

// shownVerdict is an explanation as an operator reads it. Everything that comes from the command is escaped.
type shownVerdict struct {
	explained
	RuleText, NearestAt, Indent string
}

func (f *policyFile) shown(p *recovery.Policy, e explained) shownVerdict {
	rule := e.Rule
	switch {
	case e.PatternIs != "":
		rule += fmt.Sprintf(" \"%s\"", text.Display(e.PatternIs))
	case e.Rule == recovery.RuleUnknown:
		rule += fmt.Sprintf(" %q", p.Settings.OnUnknown)
	case e.Rule == recovery.RuleOpaque || e.Rule == recovery.RuleState:
		rule += ", on_unknown is allow"
	}
	switch {
	case e.Line > 0:
		rule += "   " + f.place(e.Pointer)
	case e.Pointer != "":
		rule += "   by default; it would stand at " + e.Pointer
	}
	v := shownVerdict{explained: e, RuleText: rule}
	if n := e.Nearest; n != nil {
		v.NearestAt = f.place(p.Pointer("auto_approve", n.Entry))
		v.Indent = strings.Repeat(" ", len(text.Display(n.Text[:n.At])))
	}
	return v
}

func (a *app) policySuggest(c *cli.Context) error {
	repo, paths, err := a.private(c)
	if err != nil {
		return err
	}
	store := learn.Store{Disk: a.disk, Path: paths.Learned()}
	if c.Bool("reset") {
		if err := a.operator(); err != nil {
			return err
		}
		if err := store.Reset(); err != nil {
			return err
		}
		if c.Bool("json") {
			return render.JSON(a.stdout, map[string]any{"reset": true})
		}
		fmt.Fprintln(a.stdout, "forgotten: which remedies helped in this repository")
		return nil
	}
	m, err := store.Load()
	if err != nil {
		return err
	}
	if c.Bool("all") {
		m.Entries = orEmpty(m.Entries)
		return render.JSON(a.stdout, m)
	}
	cfg, err := a.config(repo)
	if err != nil {
		return err
	}
	policy, _ := cfg.Policy("")
	found := m.Suggest(func(command string) bool {
		if policy == nil {
			return false
		}
		_, listed := policy.Listed(command)
		return listed
	})
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"suggestions": orEmpty(found)})
	}
	if len(found) == 0 {
		fmt.Fprintln(a.stdout, "nothing to suggest: no command that is not listed has helped twice")
		return nil
	}
	for _, s := range found {
		entry, err := json.Marshal(s.Command)
		if err != nil {
			return fmt.Errorf("writing a command: %w", err)
		}
		fmt.Fprintf(a.stdout, "%s\n    %s\n", text.Display(string(entry)), s.Why)
	}
	fmt.Fprintln(a.stdout, "next: copy what you want into recovery.auto_approve of .superloop/config.json, then: superloop policy lint")
	return nil
}
