package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/sandbox"
)

// afterDashes is the COMMAND of a verb, which stands behind "--": one argument is a shell's text, several are a program
// and its arguments. It is "" if there is none. What stands before "--" and is no flag is a mistake.
func (a *app) afterDashes(c *cli.Context) (string, error) {
	n := c.NArg()
	words := c.Args().Slice()
	if at := len(a.args) - n - 1; n > 0 && (at < 0 || a.args[at] != "--") {
		rest := words
		if i := slices.Index(words, "--"); i >= 0 && i+1 < len(words) {
			rest = words[i+1:]
		}
		return "", failf(exitUsage, typed(c)+" -- "+shellWords(rest), "%q stands before --; flags come first, then --, then the command", words[0])
	}
	if n == 1 {
		return words[0], nil
	}
	return shellWords(words), nil
}

// shellWords is the text that a shell reads as these words.
func shellWords(words []string) string {
	quoted := slices.Clone(words)
	for i := range quoted {
		quoted[i] = text.Paste(quoted[i])
	}
	return strings.Join(quoted, " ")
}

// aid is what rules know, and what they say of failures on one system.
type aid struct {
	repo       string // where overlays, the config and the project are
	cat        *catalog.Catalog
	problems   catalog.Problems
	classifier *rules.Classifier
	profile    remedy.Profile
	policy     *recovery.Policy
	from       render.PolicyFrom
	probes     rules.Prober // nil: none are made
	// score orders options that are otherwise equal; nil: nothing is known of them.
	score func(signature string) func(option string) float64
}

// systems are the names that --system takes.
func systems() []string {
	return slices.Sorted(maps.Keys(remedy.Presets()))
}

// loadRemediation reads what rules know. preset is a system that is only thought of, "" for this machine.
func (a *app) loadRemediation(ctx context.Context, repo, preset string) (*aid, error) {
	// Nearly all that is allocated at first stays, and the process ends soon: to collect it again and again is a
	// quarter of the time, and makes the process no smaller.
	if a.env("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	k := &aid{repo: repo, probes: rules.System{Path: a.env("PATH")}}
	if preset != "" {
		p, ok := remedy.Presets()[preset]
		if !ok {
			return nil, failf(exitUsage, "superloop classify --list   (names the systems at its end)", "--system %q is none of %s", preset, strings.Join(systems(), ", "))
		}
		k.profile, k.probes = p, elsewhere{k.probes}
	}
	detected := make(chan remedy.Profile, 1)
	if preset == "" {
		go func() { detected <- remedy.Detect(ctx, repo) }() // beside the catalog: each takes some milliseconds
	}
	k.cat, k.problems = loadCatalog(ctx, repo)
	var err error
	if k.classifier, err = rules.New(k.cat, rules.Options{Redact: sandbox.Secrets(os.Environ())}); err != nil {
		return nil, fmt.Errorf("reading what superloop knows of failures: %w", err)
	}
	if preset == "" {
		k.profile = <-detected
	}
	return k, orInterrupted(ctx, nil)
}

// loadCatalog reads the embedded rules, the operator's own and the repository's.
func loadCatalog(ctx context.Context, repo string) (*catalog.Catalog, catalog.Problems) {
	return catalog.Load(ctx, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo})
}

// tellProblems says what of an operator's own files was left out.
func (a *app) tellProblems(problems catalog.Problems) {
	wrong := problems.Errors()
	for i, p := range wrong {
		if i == 3 {
			fmt.Fprintf(a.stderr, "superloop: and %d more problems\n", len(wrong)-i)
			break
		}
		fmt.Fprintf(a.stderr, "superloop: left out: %s\n", text.Display(p.String()))
	}
	if len(wrong) > 0 {
		fmt.Fprintln(a.stderr, "hint: superloop classify --lint")
	}
}

// elsewhere makes only the probes that look at the project, for a system that is not this machine.
type elsewhere struct{ rules.Prober }

// Probe makes one look.
func (e elsewhere) Probe(ctx context.Context, name string, captures map[string]string, in *rules.Input) rules.Finding {
	if name != rules.ProbeDeclared {
		return rules.Finding{Name: name, Holds: rules.Unknown, Detail: "not looked at: it is another system"}
	}
	return e.Prober.Probe(ctx, name, captures, in)
}

