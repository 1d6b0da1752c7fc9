package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/cured"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/catalog"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/lesson"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/sandbox"
)

// learned is the output of learn --json.
type learned struct {
	*lesson.Draft
	File string `json:"file,omitempty"` // the file that was written
	YAML string `json:"yaml"`
}

// recalled is a failure of which learn drafts a rule, with its cure as far as that is recorded.
type recalled struct {
	failure  lesson.Failure
	cure     lesson.Cure
	category string
	missing  string // why there is no cure
	where    string // the command that shows what is recorded
}

// mostOutput is the number of bytes of a stream that learn reads.
const mostOutput = 16 << 20

func (a *app) learn(c *cli.Context) error {
	command, err := a.afterDashes(c)
	if err != nil {
		return err
	}
	var from []string
	for _, f := range []string{"loop", "chain"} {
		if c.IsSet(f) {
			from = append(from, "--"+f)
		}
	}
	if command != "" {
		from = append(from, "a command behind --")
	}
	isTold := slices.ContainsFunc(told[:], c.IsSet)
	switch {
	case len(from) == 0:
		return failf(exitUsage, "superloop learn --cure 'make deps' -- npm test   (or --loop ID, or --chain ID)", "of which failure? learn needs --loop, --chain, or a command behind --")
	case len(from) > 1:
		return failf(exitUsage, typed(c)+" --help", "%s cannot be had at once", strings.Join(from, " and "))
	case c.IsSet("event") && !c.IsSet("loop"), isTold && command == "":
		return failf(exitUsage, typed(c)+" --help", "--event is for --loop, and how a command ended is for a command behind --")
	case command != "" && strings.TrimSpace(c.String("cure")) == "":
		return failf(exitUsage, "superloop learn --cure 'make deps' -- "+command, "what helped? give the command that repaired it as --cure")
	}
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	k, err := a.loadRemediation(c.Context, repo, "")
	if err == nil {
		err = a.remediationPolicy(c, k)
	}
	if err != nil {
		return err
	}
	a.tellProblems(k.problems)
	var r recalled
	switch {
	case command != "":
		r, err = a.recallTold(c, k, command, isTold)
	case c.IsSet("loop"):
		r, err = a.recallLoop(c)
	default:
		r, err = a.recallChain(c)
	}
	if err != nil {
		return err
	}
	if r.cure.Command == "" {
		return failf(exitFailed, r.where+"   (or name what helped: --cure 'COMMAND')", "%s", r.missing)
	}
	if c.IsSet("category") {
		r.category = c.String("category")
	} else if known, ok := k.cat.Category(r.category); !ok || known.Area == "code" || known.ID == rules.CategoryUnknown {
		r.category = ""
	}
	if err := a.alreadyKnown(c, k, r); err != nil {
		return err
	}
	d, err := lesson.Make(c.Context, r.failure, r.cure, lesson.Options{Category: r.category, Redact: sandbox.Secrets(os.Environ()),
		Load: func(more ...catalog.File) (*catalog.Catalog, catalog.Problems) {
			return catalog.Load(c.Context, catalog.Options{UserDir: catalog.UserDir(), RepoDir: repo, More: more})
		}})
	if no, ok := errors.AsType[*lesson.Refusal](err); ok {
		return failf(exitFailed, a.afterRefusal(no, r), "no rule is drafted: %w", no)
	}
	if err = orInterrupted(c.Context, err); err != nil {
		return err
	}
	return a.giveDraft(c, repo, d)
}

