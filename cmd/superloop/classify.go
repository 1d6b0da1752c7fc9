package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
)

// told lists the flags that describe a failure. With one of them superloop runs no command.
var told = [...]string{"exit", "signal", "timed-out", "stdout", "stderr"}

func (a *app) classifyFailure(c *cli.Context) error {
	text, err := a.afterDashes(c)
	if err != nil {
		return err
	}
	var modes, facts []string
	for _, m := range []string{"batch", "lint", "list"} {
		if c.Bool(m) {
			modes = append(modes, "--"+m)
		}
	}
	for _, f := range told {
		if c.IsSet(f) {
			facts = append(facts, "--"+f)
		}
	}
	switch {
	case len(modes) > 1:
		return failf(exitUsage, "superloop classify "+modes[0], "%s cannot be had at once", strings.Join(modes, " and "))
	case len(modes) == 1 && (text != "" || len(facts) > 0):
		return failf(exitUsage, "superloop classify "+modes[0], "%s takes no command, and nothing of how one ended", modes[0])
	case c.Bool("batch"):
		return a.classifyBatch(c)
	case c.Bool("lint"):
		return a.classifyLint(c)
	case c.Bool("list"):
		return a.classifyList(c)
	case text == "" && len(facts) == 0:
		return failf(exitUsage, "superloop classify -- npm ci", "which command? it stands behind --, as in the hint")
	case c.String("stdout") == "-" && c.String("stderr") == "-":
		return failf(exitUsage, "superloop classify --exit 1 --stdout - -- COMMAND", "both streams from standard input: give it to --stdout alone, that stands for both")
	}
	return a.classifyOne(c, text, len(facts) > 0)
}

func (a *app) classifyOne(c *cli.Context, text string, isTold bool) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	dir, err := theDir(c)
	if err != nil {
		return err
	}
	k, err := a.loadRemediation(c.Context, repo, c.String("system"))
	if err == nil {
		err = a.remediationPolicy(c, k)
	}
	if err != nil {
		return err
	}
	a.tellProblems(k.problems)
	in := rules.Input{Source: rules.SourceCommand, Command: text, Dir: dir}
	if isTold {
		files, err := a.toldInput(c, &in)
		defer func() {
			for _, f := range files {
				_ = f.Close() // the file was only read
			}
		}()
		if err != nil {
			return err
		}
	} else if in, err = a.madeInput(c, k, text, dir); err != nil {
		return err
	}
	found, _, err := k.explain(c.Context, in)
	switch {
	case errors.Is(err, rules.ErrNoFailure):
		return failf(exitNothing, "", "%s: nothing has failed: exit code 0", said(text))
	case err != nil:
		return err
	}
	if c.Bool("all") {
		found.Unfold()
	}
	return a.write(c, found, found.Text)
}

// said shortens a command for a message and makes it safe for a terminal.
func said(text string) string {
	if text == "" {
		return "the command"
	}
	return render.Cut(render.Clean(text), 120)
}

// theDir returns the absolute path of --dir, which must be a folder.
func theDir(c *cli.Context) (string, error) {
	dir, err := filepath.Abs(c.String("dir"))
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", failf(exitNotFound, typed(c)+" --dir DIR", "--dir %s is not a folder", c.String("dir"))
	}
	return dir, nil
}

// toldInput fills in how the command ended and what it printed, as the flags say. The caller closes files, also after
// an error.
func (a *app) toldInput(c *cli.Context, in *rules.Input) (files []*os.File, err error) {
	open := func(flag string) (io.Reader, error) {
		switch path := c.String(flag); path {
		case "":
			return nil, nil
		case "-":
			return a.stdin, nil
		default:
			f, err := os.Open(path)
			if err != nil {
				return nil, failf(exitNotFound, "", "--%s: %w", flag, err)
			}
			files = append(files, f)
			if info, err := f.Stat(); err != nil || info.IsDir() {
				return nil, failf(exitNotFound, "", "--%s: %s is a folder, not a file", flag, path)
			}
			return f, nil
		}
	}
	if in.Stdout, err = open("stdout"); err == nil {
		in.Stderr, err = open("stderr")
	}
	in.Merged = c.IsSet("stdout") && !c.IsSet("stderr")
	in.Exit = rules.Exit{Code: c.Int("exit"), Signal: c.String("signal"), TimedOut: c.Bool("timed-out")}
	if s := strings.ToUpper(in.Exit.Signal); s != "" {
		in.Exit.Signal = "SIG" + strings.TrimPrefix(s, "SIG")
	}
	if !c.IsSet("exit") && in.Exit.OK() {
		in.Exit.Code = 1 // the flags describe a failure, so exit code 0 is none
	}
	return files, err
}

