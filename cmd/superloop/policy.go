package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/internal/workdir"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
	"github.com/superloop/superloop/server/api"
)

// policyFile is a configuration file with the recovery policies in it.
type policyFile struct {
	path string // as messages show it
	doc  *schemas.Document
	// sections holds the policy of the top level, then those of the loops that have a recovery section of their own.
	sections []policySection
}

type policySection struct {
	loop   string // "" for the top level
	policy *recovery.Policy
}

// policies reads the configuration of a repository, and the policies in it.
func (a *app) policies(c *cli.Context) (*policyFile, *config.Config, error) {
	repo, err := a.repo(c)
	if err != nil {
		return nil, nil, err
	}
	// config.Load refuses a configuration whose policy tests fail. LoadUntested accepts it, so policy test can show them.
	cfg, err := config.LoadUntested(configFile(repo))
	if err != nil {
		return nil, nil, err
	}
	f := &policyFile{path: relTo(repo, configFile(repo))}
	// The document only gives lines and columns. The values come from the configuration, which has been checked.
	if data, err := config.Read(cfg.Path); err == nil {
		f.doc, _ = schemas.Read(schemas.Config, data)
	}
	top := recovery.Section{Raw: cfg.Recovery, Pointer: "/recovery"}
	if err := f.add("", top); err != nil {
		return nil, nil, err
	}
	for i, l := range cfg.Loops {
		if l.Recovery == nil {
			continue
		}
		if err := f.add(l.ID, top, recovery.Section{Raw: l.Recovery, Pointer: fmt.Sprintf("/loops/%d/recovery", i)}); err != nil {
			return nil, nil, err
		}
	}
	return f, cfg, nil
}

func (f *policyFile) add(loop string, sections ...recovery.Section) error {
	p, problems := recovery.ReadPolicy(sections...)
	if len(problems) > 0 {
		for i := range problems {
			problems[i].Line, problems[i].Column = f.position(problems[i].Pointer)
		}
		return &config.Error{Path: f.path, Problems: problems}
	}
	f.sections = append(f.sections, policySection{loop, p})
	return nil
}

// of returns the policy of a loop. A loop without a recovery section of its own has the policy of the top level.
func (f *policyFile) of(loop string) *recovery.Policy {
	i := slices.IndexFunc(f.sections, func(s policySection) bool { return s.loop == loop })
	return f.sections[max(i, 0)].policy
}

// position returns the place of a value in the file, or 0, 0 if the file does not state it.
func (f *policyFile) position(pointer string) (line, column int) {
	if f.doc == nil {
		return 0, 0
	}
	line, column, _ = f.doc.Position(pointer)
	return line, column
}

// raw returns the text of a value in the file, nil if the file does not state it.
func (f *policyFile) raw(pointer string) json.RawMessage {
	if f.doc == nil {
		return nil
	}
	return f.doc.Raw(pointer, nil)
}

// place returns "file:line:column", or the file and the pointer if the file does not state the value.
func (f *policyFile) place(pointer string) string {
	if line, column := f.position(pointer); line > 0 {
		return fmt.Sprintf("%s:%d:%d", f.path, line, column)
	}
	return f.path + ":" + pointer
}

func (a *app) policyLint(c *cli.Context) error {
	f, _, err := a.policies(c)
	if err != nil {
		return err
	}
	all, worst := []api.Placed{}, recovery.Severity("")
	seen := map[recovery.Finding]bool{}
	for _, s := range f.sections {
		for _, found := range s.policy.Lint() {
			if seen[found] {
				continue // the loop has this finding from the top-level section
			}
			seen[found] = true
			line, column := f.position(found.Pointer)
			all = append(all, api.Placed{Finding: found, Loop: s.loop, File: f.path, Line: line, Column: column})
			worst = recovery.Worst([]recovery.Finding{found, {Severity: worst}})
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, api.Linted{Findings: all, Worst: worst})
	} else {
		for _, p := range all {
			fmt.Fprintf(a.stdout, "%s: %s: %s\n", f.place(p.Pointer), p.Severity, p.Message)
		}
		if len(all) == 0 {
			fmt.Fprintf(a.stdout, "%s: nothing to say\n", f.path)
		}
	}
	return failedUnless(worst != recovery.SevError, err)
}

func (a *app) policyTest(c *cli.Context) error {
	f, _, err := a.policies(c)
	if err != nil {
		return err
	}
	all, failed := []recovery.TestResult{}, 0
	for _, s := range f.sections {
		for _, r := range s.policy.RunTests() {
			all = append(all, r)
			verdict := "ok  "
			if !r.OK {
				verdict = "FAIL"
				failed++
			}
			if c.Bool("json") {
				continue
			}
			fmt.Fprintf(a.stdout, "%s %s: %s is %s", verdict, f.place(r.Pointer), text.Display(r.Test.Command), r.Verdict.Decision)
			if !r.OK {
				fmt.Fprintf(a.stdout, ", not %s: %s", r.Test.Expect, r.Verdict.Reason)
			}
			fmt.Fprintln(a.stdout)
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"tests": all, "failed": failed})
	} else if len(all) == 0 {
		fmt.Fprintf(a.stdout, "%s has no tests; write some into recovery.tests\n", f.path)
	} else {
		fmt.Fprintf(a.stdout, "%s, %d failed\n", render.Number(len(all), "test"), failed)
	}
	return failedUnless(failed == 0, err)
}

// explained is the output of policy check --json.
type explained = api.Explained

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
	defer func() { _ = root.Close() }() // nothing was written through it
	if command.DirProblem, err = dirProblem(root, command.WorkingDir); err != nil {
		return err
	}
	// Facts that only a run can find out are assumed to be harmless, because the verb is about the rules.
	v := recovery.Decide(p, command, recovery.Facts{LooseOK: true, Confined: true})
	v = recovery.Limit(p, v, recovery.Budget{}, time.Now())
	e := f.explain(p, command, v)
	e.Loop = loop
	return a.report(c, e, "verdict", f.shown(p, e))
}

// dirProblem says why dir is not a valid working directory, "" if it is valid.
func dirProblem(root *workdir.Root, dir string) (string, error) {
	d, err := root.Resolve(dir)
	if bad, ok := errors.AsType[*workdir.Error](err); ok {
		return bad.Error(), nil
	}
	if err != nil {
		return "", err
	}
	return "", d.Close()
}

// explain adds to a verdict the rule that led to it, the place of the rule, and the nearest entry of auto_approve.
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

// shownVerdict is an explanation for an operator to read. All text that comes from the command is escaped.
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
