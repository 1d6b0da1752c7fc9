// Package classify finds the cause of a command's failure. Its verdict names the category of the failure, says whether
// the environment or the code is to blame, shows the lines of output that prove it, and lists the handlers of the
// catalog that know fixes.
//
// The classifier decides by rules and runs no program. Only of an output that no rule knows a model of words guesses
// what it is about; nothing follows from a guess without an operator. A guard is a handler for signs that
// only a change of the code helps. A dominator is a handler for a failure that causes other failures: a full disk makes
// every tool fail in its own way. The classifier ranks the matching handlers in this order: dominators, recipes, method
// families, handlers for any command, bootstrap. A strong guard vetoes all of them but dominators and recipes.
//
// The classifier distinguishes the words of a tool from the words of a test. So a mock that logs "no space left on
// device" does not turn a failed assertion into a full disk. What ended a test, an exception that nobody caught, is
// classified as if a program had said only this. What a test says is proposed at most, unless a probe confirms it; a
// probe that contradicts it refutes it.
//
// The classifier reads output of any size as a stream, in constant memory.
package classify

import (
	"cmp"
	"context"
	_ "embed" // for the literals
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/recovery/catalog"
)

// Options holds the options of a Classifier. The zero value is ready to use.
type Options struct {
	Redact *redact.Replacer // removes secrets from evidence; URLs are always cut to their host
}

// Classifier holds a catalog's compiled patterns. It is safe for concurrent use.
type Classifier struct {
	cat    *catalog.Catalog
	prog   *program
	redact *redact.Replacer
}

// New compiles a catalog's patterns. The caller must not change the catalog afterwards. A pattern that is too large or
// does not compile matches nothing; Problems lists these patterns.
func New(cat *catalog.Catalog, opts Options) (*Classifier, error) {
	if cat == nil {
		return nil, errors.New("making a classifier: no catalog was given")
	}
	prog, err := compile(cat)
	if err != nil {
		return nil, err
	}
	return &Classifier{cat: cat, prog: prog, redact: opts.Redact}, nil
}

// Redacting returns a classifier that shares the compiled patterns of c and removes other secrets from evidence.
func (c *Classifier) Redacting(secrets *redact.Replacer) *Classifier {
	own := *c
	own.redact = secrets
	return &own
}

// ErrNoFailure is the error that Classify returns for a command that succeeded.
var ErrNoFailure = errors.New("the command succeeded: there is no failure to classify")

// Classify reads both streams to their ends and returns the cause of the command's failure. It runs no program. If
// in.Probes is set, it looks at the system without changing it. The error is ErrNoFailure or the context's. A stream
// that breaks off is no error: it makes the verdict Incomplete.
func (c *Classifier) Classify(ctx context.Context, in Input) (Failure, error) {
	began := time.Now()
	if in.Exit.OK() {
		return Failure{}, ErrNoFailure
	}
	if err := ctx.Err(); err != nil {
		return Failure{}, fmt.Errorf("classifying a failure: %w", err)
	}
	j := &judgement{c: c, in: &in, findings: map[string]Finding{}}
	j.calls = callsOf(in.Command)
	sc, buf := c.prog.set.NewScanner(nil), make([]byte, backSize+blockSize)
	j.stdout = c.prog.read(ctx, onStdout, in.Stdout, sc, buf)
	j.stderr = c.prog.read(ctx, onStderr, in.Stderr, sc, buf)
	if err := ctx.Err(); err != nil {
		return Failure{}, fmt.Errorf("classifying a failure: %w", err)
	}
	j.readReports(sc)
	if in.Dir != "" && j.calls.opaque {
		j.calls.lookInto(in.Dir)
	}
	j.collect()
	j.rank(ctx)
	f := j.verdict()
	f.Took = time.Since(began)
	return f, nil
}

// Problem describes a pattern or an example of the catalog that does not work as its author meant.
type Problem struct {
	Handler string // the id of the handler
	Example string // the tool of the example, "" for a pattern
	Text    string // what is wrong and what to do
	Fatal   bool   // false: the pattern or example works, with the drawback that Text describes
}

func (p Problem) String() string {
	s := p.Handler
	if p.Example != "" {
		s += " (" + p.Example + ")"
	}
	return s + ": " + p.Text
}

// Problems lists the patterns that New rejected and the patterns that cost more than others. It compiles the whole
// catalog again without the precomputed literals of the embedded catalog, so it is slower than New.
func (c *Classifier) Problems() []Problem {
	users := map[int][]string{}
	for _, r := range c.prog.handlers {
		for _, n := range slices.Concat(r.any, r.all, r.not) {
			users[n] = append(users[n], r.h.ID)
		}
	}
	var out []Problem
	_, problems, _ := multiscan.Compile(c.prog.exprs, multiscan.Options{MaxProgram: maxOwnProgram}) // no error: New has compiled the same expressions
	for _, p := range problems {
		expr := strings.TrimPrefix(c.prog.exprs[p.Pattern], "(?i)")
		for _, id := range users[p.Pattern] {
			out = append(out, Problem{Handler: id, Text: fmt.Sprintf("pattern %q: %s", expr, p.Text), Fatal: p.Reject})
		}
	}
	return out
}

