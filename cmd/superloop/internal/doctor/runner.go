package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/verify"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// Runners returns the runners of a configuration, sorted by name.
func Runners(c *config.Config) []config.Runner {
	return slices.SortedFunc(maps.Values(c.Runners), func(a, b config.Runner) int { return cmp.Compare(a.Name, b.Name) })
}

// Examination returns the request to examine a runner for every role of every loop that uses it. workDir is the result
// of WorkDir.
func Examination(c *config.Config, r config.Runner, workDir string, environ []string) preflight.Request {
	req := preflight.Request{
		Runner: r.Name,
		CLI: agent.CLI{Command: r.Command, Args: r.Args, FastArgs: r.FastArgs, PromptMode: r.PromptMode, Env: r.Env,
			Adapter: r.Adapter, PassEnv: r.PassEnv},
		Environ: environ, Root: os.Geteuid() == 0, WorkDir: workDir,
		// The examiner needs the path of some regular file. The contents do not matter.
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

// WorkDir returns the directory in which the agents of a repository start: the top of the work tree, or repo itself if
// it is in no work tree.
func WorkDir(repo string) string {
	if top, err := gitcmd.Top(repo); err == nil {
		return top
	}
	return repo
}

func (p Target) runner(ctx context.Context, e *preflight.Examiner, r config.Runner) Result {
	rep := e.Examine(ctx, Examination(p.Config, r, WorkDir(p.Repo), append(os.Environ(), "PATH="+p.Path)))
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
		res.Status = map[preflight.Severity]Status{preflight.Warn: Warn, preflight.Error: Fail}[rep.Verdict]
		found := rep.Of(rep.Verdict)
		res.Detail, res.Fix = found[0].Message, found[0].Fix
		if at := found[0].Pointer; at != "" {
			res.Detail += " (" + at + ")"
		}
		if n := len(found) - 1; n > 0 {
			res.Detail += render.More(n)
			res.Fix = strings.TrimPrefix(res.Fix+"; "+all, "; ")
		}
		res.Fix = cmp.Or(res.Fix, all)
	}
	if len(rep.Roles) == 0 {
		res.Detail += "; no loop uses it"
	}
	return res
}

// Prove finds out whether a program works that superloop knows nothing about. It asks the program for its version. If
// the answer decides nothing, it runs the commands that recovery/verify suggests. It starts at most six commands. Each
// command is a process tree of its own, has an empty standard input, and ends within q.Bound.
func Prove(ctx context.Context, q preflight.Question) (preflight.Check, error) {
	word, pasted := text.Word(q.Path), text.Paste(q.Path) // what Repair splits again, and what operators read
	c := preflight.Check{Original: pasted + " --version", ExitCode: -1}
	spawner, err := proc.Start(proc.Options{})
	if err != nil {
		return c, err
	}
	name := filepath.Base(q.Path)
	r := &prover{q: q, spawner: spawner}
	out, err := verify.Repair(ctx, verify.Tool{ID: name, CLI: name, Real: proc.RealName(q.Path, nil), Verify: catalog.Verify{Command: word + " --version", Origin: catalog.VerifyGenerated}}, r)
	if err := errors.Join(err, spawner.Close()); err != nil {
		return c, err
	}
	last := r.runs[len(r.runs)-1]
	c.Works, c.Broken, c.Why, c.ExitCode, c.Said = out.Works, out.Analysis.Broken, strings.ReplaceAll(out.Why, word, pasted), r.runs[0].Exit.Code, r.runs[0].Stdout+r.runs[0].Stderr
	switch {
	case out.Works && out.Repair != nil:
		c.Repaired, c.Method, c.ExitCode = strings.ReplaceAll(out.Repair.Repaired, word, pasted), out.Repair.Method, out.Repair.ExitCode
		c.TimeSavedMS = out.Repair.TimeSaved.Milliseconds()
	case out.Works:
	case verify.AnalyzeVerifyFailure(last.Stdout, last.Stderr, last.Exit, name).Broken: // a fallback has shown the defect
		c.Broken, c.ExitCode = true, last.Exit.Code
	}
	if last.Exit.TimedOut && !c.Works {
		c.TimedOut, c.Broken, c.ExitCode = true, false, -1
	}
	return c, nil
}

type prover struct {
	q       preflight.Question
	spawner *proc.Spawner
	runs    []verify.Run
}

// Run implements the runner of verify.Repair: it runs one command and remembers its outcome.
func (p *prover) Run(ctx context.Context, argv []string) (verify.Run, error) {
	env := append(p.q.Env[:len(p.q.Env):len(p.q.Env)], "LC_ALL=C")
	res, err := p.spawner.Run(ctx, proc.Spec{Argv: argv, Dir: p.q.Dir, Env: env, Timeout: p.q.Bound, Grace: time.Second, HeadTail: 64 << 10})
	switch {
	case err != nil:
		return verify.Run{}, err
	case ctx.Err() != nil:
		return verify.Run{}, fmt.Errorf("asking %s: %w", argv[0], context.Cause(ctx))
	}
	run := verify.RunOf(res)
	p.runs = append(p.runs, run)
	return run, nil
}