// madeInput runs the command and returns its end and its output as the input of the classifier.
func (a *app) madeInput(c *cli.Context, k *aid, command, dir string) (rules.Input, error) {
	if c.Duration("timeout") <= 0 {
		return rules.Input{}, failf(exitUsage, typed(c)+" --timeout 10m -- "+command, "--timeout %s: a time above 0 is needed", c.Duration("timeout"))
	}
	s, err := proc.Start(proc.OnHost("")) // the command is the operator's own
	if err != nil {
		return rules.Input{}, fmt.Errorf("running %s: %w", said(command), err)
	}
	in, _, err := a.runPlainly(c.Context, s, k.classifier.Sift, command, dir, c.Duration("timeout"))
	return in, errors.Join(err, s.Close())
}

// batchSystem is the system for which a batch resolves remedies if neither --system nor --dir is given: an answer must
// not depend on the machine that gives it.
const batchSystem = "debian12"

// classifyBatch classifies the failures on stdin, one JSON object a line, and prints one answer a line.
func (a *app) classifyBatch(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	system, dir := c.String("system"), ""
	if c.IsSet("dir") {
		if dir, err = theDir(c); err != nil {
			return err
		}
	} else if system == "" {
		system = batchSystem
	}
	k, err := a.loadRemediation(c.Context, repo, system)
	if err != nil {
		return err
	}
	a.tellProblems(k.problems)
	policy := defaultPolicy()
	err = k.classifier.Batch(reading{c.Context, a.stdin}, a.stdout, func(f rules.Failure) (any, string) {
		f.Dir = dir
		plan := remedy.Resolve(k.cat, f, k.profile, remedy.Situation{Dir: dir, FailedCommand: f.Command})
		gate, _ := remedy.Gate(&plan, policy)
		return render.Options(&plan, policy), gate
	})
	return orInterrupted(c.Context, err)
}

// lintProblem is an error or a warning that classify --lint reports about the rules.
type lintProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"`
	Handler string `json:"handler,omitempty"`
	Message string `json:"message"`
	Warning bool   `json:"warning"`
}

func (p lintProblem) String() string {
	out := p.File
	if p.Line > 0 {
		out += fmt.Sprintf(":%d", p.Line)
	}
	if p.Column > 0 {
		out += fmt.Sprintf(":%d", p.Column)
	}
	out += map[bool]string{true: ": warning: ", false: ": error: "}[p.Warning]
	if what := cmp.Or(p.Handler, p.Pointer); what != "" {
		out += what + ": "
	}
	return text.Display(out + p.Message)
}

func (a *app) classifyLint(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	cat, loaded := loadCatalog(c.Context, repo)
	found := []lintProblem{}
	add := func(p lintProblem) {
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	for _, p := range append(loaded, catalog.Lint(cat)...) {
		add(lintProblem{File: p.File, Line: p.Line, Column: p.Column, Pointer: p.Pointer, Message: p.Message, Warning: p.Warning})
	}
	ofHandler := func(list []rules.Problem) {
		for _, p := range list {
			l := lintProblem{Handler: p.Handler, Message: p.Text, Warning: !p.Fatal}
			if p.Example != "" {
				l.Message = p.Example + ": " + l.Message
			}
			if h, ok := cat.Handler(p.Handler); ok {
				l.File, l.Line, l.Pointer = h.Origin.File, h.Origin.Line, h.Origin.Pointer
			}
			add(l)
		}
	}
	k, err := rules.New(cat, rules.Options{})
	if err != nil {
		return err
	}
	examples, err := rules.LintExamples(cat)
	if err != nil {
		return err
	}
	ofHandler(k.Problems())
	ofHandler(examples)
	if c.Context.Err() != nil {
		return interrupted(c.Context)
	}
	wrong, n := 0, 0
	for _, p := range found {
		if !p.Warning {
			wrong++
		}
	}
	for i := range cat.Handlers {
		n += len(cat.Handlers[i].Examples) + len(cat.Handlers[i].CounterExamples)
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"problems": found, "errors": wrong, "warnings": len(found) - wrong,
			"handlers": len(cat.Handlers), "recipes": len(cat.Recipes), "chains": len(cat.Chains), "examples": n})
	} else {
		for _, p := range found {
			fmt.Fprintln(a.stdout, p)
		}
		fmt.Fprintf(a.stdout, "%s, %s, %s, %s: %s, %s\n", render.Number(len(cat.Handlers), "handler"), render.Number(len(cat.Recipes), "recipe"),
			render.Number(len(cat.Chains), "chain"), render.Number(n, "example"), render.Number(wrong, "error"), render.Number(len(found)-wrong, "warning"))
	}
	if err == nil && wrong > 0 {
		return silent(exitConfig)
	}
	return err
}

