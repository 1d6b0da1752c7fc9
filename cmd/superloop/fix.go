package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/effects/failures"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/catalog"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/learn"
	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/recovery/plan/walk"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/sandbox"
)

// fixed is the output of fix --json.
type fixed struct {
	Status         string                 `json:"status"` // passes, code, unknown, cured, failed, waiting, dry_run
	Command        string                 `json:"command"`
	ExitCode       int                    `json:"exit_code"` // of the command's last run
	Classification *render.Classification `json:"classification,omitempty"`
	Waiting        []waiting              `json:"waiting,omitempty"`
	Undo           []string               `json:"undo,omitempty"`
	Chain          json.RawMessage        `json:"chain,omitempty"`
}

// waiting is a remedy that runs only if an operator approves it.
type waiting struct {
	Option  string `json:"option"`
	Command string `json:"command"`
	Why     string `json:"why"`
}

func (a *app) fix(c *cli.Context) error {
	text, err := a.afterDashes(c)
	switch {
	case err != nil:
		return err
	case text == "":
		return failf(exitUsage, "superloop fix -- npm test", "which command? it stands behind --, as in the hint")
	case c.Int("max-attempts") < 1 || c.Int("max-attempts") > 50:
		return failf(exitUsage, "superloop fix --max-attempts 6 -- "+text, "--max-attempts %d: 1 to 50", c.Int("max-attempts"))
	case c.Duration("timeout") <= 0:
		return failf(exitUsage, "superloop fix --timeout 30m -- "+text, "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	w, err := a.newWalker(c)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err == nil {
		err = w.at(dir)
	}
	if err == nil {
		err = w.begin(text, c.Int("max-attempts"), c.Bool("dry-run"))
	}
	return errors.Join(err, w.close())
}

// newWalker makes a walker for the repository's chains. It fails if a loop or another superloop fix is at work in the
// repository. The caller closes the walker.
func (a *app) newWalker(c *cli.Context) (*walker, error) {
	_, paths, err := a.private(c)
	if err == nil {
		err = a.nobodyAtWork(paths.Repo)
	}
	if err != nil {
		return nil, err
	}
	w := &walker{a: a, c: c, ctx: c.Context, paths: paths, store: a.fixStore(paths)}
	if !c.Bool("json") {
		w.terminal = ttyOf(a.stdin)
	}
	if err := a.disk.MkdirAll("chain", fixDir(paths), 0o700); err != nil {
		return nil, err
	}
	if w.lock, err = a.disk.Lock(filepath.Join(fixDir(paths), "lock"), fmt.Appendf(nil, `{"pid":%d}`, os.Getpid())); err != nil {
		if _, held := errors.AsType[*durable.LockedError](err); held {
			return nil, failf(exitHeld, "superloop chain list", "another superloop fix is at work here: %w", err)
		}
		return nil, err
	}
	if err := w.ready(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// fixDir returns the directory of superloop fix in the repository's private state.
func fixDir(p layout.Paths) string { return filepath.Join(filepath.Dir(p.Undo()), "fix") }

func (a *app) fixStore(p layout.Paths) walk.Store {
	return walk.Store{Disk: a.disk, Dir: filepath.Join(fixDir(p), "chains")}
}

// ready loads the catalog and the policy, and starts the helper process that runs commands.
func (w *walker) ready() (err error) {
	if w.k, err = w.a.loadRemediation(w.ctx, w.paths.Repo, ""); err != nil {
		return err
	}
	if err := w.a.remediationPolicy(w.c, w.k); err != nil {
		return err
	}
	w.a.tellProblems(w.k.problems)
	if w.spawner, err = proc.Start(proc.Options{}); err != nil {
		return fmt.Errorf("getting ready to run commands: %w", err)
	}
	w.x = w.executor()
	w.k.past = w.x.Past
	return nil
}

// nobodyAtWork fails while a supervisor of one of the repository's loops has agents or commands at work.
func (a *app) nobodyAtWork(repo string) error {
	if _, err := os.Lstat(configFile(repo)); errors.Is(err, fs.ErrNotExist) && len(ownLoops(repo)) == 0 {
		return nil
	}
	ids, err := a.loopIDs(repo)
	if err != nil {
		return err
	}
	loops, err := a.places(repo, ids...)
	if err != nil {
		return err
	}
	for _, p := range loops {
		holder, alive := local.Supervisor(p.Paths)
		if !alive {
			continue
		}
		if view, err := local.ReadView(p.Paths); err != nil || atWork(view.Status) {
			return failf(exitHeld, "superloop status --watch --loop "+p.id, "a supervisor (%s) is at work in loop %s; remedies would change files under its hands", holder, p.id)
		}
	}
	return nil
}

// begin runs the command. If the command fails and the rules know remedies for it, begin opens a chain and walks it.
func (w *walker) begin(text string, limit int, dry bool) error {
	w.command = text
	in, err := w.runCommand()
	if err != nil {
		return err
	}
	if in.Exit.OK() {
		return w.report(fixed{Status: "passes"})
	}
	found, resolved, err := w.k.explain(w.ctx, in)
	if err == nil && !dry && found.Category == failures.CategoryPort && w.endLeftovers() {
		if in, err = w.runCommand(); err == nil && in.Exit.OK() {
			return w.report(fixed{Status: "cured"})
		}
		if err == nil {
			found, resolved, err = w.k.explain(w.ctx, in)
		}
	}
	if err != nil {
		return err
	}
	if w.c.Bool("all") {
		found.Unfold()
	}
	out := fixed{Status: "failed", Classification: &found}
	options := remedy.Choices(resolved)
	switch {
	case found.Code:
		out.Status = "code"
		return w.report(out)
	case dry:
		out.Status = "dry_run"
		return w.report(out)
	case !walkable(options):
		if w.waiting = withheld(options); len(w.waiting) > 0 {
			break // in a chain an operator can choose one of them
		}
		if found.Handler == "" {
			out.Status = "unknown"
		}
		return w.report(out)
	}
	now := time.Now()
	ch := plan.New(walk.NewID(now), plan.Goal{Command: text, Dir: w.rel, Key: resolved.Goal, Source: rules.SourceCommand},
		w.failureOf(found), options, limit, 0, now)
	w.ch = &ch
	w.say("%s fails: %s; automatic remediation begins (chain %s)", render.Cut(render.Clean(text), 80), render.Clean(found.Why), ch.ID)
	return w.reportChain(out, w.walk())
}

// endLeftovers ends processes that killed runs of the repository's loops have left behind, as a loop does: they are
// superloop's own, so nobody is asked. It reports whether it ended any.
func (w *walker) endLeftovers() bool {
	table := failures.ProcessTable{Dir: "/proc", Sweep: proc.Sweep}
	killed, runs := table.EndLeftovers(filepath.Join(w.paths.Super, "loops"), "", "")
	if len(killed) == 0 {
		return false
	}
	w.say("ended %d leftover processes of superloop (run %s); again: %s", len(killed), render.Cut(render.Clean(strings.Join(runs, ", ")), 80), render.Cut(render.Clean(w.command), 80))
	return true
}

// walkable reports whether a chain may try one of the options without an operator.
func walkable(options []plan.Choice) bool {
	return slices.ContainsFunc(options, func(o plan.Choice) bool {
		return o.ByItself && o.Availability != "impossible" && (o.Command != "" || len(o.WaitsMS) > 0)
	})
}

// withheld returns the options that superloop could run, but does not run without an operator, whatever the policy
// says.
func withheld(options []plan.Choice) []waiting {
	var out []waiting
	for _, o := range options {
		if o.Executor == string(catalog.ByWrapper) && o.Availability != "impossible" && o.Command != "" {
			out = append(out, waiting{Option: o.ID, Command: o.Command, Why: o.Withheld})
		}
	}
	return out
}

// failureOf describes the failure of the command that has just run.
func (w *walker) failureOf(c render.Classification) plan.Failure {
	return plan.Failure{Category: c.Category, Handler: c.Handler, Signature: c.Signature, Why: c.Why, Label: c.About,
		Description: c.Description, Layer: string(c.Layer), Method: c.Family, ExitCode: c.Exit.Code, Stderr: w.end}
}

// endOf returns the end of an output for a chain, at most plan.MaxStderr bytes, with secrets masked.
func endOf(output string) string {
	output = sandbox.Secrets(os.Environ()).String(output)
	if n := len(output) - plan.MaxStderr; n > 0 {
		output = output[n:]
	}
	return strings.ToValidUTF8(output, "")
}

// reportChain reports what walking the chain has led to. walked is the error of the walk, which reportChain returns,
// too.
func (w *walker) reportChain(out fixed, walked error) error {
	switch {
	case w.ch.Status == plan.Done:
		out.Status, out.Classification = "cured", nil
	case walked == nil && len(w.waiting) > 0:
		out.Status = "waiting"
	}
	out.Waiting, out.Undo = w.waiting, w.kept
	body, err := plan.Response(*w.ch)
	if err != nil {
		return errors.Join(walked, err)
	}
	out.Chain = body
	return errors.Join(walked, w.report(out))
}

// report prints the result of the verb and returns its exit code.
func (w *walker) report(out fixed) error {
	out.ExitCode, out.Command = shellCode(w.last), w.command
	if !w.c.Bool("json") {
		w.print(out)
	} else if err := render.JSON(w.a.stdout, out); err != nil {
		return err
	}
	switch out.Status {
	case "passes", "cured":
		return nil
	case "waiting":
		return silent(exitHuman)
	}
	return silent(max(out.ExitCode, 1))
}

func (w *walker) print(out fixed) {
	p := w.a.stdout
	if out.Classification != nil && w.ch == nil {
		out.Classification.Text(p)
	}
	if w.ch == nil {
		fmt.Fprintln(p, map[string]string{"passes": render.Cut(render.Clean(out.Command), 120) + " passes",
			"cured": render.Cut(render.Clean(out.Command), 120) + " passes now", "code": "\nthe code is at fault: nothing was tried", "unknown": "\nno rule knows this failure: nothing was tried",
			"dry_run": "\nnothing was tried: --dry-run", "failed": "\nsuperloop can do nothing about it by itself: nothing was tried"}[out.Status])
		if out.Status == "unknown" || out.Status == "failed" {
			fmt.Fprint(p, w.a.here(fmt.Sprintf("once you know what helps: superloop learn --cure 'COMMAND' -- %s   (while it still fails: drafts a rule for the next time)\n", text.Paste(out.Command))))
		}
		return
	}
	fmt.Fprint(p, w.a.chainText(*w.ch))
	for _, x := range out.Waiting {
		fmt.Fprintf(p, "waits for an operator: %s   (%s)\n", render.Cut(render.Clean(x.Command), 200), render.Clean(x.Why))
	}
	if w.asks {
		fmt.Fprint(p, w.a.here(fmt.Sprintf("next: superloop fix --yes -- %s   (runs them without asking; or choose one, as above)\n", text.Paste(out.Command))))
	}
	if len(out.Undo) > 0 {
		fmt.Fprint(p, w.a.here(fmt.Sprintf("to take it back: superloop chain undo %s\n", w.ch.ID)))
	}
}

// learn records whether the remedy of the first level has helped, when the chain has run the command again to verify
// that. If the command fails now with another failure than before, learn records nothing, because nobody knows whether
// the remedy has helped.
func (w *walker) learn(ok bool, now plan.Failure) {
	l := w.ch.Levels[0]
	o, chosen := l.Option(l.Chosen)
	same := l.Failure.Signature == now.Signature && l.Failure.Handler == now.Handler
	if r := w.ch.Running; r == nil || r.Kind != plan.Verify || !chosen || !ok && !same {
		return
	}
	result := learn.Ineffective
	if ok {
		result = learn.Verified
	}
	w.x.Learn(w.ctx, learn.Outcome{Signature: l.Failure.Signature, Option: o.Key, Command: o.Command, Result: result, ByPerson: l.Picked || w.people[o.Key]})
}
