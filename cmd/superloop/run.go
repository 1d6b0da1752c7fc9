package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/superloop/superloop/cmd/superloop/internal/doctor"
	"github.com/superloop/superloop/cmd/superloop/internal/dryrun"
	"github.com/superloop/superloop/cmd/superloop/internal/metrics"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/roles/agent"
)

func (a *app) run(c *cli.Context) error {
	if level := c.String("containment"); level != "" && !slices.Contains(proc.Levels(), proc.Level(level)) {
		return failf(exitUsage, "superloop run --containment "+string(proc.Levels()[0]), "--containment %q is none of %v", level, proc.Levels())
	}
	metricsAt := c.String("metrics")
	if c.IsSet("metrics") {
		addr, err := metrics.Address(metricsAt)
		if err != nil {
			return failf(exitUsage, "superloop run --metrics 127.0.0.1:0", "%w", err)
		}
		metricsAt = addr
	}
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	if err := a.notByAgent(repo); err != nil {
		return err
	}
	prompted, err := a.prompted(c)
	if err != nil {
		return err
	}
	var cfg *config.Config
	fresh := c.Bool("fresh")
	if prompted {
		repo, cfg, fresh, err = a.promptLoop(c, repo)
	} else {
		cfg, err = a.config(repo, c.String("loop"))
	}
	if err != nil {
		return err
	}
	// A supervisor runs for a night and mostly waits, so a sixteenth less memory is worth a twentieth more CPU time.
	if a.env("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	todo := cfg.Loops
	if prompted {
		a.tellPrompt(c, repo, cfg, fresh && !c.Bool("fresh"))
	} else if id, err := pickOf(c, cfg); err != nil {
		return err
	} else if l, ok := cfg.Loop(id); ok {
		todo = []config.Loop{l}
	}
	// With --dry-run the prompt may be among the arguments, and no file is written.
	if err := a.runnable(cfg, repo, todo, prompted && c.Bool("dry-run")); err != nil {
		return err
	}
	_, lacking := a.channels(cfg)
	absent, maybe := cfg.CheckCommands(repo, lookPath(a.env)) // no reason to stay: the loop may be to write it
	for _, p := range slices.Concat(warnings(cfg), lacking, absent, maybe) {
		if p.Code != config.CodeNoBound || c.Bool("json") { // else it is among what is off
			fmt.Fprintf(a.stderr, "warning: %s\n", p)
		}
	}
	if !c.Bool("json") {
		for _, o := range doctor.SwitchedOff(cfg, todo, c.Bool("unprotected")) {
			if !prompted || o.What != "gates" { // tellPrompt has said it in the terms of the command
				fmt.Fprintf(a.stderr, "off: %s\n", o)
			}
		}
	}
	if c.Bool("dry-run") {
		for _, l := range todo {
			dryrun.Print(a.stdout, cfg, l, c.Bool("fast"))
		}
		return nil
	}
	for _, id := range a.neighbours(repo, cfg, todo) {
		fmt.Fprintf(a.stderr, "warning: the loop %[1]s is running in the same work tree, and each loop takes the other's changes for its own; %[2]s\n", id,
			a.here("wait until it has ended (superloop status), or give one of them git.worktree: true"))
	}
	stop, err := a.serveMetrics(metricsAt, repo, todo)
	if err != nil {
		return err
	}
	defer stop()
	desk := &clickDesk{app: a, repo: repo, log: a.logger(c.Bool("verbose"))}
	defer desk.close()
	for _, l := range todo {
		if err := a.runLoop(c, desk, repo, cfg, l.ID, fresh, prompted); err != nil {
			return err
		}
	}
	return nil
}

// runnable returns why these loops cannot be run, as far as the configuration and the programs of this machine tell.
func (a *app) runnable(cfg *config.Config, repo string, todo []config.Loop, withoutSpec bool) error {
	problems := cfg.Check(repo, lookPath(a.env))
	if withoutSpec {
		problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.Pointer == "/loops/0/spec_file" })
	}
	if len(problems) == 0 {
		problems = cfg.CanComplete(repo, loop.Map(todo, func(l config.Loop) string { return l.ID })...)
	}
	if len(problems) > 0 {
		return &config.Error{Path: cfg.Path, Problems: problems}
	}
	return nil
}