// listedHandler is a handler in the output of classify --list --json.
type listedHandler struct {
	ID       string         `json:"id"`
	Label    string         `json:"label"`
	Category string         `json:"category"`
	Layer    catalog.Layer  `json:"layer"`
	Family   string         `json:"family,omitempty"`
	Guard    catalog.Guard  `json:"guard,omitempty"`
	Options  []string       `json:"options"`
	Origin   catalog.Origin `json:"origin"`
}

type listedRecipe struct {
	ID      string         `json:"id"`
	Label   string         `json:"label"`
	CLI     string         `json:"cli"`
	Methods []string       `json:"methods"`
	Origin  catalog.Origin `json:"origin"`
}

func (a *app) classifyList(c *cli.Context) error {
	repo, err := a.repo(c)
	if err != nil {
		return err
	}
	cat, problems := loadCatalog(c.Context, repo)
	if c.Context.Err() != nil {
		return interrupted(c.Context)
	}
	a.tellProblems(problems)
	handlers, recipes := []listedHandler{}, []listedRecipe{}
	for _, h := range cat.Handlers {
		l := listedHandler{ID: h.ID, Label: h.Label, Category: h.Category, Layer: h.Layer, Family: h.Family, Guard: h.Guard, Options: []string{}, Origin: h.Origin}
		for _, o := range h.Options {
			l.Options = append(l.Options, o.ID)
		}
		handlers = append(handlers, l)
	}
	for _, r := range cat.Recipes {
		methods := slices.AppendSeq(slices.AppendSeq([]string{}, maps.Keys(r.Packages)), maps.Keys(r.Install))
		slices.Sort(methods)
		recipes = append(recipes, listedRecipe{r.ID, r.Label, cmp.Or(r.CLI, r.ID), methods, r.Origin})
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"handlers": handlers, "recipes": recipes, "chains": cat.Chains,
			"categories": cat.Categories, "systems": systems()})
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HANDLER\tLAYER\tCATEGORY\tCURES\tFROM\tWHAT")
	for _, h := range handlers {
		layer := strings.TrimSpace(string(h.Layer) + " " + h.Family)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", h.ID, layer, h.Category, len(h.Options), h.Origin.Source, render.Clean(h.Label))
	}
	fmt.Fprintln(t, "\nRECIPE\tPROGRAM\tMETHODS\t\tFROM\tWHAT")
	for _, r := range recipes {
		fmt.Fprintf(t, "%s\t%s\t%s\t\t%s\t%s\n", r.ID, r.CLI, render.Cut(strings.Join(r.Methods, ","), 40), r.Origin.Source, render.Clean(r.Label))
	}
	fmt.Fprintln(t, "\nCHAIN\tAPPROACHES, THE FIRST FIRST")
	for _, category := range cat.Categories {
		var ids []string
		for _, ap := range cat.Chains[category.ID].Approaches {
			ids = append(ids, ap.ID)
		}
		fmt.Fprintf(t, "%s\t%s\n", category.ID, strings.Join(append(ids, catalog.AskUser), ", "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nSYSTEMS  %s\n", strings.Join(systems(), ", "))
	_, err = b.WriteTo(a.stdout)
	return err
}
