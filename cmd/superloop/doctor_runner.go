package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent/preflight"
)

func runnerFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: "runner", Usage: usage}
}

// smoke is what is said of one runner.
type smoke struct {
	preflight.Report
	// Live is nil without --live, and for a runner that cannot be started.
	Live *live `json:"live,omitempty"`
}

// smokeRunners finds out whether runners will work.
func (a *app) smokeRunners(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	cfg, err := a.config(repo)
	if err != nil {
		return err
	}
	runners, named, err := chosen(c, doctor.Runners(cfg))
	if err != nil {
		return err
	}
	if c.Bool("live") {
		fmt.Fprintf(a.stderr, "--live sends one short prompt to %s: this costs tokens, or counts against a subscription.\n", count(len(runners), "runner"))
	}
	workDir := doctor.WorkDir(c.Context, repo)
	examiner := &preflight.Examiner{Verify: doctor.Prove}
	fine, all := true, []smoke{}
	for _, r := range runners {
		req := doctor.Examination(cfg, r, workDir, os.Environ())
		req.Spare = req.Spare && !named // who asks for it wants to use it
		s := smoke{Report: examiner.Examine(c.Context, req)}
		if err := c.Context.Err(); err != nil {
			return err
		}
		if c.Bool("live") && s.Path != "" {
			if s.Live, err = a.try(c.Context, req, s.Path); err != nil {
				return err
			}
		}
		fine = fine && s.Verdict != preflight.Error && (s.Live == nil || s.Live.OK)
		all = append(all, s)
		if !c.Bool("json") {
			a.printSmoke(s)
		}
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"ok": fine, "runners": all}); err != nil {
			return err
		}
	}
	if !fine {
		return silent(exitFailed)
	}
	return nil
}

// chosen are the runners that --runner names, and whether it names any: without it, and
// with all where no runner has that name, they are all of them.
func chosen(c *cli.Context, runners []config.Runner) (list []config.Runner, named bool, err error) {
	names, known := c.StringSlice("runner"), make([]string, len(runners))
	for i, r := range runners {
		known[i] = r.Name
	}
	if len(names) == 0 || slices.Contains(names, "all") && !slices.Contains(known, "all") {
		return runners, false, nil
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, false, failf(exitNotFound, typed(c)+" --runner "+text.Paste(known[0]), "no runner %q; the configuration has %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(runners, func(r config.Runner) bool { return !slices.Contains(names, r.Name) }), true, nil
}

// printSmoke is the block of one runner.
func (a *app) printSmoke(s smoke) {
	w := a.stdout
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-8s  %s\n", label, render.Clean(text))
		}
	}
	verdict := string(s.Verdict)
	if s.Live != nil && !s.Live.OK {
		verdict = string(preflight.Error)
	}
	fmt.Fprintf(w, "%s: %s\n", render.Clean(s.Runner), verdict)
	program := s.Path
	if program == "" {
		program = s.Program + ", which cannot be started"
	} else if s.File.Interpreter != "" && s.File.Kind == "script" {
		program += fmt.Sprintf(" (a script for %s)", filepath.Base(s.File.Interpreter))
	}
	line("program", program)
	line("version", s.Version)
	line("check", checkLine(s.Check))
	line("adapter", s.Adapter)
	roles := strings.Join(s.Roles, ", ")
	if roles == "" {
		roles = "none, no loop uses it"
	}
	line("roles", roles)
	for _, cmd := range s.Commands {
		words := make([]string, len(cmd.Argv))
		for i, word := range cmd.Argv {
			words[i] = shown(word)
		}
		who := strings.Join(cmd.For, ", ")
		if cmd.Fast {
			who += " with --fast"
		}
		line("command", fmt.Sprintf("%s   (%s)", strings.Join(words, " "), who))
	}
	line("flags", flagsLine(s.Report))
	login := s.Login.State
	if s.Login.How != "" {
		login += ": " + s.Login.How
	}
	line("login", login)
	for _, f := range s.Findings {
		fix := f.Fix
		f.Fix = ""
		line(string(f.Severity), f.String())
		if fix != "" {
			line("", "fix: "+fix)
		}
	}
	if s.Live != nil {
		line("live", s.Live.text())
	}
	fmt.Fprintln(w)
}

// shown is a word of a command line as a shell would want it, placeholders left
// as they are.
func shown(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!") {
		return word
	}
	return text.Paste(word)
}

// checkLine says by what a program of which nothing is known has shown whether it
// works; "" of any other.
func checkLine(c *preflight.Check) string {
	switch {
	case c == nil:
		return ""
	case c.Works && c.Method == "":
		return c.Original
	case c.Works && c.Repaired == c.Original:
		return fmt.Sprintf("%s, exit code %d (%s): %s", c.Original, c.ExitCode, c.Method, c.Why)
	case c.Works:
		return fmt.Sprintf("%s, exit code %d (%s; %s fails): %s", c.Repaired, c.ExitCode, c.Method, c.Original, c.Why)
	case c.ExitCode < 0:
		return c.Original + " fails"
	}
	return fmt.Sprintf("%s fails with exit code %d", c.Original, c.ExitCode)
}

// flagsLine counts the flags, and names those that are not fine.
func flagsLine(r preflight.Report) string {
	var known int
	var unknown, open []string
	for _, f := range r.Flags {
		switch f.State {
		case preflight.FlagKnown:
			known++
		case preflight.FlagUnknown:
			unknown = append(unknown, f.Flag)
		default:
			open = append(open, f.Flag)
		}
	}
	var parts []string
	if known > 0 {
		parts = append(parts, fmt.Sprintf("%d known", known))
	}
	if len(unknown) > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown: %s", len(unknown), strings.Join(unknown, " ")))
	}
	if len(open) > 0 {
		parts = append(parts, fmt.Sprintf("%d not checked", len(open)))
	}
	text := strings.Join(parts, ", ")
	switch {
	case r.Unchecked != "" && text == "":
		return "not checked: " + r.Unchecked
	case r.Unchecked != "":
		return text + ": " + r.Unchecked
	case text == "":
		return "none"
	}
	return text
}
