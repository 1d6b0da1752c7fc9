package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/guard"
)

// judged is a verdict and what it stands on.
type judged struct {
	recovery.Verdict
	policy *recovery.Policy
	place  cage.Place
	inputs string // digest of the files that the command reads, "" when they are not watched
	diff   string // what of them has changed, for a person
}

// rules are the policies in force, the strictest verdict counts: that with which
// the iteration began, and a newer one, so that tightening is at once and
// loosening waits for the next iteration.
func (d *driver) rules() []*recovery.Policy {
	configs := []*config.Config{d.o.Config}
	if d.next != nil && d.next != d.o.Config {
		configs = append(configs, d.next)
	}
	var out []*recovery.Policy
	for _, c := range configs {
		p, ok := d.policies[c]
		if !ok {
			var problems []config.Problem
			if p, problems = c.Policy(d.o.LoopID); len(problems) > 0 || p == nil {
				// Load has made it before; whatever this is, nothing is listed in it.
				d.log.Error("the policy cannot be read; a person is asked", zap.Any("problems", problems))
				p, _ = recovery.Compile(recovery.Settings{})
			}
			if d.policies == nil {
				d.policies = map[*config.Config]*recovery.Policy{}
			}
			d.policies[c] = p
		}
		out = append(out, p)
	}
	return out
}

// judge says what may happen with an attempt as things are now.
func (d *driver) judge(ctx context.Context, a action.Action) (judged, error) {
	var j judged
	cmd := recovery.Command{Text: a.Command, WorkingDir: a.WorkingDir}
	var err error
	if j.place, err = d.place(a.WorkingDir); err != nil {
		var none *recovery.DirError
		if !errors.As(err, &none) {
			return j, err
		}
		cmd.DirProblem = none.Error()
	}
	for i, p := range d.rules() {
		v, inputs, diff, err := d.judgeBy(ctx, p, cmd, a)
		if err != nil {
			return j, err
		}
		if i == 0 || stricter(v, j.Verdict) {
			j.Verdict, j.policy, j.inputs, j.diff = v, p, inputs, diff
		}
	}
	return j, nil
}

// stricter orders verdicts; of two that let a command run the later one is.
func stricter(a, b recovery.Verdict) bool {
	rank := map[action.Decision]int{action.Auto: 0, action.Human: 1, action.Deny: 2, action.Invalid: 3}
	if rank[a.Decision] != rank[b.Decision] {
		return rank[a.Decision] > rank[b.Decision]
	}
	return a.NotBefore.After(b.NotBefore)
}

