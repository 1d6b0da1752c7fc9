package classify

import (
	_ "embed" // for the literals
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/recovery/catalog"
)

// literals are what a text must hold that a pattern of the embedded catalog matches: to find that out would take each
// process a third of a second of processor time.
//
//go:generate go test -run ^TestLiteralsAreTheCatalogs$ -update .
//go:embed literals.txt
var literals string

// program is a catalog's handlers with their patterns numbered in one set.
type program struct {
	set      *multiscan.Set
	handlers []rule
	refused  []Problem
	exprs    []string
	patterns map[string]int
}

// Bounds of a pattern's compiled size, in instructions. What a person or a repository adds must be cheap on any line;
// the embedded catalog is measured.
const (
	maxOwnProgram   = 4000
	maxAddedProgram = 200
)

// tooLarge says which pattern of an added handler is too large to be run on every output, "" if none is. Leaving one
// pattern out could make a handler match more than it should, so the handler is left out whole.
func tooLarge(h *catalog.Handler) string {
	if h.Origin.Source == "embedded" || h.Origin.Source == "" {
		return ""
	}
	for _, list := range [][]string{h.Match.Any, h.Match.All, h.Match.Not} {
		for _, e := range list {
			re, err := syntax.Parse("(?i)"+e, syntax.Perl)
			if err != nil {
				return fmt.Sprintf("pattern %q does not compile: %v", e, err)
			}
			prog, err := syntax.Compile(re.Simplify())
			if err != nil {
				return fmt.Sprintf("pattern %q does not compile: %v", e, err)
			}
			if len(prog.Inst) > maxAddedProgram {
				return fmt.Sprintf("pattern %q compiles to %d instructions, more than %d: split it", e, len(prog.Inst), maxAddedProgram)
			}
		}
	}
	return ""
}

// rule is one handler; the numbers are those of patterns.
type rule struct {
	h             *catalog.Handler
	order         int
	any, all, not []int
	streams       streamSet
}

// compile numbers every pattern of a catalog, the same text once. Patterns that the scanner rejects match nothing.
func compile(cat *catalog.Catalog) (*program, error) {
	p := &program{patterns: make(map[string]int, 4*len(cat.Handlers))}
	for i := range cat.Handlers {
		h := &cat.Handlers[i]
		if why := tooLarge(h); why != "" {
			p.refused = append(p.refused, Problem{Handler: h.ID, Text: why, Fatal: true})
			continue
		}
		p.handlers = append(p.handlers, rule{
			h: h, order: i,
			any: p.number(h.Match.Any), all: p.number(h.Match.All), not: p.number(h.Match.Not),
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
		switch strings.ToLower(n) {
		case "stdout":
			s |= onStdout
		case "stderr":
			s |= onStderr
		}
	}
	if s == 0 {
		return onBoth
	}
	return s
}

func (s streamSet) String() string {
	if s == onStderr {
		return "stderr"
	}
	return "stdout"
}
