package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/schemas"
)

// The bounds on the patterns of an overlay's handler, because a match must stay cheap, and on the findings. The
// handlers of the embedded catalog may have more patterns and instructions.
const (
	maxPatterns = 40
	maxPattern  = 2000 // bytes
	maxProgram  = 200  // instructions of the program of one pattern
	maxFindings = 2000 // after so many findings the linter judges no further entries
)

// Lint checks what the decoder cannot see: whether patterns compile, names resolve, options have the fields that their
// strategy needs, and every category has a chain. It does not check the examples: classify.LintExamples does. Load has
// linted the entries of overlays already.
func Lint(c *Catalog) Problems { return newLinter(c, nil).all() }

// lintDocuments checks the entries of docs.
func lintDocuments(c *Catalog, docs []*document) Problems {
	byFile := make(map[string]*document, len(docs))
	for _, d := range docs {
		byFile[d.origin.File] = d
	}
	return newLinter(c, byFile).all()
}

// linter checks the entries of a catalog one after the other. The tokens of a finding lead from the entry to the place,
// as document.locate takes them.
type linter struct {
	c        *Catalog
	docs     map[string]*document // by file: the documents whose entries the linter checks; nil means all entries
	findings Problems

	recipes, methods, distros, groups, categories, managers []string

	// The origin of the entry that the linter checks now, and whether the entry's recipe has a RepoSetup.
	origin  Origin
	ownRepo bool
}

// projectMethods are the methods of project recipes besides families of handlers and methods of recipes.
var projectMethods = []string{"bazel", "deno", "mix", "nix", "r", "swift"}

func newLinter(c *Catalog, docs map[string]*document) *linter {
	l := &linter{c: c, docs: docs, groups: sortedKeys(c.Names.Groups), recipes: slices.Concat(ids(c.Recipes), sortedKeys(c.Names.Programs)), categories: ids(c.Categories), managers: ids(c.Managers)}
	methods := map[string]bool{}
	for _, m := range projectMethods {
		methods[m] = true
	}
	for _, m := range c.Managers {
		methods[m.ID] = true
		l.distros = append(l.distros, m.Families...)
	}
	for i := range c.Handlers {
		if h := &c.Handlers[i]; h.Layer == LayerMethod {
			methods[h.Family] = true
		}
	}
	for i := range c.Recipes {
		for m := range c.Recipes[i].Install {
			methods[m] = true
		}
	}
	slices.Sort(l.distros)
	l.methods, l.distros = sortedKeys(methods), slices.Compact(l.distros)
	return l
}

func (l *linter) all() Problems {
	each(l, l.c.Handlers, l.handler)
	each(l, l.c.Recipes, l.recipe)
	each(l, l.c.Projects, l.project)
	each(l, l.c.Managers, l.manager)
	each(l, slices.Collect(maps.Values(l.c.Chains)), l.chain)
	l.names()
	if l.enter(Origin{Source: SourceEmbedded, File: "data/chains.yaml"}) {
		l.completeness()
	}
	l.uniqueIDs()
	return l.findings.sorted()
}

func each[T any](l *linter, list []T, judge func(*T)) {
	for _, v := range pointers(list) {
		if len(l.findings) < maxFindings && l.enter(*originOf(v)) {
			judge(v)
		}
	}
}

// enter begins the check of the entry that comes from o. It returns false if the linter must skip the entry.
func (l *linter) enter(o Origin) bool {
	l.origin, l.ownRepo = o, false
	return l.docs == nil || l.docs[o.File] != nil
}

// say adds a finding about the current entry.
func (l *linter) say(warning bool, tokens []string, near, format string, args ...any) {
	p := Problem{File: l.origin.File, Line: l.origin.Line, Column: 1, Pointer: l.origin.Pointer, Message: fmt.Sprintf(format, args...), Near: near, Warning: warning}
	if doc := l.docs[p.File]; doc != nil && p.Pointer != "" {
		p.Pointer, p.Line, p.Column = doc.locate(append(schemas.Tokens(p.Pointer), tokens...))
	}
	l.findings = append(l.findings, p)
}

func (l *linter) fail(tokens []string, format string, args ...any) {
	l.say(false, tokens, "", format, args...)
}

func (l *linter) failIf(bad bool, tokens []string, format string, args ...any) {
	if bad {
		l.fail(tokens, format, args...)
	}
}

func (l *linter) warn(tokens []string, format string, args ...any) {
	l.say(true, tokens, "", format, args...)
}