// remediationPolicy is the policy by which fixes are judged: that of the repository's configuration if there is one, as
// far as it is trusted, else the default.
func (a *app) remediationPolicy(c *cli.Context, k *aid) error {
	path := configFile(k.repo)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if c.IsSet("loop") {
			return failf(exitNotFound, "superloop init", "--loop %s: there is no %s", c.String("loop"), path)
		}
		k.policy = defaultPolicy()
		k.from = render.PolicyFrom{Source: "default", File: relTo(k.repo, path)}
		return nil
	}
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	cfg, differs, err := t.inForce() // what a run would take
	if err != nil {
		return err
	}
	loop, err := pickOf(c, cfg)
	if err != nil {
		return err
	}
	p, problems := cfg.Policy(loop)
	if len(problems) > 0 {
		return &config.Error{Path: path, Problems: problems}
	}
	if p == nil { // no section: as if it said enabled false
		p, _ = recovery.Compile(recovery.Settings{})
	}
	k.policy = p
	k.from = render.PolicyFrom{Source: "config", File: relTo(k.repo, path), Loop: loop, Enabled: p.Settings.Enabled, Held: len(differs.Loosening)}
	return nil
}

// defaultPolicy is that of a recovery section that is there and empty.
func defaultPolicy() *recovery.Policy {
	p, _ := recovery.Compile(recovery.Defaults()) // nothing in it can be wrong
	return p
}

// kept bounds what is kept of each stream of a command: its first and its last bytes.
const kept = 8 << 20

// runPlainly runs a command of the operator's as their shell would, its output going to stderr, and gives how it went as
// rules want it.
func (a *app) runPlainly(ctx context.Context, s *proc.Spawner, command, dir string, timeout time.Duration) (rules.Input, proc.Result, error) {
	env := os.Environ()
	shell, err := proc.LookPath("bash", env)
	if err != nil {
		if shell, err = proc.LookPath("sh", env); err != nil {
			return rules.Input{}, proc.Result{}, failf(exitNotFound, "", "running %s: %w", text.Display(command), err)
		}
	}
	res, err := s.Run(ctx, proc.Spec{Argv: []string{shell, "-c", command}, Dir: dir, Env: env, Timeout: timeout, Hurry: a.hurry,
		Log: a.stderr, LogLimit: 1 << 40, HeadTail: kept})
	if err != nil {
		return rules.Input{}, res, fmt.Errorf("running %s: %w", text.Display(command), err)
	}
	exit := rules.Exit{Code: max(res.Code, 0), Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut, NotStarted: res.Ended == proc.NotStarted, Duration: res.Duration}
	return rules.Input{Source: rules.SourceCommand, Command: command, Dir: dir, Exit: exit, Stdout: strings.NewReader(res.Stdout.Text()),
		Stderr: strings.NewReader(res.Stderr.Text())}, res, orInterrupted(ctx, nil)
}

// shellCode is the exit code with which a shell would have ended for a command.
func shellCode(r proc.Result) int {
	switch {
	case r.Ended == proc.TimedOut:
		return 124
	case r.Signal != "":
		return 128 + int(unix.SignalNum(r.Signal))
	case r.Code < 0:
		return exitFailed
	}
	return r.Code
}

// explain has rules look at a failure: what it is, and what fixes it here.
func (k *aid) explain(ctx context.Context, in rules.Input) (render.Classification, remedy.Plan, error) {
	in.Probes = k.probes
	f, err := k.classifier.Classify(ctx, in)
	if err = orInterrupted(ctx, err); err != nil {
		return render.Classification{}, remedy.Plan{}, err
	}
	s := remedy.Situation{Dir: k.repo, FailedCommand: in.Command}
	if k.score != nil {
		s.Score = k.score(f.Signature)
	}
	plan := remedy.Resolve(k.cat, f, k.profile, s)
	return render.NewClassification(k.cat, f, &plan, k.profile, k.policy, k.from), plan, nil
}
