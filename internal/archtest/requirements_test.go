package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	requirementsFile = "internal/archtest/testdata/requirements.tsv"
	conformanceFile  = "docs/conformance.md"
	scriptsDir       = "cmd/superloop/testdata"
	annotation       = "Conforms:"
)

// requirement is one row of requirements.tsv: one thing that a published design asks for.
type requirement struct {
	id      string // its document's number, then where it stands and what it is: 004-3.1-pause
	section string // the document's heading, shortened
	text    string
	kind    string // why no test has to prove it as it was asked for: differs, later, missing; else empty
	reason  string
}

func (r requirement) document() string { return r.id[:3] }

// proof is a test that carries an annotation.
type proof struct {
	name string // internal/archtest.TestRules, ac05_budget.txtar
	file string // its path from the root
}

var (
	requirementID   = regexp.MustCompile(`^00[0-4](?:-[a-z0-9]+(?:\.[a-z0-9]+)*)+$`)
	annotationLine  = regexp.MustCompile(`(?m)^\s*(?://|/\*|\*|#)?\s*` + annotation)
	reasonKinds     = []string{"differs", "later", "missing"}
	exampleOutput   = regexp.MustCompile(`(?mi)^//\s*(?:unordered )?output:`)
	scriptSkips     = regexp.MustCompile(`(?m)^skip(?: |$)`)
	testFuncs       = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)(?:$|[^a-z])`)
	skippingMethods = []string{"Skip", "Skipf", "SkipNow"}
)

// parseRequirements reads requirements.tsv: lines of an id, a section, a requirement and perhaps a reason, with tabs
// between them. Blank lines and those that begin with # count for nothing.
func parseRequirements(text string) (all []requirement, err error) {
	ids, texts := map[string]bool{}, map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		bad := func(format string, args ...any) {
			err = errors.Join(err, fmt.Errorf("%s:%d: "+format, append([]any{requirementsFile, i + 1}, args...)...))
		}
		cells := strings.Split(line, "\t")
		if len(cells) < 3 || len(cells) > 4 || slices.ContainsFunc(cells, blank) {
			bad("want an id, a section, a requirement and at most a reason, with one tab between them")
			continue
		}
		r := requirement{id: cells[0], section: cells[1], text: cells[2]}
		if !requirementID.MatchString(r.id) {
			bad("%q is no id: want the document's number, then words of small letters, as in 004-3.1-pause", r.id)
			continue
		}
		if len(cells) == 4 {
			r.kind, r.reason, _ = strings.Cut(cells[3], ": ")
			if !slices.Contains(reasonKinds, r.kind) || blank(r.reason) {
				bad("%q is no reason: want one of %s, a colon, a blank and why", cells[3], strings.Join(reasonKinds, ", "))
			}
		}
		if words := r.document() + r.section + r.text; ids[r.id] || texts[words] {
			bad("%s is there twice, by its id or by its text", r.id)
		} else {
			ids[r.id], texts[words] = true, true
		}
		if strings.Contains(line, "|") {
			bad("%s holds a |, which would end a cell of the table", r.id)
		}
		all = append(all, r)
	}
	return all, err
}

func blank(s string) bool { return strings.TrimSpace(s) == "" || strings.TrimSpace(s) != s }

// proofs are the tests by the requirement that they prove, and what is wrong with annotations.
type proofs struct {
	of       map[string][]proof
	problems []string
}

// add notes that the test named carries the annotations in text, and how many there were.
func (p *proofs) add(by proof, text string) (lines int) {
	for line := range strings.SplitSeq(text, "\n") {
		list, is := strings.CutPrefix(strings.TrimSpace(line), annotation)
		if !is {
			continue
		}
		lines++
		for id := range strings.SplitSeq(list, ",") {
			id = strings.TrimSpace(id)
			switch {
			case !requirementID.MatchString(id):
				p.say("%s: %s: %q is no id of a requirement", by.file, by.name, id)
			case slices.Contains(p.of[id], by):
				p.say("%s: %s conforms to %s twice", by.file, by.name, id)
			default:
				p.of[id] = append(p.of[id], by)
			}
		}
	}
	return lines
}

func (p *proofs) say(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// readGo takes the annotations out of a Go file: they count in the doc comment of a test alone.
func (p *proofs) readGo(rel string, src []byte) {
	if !annotationLine.Match(src) {
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		p.say("%v", err)
		return
	}
	found, there := 0, 0
	for _, group := range f.Comments {
		there += len(annotationLine.FindAllString(commentText(group), -1))
	}
	for _, d := range f.Decls {
		fn, is := d.(*ast.FuncDecl)
		if !is || !strings.HasSuffix(rel, "_test.go") || !runsByItself(fn) || fn.Doc == nil {
			continue
		}
		doc := commentText(fn.Doc)
		if !annotationLine.MatchString(doc) {
			continue
		}
		by := proof{name: path.Dir(rel) + "." + fn.Name.Name, file: rel}
		if neverRuns(fn, f.Comments) {
			p.say("%s: %s only skips, or is an example without output, and proves nothing", rel, by.name)
		}
		found += p.add(by, doc)
	}
	if found != there {
		p.say("%s: %q outside of the doc comment of a test proves nothing", rel, annotation)
	}
}

// commentText is what a comment says, line by line and without its marks.
func commentText(group *ast.CommentGroup) string {
	var text strings.Builder
	for _, c := range group.List {
		text.WriteString(strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), "/*") + "\n")
	}
	return text.String()
}

// runsByItself reports whether go test starts the function.
func runsByItself(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || fn.Name.Name == "TestMain" || fn.Type.TypeParams != nil {
		return false
	}
	m := testFuncs.FindStringSubmatch(fn.Name.Name)
	return m != nil && (m[1] == "Example") == (len(fn.Type.Params.List) == 0)
}

// neverRuns reports whether the function skips whatever happens, or is an example that is only compiled.
func neverRuns(fn *ast.FuncDecl, comments []*ast.CommentGroup) bool {
	if strings.HasPrefix(fn.Name.Name, "Example") {
		return !slices.ContainsFunc(comments, func(g *ast.CommentGroup) bool {
			return g.Pos() > fn.Body.Lbrace && g.End() < fn.Body.Rbrace &&
				slices.ContainsFunc(g.List, func(c *ast.Comment) bool { return exampleOutput.MatchString(c.Text) })
		})
	}
	return len(fn.Body.List) == 0 || slices.ContainsFunc(fn.Body.List, func(s ast.Stmt) bool {
		expr, is := s.(*ast.ExprStmt)
		if !is {
			return false
		}
		call, is := expr.X.(*ast.CallExpr)
		if !is {
			return false
		}
		sel, is := call.Fun.(*ast.SelectorExpr)
		return is && slices.Contains(skippingMethods, sel.Sel.Name)
	})
}

// readScript takes the annotations out of a script: they count in the comment that it begins with.
func (p *proofs) readScript(rel, text string) {
	lines := strings.Split(text, "\n")
	end := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "#") })
	if end < 0 {
		end = len(lines)
	}
	header := strings.ReplaceAll("\n"+strings.Join(lines[:end], "\n"), "\n#", "\n")
	by := proof{name: path.Base(rel), file: rel}
	found := p.add(by, header)
	if found > 0 && scriptSkips.MatchString(text) {
		p.say("%s: the script only skips and proves nothing", rel)
	}
	if found != len(annotationLine.FindAllString(text, -1)) {
		p.say("%s: %q outside of the comment that the script begins with proves nothing", rel, annotation)
	}
}

// checkConformance says what each requirement lacks, and which annotations are of none.
func checkConformance(all []requirement, p proofs) []string {
	known := map[string]bool{}
	for _, r := range all {
		known[r.id] = true
		tested := len(p.of[r.id]) > 0
		switch {
		case !tested && r.kind == "":
			p.say("%s (%s) has no test: annotate the one that proves it (%s %s), or give the reason in %s",
				r.id, r.text, annotation, r.id, requirementsFile)
		case tested && (r.kind == "later" || r.kind == "missing"):
			p.say("%s has a test, %s, and is said to be %s: take the reason out of %s, or the annotation away",
				r.id, p.of[r.id][0].name, r.kind, requirementsFile)
		}
	}
	for id, by := range p.of {
		if !known[id] {
			p.say("%s: %s conforms to %s, which is not in %s", by[0].file, by[0].name, id, requirementsFile)
		}
	}
	slices.Sort(p.problems)
	return p.problems
}
