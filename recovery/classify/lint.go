package classify

import (
	"context"
	"fmt"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
)

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