// place finds a working directory; its error is a *recovery.DirError when there
// is none.
func (d *driver) place(dir string) (cage.Place, error) {
	root, err := recovery.OpenRoot(d.repo.Top)
	if err != nil {
		return cage.Place{}, fmt.Errorf("opening the repository: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only looked at
	found, err := root.Resolve(dir)
	if err != nil {
		return cage.Place{}, err
	}
	dev, ino := found.Dev, found.Ino
	if err := found.Close(); err != nil {
		return cage.Place{}, err
	}
	at, err := cage.Resolve(d.repo.Top, dir)
	if err != nil {
		return cage.Place{}, &recovery.DirError{Dir: dir, Why: err.Error()}
	}
	if at.DirID != (cage.FileID{Dev: dev, Ino: ino}) {
		return cage.Place{}, &recovery.DirError{Dir: dir, Why: "it became another directory while it was looked at"}
	}
	return at, nil
}

// judgeBy judges by one policy. The files that a listed command reads are only
// looked at where they can make a difference.
func (d *driver) judgeBy(ctx context.Context, p *recovery.Policy, cmd recovery.Command, a action.Action) (recovery.Verdict, string, string, error) {
	var facts recovery.Facts
	if s := p.Settings; s.Sandbox.Required || s.OnUnknown == recovery.UnknownAllow {
		box, err := d.sandbox(ctx)
		if err != nil {
			return recovery.Verdict{}, "", "", err
		}
		facts.Confined = box.Level.Meets(cage.Landlock)
		facts.LooseOK = facts.Confined || d.o.AcceptLoose
	}
	v := recovery.Decide(p, cmd, facts)
	inputs, diff := "", ""
	if v.Analysis != nil && p.Settings.Guard != recovery.GuardOff {
		report, err := d.inputs(p, v.Analysis, cmd)
		if err != nil {
			// What cannot be looked at cannot be vouched for.
			facts.Changed = "what it reads cannot be looked at: " + text.Display(err.Error())
		} else {
			inputs, diff = report.Digest, guard.Diff(report.Changes)
			facts.Changed = guard.Summary(report.Changes)
		}
		if v.Decision == action.Auto {
			if facts.Changed == "" {
				facts.Changed = d.program(v.Analysis, cmd)
			}
			if facts.Changed != "" {
				v = recovery.Decide(p, cmd, facts)
			}
		}
	}
	s := d.state.Recoveries
	budget := recovery.Budget{Used: s.Used, Last: s.Last, Rejected: s.Rejected[a.Digest]}
	if r := d.state.Recovery; r != nil && r.Plan != nil {
		budget.Waits = true
		if r.Plan.Attempts > 0 {
			budget.Last = time.Time{} // the steps of one chain are one recovery; each counts, none waits for another
		}
	}
	return recovery.Limit(p, v, budget, d.host.Now(d.state)), inputs, diff, nil
}

// sandbox is what recovery commands are held by here; it is found out once.
func (d *driver) sandbox(ctx context.Context) (cage.Sandbox, error) {
	if d.box == nil {
		box, err := cage.Measure(ctx, d.spawner)
		if err != nil {
			return box, fmt.Errorf("finding out how commands can be confined: %w", err)
		}
		d.box = &box
	}
	return *d.box, nil
}

// query is the command for the guard.
func query(p *recovery.Policy, a *recovery.Analysis, dir, repo string) guard.Query {
	q := guard.Query{WorkingDir: dir, Mode: guard.Mode(p.Settings.Guard), Repo: repo}
	for _, part := range a.Parts {
		q.Commands = append(q.Commands, part.Words)
	}
	return q
}

// inputs compares what the command reads with what it was when the run began.
func (d *driver) inputs(p *recovery.Policy, a *recovery.Analysis, cmd recovery.Command) (guard.Report, error) {
	if d.baseline == nil {
		base, err := guard.Load(d.paths.Guard())
		if err != nil {
			return guard.Report{}, err
		}
		d.baseline = base
	}
	tree, err := guard.Open(d.repo.Top)
	if err != nil {
		return guard.Report{}, err
	}
	defer func() { _ = tree.Close() }() // it was only read
	return guard.Check(d.baseline, tree, query(p, a, cmd.WorkingDir, d.repo.Top))
}

// program says what is wrong with a program that the command names: it is found
// in the repository by its name alone, or others may write it. A program that is
// not there is the command's own trouble.
func (d *driver) program(a *recovery.Analysis, cmd recovery.Command) string {
	path := variable(d.recoveryEnv(nil, ""), "PATH")
	dir := cmd.WorkingDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(d.repo.Top, dir)
	}
	for _, part := range a.Parts {
		if len(part.Words) == 0 || part.Words[0] == guard.Unknown {
			continue
		}
		if name := part.Words[0]; strings.Contains(name, "/") && !filepath.IsAbs(name) {
			if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				continue // a cd before it leads there, or nothing does
			}
		}
		_, err := guard.Resolve(part.Words[0], dir, path, d.repo.Top)
		var bad *guard.ResolveError
		if errors.As(err, &bad) && bad.File != "" {
			return text.Display(bad.Error())
		}
	}
	return ""
}

// takeBaseline keeps what the listed commands read now: what agents change later
// is compared with it. The first time that is the work tree as it is, since the
// person who starts the first run has it so; from then on only what is committed
// is taken for trusted, because agents may have worked in it meanwhile.
func (d *driver) takeBaseline(ctx context.Context) error {
	req := guard.Request{Repo: d.repo.Top, File: d.paths.Guard(), From: guard.Head, Time: d.o.Now()}
	for _, p := range d.rules() {
		for _, entry := range p.Settings.AutoApprove {
			req.Queries = append(req.Queries, query(p, recovery.Analyse(entry), "", d.repo.Top))
		}
	}
	old, err := guard.Load(req.File)
	switch {
	case err == nil:
		req.Previous = old
	case errors.Is(err, fs.ErrNotExist) && d.state.Version == 0:
		req.From = guard.Now
	case !errors.Is(err, fs.ErrNotExist):
		d.log.Warn("the baseline of what listed commands read is damaged; it is made anew", zap.Error(err))
	}
	base, err := guard.Take(ctx, d.o.Disk, req)
	if errors.Is(err, guard.ErrNoHead) {
		req.From = guard.Now
		base, err = guard.Take(ctx, d.o.Disk, req)
	}
	if err != nil {
		return d.host.Full(err)
	}
	d.baseline = base
	return nil
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