// loopOf returns the configuration of a loop that can be run.
func (a *app) loopOf(repo, id string) (*config.Config, error) {
	cfg, err := a.config(repo, id)
	if err != nil {
		return nil, err
	}
	l, ok := cfg.Loop(id)
	if !ok {
		return nil, fmt.Errorf("there is no loop %q in %s", id, cfg.Path)
	}
	return cfg, a.runnable(cfg, repo, []config.Loop{l}, false)
}

// neighbours returns the loops, other than those of todo, that a supervisor runs now in the repository's own work tree, if
// a loop of todo is going to run there, too.
func (a *app) neighbours(repo string, cfg *config.Config, todo []config.Loop) (ids []string) {
	shared := func(l config.Loop) bool { return !l.Git.Worktree }
	if !slices.ContainsFunc(todo, shared) {
		return nil
	}
	for _, l := range cfg.Loops {
		if !shared(l) || slices.ContainsFunc(todo, func(t config.Loop) bool { return t.ID == l.ID }) {
			continue
		}
		if paths, err := a.paths(repo, l.ID); err == nil {
			if _, alive := local.Supervisor(paths); alive {
				ids = append(ids, l.ID)
			}
		}
	}
	return ids
}

// notByAgent refuses to start a loop for an agent while a supervisor runs a loop of this repository, because the new
// run would trust the configuration as the agent has left it. An agent may run superloop in another repository, as
// agents do that work on superloop itself.
func (a *app) notByAgent(repo string) error {
	_, err := escalation.CheckCaller("/proc", os.Environ())
	agent, ok := errors.AsType[*escalation.AgentError](err)
	if !ok {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(repo, ".superloop", "loops"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		paths, err := a.paths(repo, e.Name())
		if err != nil {
			return err
		}
		if _, alive := local.Supervisor(paths); alive {
			return failf(exitHuman, "", "an agent does not start loops in the repository that it works in: %w", agent)
		}
	}
	return nil
}

// warnings returns the problems that an operator should read before a run: those that the loader found, and budgets
// that superloop cannot keep because the runner of a role does not report what it uses. superloop would end such a loop
// after that role, in the middle of the night.
func warnings(cfg *config.Config) []config.Problem {
	list := slices.Clone(cfg.Warnings)
	for i, l := range cfg.Loops {
		if l.MaxCostUSD <= 0 && l.MaxTokens <= 0 {
			continue
		}
		for _, role := range l.Roles {
			r := cfg.Runners[role.Runner]
			if agent.For(agent.CLI{Command: r.Command, Adapter: r.Adapter}).Profile().Help == nil {
				list = append(list, config.Problem{Pointer: fmt.Sprintf("/loops/%d", i), Code: "blind_budget",
					Message: fmt.Sprintf("max_cost_usd and max_tokens cannot be kept: the %s's runner %s does not tell what it uses, so the loop will end after it", role.Name, role.Runner)})
			}
		}
	}
	return list
}

// lookPath returns a function that finds a program on the PATH of the operator who runs superloop.
func lookPath(env func(string) string) func(string) (string, error) {
	return func(file string) (string, error) {
		return proc.LookPath(file, []string{"PATH=" + env("PATH")})
	}
}

func (a *app) runLoop(c *cli.Context, desk *clickDesk, repo string, cfg *config.Config, id string, fresh, prompted bool) error {
	progress, err := a.progress(c)
	if err != nil {
		return err
	}
	defer progress.Close()
	if !c.Bool("json") {
		desk.speak(progress.Talk)
		defer desk.speak(nil)
	}
	o := a.options(c, repo, cfg, id)
	o.Observer, o.Channels, o.Environ = progress, desk.channels, without(cfg.SecretNames())
	o.Fast, o.Fresh, o.Containment = c.Bool("fast"), fresh, proc.Level(c.String("containment"))
	o.TrustConfig, o.AcceptLoose, o.Unprotected = c.Bool("trust-config") || prompted, c.Bool("i-accept"), c.Bool("unprotected")
	s, err := local.Run(c.Context, o)
	progress.Close()
	if err != nil {
		return err
	}
	return a.verdict(c, s, repo)
}

// options returns the options with which every verb starts a supervisor.
func (a *app) options(c *cli.Context, repo string, cfg *config.Config, id string) local.Options {
	return local.Options{Repo: repo, Config: cfg, LoopID: id, Version: thisBuild().Version, StateHome: a.env("XDG_STATE_HOME"), Disk: a.disk, SealBeyond: a.sealBeyond,
		Hurry: a.hurry, Log: a.logger(c.Bool("verbose")), By: a.who(c), LookPath: lookPath(a.env), ExitOnEscalation: c.Bool("exit-on-escalation"), Once: c.Bool("once")}
}

// progress chooses how a run is shown: as JSON lines on stdout, or as text on stderr. On a terminal the last line of
// the text always says what runs now.
func (a *app) progress(c *cli.Context) (render.Progress, error) {
	form, err := a.form(c, a.stderr)
	switch {
	case err != nil:
		return nil, err
	case c.Bool("json"):
		return render.NewJSONL(a.stdout), nil
	case ttyOf(a.stderr) != nil && a.env("TERM") != "dumb" && a.env("CI") == "":
		return render.NewLive(a.stderr, form, a.here), nil
	}
	return render.NewLines(a.stderr, form, a.here), nil
}

// logger returns the supervisor's own log, which --verbose prints to stderr. It is for operators who build superloop or
// want to know what the supervisor does. The history of a loop is in events.jsonl.
func (a *app) logger(verbose bool) *zap.Logger {
	if !verbose {
		return zap.NewNop()
	}
	enc := zap.NewDevelopmentEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(a.stderr)), zapcore.DebugLevel))
}

