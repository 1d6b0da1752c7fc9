package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
	rules "github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
)

// batchSystem is what a batch works fixes out for that names no system: an answer must not depend on the machine that
// gives it.
const batchSystem = "debian12"

// classifyBatch answers the lines of stdin.
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

// reading ends with its context: between lines nothing else would notice.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	type got struct {
		n   int
		err error
	}
	done := make(chan got, 1)
	buf := make([]byte, len(p))
	go func() {
		n, err := r.r.Read(buf)
		done <- got{n, err}
	}()
	select {
	case g := <-done:
		return copy(p, buf[:g.n]), g.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// lintProblem is one thing that is wrong with the rules.
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
		fmt.Fprintf(a.stdout, "%s, %s, %s, %s: %s, %s\n", count(len(cat.Handlers), "handler"), count(len(cat.Recipes), "recipe"),
			count(len(cat.Chains), "chain"), count(n, "example"), count(wrong, "error"), count(len(found)-wrong, "warning"))
	}
	if err == nil && wrong > 0 {
		return silent(exitConfig)
	}
	return err
}

// listedHandler is a handler as --list names it.
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
