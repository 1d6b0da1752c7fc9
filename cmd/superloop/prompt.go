package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/bare"
	"github.com/superloop/superloop/cmd/superloop/internal/project"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/loop/local"
)

// promptFlags are the flags that say something about the loop of a prompt.
var promptFlags = []string{"test", "max-iterations", "max-cost", "max-time", "max-silence", "promise"}

// prompted reports whether the operator asks for a loop of one prompt and one agent. Without a prompt it refuses what
// only such a loop has.
func (a *app) prompted(c *cli.Context) (bool, error) {
	switch file, task := c.IsSet("prompt"), c.IsSet("task"); {
	case file && task:
		return false, failf(exitUsage, "superloop run --prompt PROMPT.md", "--prompt and -p name two prompts; take one of them away")
	case file || task:
		return true, nil
	case c.NArg() > 0:
		return false, failf(exitUsage, a.asFlag(c), "run takes no argument, but got %q", c.Args().First())
	}
	for _, f := range promptFlags {
		if c.IsSet(f) {
			return false, failf(exitUsage, "superloop run --prompt PROMPT.md", "--%s goes with --prompt or -p; a loop of the configuration has it there", f)
		}
	}
	return false, nil
}

// promptLoop makes and writes the configuration of the loop that --prompt or -p asks for. fresh says that the run begins
// anew. With --dry-run nothing is written.
func (a *app) promptLoop(c *cli.Context, repo string) (_ string, cfg *config.Config, fresh bool, err error) {
	top, err := gitcmd.Top(repo)
	if err != nil {
		return repo, nil, false, err
	}
	if _, err := os.Lstat(filepath.Join(repo, ".superloop")); err != nil && !c.IsSet("repo") {
		repo = top // without a folder .superloop the loop is the repository's
	}
	p := bare.Loop{ID: cmp.Or(c.String("loop"), "prompt"), Repo: repo, Text: c.String("task"), File: c.String("prompt"),
		Words: c.Args().Slice(), Tests: c.StringSlice("test"), MaxIterations: c.Int("max-iterations"), MaxCostUSD: c.Float64("max-cost"),
		MaxTime: c.Duration("max-time"), MaxSilence: c.Duration("max-silence"), Promise: c.String("promise"), Disk: a.disk, LookPath: lookPath(a.env)}
	if p.Paths, err = a.paths(repo, p.ID); err != nil {
		return repo, nil, false, err
	}
	if holder, alive := local.Supervisor(p.Paths); alive {
		return repo, nil, false, &local.HeldError{LoopID: p.ID, Holder: *holder}
	}
	p.Base, err = a.baseConfig(c, repo, p.ID)
	if err != nil {
		return repo, nil, false, err
	}
	made, err := p.Make()
	if err != nil {
		if bad, ok := errors.AsType[*bare.UsageError](err); ok {
			return repo, nil, false, failf(exitUsage, bad.Next, "%w", bad)
		}
		return repo, nil, false, err
	}
	if !c.Bool("dry-run") {
		err = p.Write(made)
	}
	return repo, made.Config, c.Bool("fresh") || made.Anew, err
}

// baseConfig returns the bytes of the repository's configuration, nil if there is none. It refuses a loop of the same
// name, and a configuration that is looser than what an operator has trusted: the loop of a prompt has its own pin, and
// the change would pass unseen.
func (a *app) baseConfig(c *cli.Context, repo, id string) ([]byte, error) {
	path := configFile(repo)
	data, err := config.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadBytes(path, slices.Clone(data))
	if err != nil {
		return nil, err
	}
	if _, taken := cfg.Loop(id); taken {
		return nil, failf(exitUsage, "superloop run --loop "+id+"   (or another --loop beside --prompt)", "%s has a loop %q already, with a prompt of its own", relTo(repo, path), id)
	}
	t, err := a.trustedFile(repo, cfg, "any")
	if err != nil || errors.Is(t.pinErr, trust.ErrNoPin) || c.Bool("trust-config") {
		return data, err
	}
	return data, t.untrusted("the loop of --prompt")
}

// tellPrompt says what the operator may not expect of a loop without a configuration. anew says that the last run of the
// loop was complete and had another prompt.
func (a *app) tellPrompt(c *cli.Context, repo string, cfg *config.Config, anew bool) {
	if c.Bool("json") {
		return
	}
	l := cfg.Loops[0]
	r := cfg.Runners[l.Roles[0].Runner]
	fmt.Fprintf(a.stderr, "loop %s: %s, again and again, at most %s; its files are in .superloop/loops/%[1]s\n", l.ID, text.Display(strings.Join(slices.Concat(r.Command, r.Args), " ")), render.Number(l.MaxIterations, "run"))
	if anew {
		fmt.Fprintf(a.stderr, "loop %s is complete for another prompt, so it begins anew; what the last run wrote is in archive/ there\n", l.ID)
	}
	if l.Gated() {
		return
	}
	hint := "--test 'COMMAND' makes superloop check"
	if found, err := project.Look(repo, lookPath(a.env)); err == nil && len(found.Tests) > 0 {
		hint = fmt.Sprintf("--test %s makes superloop check", text.Word(found.Tests[0].Command))
	}
	fmt.Fprintf(a.stderr, "no test: the loop ends when the agent says that it is done and something has changed; %s\n", hint)
}
