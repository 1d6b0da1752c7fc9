package classify

import (
	"cmp"
	_ "embed" // for the literals
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/recovery/catalog"
)

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
	order         int
	any, all, not []int
	streams       streamSet
}

// compile numbers every pattern of a catalog, the same text once. Patterns that the scanner rejects match nothing.
func compile(cat *catalog.Catalog) (*program, error) {
	p := &program{patterns: make(map[string]int, 4*len(cat.Handlers))}
	for i := range cat.Handlers {
		h := &cat.Handlers[i]
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