// verdict prints the status of the loop after a run and the command to type next. It returns the exit code for this
// status.
func (a *app) verdict(c *cli.Context, s loop.State, repo string) error {
	code, what := outcome(c.Context, s)
	if !c.Bool("json") {
		p, err := a.places(repo, s.LoopID)
		if err != nil {
			return err
		}
		form, err := a.form(c, a.stdout)
		if err != nil {
			return err
		}
		view := loop.ViewOf(s, 0, 0)
		if _, err := os.Lstat(p[0].OwnTree()); err == nil && s.Status == loop.Completed {
			what += "; the work is on branch " + p[0].OwnBranch()
		}
		_ = form.Print(a.stdout, render.StatusTone(s.Status), s.LoopID+": "+what, 2)
		if s.Status.Ended() {
			_ = form.Print(a.stdout, screen.Normal, "result: "+relTo(repo, loopFile(repo, s.LoopID, "result.md")), 8)
		}
		_ = form.Print(a.stdout, screen.Strong, "next: "+a.next(p[0], view, a.questionOf(p[0], view), false), 6)
	}
	if code == exitOK {
		return nil
	}
	return silent(code)
}

// serveMetrics serves the metrics of these loops until the caller calls stop. It fails before a loop begins if the port
// is in use. A later failure of the server ends no loop.
func (a *app) serveMetrics(addr, repo string, todo []config.Loop) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	sources := make([]metrics.Source, len(todo))
	for i, l := range todo {
		sources[i] = metrics.Source{Loop: l.ID, Journal: loopFile(repo, l.ID, "events.jsonl")}
	}
	s, err := metrics.Serve(addr, metrics.NewCollector(sources))
	if err != nil {
		return nil, failf(exitConfig, "superloop run --metrics 127.0.0.1:0", "%w", err)
	}
	fmt.Fprintf(a.stderr, "metrics: %s\n", s.URL)
	return func() { _ = s.Close() }, nil // the server ends with the process at the latest
}
