package main

import (
	"encoding/json"
	"fmt"
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
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/roles"
)

func (a *app) init(c *cli.Context) error {
	repo, err := filepath.Abs(c.String("repo"))
	if err != nil {
		return err
	}
	top, err := gitcmd.Top(repo)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(repo); err == nil && real != top && !c.IsSet("repo") {
		fmt.Fprintf(a.stderr, "the repository is %s; for this folder alone: superloop init --repo .\n", text.Display(top))
		repo = top
	}
	path := configFile(repo)
	if _, err := os.Lstat(path); err == nil && !c.Bool("force") {
		return failf(exitFailed, "superloop validate   (or superloop init --force)", "%s exists already; nothing is changed", path)
	}
	plan := a.planInit
	if c.Bool("from-run") {
		plan = a.planFromRun
	}
	p, err := plan(c, repo)
	if err != nil {
		return err
	}
	if _, err := config.LoadBytes(path, p.config); err != nil {
		return err // for instance because the loop id is invalid
	}
	asJSON := c.Bool("json")
	if c.Bool("dry-run") {
		if asJSON {
			return render.JSON(a.stdout, p.facts(repo, true))
		}
		return a.told(c, nil, "%s%sno file is written: superloop init without --dry-run writes them\n", p.text("would write", repo), p.config)
	}
	if in := ttyOf(a.stdin); in != nil && ttyOf(a.stdout) != nil && !c.Bool("yes") && !asJSON {
		fmt.Fprintf(a.stdout, "%s%s", p.text("will write", repo), p.config)
		yes, err := a.ask(c.Context, in, "write "+render.Number(len(p.missing(repo)), "file"))
		if err != nil {
			return err
		}
		if !yes {
			return failf(exitFailed, "superloop init --yes", "nothing is written")
		}
	}
	facts, said := p.facts(repo, false), p.text("wrote", repo) // which files exist already is known only before
	for _, f := range p.missing(repo) {
		full := filepath.Join(repo, f.path)
		if err := a.disk.MkdirAll("init", filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := a.disk.WriteFile("init", full, f.data, 0o644); err != nil {
			return err
		}
	}
	if asJSON {
		return render.JSON(a.stdout, facts)
	}
	run := "superloop run --loop " + p.choice.LoopID
	next := "write what the loop is to build into " + fromHere(repo, ".superloop/specs/"+p.choice.LoopID+".md") + ", then: superloop doctor && " + run
	if c.Bool("from-run") {
		next = run + "   (goes on where it stood; superloop doctor checks the rest)"
	}
	_, err = fmt.Fprintf(a.stdout, "%snext: %s\n", said, a.here(next))
	return err
}

// fromHere returns a path of the repository as it is typed in the current folder.
func fromHere(repo, path string) string {
	full := filepath.Join(repo, path)
	wd, err := os.Getwd()
	if err != nil {
		return full
	}
	if wd == repo {
		return path
	}
	if wd, err = filepath.EvalSymlinks(wd); err != nil {
		return full
	}
	if rel, err := filepath.Rel(wd, full); err == nil && (wd == repo || strings.HasPrefix(wd, repo+string(filepath.Separator))) {
		return rel
	}
	return full
}

// initPlan is what init has found, and what it is going to write.
type initPlan struct {
	found   project.Facts
	choice  project.Choice
	guessed bool // no agent CLI was found
	given   bool // the operator has named the tests
	bounded bool // the money has a bound
	told    bool // a channel tells people
	force   bool
	config  []byte
	files   []initFile
}

type initFile struct {
	path string
	data []byte
}

// planInit looks at the repository and makes the files of a configuration. It writes nothing.
func (a *app) planInit(c *cli.Context, repo string) (initPlan, error) {
	found, err := project.Look(repo, lookPath(a.env))
	if err != nil {
		return initPlan{}, err
	}
	p := initPlan{found: found, force: c.Bool("force"), given: c.IsSet("test"),
		choice: project.Choice{LoopID: c.String("loop"), Checks: found.Checks, Installs: found.Installs, Managers: found.Managers, Runners: found.Agents}}
	for _, t := range found.Tests {
		p.choice.Tests = append(p.choice.Tests, t.Command)
	}
	if p.given {
		p.choice.Tests = c.StringSlice("test")
	}
	if c.IsSet("runner") {
		p.choice.Runners = c.StringSlice("runner")
	}
	if p.guessed = len(p.choice.Runners) == 0; p.guessed {
		p.choice.Runners = []string{"claude"}
	}
	if p.config, err = project.Config(p.choice); err != nil {
		return initPlan{}, err
	}
	p.files = []initFile{
		{".superloop/config.json", p.config},
		{".superloop/specs/" + p.choice.LoopID + ".md", config.SpecTemplate(p.choice.LoopID)},
		{".superloop/.gitignore", []byte(layout.Gitignore)},
	}
	if c.Bool("roles") {
		for _, role := range roles.All() {
			text, err := roles.Embedded(role)
			if err != nil {
				return initPlan{}, err
			}
			p.files = append(p.files, initFile{".superloop/roles/" + role + ".md", []byte(text)})
		}
	}
	return p, nil
}

// planFromRun makes the files of a configuration that does what the last run --prompt did. It writes nothing.
func (a *app) planFromRun(c *cli.Context, repo string) (initPlan, error) {
	for _, f := range []string{"runner", "test", "roles"} {
		if c.IsSet(f) {
			return initPlan{}, failf(exitUsage, "superloop init --from-run", "--%s does not go with --from-run, which takes it from the run", f)
		}
	}
	id := c.String("loop")
	if !c.IsSet("loop") {
		id = bare.Last(repo)
	}
	if !slices.Contains(ownLoops(repo), id) {
		return initPlan{}, failf(exitNotFound, "superloop run --prompt PROMPT.md", "this repository has had no run --prompt to take over")
	}
	spec := ".superloop/specs/" + id + ".md"
	taken, err := bare.Take(repo, id, spec, configFile(repo))
	if err != nil {
		return initPlan{}, err
	}
	l := taken.Loop
	p := initPlan{found: project.Facts{Notes: []string{}}, given: true, force: c.Bool("force"), config: taken.Data, bounded: l.MaxCostUSD > 0, told: len(taken.Config.Channels()) > 0,
		choice: project.Choice{LoopID: id, Tests: l.Tests.Commands, Runners: []string{l.Roles[0].Runner}}}
	if policy, problems := taken.Config.Policy(id); policy != nil && len(problems) == 0 {
		p.choice.Installs = policy.Settings.AutoApprove
	}
	p.files = []initFile{{".superloop/config.json", taken.Data}, {spec, taken.Spec}, {".superloop/.gitignore", []byte(layout.Gitignore)}}
	return p, nil
}

// missing returns the files that init writes: those that do not exist, or with --force all of them.
func (p initPlan) missing(repo string) []initFile {
	var list []initFile
	for _, f := range p.files {
		if _, err := os.Lstat(filepath.Join(repo, f.path)); err != nil || p.force {
			list = append(list, f)
		}
	}
	return list
}

// kept returns the files that exist and that init leaves as they are.
func (p initPlan) kept(repo string) []string {
	kept := []string{}
	if p.force {
		return kept
	}
	for _, f := range p.files {
		if _, err := os.Lstat(filepath.Join(repo, f.path)); err == nil {
			kept = append(kept, f.path)
		}
	}
	return kept
}

// facts returns the output of --json.
func (p initPlan) facts(repo string, dry bool) map[string]any {
	written := []string{}
	for _, f := range p.missing(repo) {
		written = append(written, f.path)
	}
	facts := map[string]any{"found": p.found, "runners": p.choice.Runners, "test": strings.Join(p.choice.Tests, "; "), "tests": orEmpty(p.choice.Tests),
		"recovery": orEmpty(p.choice.Installs), "left_out": p.leftOut(), "written": written, "kept": p.kept(repo)}
	if dry {
		facts["written"], facts["would_write"], facts["config"] = []string{}, written, json.RawMessage(p.config)
	}
	return facts
}

// untested says who decides about the completion without tests.
func (p initPlan) untested() string {
	if p.given {
		return "none, so the promise of the agent and a change are enough"
	}
	return "no test command found: tests are disabled, and you approve the completion"
}

// leftOut returns sentences about what the configuration leaves off, with the keys that turn it on.
func (p initPlan) leftOut() []string {
	list := append([]string{}, p.found.Notes...)
	if len(p.choice.Tests) == 0 {
		list = append(list, "tests: "+p.untested()+"; put a command into loops[0].tests.commands, with the mode every")
	}
	if len(p.choice.Checks) > 0 {
		list = append(list, "validation: "+strings.Join(p.choice.Checks, "; ")+"; loops[0].validation.enabled runs them before a completion")
	}
	if len(p.choice.Installs) == 0 {
		list = append(list, "recovery.auto_approve: no install was found that superloop knows, so nothing runs without you")
	}
	if !p.bounded {
		list = append(list, "max_cost_usd: nothing bounds the money; loops[0].max_cost_usd does")
	}
	if !p.told {
		list = append(list, "webhooks: nobody is told when the loop needs you; webhooks.on_escalation takes a URL")
	}
	return list
}

// text says what was found, what the configuration leaves off, and which files are written. verb stands before these
// files.
func (p initPlan) text(verb, repo string) string {
	var w strings.Builder
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&w, "%-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	if p.guessed {
		say("agent", "none found on PATH; the configuration names claude, put your own CLI there")
	} else {
		say("agent", "%s", strings.Join(p.choice.Runners, ", "))
	}
	if len(p.found.Managers) > 0 {
		say("package manager", "%s", strings.Join(p.found.Managers, ", "))
	}
	for i, t := range p.choice.Tests {
		if p.given {
			say("tests", "%s", t)
		} else {
			say("tests", "%s   (from %s)", t, p.found.Tests[i].From)
		}
	}
	if len(p.choice.Tests) == 0 {
		say("tests", "%s", p.untested())
	}
	for _, command := range p.choice.Installs {
		say("recovery", "%s   (runs without asking)", command)
	}
	say("recovery", "superloop asks you about every other command")
	for _, s := range p.leftOut() {
		say("left out", "%s", s)
	}
	for _, f := range p.missing(repo) {
		say(verb, "%s", f.path)
	}
	for _, f := range p.kept(repo) {
		say("kept", "%s", f)
	}
	return w.String()
}