// known adds a finding if a name is not in the list.
func (l *linter) known(tokens []string, what, name string, list []string) {
	if slices.Contains(list, name) {
		return
	}
	near := schemas.Nearest(name, list)
	text := meant(near)
	if near == "" && len(list) > 0 && len(list) <= 24 {
		text = "; known are " + strings.Join(list, ", ")
	}
	l.say(false, tokens, near, "there is no %s %q%s", what, clip(name), text)
}

func allKnown[T ~string](l *linter, tokens []string, what string, names []T, list []string) {
	for i, name := range names {
		l.known(sub(tokens, nth(i)), what, string(name), list)
	}
}

func (l *linter) fraction(tokens []string, x float64) {
	l.failIf(x < 0 || x > 1, tokens, "must be from 0 to 1, not %v", x)
}

func tokens(t ...string) []string { return t }

func sub(t []string, more ...string) []string { return slices.Concat(t, more) }

func nth(i int) string { return strconv.Itoa(i) }

// pattern checks one regular expression and returns the names of its groups.
func (l *linter) pattern(t []string, expr string) []string {
	switch {
	case strings.TrimSpace(expr) == "":
		l.fail(t, "an empty pattern matches every line")
		return nil
	case len(expr) > maxPattern:
		l.fail(t, "longer than %d bytes: split it into several patterns", maxPattern)
		return nil
	}
	re, err := syntax.Parse("(?i)"+expr, syntax.Perl)
	if err != nil {
		l.fail(t, "does not compile as RE2 (no look-around, no back-references): %v", err)
		return nil
	}
	prog, _ := syntax.Compile(re.Simplify()) // a parsed expression always compiles
	if n := len(prog.Inst); n > maxProgram {
		l.say(l.origin.Source == SourceEmbedded, t, "",
			"its program has %d instructions, more than %d: it would be slow; write shorter alternatives and fewer counted repeats", n, maxProgram)
	}
	if re, err := regexp.Compile("(?i)" + expr); err == nil && re.MatchString("") {
		l.fail(t, "matches an empty line, and so every output")
	}
	return slices.DeleteFunc(re.CapNames(), func(name string) bool { return name == "" })
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Problem is one thing that is wrong with a file of the catalog.
type Problem struct {
	File    string `json:"file"`              // the path of the file; paths of embedded files begin with "data/"
	Line    int    `json:"line"`              // from 1; 0 if the problem has no place (a file that cannot be read)
	Column  int    `json:"column"`            // from 1, in characters
	Pointer string `json:"pointer"`           // a JSON pointer: /handlers/3/options/0/dep
	Message string `json:"message"`           // one sentence that says, if possible, what to write instead
	Near    string `json:"near,omitempty"`    // the known name that an unknown name may mean
	Warning bool   `json:"warning,omitempty"` // true: the entry works in spite of the problem
	ID      string `json:"id,omitempty"`      // the id of the entry, if it was left out
	Effect  string `json:"effect,omitempty"`  // what follows from the error: what is left out, and who decides about what it was to change
	Empty   bool   `json:"-"`                 // the file says nothing, so nothing is lost without it
}

// String returns "file:line:column: pointer: message (effect)". A warning has "warning: " before the message.
func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s += fmt.Sprintf(":%d:%d", p.Line, max(p.Column, 1))
	}
	if p.Pointer != "" {
		s += ": " + p.Pointer
	}
	if p.Warning {
		s += ": warning"
	}
	if s += ": " + p.Message; p.Effect != "" {
		s += " (" + p.Effect + ")"
	}
	return s
}

// Problems is a list of problems, in the order of the files.
type Problems []Problem

// maxShown bounds the number of problems in the text of Err.
const maxShown = 20

// Errors returns the problems that are not warnings.
func (ps Problems) Errors() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning })
}

func (ps Problems) warnings() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return !p.Warning })
}

// Err returns nil if all problems are warnings, else an error that lists the first maxShown others, one a line.
func (ps Problems) Err() error {
	bad := ps.Errors()
	if len(bad) == 0 {
		return nil
	}
	var lines []string
	for _, p := range bad[:min(len(bad), maxShown)] {
		lines = append(lines, p.String())
	}
	if len(bad) > maxShown {
		lines = append(lines, fmt.Sprintf("and %d more", len(bad)-maxShown))
	}
	return errors.New(strings.Join(lines, "\n"))
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}