// literals holds, for each pattern of the embedded catalog, the strings of which a matching text contains at least one.
// A generated file has them, because to compute them takes a second.
//
//go:generate go test -run ^TestLiteralsAreTheCatalogs$ -update .
//go:embed literals.txt
var literals string

// program holds a catalog's handlers and one compiled set of all their patterns. A rule names patterns by their number
// in this set.
type program struct {
	set      *multiscan.Set
	handlers []rule
	exprs    []string
	patterns map[string]int
}

// maxOwnProgram bounds the compiled size of a pattern, in instructions. For patterns from files of a user or a
// repository catalog.Load has a lower bound.
const maxOwnProgram = 4000

// rule is one handler with the numbers of its patterns.
type rule struct {
	h             *catalog.Handler
	any, all, not []int
	streams       streamSet
}

// compile numbers and compiles every pattern of a catalog. Patterns with the same text get the same number. Patterns
// that the scanner rejects match nothing.
func compile(cat *catalog.Catalog) (*program, error) {
	most := 4 * len(cat.Handlers) // patterns, about
	p := &program{patterns: make(map[string]int, most), exprs: make([]string, 0, most), handlers: make([]rule, 0, len(cat.Handlers))}
	for i := range cat.Handlers {
		h := &cat.Handlers[i]
		p.handlers = append(p.handlers, rule{
			h: h, any: p.number(h.Match.Any), all: p.number(h.Match.All), not: p.number(h.Match.Not),
			streams: streamsOf(h.Match.Streams),
		})
	}
	var err error
	if p.set, _, err = multiscan.Compile(p.exprs, multiscan.Options{MaxProgram: maxOwnProgram, Known: literals}); err != nil {
		return nil, fmt.Errorf("compiling the catalog's %d patterns: %w", len(p.exprs), err)
	}
	return p, nil
}

func (p *program) number(exprs []string) []int {
	out := make([]int, 0, len(exprs))
	for _, e := range exprs {
		e = "(?i)" + e
		n, ok := p.patterns[e]
		if !ok {
			n = len(p.exprs)
			p.patterns[e] = n
			p.exprs = append(p.exprs, e)
		}
		out = append(out, n)
	}
	return out
}

// matches reports whether a text matches a pattern. It compiles the pattern, so it is for rare questions.
func (p *program) matches(pattern int, text string) bool {
	re, err := regexp.Compile(p.exprs[pattern])
	return err == nil && re.MatchString(text)
}

// streamSet is a set of output streams: stdout, stderr or both.
type streamSet uint8

const (
	onStdout streamSet = 1 << iota
	onStderr
	onBoth = onStdout | onStderr
)

func streamsOf(names []string) streamSet {
	var s streamSet
	for _, n := range names {
		s |= map[string]streamSet{"stdout": onStdout, "stderr": onStderr}[strings.ToLower(n)]
	}
	return cmp.Or(s, onBoth)
}

func (s streamSet) String() string {
	if s == onStderr {
		return "stderr"
	}
	return "stdout"
}

// batchIn is one input line of Batch. Batch ignores unknown keys, because they may be the caller's own.
type batchIn struct {
	ID       json.RawMessage `json:"id"`
	Command  string          `json:"command"`
	ExitCode int             `json:"exit_code"`
	Signal   string          `json:"signal"`
	TimedOut bool            `json:"timed_out"`
	OOM      bool            `json:"oom"`
	Stdout   string          `json:"stdout"`
	Stderr   string          `json:"stderr"`
}

// batchOut is one output line of Batch.
type batchOut struct {
	ID         json.RawMessage `json:"id"`
	Category   string          `json:"category"`
	Code       bool            `json:"code"`
	Handler    string          `json:"handler"`
	Layer      catalog.Layer   `json:"layer"`
	Confidence float64         `json:"confidence"`
	Evidence   []Evidence      `json:"evidence"`
	Options    any             `json:"options"`
	Gate       string          `json:"gate"`
	Weak       bool            `json:"weak"`
	Why        string          `json:"why"`
	Signature  string          `json:"signature"`
}

// Batch reads failed commands, one JSON object a line, and writes one JSON object a line with the verdict, in the same
// order. For a line that Batch cannot classify it writes the id and an error, and goes on. The callback then returns
// the options that could fix a failure, and their gate. Batch runs no program and makes no probe. It returns an error
// only if it cannot read or write.
func (c *Classifier) Batch(r io.Reader, w io.Writer, then func(Failure) (options any, gate string)) error {
	return batch.Objects(r, w, func(in batchIn) any { return c.batchLine(in, then) })
}