// recallTold returns a failure that the operator tells of, or that learn sees when it runs the command.
func (a *app) recallTold(c *cli.Context, k *aid, command string, isTold bool) (recalled, error) {
	dir, err := theDir(c)
	if err != nil {
		return recalled{}, err
	}
	in := rules.Input{Command: command, Dir: dir}
	if isTold {
		files, err := a.toldInput(c, &in)
		defer func() {
			for _, f := range files {
				_ = f.Close() // the file was only read
			}
		}()
		if err != nil {
			return recalled{}, err
		}
	} else if in, err = a.madeInput(c, k, command, dir); err != nil {
		return recalled{}, err
	}
	if in.Exit.OK() {
		return recalled{}, failf(exitNothing, "superloop learn --stdout FILE --cure 'COMMAND' -- "+command+"   (FILE is what it printed when it failed)", "%s: nothing has failed: exit code 0", said(command))
	}
	r := recalled{failure: lesson.Failure{Command: command, Dir: dir, Exit: in.Exit}, cure: lesson.Cure{Command: c.String("cure")}}
	for _, s := range []struct {
		from io.Reader
		to   *string
	}{{in.Stdout, &r.failure.Stdout}, {in.Stderr, &r.failure.Stderr}} {
		if s.from == nil {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(s.from, mostOutput))
		if err != nil {
			return recalled{}, fmt.Errorf("reading what %s printed: %w", said(command), err)
		}
		*s.to = string(data)
	}
	return r, nil
}

