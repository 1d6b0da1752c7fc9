package catalog

import (
	"fmt"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/schemas"
)

// MaxProgram is how many instructions the program of one pattern may have when
// it comes from an overlay. What superloop brings may be larger.
const MaxProgram = 200

// The bounds on an overlay's handler: a match must stay cheap.
const (
	maxPatterns = 40
	maxPattern  = 2000 // bytes
)

// maxFindings is when the linter stops looking at further handlers.
const maxFindings = 2000

// Lint judges what the reader of the files cannot see: whether patterns compile,
// names resolve, options have what their strategy needs, every category has its
// chain. Whether examples match only their own handler is recovery/classify's to
// say.
//
// Load has linted the entries of overlays already.
func Lint(c *Catalog) Problems {
	l := newLinter(c, func(Origin) bool { return true })
	l.all()
	read := map[string]*document{}
	return l.problems(func(file string) *document {
		if doc, ok := read[file]; ok {
			return doc
		}
		text, err := fs.ReadFile(data, file)
		if err == nil {
			read[file], _ = readDocument(Origin{Source: SourceEmbedded, File: file}, text)
		}
		return read[file]
	})
}

// lintDocuments judges the entries that stand in docs.
func lintDocuments(c *Catalog, docs []*document, broken map[string]bool) Problems {
	byFile := make(map[string]*document, len(docs))
	for _, d := range docs {
		if !broken[d.origin.File] {
			byFile[d.origin.File] = d
		}
	}
	l := newLinter(c, func(o Origin) bool { return byFile[o.File] != nil })
	l.all()
	return l.problems(func(file string) *document { return byFile[file] })
}

// finding is a problem of an entry, before its place in the file is known.
type finding struct {
	origin  Origin
	tokens  []string // below the entry
	message string
	near    string
	warning bool
}

type linter struct {
	c        *Catalog
	wants    func(Origin) bool
	findings []finding

	recipes, methods, families, distros, groups, categories []string

	// The entry at hand, and whether its recipe says how to add a repository.
	origin  Origin
	ownRepo bool
}

func newLinter(c *Catalog, wants func(Origin) bool) *linter {
	l := &linter{c: c, wants: wants, families: c.Families()}
	methods := map[string]bool{}
	for _, m := range c.Managers {
		methods[m.ID] = true
		l.distros = append(l.distros, m.Families...)
	}
	for _, f := range l.families {
		methods[f] = true
	}
	for i := range c.Recipes {
		l.recipes = append(l.recipes, c.Recipes[i].ID)
		for m := range c.Recipes[i].Install {
			methods[m] = true
		}
	}
	l.methods = sortedKeys(methods)
	slices.Sort(l.distros)
	l.distros = slices.Compact(l.distros)
	l.groups = sortedKeys(c.Names.Groups)
	for _, cat := range c.Categories {
		l.categories = append(l.categories, cat.ID)
	}
	return l
}

func (l *linter) all() {
	for i := range l.c.Handlers {
		if h := &l.c.Handlers[i]; l.enter(h.Origin) && len(l.findings) < maxFindings {
			l.handler(h)
		}
	}
	for i := range l.c.Recipes {
		if r := &l.c.Recipes[i]; l.enter(r.Origin) {
			l.recipe(r)
		}
	}
	for i := range l.c.Projects {
		if p := &l.c.Projects[i]; l.enter(p.Origin) {
			l.project(p)
		}
	}
	for i := range l.c.Managers {
		if m := &l.c.Managers[i]; l.enter(m.Origin) {
			l.manager(m)
		}
	}
	for _, id := range sortedKeys(l.c.Chains) {
		if ch := l.c.Chains[id]; l.enter(ch.Origin) {
			l.chain(&ch)
		}
	}
	l.names()
	if l.enter(Origin{Source: SourceEmbedded, File: "data/chains.yaml"}) {
		l.completeness()
	}
	l.uniqueIDs()
}

func (l *linter) enter(o Origin) bool {
	l.origin, l.ownRepo = o, false
	return l.wants(o)
}

func (l *linter) fail(tokens []string, format string, args ...any) {
	l.findings = append(l.findings, finding{origin: l.origin, tokens: tokens, message: fmt.Sprintf(format, args...)})
}

func (l *linter) warn(tokens []string, format string, args ...any) {
	l.fail(tokens, format, args...)
	l.findings[len(l.findings)-1].warning = true
}

// known complains about a name that is not in the list.
func (l *linter) known(tokens []string, what, name string, list []string) {
	if slices.Contains(list, name) {
		return
	}
	near := schemas.Nearest(name, list)
	text := meant(near)
	if near == "" && len(list) > 0 && len(list) <= 24 {
		text = "; known are " + listed(list)
	}
	l.fail(tokens, "there is no %s %q%s", what, clip(name), text)
	l.findings[len(l.findings)-1].near = near
}

func (l *linter) fraction(tokens []string, x float64) {
	if x < 0 || x > 1 {
		l.fail(tokens, "must be from 0 to 1, not %v", x)
	}
}

func (l *linter) problems(source func(file string) *document) Problems {
	var out Problems
	for _, f := range l.findings {
		p := Problem{File: f.origin.File, Line: f.origin.Line, Column: 1, Pointer: f.origin.Pointer, Message: f.message, Near: f.near, Warning: f.warning}
		if doc := source(f.origin.File); doc != nil && f.origin.Pointer != "" {
			var tokens []string
			for _, t := range strings.Split(f.origin.Pointer, "/")[1:] {
				tokens = append(tokens, pointerUnescape.Replace(t))
			}
			p.Pointer, p.Line, p.Column = doc.locate(append(tokens, f.tokens...))
		}
		out = append(out, p)
	}
	return out.sorted()
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

func tokens(t ...string) []string { return t }

func sub(t []string, more ...string) []string { return slices.Concat(t, more) }

func nth(i int) string { return strconv.Itoa(i) }

// pattern judges one regular expression, and gives its named groups.
func (l *linter) pattern(t []string, expr string) []string {
	if strings.TrimSpace(expr) == "" {
		l.fail(t, "an empty pattern matches every line")
		return nil
	}
	if len(expr) > maxPattern {
		l.fail(t, "longer than %d bytes: split it into several patterns", maxPattern)
		return nil
	}
	re, err := syntax.Parse("(?i)"+expr, syntax.Perl)
	if err != nil {
		l.fail(t, "does not compile as RE2 (no look-around, no back-references): %v", err)
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		l.fail(t, "does not compile as RE2: %v", err)
		return nil
	}
	if n := len(prog.Inst); n > MaxProgram {
		text := "its program has %d instructions, more than %d: it would be slow; write shorter alternatives and fewer counted repeats"
		if l.origin.Source == SourceEmbedded {
			l.warn(t, text, n, MaxProgram)
		} else {
			l.fail(t, text, n, MaxProgram)
		}
	}
	if matchesEmpty(expr) {
		l.fail(t, "matches an empty line, and so every output")
	}
	var names []string
	for _, name := range re.CapNames() {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

func matchesEmpty(expr string) bool {
	re, err := regexp.Compile("(?i)" + expr)
	return err == nil && re.MatchString("")
}

func (l *linter) uniqueIDs() {
	seen := map[string]Origin{}
	for i := range l.c.Handlers {
		h := &l.c.Handlers[i]
		if first, twice := seen[h.ID]; twice && l.enter(h.Origin) {
			l.fail(nil, "the handler id %q is taken (%s:%d)", h.ID, first.File, first.Line)
		} else if !twice {
			seen[h.ID] = h.Origin
		}
	}
}
