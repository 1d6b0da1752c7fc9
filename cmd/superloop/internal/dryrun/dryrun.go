// Package dryrun says what a run of a loop would start, without starting it.
package dryrun

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/roles/agent"
)

// Print writes what a run of the loop l would start. fast says that it would be a run with --fast. It reads nothing but
// the configuration and this process's environment.
func Print(w io.Writer, cfg *config.Config, l config.Loop, fast bool) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "%s: would run, and nothing is started\n", l.ID)
	line("spec", "%s", text.Display(l.SpecFile))
	where := "in the repository itself"
	if l.Git.Worktree {
		where = "in .superloop/worktrees/" + l.ID + ", on branch superloop/" + l.ID
	}
	line("works", "%s; commits: %s", where, strings.ReplaceAll(l.Git.CommitStrategy, "_", " "))
	for _, r := range l.Roles {
		for i, choice := range r.Runners {
			name := r.Name
			if i > 0 {
				name = "  or"
			}
			line(name, "%s: %s%s", text.Display(choice.Runner), command(cfg, l, r, choice, fast), bounds(r))
		}
	}
	commands(line, "tests", l.Tests.Commands, l.Tests.Mode == config.TestsDisabled, l.Tests.Mode, l.Tests.Timeout)
	commands(line, "validation", l.Validation.Commands, !l.Validation.Enabled, l.Validation.Mode, l.Validation.Timeout)
	commands(line, "pre-commit", l.Git.PreCommitCommands, len(l.Git.PreCommitCommands) == 0, "before each commit", 0)
	line("gates", "%s", gates(l))
	line("limits", "%s", limits(l))
	recovery(line, cfg, l)
}

// command returns the command line of a runner, as the operator could type it. What superloop knows only when the role
// starts stands in it by the name of its placeholder.
func command(cfg *config.Config, l config.Loop, r config.Role, choice config.Choice, fast bool) string {
	cli := effects.CLIOf(cfg.Runners[choice.Runner])
	repo := cfg.Repo()
	req := agent.Request{CLI: cli, Fast: fast, WorkDir: repo, Repo: repo, LoopDir: filepath.Join(repo, ".superloop", "loops", l.ID), Loop: l.ID, RunID: "RUN", Role: r.Name,
		PromptPath: "/{prompt_file}", LastMessageFile: "/{last_message_file}", Iteration: 1, Attempt: 1, Model: choice.Model, Thinking: r.Thinking, Permissions: choice.Permissions,
		MaxCostUSD: l.MaxCostUSD}
	made, err := agent.For(cli).Command(req, os.Environ())
	argv := made.Argv
	if err != nil { // the prompt is an argument, and there is none yet
		argv = append(append([]string{}, cli.Command...), cli.Args...)
		if fast && cli.FastArgs != nil {
			argv = append(append([]string{}, cli.Command...), cli.FastArgs...)
		}
		if cli.PromptMode == agent.PromptArg {
			argv = append(argv, "{prompt}")
		}
	}
	return text.Display(strings.NewReplacer("/{prompt_file}", "{prompt_file}", "/{last_message_file}", "{last_message_file}").Replace(text.Words(argv)))
}

func bounds(r config.Role) string {
	var out []string
	if r.Timeout > 0 {
		out = append(out, "at most "+render.Duration(r.Timeout))
	}
	if r.Inactivity > 0 {
		out = append(out, "at most "+render.Duration(r.Inactivity)+" without output")
	}
	if len(out) == 0 {
		return ""
	}
	return "   (" + strings.Join(out, ", ") + ")"
}

func commands(line func(name, format string, args ...any), name string, list []string, off bool, mode string, bound time.Duration) {
	if off || len(list) == 0 {
		if name != "pre-commit" {
			line(name, "none")
		}
		return
	}
	how := strings.ReplaceAll(mode, "_", " ")
	if bound > 0 {
		how += ", each at most " + render.Duration(bound)
	}
	for _, c := range list {
		line(name, "%s   (%s)", text.Display(c), how)
		name, how = "", "the same"
	}
}

// gates says what must hold before the loop completes.
func gates(l config.Loop) string {
	out := []string{"the promise " + text.Display(l.CompletionPromise)}
	for _, g := range []struct {
		on   bool
		what string
	}{
		{l.Tests.Mode != config.TestsDisabled && len(l.Tests.Commands) > 0, "tests"},
		{len(l.Checklists) > 0, "checklists"},
		{l.Validation.Enabled && l.Validation.RequireOnCompletion, "validation"},
		{l.Prerequisites.Enabled && l.Prerequisites.RequireOnCompletion, "prerequisites"},
		{l.Evidence.Enabled && l.Evidence.RequireOnCompletion, "evidence"},
		{l.Completion.RequireChange, "a change of the work tree"},
		{l.Completion.RequireTestChange, "a change of a test file"},
		{len(l.Completion.RequireReports) > 0, "new reports: " + strings.Join(l.Completion.RequireReports, ", ")},
		{l.Gates.Final == config.FinalCheckout, "the tests in a fresh checkout"},
		{l.Approval.Enabled && l.Approval.RequireOnCompletion, "your approval"},
	} {
		if g.on {
			out = append(out, g.what)
		}
	}
	return strings.Join(out, "; ")
}

// limits says what ends the loop before it completes.
func limits(l config.Loop) string {
	var out []string
	if l.MaxIterations > 0 {
		out = append(out, render.Number(l.MaxIterations, "iteration"))
	}
	if l.MaxWallTime > 0 {
		out = append(out, render.Duration(l.MaxWallTime)+" of work")
	}
	if l.MaxCostUSD > 0 {
		out = append(out, fmt.Sprintf("$%.2f", l.MaxCostUSD))
	}
	if l.MaxTokens > 0 {
		out = append(out, render.Count(l.MaxTokens)+" tokens")
	}
	if l.Stuck.Enabled && l.Stuck.Threshold > 0 {
		out = append(out, render.Number(l.Stuck.Threshold, "iteration")+" without a change")
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, "; ")
}

// recovery says what recovery may run.
func recovery(line func(name, format string, args ...any), cfg *config.Config, l config.Loop) {
	policy, _ := cfg.Policy(l.ID) // the loader has refused an invalid policy
	if policy == nil || !policy.Settings.Enabled {
		line("recovery", "off: proposals are ignored")
		return
	}
	s := policy.Settings
	if len(s.AutoApprove) == 0 {
		line("recovery", "runs nothing without you")
	}
	name := "recovery"
	for _, c := range s.AutoApprove {
		line(name, "runs without you: %s", text.Display(c))
		name = ""
	}
	other := map[string]string{"deny": "denied", "allow": "executed, where something confines it"}[s.OnUnknown]
	if other == "" {
		other = "a question to you"
	}
	line("", "any other command is %s; at most %s without you, %s between two", other, recoveries(s.MaxAuto), render.Duration(time.Duration(s.CooldownSeconds)*time.Second))
}

func recoveries(n int) string {
	if n == 1 {
		return "1 recovery"
	}
	return fmt.Sprintf("%d recoveries", n)
}
