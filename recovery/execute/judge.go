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

// Judgement is a verdict with the facts that it depends on.
type Judgement struct {
	recovery.Verdict
	Policy *recovery.Policy // gave the verdict: the strictest of the policies in force
	Place  sandbox.Place    // where the action would run; zero if the working directory is not usable
	// Inputs is the digest of the files that the command reads; "" if the policy does not watch them, or if they are
	// unreadable.
	Inputs string
	Diff   string       // how the inputs differ from the baseline, for an operator
	Facts  action.Facts // what Policy was told; a later policy can be asked with them

	changes []inputs.Change // what Diff shows
	inForce []*recovery.Policy
}

// Basis holds the facts that an approval depends on, besides the command.
type Basis struct {
	// Place is the directory that Judge examined. Drift does not compare a zero Place, because a journal keeps none.
	Place        sandbox.Place
	PolicyDigest string
	Inputs       string
}

// Basis returns the facts that an approval by this judgement depends on.
func (j Judgement) Basis() Basis {
	return Basis{Place: j.Place, PolicyDigest: j.PolicyDigest, Inputs: j.Inputs}
}

// Drift names each fact that differs from now, in one phrase each. Without a difference the command may begin.
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

// Judge returns what may happen with an action now: the strictest verdict of the policies in force. If the working
// directory is not usable, or if inputs are unreadable, the verdict says so. An error means that Judge cannot give a
// verdict, because the repository is gone or the confinement of commands cannot be measured.
func (x *Executor) Judge(ctx context.Context, a action.Action, b recovery.Budget) (Judgement, error) {
	cmd := recovery.Command{Text: a.Command, WorkingDir: a.WorkingDir, Confidence: a.Confidence}
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

// stricter reports whether verdict a is stricter than verdict b. Of two verdicts that let a command run, the later
// start is stricter.
func stricter(a, b recovery.Verdict) bool {
	rank := map[action.Decision]int{action.Auto: 0, action.Human: 1, action.Deny: 2, action.Invalid: 3}
	if rank[a.Decision] != rank[b.Decision] {
		return rank[a.Decision] > rank[b.Decision]
	}
	return a.NotBefore.After(b.NotBefore)
}

// judgeBy judges by one policy. It collects every fact, also those that this policy does not ask for: the journal keeps
// them for other policies. Only a fact that the policy asks for can keep it from judging.
func (x *Executor) judgeBy(ctx context.Context, p *recovery.Policy, cmd recovery.Command, b recovery.Budget) (Judgement, error) {
	var facts recovery.Facts
	known := action.Facts{DirProblem: cmd.DirProblem}
	box, err := x.measured(ctx)
	switch s := p.Settings; {
	case err == nil:
		facts.Confined = box.Level.Meets(sandbox.Landlock)
		facts.LooseOK = facts.Confined || x.AcceptLoose
		known.Confined, known.Loose = &facts.Confined, &facts.LooseOK
	case s.Sandbox.Required || s.OnUnknown == recovery.UnknownAllow || ctx.Err() != nil:
		return Judgement{}, err
	}
	j := Judgement{Verdict: recovery.Decide(p, cmd, facts), Policy: p}
	if j.Analysis != nil && p.Settings.Guard != recovery.GuardOff {
		report, err := x.inputs(p, j.Analysis, cmd)
		if err != nil {
			// An input that superloop cannot read counts as changed.
			facts.Changed = "what it reads cannot be looked at: " + text.Display(err.Error())
		} else {
			j.Inputs, j.Diff, j.changes = report.Digest, inputs.Diff(report.Changes), report.Changes
			facts.Changed = inputs.Summary(report.Changes)
		}
		if facts.Changed == "" {
			facts.Changed = x.program(j.Analysis, cmd)
		}
		known.Changed = &facts.Changed
		if facts.Changed != "" {
			j.Verdict = recovery.Decide(p, cmd, facts)
		}
	}
	j.Facts, j.Verdict = known, recovery.Limit(p, j.Verdict, b, x.Now())
	return j, nil
}

// inputs compares the files that the command reads with the baseline.
func (x *Executor) inputs(p *recovery.Policy, a *recovery.Analysis, cmd recovery.Command) (inputs.Report, error) {
	base, err := x.baseline()
	if err != nil {
		return inputs.Report{}, err
	}
	tree, err := inputs.Open(x.Repo)
	if err != nil {
		return inputs.Report{}, err
	}
	defer func() { _ = tree.Close() }() // tree was only read
	return inputs.Check(base, tree, query(p, a, cmd.WorkingDir, x.Repo, x.Environ))
}

// program says what is wrong with a program that the command names: the name alone leads to a file in the repository,
// or other users may write the file. A program that does not exist is no finding; the command itself fails then.
func (x *Executor) program(a *recovery.Analysis, cmd recovery.Command) string {
	path := variable(x.environ(nil, ""), "PATH")
	dir := cmd.WorkingDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(x.Repo, dir)
	}
	for _, part := range a.Parts {
		if len(part.Words) == 0 {
			continue // the part only sets variables, or redirects
		}
		if name := part.Words[0]; strings.Contains(name, "/") && !filepath.IsAbs(name) {
			if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				continue // a cd in front of the part leads to it, or it does not exist
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

// variable returns the value of a variable in an environment, or "".
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
