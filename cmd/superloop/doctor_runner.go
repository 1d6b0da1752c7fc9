package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// smoke is the report about one runner.
type smoke struct {
	preflight.Report
	Live *live `json:"live,omitempty"` // nil without --live, and for a runner that cannot be started
}

// smokeRunners checks whether the runners will work, and with --live lets each answer one prompt.
func (a *app) smokeRunners(c *cli.Context) error {
	repo, cfg, err := a.configured(c)
	if err != nil {
		return err
	}
	runners, named, err := chosen(c, doctor.Runners(cfg))
	if err != nil {
		return err
	}
	if c.Bool("live") {
		fmt.Fprintf(a.stderr, "--live sends one short prompt to %s: this costs tokens, or counts against a subscription.\n", render.Number(len(runners), "runner"))
	}
	workDir := doctor.WorkDir(repo)
	examiner := &preflight.Examiner{Verify: doctor.Prove}
	fine, all := true, []smoke{}
	for _, r := range runners {
		req := doctor.Examination(cfg, r, workDir, os.Environ())
		req.Spare = req.Spare && !named // an operator who names a runner wants to use it, so its errors are errors
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
		err = render.JSON(a.stdout, map[string]any{"ok": fine, "runners": all})
	}
	return failedUnless(fine, err)
}

// chosen returns the runners that --runner names; named reports whether it names any. Without --runner it returns all
// runners. With --runner all it returns all runners, too, unless a runner has the name "all".
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

// printSmoke prints the report about one runner.
func (a *app) printSmoke(s smoke) {
	w := a.stdout
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-8s  %s\n", label, render.Clean(text))
		}
	}
	verdict := s.Verdict
	if s.Live != nil && !s.Live.OK {
		verdict = preflight.Error
	}
	fmt.Fprintf(w, "%s: %s\n", render.Clean(s.Runner), verdict)
	program := cmp.Or(s.Path, s.Program+", which cannot be started")
	if s.Path != "" && s.File.Interpreter != "" && s.File.Kind == "script" {
		program += fmt.Sprintf(" (a script for %s)", filepath.Base(s.File.Interpreter))
	}
	line("program", program)
	line("version", s.Version)
	line("check", checkLine(s.Check))
	line("adapter", s.Adapter)
	line("roles", cmp.Or(strings.Join(s.Roles, ", "), "none, no loop uses it"))
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

// shown quotes a word of a command line if a shell needs that. It leaves placeholders such as {prompt} unquoted.
func shown(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]#~!") {
		return word
	}
	return text.Paste(word)
}

// checkLine names the command that showed whether a program works. It returns "" if no such check was made, because
// superloop knows the program.
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

// flagsLine counts the flags by state, and names those that the program does not know.
func flagsLine(r preflight.Report) string {
	by := map[string][]string{}
	for _, f := range r.Flags {
		by[f.State] = append(by[f.State], f.Flag)
	}
	var parts []string
	if n := len(by[preflight.FlagKnown]); n > 0 {
		parts = append(parts, fmt.Sprintf("%d known", n))
	}
	if unknown := by[preflight.FlagUnknown]; len(unknown) > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown: %s", len(unknown), strings.Join(unknown, " ")))
	}
	if n := len(by[preflight.FlagNotChecked]); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not checked", n))
	}
	text := strings.Join(parts, ", ")
	if r.Unchecked != "" {
		return cmp.Or(text, "not checked") + ": " + r.Unchecked
	}
	return cmp.Or(text, "none")
}

const (
	livePrompt = "Reply with the single word READY. Use no tools and change no files.\n"
	// liveTimeout bounds a live run: opencode takes over a minute to start on a busy machine.
	liveTimeout = 2 * time.Minute
	liveGrace   = 15 * time.Second
)

// live is the result of a real run of an agent CLI.
type live struct {
	OK         bool        `json:"ok"`
	Class      string      `json:"class,omitempty"` // the class of the failure, "" without one
	Error      string      `json:"error,omitempty"`
	Message    string      `json:"message"`
	Ready      bool        `json:"ready"` // the message contains "READY"
	Model      string      `json:"model,omitempty"`
	Usage      *loop.Usage `json:"usage,omitempty"`
	CostUSD    *float64    `json:"cost_usd"`
	DurationMS int64       `json:"duration_ms"`
	Dir        string      `json:"dir"` // the scratch directory, which holds the log too
}

