// Package classify says what a failed command died of: which category of failure, whether the environment or the code
// is to blame, on which line of the output that stands, and which handlers of the catalog know fixes.
//
// It decides by rules, without a model and without running anything. The order is that of the catalog: guards (signs
// that only a change of the code helps), dominators (a full disk makes every tool die of something else), recipes,
// method families, any command, what everything stands on. What a test printed is told apart from what the tool itself
// said, so that a mock that logs "no space left on device" does not make a failed assertion a full disk.
//
// Output is read as a stream in constant memory, whatever its size.
package classify

import (
	"cmp"
	"context"
	_ "embed" // for the literals
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/recovery/catalog"
)

// Options of a Classifier; the zero value is good.
type Options struct {
	Redact *redact.Replacer // secrets that no evidence may show; URLs are always cut to their host
}

// Classifier holds a catalog's compiled patterns. It is safe for concurrent use.
type Classifier struct {
	cat    *catalog.Catalog
	prog   *program
	redact *redact.Replacer
}

// New compiles a catalog's patterns, once. The catalog must not be changed afterwards. Patterns that are too large or
// do not compile match nothing; see Problems.
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

// ErrNoFailure is what Classify gives for a command that succeeded.
var ErrNoFailure = errors.New("the command succeeded: there is no failure to classify")

// Classify reads both streams to their ends and says what the command died of. It runs nothing; with in.Probes it looks
// at the system, read-only. The error is ErrNoFailure or the context's; a stream that breaks off makes the verdict
// Incomplete instead.
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
	if in.Dir != "" && j.calls.opaque {
		j.calls.lookInto(in.Dir)
	}
	j.collect()
	j.rank(ctx)
	f := j.verdict()
	f.Took = time.Since(began)
	return f, nil
}

// Problem is a pattern of the catalog that cannot work as it was meant.
type Problem struct {
	Handler string // id
	Example string // the tool of an example, or ""
	Text    string // what is wrong and what to do
	Fatal   bool   // false: it works, at a cost
}

func (p Problem) String() string {
	s := p.Handler
	if p.Example != "" {
		s += " (" + p.Example + ")"
	}
	return s + ": " + p.Text
}

// Problems tells which patterns were rejected, or cost more than others. It takes as long as compiling the catalog does
// without what is known of the embedded one.
func (c *Classifier) Problems() []Problem {
	users := map[int][]string{}
	for _, r := range c.prog.handlers {
		for _, n := range slices.Concat(r.any, r.all, r.not) {
			users[n] = append(users[n], r.h.ID)
		}
	}
	var out []Problem
	_, problems, _ := multiscan.Compile(c.prog.exprs, multiscan.Options{MaxProgram: maxOwnProgram}) // New compiled them
	for _, p := range problems {
		expr := strings.TrimPrefix(c.prog.exprs[p.Pattern], "(?i)")
		for _, id := range users[p.Pattern] {
			out = append(out, Problem{Handler: id, Text: fmt.Sprintf("pattern %q: %s", expr, p.Text), Fatal: p.Reject})
		}
	}
	return out
}

// literals are what a text must hold that a pattern of the embedded catalog matches. To find that out takes 0.3 s.
//
//go:generate go test -run ^TestLiteralsAreTheCatalogs$ -update .
//go:embed literals.txt
var literals string

// program is a catalog's handlers with their patterns numbered in one set.
type program struct {
	set      *multiscan.Set
	handlers []rule
	exprs    []string
	patterns map[string]int
}

// maxOwnProgram bounds a pattern's compiled size, in instructions. The patterns that files of a user or a repository
// add are smaller: catalog.Load leaves larger ones out.
const maxOwnProgram = 4000

// rule is one handler; the numbers are those of patterns.
type rule struct {
	h             *catalog.Handler
	any, all, not []int
	streams       streamSet
}

// compile numbers every pattern of a catalog, the same text once. Patterns that the scanner rejects match nothing.
func compile(cat *catalog.Catalog) (*program, error) {
	p := &program{patterns: make(map[string]int, 4*len(cat.Handlers))}
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
	var out []int
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

// streamSet is which of the two streams a handler looks at.
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

// batchIn is one line in. Unknown keys are ignored: they may be the caller's.
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

// batchOut is one line out.
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

// Batch judges one JSON object a line, in order, and writes one a line; a line that cannot be judged gives its id and
// an error, and the batch goes on. then works out what could be done about a failure. Nothing is
// run and no probe is made. The error is that of reading or writing.
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

// signalName gives a signal's full name: "KILL" and "sigkill" are SIGKILL.
func signalName(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	if s != "" && !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	return s
}

// LintExamples judges every example of a catalog by all of it. The primary of an example must be its own handler, no
// other may claim it first; a guard's examples must stay code; no counter-example may match the handler that it stands
// beside. Not fatal: a handler of a more particular layer claims it with the same category, and the example's own
// handler adds its options.
func LintExamples(cat *catalog.Catalog) ([]Problem, error) {
	c, err := New(cat, Options{})
	if err != nil {
		return nil, err
	}
	var out []Problem
	for i := range cat.Handlers {
		h := &cat.Handlers[i]
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
	}
	return out, nil
}

// ExampleInput is an example as the input of Classify. Tool is the recipe that the handler stands in, "" for a
// family's.
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
		in.Exit.Code = 1 // the text must not match even if something else had failed
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

// head is the first telling line of an example, to find it by.
func head(e catalog.Example) string {
	for line := range strings.Lines(e.Stderr + "\n" + e.Stdout) {
		if t := strings.TrimSpace(line); t != "" {
			return fmt.Sprintf("%q", t[:min(len(t), 100)])
		}
	}
	return "it has no output"
}
