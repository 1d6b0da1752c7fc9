package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/internal/workdir"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/inputs"
	"github.com/superloop/superloop/recovery/sandbox"
)

// Judgement is a verdict and what it stands on.
type Judgement struct {
	recovery.Verdict
	Policy *recovery.Policy // gave the verdict: the strictest of those in force
	Place  sandbox.Place    // where the action would run, zero if its directory is none
	// Inputs is the digest of what the command reads; "" if that is not watched, or cannot be read.
	Inputs string
	Diff   string // what of it differs from the baseline, for an operator

	inForce []*recovery.Policy
}

// Basis is what an approval stands on besides the command.
type Basis struct {
	// Place is the directory that was looked at. Zero is not compared: a journal keeps none.
	Place        sandbox.Place
	PolicyDigest string
	Inputs       string
}

// Basis is what an approval by this judgement stands on.
func (j Judgement) Basis() Basis {
	return Basis{Place: j.Place, PolicyDigest: j.PolicyDigest, Inputs: j.Inputs}
}

// Drift says what is no longer as it was, one phrase each; none: it may begin.
func (b Basis) Drift(now Basis) []string {
	var out []string
	if b.Place != (sandbox.Place{}) && b.Place != now.Place {
		out = append(out, "the working directory is another one")
	}
	if b.PolicyDigest != now.PolicyDigest {
		out = append(out, "the policy has changed")
	}
	if b.Inputs != now.Inputs {
		out = append(out, "what the command reads has changed")
	}
	return out
}

// Judge says what may happen with an action as things are now: the strictest verdict of the policies in force. A
// working directory that is none is a verdict, and so are inputs that cannot be read. An error means that nothing can
// be said: the repository is gone, or nobody can tell what confines commands here.
func (x *Executor) Judge(ctx context.Context, a action.Action, b recovery.Budget) (Judgement, error) {
	cmd := recovery.Command{Text: a.Command, WorkingDir: a.WorkingDir}
	place, err := sandbox.Resolve(x.Repo, a.WorkingDir)
	var none *workdir.Error
	switch {
	case errors.As(err, &none):
		cmd.DirProblem = none.Error()
	case err != nil:
		return Judgement{}, fmt.Errorf("opening the repository: %w", err)
	}
	inForce := x.Policies()
	if len(inForce) == 0 {
		return Judgement{}, errors.New("judging a command: there is no policy")
	}
	var out Judgement
	for i, p := range inForce {
		j, err := x.judgeBy(ctx, p, cmd, b)
		if err != nil {
			return Judgement{}, err
		}
		if i == 0 || stricter(j.Verdict, out.Verdict) {
			out = j
		}
	}
	out.Place, out.inForce = place, inForce
	return out, nil
}

// stricter orders verdicts; of two that let a command run the later one is.
func stricter(a, b recovery.Verdict) bool {
	rank := map[action.Decision]int{action.Auto: 0, action.Human: 1, action.Deny: 2, action.Invalid: 3}
	if rank[a.Decision] != rank[b.Decision] {
		return rank[a.Decision] > rank[b.Decision]
	}
	return a.NotBefore.After(b.NotBefore)
}

// judgeBy judges by one policy. What costs time is only looked at where it can make a difference.
func (x *Executor) judgeBy(ctx context.Context, p *recovery.Policy, cmd recovery.Command, b recovery.Budget) (Judgement, error) {
	var facts recovery.Facts
	if s := p.Settings; s.Sandbox.Required || s.OnUnknown == recovery.UnknownAllow {
		box, err := x.measured(ctx)
		if err != nil {
			return Judgement{}, err
		}
		facts.Confined = box.Level.Meets(sandbox.Landlock)
		facts.LooseOK = facts.Confined || x.AcceptLoose
	}
	j := Judgement{Verdict: recovery.Decide(p, cmd, facts), Policy: p}
	if j.Analysis != nil && p.Settings.Guard != recovery.GuardOff {
		report, err := x.inputs(p, j.Analysis, cmd)
		if err != nil {
			// What cannot be looked at cannot be vouched for.
			facts.Changed = "what it reads cannot be looked at: " + text.Display(err.Error())
		} else {
			j.Inputs, j.Diff = report.Digest, inputs.Diff(report.Changes)
			facts.Changed = inputs.Summary(report.Changes)
		}
		if facts.Changed == "" && j.Decision == action.Auto {
			facts.Changed = x.program(j.Analysis, cmd)
		}
		if facts.Changed != "" && j.Decision == action.Auto {
			j.Verdict = recovery.Decide(p, cmd, facts)
		}
	}
	j.Verdict = recovery.Limit(p, j.Verdict, b, x.Now())
	return j, nil
}

// inputs compares what the command reads with the baseline.
func (x *Executor) inputs(p *recovery.Policy, a *recovery.Analysis, cmd recovery.Command) (inputs.Report, error) {
	base, err := x.baseline()
	if err != nil {
		return inputs.Report{}, err
	}
	tree, err := inputs.Open(x.Repo)
	if err != nil {
		return inputs.Report{}, err
	}
	defer func() { _ = tree.Close() }() // it was only read
	return inputs.Check(base, tree, x.query(p, a, cmd.WorkingDir))
}

// program says what is wrong with a program that the command names: it is found in the repository by its name alone, or
// others may write it. A program that is not there is the command's own trouble.
func (x *Executor) program(a *recovery.Analysis, cmd recovery.Command) string {
	path := variable(x.environ(nil, ""), "PATH")
	dir := cmd.WorkingDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(x.Repo, dir)
	}
	for _, part := range a.Parts {
		if len(part.Words) == 0 {
			continue // it only sets variables, or redirects
		}
		if name := part.Words[0]; strings.Contains(name, "/") && !filepath.IsAbs(name) {
			if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				continue // a cd before it leads there, or nothing does
			}
		}
		_, err := inputs.Resolve(part.Words[0], dir, path, x.Repo)
		var bad *inputs.ResolveError
		if errors.As(err, &bad) && bad.File != "" {
			return text.Display(bad.Error())
		}
	}
	return ""
}

// variable is the value of a variable in an environment.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