// try sends one short prompt to a runner in a scratch repository, with the settings of the first role that uses the
// runner.
func (a *app) try(ctx context.Context, r preflight.Request, path string) (*live, error) {
	session := agent.NewSessionID()
	run, _, _ := strings.Cut(session, "-")
	dir := filepath.Join(os.TempDir(), "superloop-smoke-"+run)
	work, prompt := filepath.Join(dir, "work"), filepath.Join(dir, "prompt.md")
	write := func(path, text string) error { return a.disk.WriteFile("smoke", path, []byte(text), 0o600) }
	if err := a.disk.MkdirAll("smoke", work, 0o700); err != nil {
		return nil, err
	}
	if err := write(prompt, livePrompt); err != nil {
		return nil, err
	}
	if _, err := gitcmd.Scratch(ctx, work, "init", "-q"); err != nil {
		return nil, fmt.Errorf("making the scratch repository: %w", err)
	}
	turn := preflight.Turn{Role: "implementer"}
	if len(r.Turns) > 0 {
		turn = r.Turns[0]
	}
	req := agent.Request{CLI: r.CLI, PromptPath: prompt, LastMessageFile: filepath.Join(dir, "last-message.md"),
		WorkDir: work, Repo: work, LoopDir: dir, Loop: "runner-smoke", RunID: "smoke-" + run,
		Role: turn.Role, Iteration: 1, Attempt: 1, Model: turn.Model, Thinking: turn.Thinking, Permissions: turn.Permissions}
	if strings.Contains(req.CLI.Command[0], "/") {
		req.CLI.Command = append([]string{path}, req.CLI.Command[1:]...) // a relative path would not exist in the scratch repository
	}
	if agent.For(req.CLI).Profile().ChoosesSession {
		req.SessionID = session
	}
	log, err := a.disk.Create("smoke", filepath.Join(dir, "agent.log"), 0o600)
	if err != nil {
		return nil, err
	}
	spawner, err := proc.Start(proc.Options{})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	res, runErr := agent.Run(ctx, spawner, req, agent.Options{Environ: r.Environ, Timeout: liveTimeout, Grace: liveGrace,
		Hurry: a.hurry, Log: log, WriteFile: write, Redact: agent.Secrets(r.Environ, r.CLI.Env)})
	if err := cmp.Or(errors.Join(spawner.Close(), log.Close()), ctx.Err()); err != nil {
		return nil, err
	}
	return judgeLive(res, runErr, dir), nil
}

func judgeLive(res agent.Result, runErr error, dir string) *live {
	l := &live{OK: runErr == nil && res.OK(), Message: render.Cut(render.Clean(strings.TrimSpace(res.FinalMessage)), 200),
		Ready: strings.Contains(strings.ToUpper(res.FinalMessage), "READY"), Model: res.Model, CostUSD: res.CostUSD,
		DurationMS: res.Proc.Duration.Milliseconds(), Dir: dir}
	if u := loop.Usage(res.Usage); u != (loop.Usage{}) {
		l.Usage = &u
	}
	if l.OK {
		return l
	}
	l.Class, l.Error = string(res.Class), res.ErrorText
	switch err := cmp.Or(runErr, res.Proc.Err); {
	case l.Error != "":
	case err != nil:
		l.Error = err.Error()
	case res.Proc.Ended == proc.TimedOut:
		l.Error = "no end within " + liveTimeout.String()
	default:
		l.Error = cmp.Or(res.LastLine, fmt.Sprintf("ended with exit code %d and said nothing", res.Proc.Code))
	}
	return l
}

// text describes the live run on one line.
func (l *live) text() string {
	took := render.Duration(msec(l.DurationMS))
	if !l.OK {
		return fmt.Sprintf("failed in %s: %s   (%s)", took, strings.TrimPrefix(l.Class+": "+l.Error, ": "), l.Dir)
	}
	parts := []string{fmt.Sprintf("answered %q in %s", l.Message, took)}
	if !l.Ready {
		parts[0] += ", which is not what it was asked for"
	}
	if l.Model != "" {
		parts = append(parts, l.Model)
	}
	if n, ok := l.Usage.Total(); ok {
		parts = append(parts, render.Number(int(n), "token"))
	}
	cost := "cost not told"
	if l.CostUSD != nil {
		cost = fmt.Sprintf("$%.4f", *l.CostUSD)
	}
	return strings.Join(append(parts, cost), ", ") + "   (" + l.Dir + ")"
}
