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
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/sandbox"
)

// afterDashes returns the COMMAND of a verb, which stands after "--". One argument is the text of a shell command.
// Several arguments are a program and its arguments. Without arguments it returns "". An argument before "--" that is
// no flag is a usage error.
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

// shellWords quotes words, so that a shell reads the text as these words.
func shellWords(words []string) string {
	quoted := slices.Clone(words)
	for i := range quoted {
		quoted[i] = text.Paste(quoted[i])
	}
	return strings.Join(quoted, " ")
}

// aid classifies failures and resolves remedies for one system: this machine or a preset.
type aid struct {
	repo       string // holds the catalog's overlay, the configuration and the project
	cat        *catalog.Catalog
	problems   catalog.Problems
	classifier *rules.Classifier
	profile    remedy.Profile
	policy     *recovery.Policy
	from       render.PolicyFrom
	probes     rules.Prober // nil: superloop makes no probes
	// past says how options did here before, which adapts and orders them. It is nil without such knowledge.
	past func(signature string) func(option string) learn.Past
}

// systems returns the names of the presets that --system takes.
func systems() []string {
	return slices.Sorted(maps.Keys(remedy.Presets()))
}

// loadRemediation loads the catalog and makes the classifier. preset names the system for which to resolve remedies.
// For "" loadRemediation detects the profile of this machine.
func (a *app) loadRemediation(ctx context.Context, repo, preset string) (*aid, error) {
	// Nearly all memory that is allocated here stays in use, and the process ends soon. Frequent garbage collections
	// would take a quarter of the time and would not make the process smaller.
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
		go func() { detected <- remedy.Detect(ctx, repo) }() // while the catalog is loaded: each takes some milliseconds
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

// loadCatalog loads the embedded catalog, the operator's own files and those of the repository.
func loadCatalog(ctx context.Context, repo string) (*catalog.Catalog, catalog.Problems) {
	return catalog.Load(ctx, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo})
}

// tellProblems prints which parts of the operator's own catalog files superloop has left out. It prints three at most.
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
		fmt.Fprintln(a.stderr, "hint: "+a.here("superloop classify --lint"))
	}
}

// elsewhere is the prober for a system that is not this machine. It makes only the probe that reads the project.
type elsewhere struct{ rules.Prober }

// Probe implements rules.Prober. It answers rules.Unknown for every probe but rules.ProbeDeclared.
func (e elsewhere) Probe(ctx context.Context, name string, captures map[string]string, in *rules.Input) rules.Finding {
	if name != rules.ProbeDeclared {
		return rules.Finding{Name: name, Holds: rules.Unknown, Detail: "not looked at: it is another system"}
	}
	return e.Prober.Probe(ctx, name, captures, in)
}

// remediationPolicy sets the policy by which superloop judges remedies. It is the policy in force of the repository's
// configuration, without changes that are not trusted yet. Without a configuration it is the default policy.
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
	cfg, differs, err := t.inForce() // the configuration that a run would use
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
	if p == nil { // no recovery section means that recovery is disabled
		p, _ = recovery.Compile(recovery.Settings{})
	}
	k.policy = p
	k.from = render.PolicyFrom{Source: "config", File: relTo(k.repo, path), Loop: loop, Enabled: p.Settings.Enabled, Held: len(differs.Loosening)}
	return nil
}

// defaultPolicy returns the policy of an empty recovery section.
func defaultPolicy() *recovery.Policy {
	p, _ := recovery.Compile(recovery.Defaults()) // the defaults always compile
	return p
}

// kept is the number of bytes that superloop keeps of the beginning of each output stream of a command, and of its end.
// Of what lies between them it keeps the lines that a rule knows.
const kept = 8 << 20

// runPlainly runs a command of the operator in a shell, without a sandbox. The output goes to stderr. runPlainly
// returns the end and the output of the command as the input of the classifier.
func (a *app) runPlainly(ctx context.Context, s *proc.Spawner, sift proc.Sift, command, dir string, timeout time.Duration) (rules.Input, proc.Result, error) {
	env := os.Environ()
	shell, err := proc.LookPath("bash", env)
	if err != nil {
		if shell, err = proc.LookPath("sh", env); err != nil {
			return rules.Input{}, proc.Result{}, failf(exitNotFound, "", "running %s: %w", text.Display(command), err)
		}
	}
	res, err := s.Run(ctx, proc.Spec{Argv: []string{shell, "-c", command}, Dir: dir, Env: env, Timeout: timeout, Hurry: a.hurry,
		Log: a.stderr, LogLimit: 1 << 40, HeadTail: kept, Sift: sift})
	if err != nil {
		return rules.Input{}, res, fmt.Errorf("running %s: %w", text.Display(command), err)
	}
	exit := rules.Exit{Code: max(res.Code, 0), Signal: res.Signal, TimedOut: res.Ended == proc.TimedOut, NotStarted: res.Ended == proc.NotStarted, Duration: res.Duration}
	return rules.Input{Source: rules.SourceCommand, Command: command, Dir: dir, Exit: exit, Stdout: strings.NewReader(res.Stdout.Text()),
		Stderr: strings.NewReader(res.Stderr.Text())}, res, orInterrupted(ctx, nil)
}

// shellCode returns the exit code that a shell shows for a command: 124 after a timeout, 128 plus the signal's number
// after a signal.
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

// explain classifies a failure and resolves the remedies for it on this system.
func (k *aid) explain(ctx context.Context, in rules.Input) (render.Classification, remedy.Plan, error) {
	in.Probes = k.probes
	f, err := k.classifier.Classify(ctx, in)
	if err = orInterrupted(ctx, err); err != nil {
		return render.Classification{}, remedy.Plan{}, err
	}
	s := remedy.Situation{Dir: k.repo, FailedCommand: in.Command}
	_, s.Listed = k.policy.Listed(in.Command)
	if k.past != nil {
		s.Past = k.past(f.Signature)
	}
	plan := remedy.Resolve(k.cat, f, k.profile, s)
	return render.NewClassification(k.cat, f, &plan, k.profile, k.policy, k.from), plan, nil
}
