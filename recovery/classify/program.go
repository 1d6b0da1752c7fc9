package classify

import (
	_ "embed" // for the plan
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/recovery/catalog"
)

// embeddedPlan is what compiling the patterns of the embedded catalog comes to, which
// would take each process a third of a second of processor time. What an overlay adds
// is compiled beside it.
//
//go:generate go test -run ^TestPlanIsTheCatalogs$ -update .
//go:embed embedded.plan
var embeddedPlan []byte

// program is a catalog's handlers with their patterns numbered in one set.
type program struct {
	set      *multiscan.Set
	names    [][]string // of each pattern's groups
	named    []bool     // pattern has a group test or file, collected for the signature
	handlers []rule
	problems []multiscan.Problem
	refused  []Problem
	exprs    []string
	patterns map[string]int
}

// Bounds of a pattern's compiled size, in instructions. What a person or a
// repository adds must be cheap on any line; the embedded catalog is measured.
const (
	maxOwnProgram   = 4000
	maxAddedProgram = 200
)

// tooLarge says which pattern of an added handler is too large to be run on every
// output, "" if none is. Leaving one pattern out could make a handler match
// more than it should, so the handler is left out whole.
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

// compile numbers every pattern of a catalog, the same text once. Patterns that
// the scanner rejects match nothing and are told as problems.
func compile(cat *catalog.Catalog) (*program, error) {
	p := &program{patterns: map[string]int{}}
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
	opts := multiscan.Options{MaxProgram: maxOwnProgram}
	var err error
	if p.set, p.problems, err = multiscan.Restore(p.exprs, opts, embeddedPlan); err != nil { // most patterns are others
		if p.set, p.problems, err = multiscan.Compile(p.exprs, opts); err != nil {
			return nil, fmt.Errorf("compiling the catalog's %d patterns: %w", len(p.exprs), err)
		}
	}
	for i := range p.exprs {
		names := p.set.Names(i)
		p.names = append(p.names, names)
		named := false
		for _, n := range names {
			named = named || n == "test" || n == "file"
		}
		p.named = append(p.named, named)
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