// recallLoop finds a failure and its cure in the journal of a loop.
func (a *app) recallLoop(c *cli.Context) (recalled, error) {
	p, err := a.theLoop(c)
	if err != nil {
		return recalled{}, err
	}
	var j cured.Journal
	err = journal.Read(p.Events(), 0, j.Add)
	show := "superloop events --loop " + p.id + " --event 'failure_classified' --event 'recovery_*'"
	f := j.Find(c.Int64("event"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return recalled{}, hasNotRun(p.id)
	case err != nil:
		return recalled{}, err
	case f == nil && c.IsSet("event"):
		return recalled{}, failf(exitNotFound, show, "event %d of loop %s is no failure of the tests, and nothing that ran against one", c.Int64("event"), p.id)
	case f == nil:
		return recalled{}, failf(exitNothing, show, "no failure of the tests is recorded in loop %s", p.id)
	}
	r := recalled{where: show, missing: fmt.Sprintf("nothing shows what cured event %d of loop %s: %s", f.Seq, p.id, text.Display(text.Cut(f.What(), 400))),
		failure: lesson.Failure{Command: f.Command, Exit: rules.Exit{Code: max(f.ExitCode, 0), Signal: f.Signal, TimedOut: f.TimedOut}, Stderr: f.Lines(), Excerpt: true}}
	if r.failure.Exit.OK() {
		r.failure.Exit.Code = 1
	}
	cure, ok := f.Cure()
	if c.IsSet("cure") {
		cure = f.Tried(c.String("cure"))
		if cure.Command != "" && cure.Result != "verified" && cure.Seq > 0 {
			return recalled{}, failf(exitFailed, show, "%s did not help against event %d: %s", said(cure.Command), f.Seq, cure.Why)
		}
		r.cure.Command, ok = c.String("cure"), cure.Result == "verified"
	}
	if !ok {
		return r, nil
	}
	if cure.Dir != "" && cure.Dir != "." {
		return recalled{}, failf(exitFailed, "superloop learn --loop "+p.id+" --cure './SCRIPT'", "the cure %s ran in %s, and a rule's commands run where the failed command ran: "+
			"make a script of it", said(cure.Command), text.Display(cure.Dir))
	}
	r.cure = lesson.Cure{Command: cure.Command, Shown: fmt.Sprintf("events %d and %d of the loop %s", f.Seq, cure.Seq, p.id)}
	if r.category = cure.Category; f.Handler != "" {
		r.category = ""
	}
	return r, nil
}

// recallChain finds a failure and its cure in a chain of superloop fix.
func (a *app) recallChain(c *cli.Context) (recalled, error) {
	ch, err := a.oneChain(c, c.String("chain"))
	if err != nil {
		return recalled{}, err
	}
	l := ch.Levels[0]
	output := l.Failure.Stderr
	if len(output) >= plan.MaxStderr { // its first line is cut
		_, output, _ = strings.Cut(output, "\n")
	}
	r := recalled{where: "superloop chain show " + ch.ID, missing: "nothing has cured the failure of chain " + ch.ID + ": its status is " + string(ch.Status),
		failure: lesson.Failure{Command: ch.Goal.Command, Exit: rules.Exit{Code: max(l.Failure.ExitCode, 1)}, Stderr: output}}
	if o, ok := l.Option(l.Chosen); ok && ch.Status == plan.Done {
		r.cure = lesson.Cure{Command: o.Command, Shown: "the chain " + ch.ID + " of superloop fix"}
	}
	if cure := c.String("cure"); c.IsSet("cure") && cure != r.cure.Command {
		r.cure = lesson.Cure{Command: cure}
	}
	return r, nil
}

// alreadyKnown returns a fault if a rule that recognises the failure has the cure already.
func (a *app) alreadyKnown(c *cli.Context, k *aid, r recalled) error {
	in := rules.Input{Source: rules.SourceCommand, Command: r.failure.Command, Exit: r.failure.Exit,
		Stdout: strings.NewReader(r.failure.Stdout), Stderr: strings.NewReader(r.failure.Stderr)}
	_, resolved, err := k.explain(c.Context, in)
	if err != nil {
		return err
	}
	for _, o := range resolved.Options {
		if o.From.Kind == remedy.FromHandler && (o.Command == r.cure.Command || o.OwnCommand() == r.cure.Command) && o.Command != "" {
			return failf(exitNothing, "superloop policy check --command "+text.Paste(r.cure.Command), "superloop knows this already: %s offers %s", o.From.ID, said(r.cure.Command))
		}
	}
	return nil
}

// afterRefusal returns the command that may help after a refusal.
func (a *app) afterRefusal(no *lesson.Refusal, r recalled) string {
	command := text.Paste(r.failure.Command)
	switch {
	case no.Kind == lesson.IsText, no.Kind == lesson.IsSecret:
		return "superloop learn --cure './SCRIPT' -- " + command
	case no.Kind == lesson.NoPattern && r.failure.Excerpt:
		return "superloop learn --stdout FILE --cure " + text.Paste(r.cure.Command) + " -- " + command + "   (FILE with its whole output)"
	}
	return "superloop classify -- " + command + "   (docs/catalog.md says how to write a rule by hand)"
}

// giveDraft prints a draft, or writes it with --out.
func (a *app) giveDraft(c *cli.Context, repo string, d *lesson.Draft) error {
	out := learned{Draft: d, YAML: string(d.YAML)}
	if path := c.String("out"); path != "" {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(full); err == nil && !c.Bool("force") {
			rest := a.args[slices.Index(a.args, "learn")+1:]
			return failf(exitFailed, typed(c)+" --force "+shellWords(rest), "%s exists already; nothing is changed", path)
		}
		if err := a.disk.MkdirAll("learn", filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := a.disk.WriteFile("learn", full, d.YAML, 0o644); err != nil {
			return err
		}
		out.File = full
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, out)
	}
	if out.File == "" {
		if _, err := a.stdout.Write(d.YAML); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "wrote %s: the handler %s\n", text.Display(out.File), d.ID)
	}
	fmt.Fprintf(a.stderr, "superloop: proved: it recognises this failure and its example, not its counter-examples, and changes the verdict on none of the catalog's %s\n", render.Number(d.Checked, "example"))
	if d.Weak {
		fmt.Fprintln(a.stderr, "superloop: the code may be at fault as well, so the cure is proposed at most")
	}
	dirs := []string{catalog.UserDir(), filepath.Join(repo, ".superloop", "recovery")}
	if out.File == "" || !slices.Contains(dirs, filepath.Dir(out.File)) || filepath.Ext(out.File) != ".yaml" {
		fmt.Fprintf(a.stderr, "superloop: it counts once it stands as a .yaml file in %s (yours) or %s (the repository's: an operator decides about its commands)\n",
			text.Display(dirs[0]), text.Display(relTo(repo, dirs[1])))
	}
	fmt.Fprintf(a.stderr, "next: %s   (whether the cure runs by itself here)\n", a.here("superloop policy check --command "+text.Paste(d.Cure)))
	return nil
}
