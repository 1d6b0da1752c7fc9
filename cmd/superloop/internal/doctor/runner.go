package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// runners are those of the configuration, by name.
func (p Target) runners() []config.Runner {
	if p.Config == nil {
		return nil
	}
	return Runners(p.Config)
}

// Runners are the runners of a configuration, by name.
func Runners(c *config.Config) []config.Runner {
	var list []config.Runner
	for _, r := range c.Runners {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b config.Runner) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Examination is what has to be known to examine a runner: each turn that a
// loop of the configuration gives it. workDir is WorkDir's.
func Examination(c *config.Config, r config.Runner, workDir string, environ []string) preflight.Request {
	req := preflight.Request{
		Runner: r.Name,
		CLI: agent.CLI{Command: r.Command, Args: r.Args, FastArgs: r.FastArgs, PromptMode: r.PromptMode, Env: r.Env,
			Adapter: r.Adapter, PassEnv: r.PassEnv},
		Environ: environ, Root: os.Geteuid() == 0, WorkDir: workDir,
		// It is a regular file that is there; that it is no prompt does not matter.
		Prompt: c.Path,
	}
	for _, l := range c.Loops {
		for _, role := range l.Roles {
			if role.Runner == r.Name {
				req.Turns = append(req.Turns, preflight.Turn{Loop: l.ID, Role: role.Name, Model: role.Model, Thinking: role.Thinking,
					Permissions: role.Permissions, Resume: role.Resume, Worktree: l.Git.Worktree, MaxCostUSD: l.MaxCostUSD})
			}
		}
	}
	req.Spare = len(req.Turns) == 0
	return req
}

// WorkDir is where the agents of a repository start: the top of the work tree;
// the repository itself where there is none.
func WorkDir(ctx context.Context, repo string) string {
	if r, err := worktree.Open(ctx, repo); err == nil {
		return r.Top
	}
	return repo
}

// runner looks whether a runner will work.
func (p Target) runner(ctx context.Context, e *preflight.Examiner, r config.Runner) Result {
	rep := e.Examine(ctx, Examination(p.Config, r, WorkDir(ctx, p.Repo), append(os.Environ(), "PATH="+p.Path)))
	all := "superloop doctor --runner " + text.Paste(r.Name) + " shows all"
	res := Result{Status: OK, Detail: rep.Path, Check: rep.Check}
	if rep.Version != "" {
		res.Detail = rep.Version + " at " + rep.Path
	}
	if rep.Login.State == agent.LoginYes {
		res.Detail += ", logged in"
	}
	if rep.Check != nil && rep.Check.Works && rep.Check.Method != "" {
		res.Detail += "; it works, as " + rep.Check.Decided() + " shows (" + rep.Check.Method + ")"
	}
	if rep.Unchecked != "" {
		res.Detail += "; " + rep.Unchecked
	}
	if rep.Verdict != preflight.Fine {
		res.Status = Fail
		if rep.Verdict == preflight.Warn {
			res.Status = Warn
		}
		found := rep.Of(rep.Verdict)
		first := found[0]
		res.Detail, res.Fix = first.Message, first.Fix
		if first.Pointer != "" {
			res.Detail += " (" + first.Pointer + ")"
		}
		if n := len(found) - 1; n > 0 {
			res.Detail += fmt.Sprintf(" (and %d more)", n)
			res.Fix = strings.TrimPrefix(res.Fix+"; "+all, "; ")
		}
		if res.Fix == "" {
			res.Fix = all
		}
	}
	if len(rep.Roles) == 0 {
		res.Detail += "; no loop uses it"
	}
	return res
}