func (c *Classifier) batchLine(in batchIn, then func(Failure) (any, string)) any {
	f, err := c.Classify(context.Background(), Input{
		Source: SourceCommand, Command: in.Command,
		Exit:   Exit{Code: in.ExitCode, Signal: signalName(in.Signal), TimedOut: in.TimedOut, OOM: in.OOM},
		Stdout: strings.NewReader(in.Stdout), Stderr: strings.NewReader(in.Stderr),
	})
	if err != nil {
		return batch.Refuse(in.ID, err.Error())
	}
	out := batchOut{
		ID: batch.ID(in.ID), Category: f.Category, Code: f.Code, Handler: f.Handler, Layer: f.Layer, Confidence: f.Confidence,
		Evidence: append([]Evidence{}, f.Evidence...), Options: []struct{}{}, Weak: f.Weak, Why: f.Why, Signature: f.Signature,
	}
	var options any
	if options, out.Gate = then(f); options != nil {
		out.Options = options
	}
	return out
}

// signalName returns a signal's full name: SIGKILL for "KILL" and for "sigkill".
func signalName(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	if s != "" && !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}

// LintExamples classifies every example of a catalog with the whole catalog and returns the problems. The primary match
// of an example must be the handler that has the example. The verdict on a guard's example must be code. A
// counter-example must not match the handler that has it. A problem is not fatal if a handler of a more particular
// layer claims the example with the same category, because the example's own handler then still adds its options.
func LintExamples(cat *catalog.Catalog) ([]Problem, error) {
	c, err := New(cat, Options{})
	if err != nil {
		return nil, err
	}
	var out []Problem
	for i := range cat.Handlers {
		out = append(out, c.LintHandler(&cat.Handlers[i])...)
	}
	return out, nil
}

// LintHandler returns what LintExamples returns about the examples of one handler of the catalog.
func (c *Classifier) LintHandler(h *catalog.Handler) []Problem {
	var out []Problem
	for _, e := range h.Examples {
		if p, fatal := c.lintExample(h, e); p != "" {
			out = append(out, Problem{Handler: h.ID, Example: e.Tool, Text: p, Fatal: fatal})
		}
	}
	for _, e := range h.CounterExamples {
		if p := c.lintCounter(h, e); p != "" {
			out = append(out, Problem{Handler: h.ID, Example: e.Tool, Text: p, Fatal: true})
		}
	}
	return out
}

// ExampleInput turns an example into an input of Classify. For a handler of a recipe, Tool is the id of the recipe; for
// all others it is "".
func ExampleInput(h *catalog.Handler, e catalog.Example) Input {
	in := Input{
		Source: SourceCommand, Command: e.Command,
		Exit:   Exit{Code: e.ExitCode, Signal: signalName(e.Signal), TimedOut: e.TimedOut, OOM: e.OOM},
		Stdout: strings.NewReader(e.Stdout), Stderr: strings.NewReader(e.Stderr),
	}
	if h != nil && h.Layer == catalog.LayerRecipe {
		in.Tool = h.Family
	}
	return in
}

func (c *Classifier) lintExample(h *catalog.Handler, e catalog.Example) (problem string, fatal bool) {
	f, err := c.Classify(context.Background(), ExampleInput(h, e))
	if err != nil {
		return fmt.Sprintf("example: %v", err), true
	}
	switch {
	case f.Handler == "":
		return "its own example matches nothing: " + head(e), true
	case f.Handler != h.ID:
		own := "does not match at all"
		for _, m := range f.Matches {
			if m.Handler.ID == h.ID {
				own = "comes later"
				if m.Vetoed {
					own = "is vetoed"
				}
			}
		}
		by := f.Matches[0].Handler
		shared := own == "comes later" && by.Layer.Rank() > h.Layer.Rank() && by.Category == h.Category
		return fmt.Sprintf("its example is claimed by %s (%s, line %d: %s), it %s itself", f.Handler, f.Layer, f.Matches[0].Line, f.Matches[0].Text, own), !shared
	case h.Guard != catalog.GuardNone && !f.Code:
		return "the guard's example is not taken for code", true
	}
	return "", false
}

func (c *Classifier) lintCounter(h *catalog.Handler, e catalog.Example) string {
	in := ExampleInput(h, e)
	if in.Exit.OK() {
		in.Exit.Code = 1 // the example may show a success, but Classify needs a failure
	}
	f, err := c.Classify(context.Background(), in)
	if err != nil {
		return fmt.Sprintf("counter-example: %v", err)
	}
	if f.Handler == h.ID {
		return fmt.Sprintf("its counter-example is claimed by it (line %d: %s)", f.Matches[0].Line, f.Matches[0].Text)
	}
	for _, m := range f.Matches {
		if m.Handler.ID == h.ID && !m.Vetoed {
			return fmt.Sprintf("its counter-example matches it as well (primary %s, line %d: %s)", f.Handler, m.Line, m.Text)
		}
	}
	return ""
}

// head returns the first line of an example's output that is not blank. An operator finds the example by it.
func head(e catalog.Example) string {
	for line := range strings.Lines(e.Stderr + "\n" + e.Stdout) {
		if t := strings.TrimSpace(line); t != "" {
			return fmt.Sprintf("%q", t[:min(len(t), 100)])
		}
	}
	return "it has no output"
}
