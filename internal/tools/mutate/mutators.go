package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// mutant is one fault: the bytes from begin to end of the source are replaced.
type mutant struct {
	target     *target
	src        *source
	line       int
	what       string // what is wrong with it, for people
	begin, end int
	put        string
}

// text is the whole file with the fault.
func (m *mutant) text() []byte {
	return slices.Concat(m.src.text[:m.begin], []byte(m.put), m.src.text[m.end:])
}

// lines are the lines that the fault changes, before and after it; of several the first.
func (m *mutant) lines() (before, after string) {
	from := bytes.LastIndexByte(m.src.text[:m.begin], '\n') + 1
	cut := func(text []byte) string {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return "(nothing)"
		}
		return string(line)
	}
	return cut(m.src.text[from:]), cut(m.text()[from:])
}

// mutator finds the mutants of one file.
type mutator struct {
	*target
	src   *source
	found []*mutant
}

// candidates are all mutants of the file, in the order of their places.
func (t *target) candidates(f *source) []*mutant {
	if ast.IsGenerated(f.tree) {
		return nil
	}
	m := &mutator{target: t, src: f}
	for _, d := range f.tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			forDebugging := d.Recv != nil && (d.Name.Name == "String" || d.Name.Name == "GoString") && len(d.Type.Params.List) == 0
			if d.Body != nil && !forDebugging {
				m.walk(d.Body, d.Type)
			}
		case *ast.GenDecl:
			if d.Tok == token.CONST || d.Tok == token.VAR {
				m.walk(d, nil)
			}
		}
	}
	slices.SortStableFunc(m.found, func(a, b *mutant) int { return a.begin - b.begin })
	return m.found
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *mutator) textOf(n ast.Node) string {
	return string(m.src.text[m.offset(n.Pos()):m.offset(n.End())])
}

// add notes a mutant.
func (m *mutator) add(begin, end token.Pos, put, what string) {
	m.found = append(m.found, &mutant{target: m.target, src: m.src, line: m.fset.Position(begin).Line, what: what,
		begin: m.offset(begin), end: m.offset(end), put: put})
}

// walk finds the mutants below n, which is in a function of the type sig.
func (m *mutator) walk(n ast.Node, sig *ast.FuncType) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			m.walk(n.Body, n.Type)
			return false
		case *ast.CallExpr:
			callee := m.callee(n)
			if callee == "errors.New" || callee == "fmt.Errorf" { // their text stays as it is
				for _, a := range n.Args[1:] {
					m.walk(a, sig)
				}
				return false
			}
			return !saysNothing(callee)
		case *ast.ArrayType, *ast.Field: // a length belongs to the type
			return false
		case *ast.BlockStmt:
			m.deletions(n.List)
		case *ast.CaseClause:
			m.deletions(n.Body)
		case *ast.CommClause:
			m.deletions(n.Body)
		case *ast.IfStmt:
			m.condition(n.Cond, true)
		case *ast.ForStmt:
			if n.Cond != nil {
				m.condition(n.Cond, false)
			}
		case *ast.SwitchStmt:
			for _, clause := range n.Body.List {
				for _, cond := range clause.(*ast.CaseClause).List {
					if n.Tag == nil {
						m.condition(cond, true)
					}
				}
			}
		case *ast.BinaryExpr:
			if to, ok := neighbor[n.Op]; ok {
				m.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to.String(), n.Op.String()+" becomes "+to.String())
			}
		case *ast.BasicLit:
			m.literal(n)
		case *ast.Ident:
			flipped := map[string]string{"true": "false", "false": "true"}[n.Name]
			if flipped != "" && m.info.Uses[n] == types.Universe.Lookup(n.Name) {
				m.add(n.Pos(), n.End(), flipped, n.Name+" becomes "+flipped)
			}
		case *ast.ReturnStmt:
			m.returns(n, sig)
		}
		return true
	})
}

// callee is the full name of the function or method that is called; "" if it has none.
func (m *mutator) callee(call *ast.CallExpr) string {
	id, _ := ast.Unparen(call.Fun).(*ast.Ident)
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		id = sel.Sel
	}
	switch f := m.info.Uses[id].(type) {
	case *types.Builtin:
		return f.Name()
	case *types.Func:
		return f.FullName()
	}
	return ""
}

// saysNothing reports whether no test has to notice what the callee does: it is a logger, or panic.
func saysNothing(callee string) bool {
	pkg := strings.TrimLeft(callee, "(*")
	return callee == "panic" || slices.ContainsFunc([]string{"go.uber.org/zap.", "go.uber.org/zap/", "log.", "log/slog."},
		func(of string) bool { return strings.HasPrefix(pkg, of) })
}

var neighbor = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// condition negates a condition, or takes it as true or as false. What it calls is called all the same, and its
// variables stay used.
func (m *mutator) condition(cond ast.Expr, alsoTrue bool) {
	text := m.textOf(cond)
	be, comparison := ast.Unparen(cond).(*ast.BinaryExpr)
	if !comparison || be.Op != token.EQL && be.Op != token.NEQ { // else its operator is negated
		m.add(cond.Pos(), cond.End(), "!("+text+")", "the condition is negated")
	}
	if alsoTrue {
		m.add(cond.Pos(), cond.End(), "("+text+") || true", "the condition is taken as true")
	}
	what := "the condition is taken as false"
	if comparison && be.Op == token.NEQ && m.isError(be.X) && m.info.Types[be.Y].IsNil() {
		what = "the error is not looked at"
	}
	m.add(cond.Pos(), cond.End(), "("+text+") && false", what)
}

func (m *mutator) isError(e ast.Expr) bool {
	t := m.info.TypeOf(e)
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

func (m *mutator) literal(l *ast.BasicLit) {
	switch {
	case l.Kind == token.INT:
		m.add(l.Pos(), l.End(), "("+l.Value+" + 1)", l.Value+" is one more")
	case l.Kind == token.STRING && l.Value[0] == '`':
		m.add(l.End()-1, l.End(), "~`", "the text gets a ~ more")
	case l.Kind == token.STRING:
		if s, err := strconv.Unquote(l.Value); err == nil {
			m.add(l.Pos(), l.End(), strconv.Quote(s+"~"), fmt.Sprintf("the text %.40s gets a ~ more", l.Value))
		}
	}
}

// deletions deletes each statement of the list that may be gone.
func (m *mutator) deletions(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && saysNothing(m.callee(call)) {
				continue
			}
		case *ast.DeferStmt:
			if saysNothing(m.callee(s.Call)) {
				continue
			}
		case *ast.GoStmt, *ast.SendStmt, *ast.IncDecStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || onlyBlank(s) {
				continue
			}
		default:
			continue
		}
		m.add(s.Pos(), s.End(), "", "the statement is deleted")
	}
}

// onlyBlank reports whether the assignment keeps nothing and calls nothing.
func onlyBlank(s *ast.AssignStmt) bool {
	only := !slices.ContainsFunc(s.Lhs, func(l ast.Expr) bool { return types.ExprString(l) != "_" })
	for _, r := range s.Rhs {
		ast.Inspect(r, func(n ast.Node) bool {
			_, call := n.(*ast.CallExpr)
			only = only && !call
			return only
		})
	}
	return only
}

// returns gives nil instead of the error, and zero values instead of the rest.
func (m *mutator) returns(s *ast.ReturnStmt, sig *ast.FuncType) {
	if sig == nil || sig.Results == nil || len(s.Results) == 0 {
		return
	}
	var results []ast.Expr // the type of each result
	for _, f := range sig.Results.List {
		results = append(results, slices.Repeat([]ast.Expr{f.Type}, max(1, len(f.Names)))...)
	}
	values := s.Results
	if len(values) == len(results) && m.isError(results[len(results)-1]) { // else one call gives them all
		last := values[len(values)-1]
		if !m.info.Types[last].IsNil() {
			m.add(last.Pos(), last.End(), "nil", "nil is returned instead of the error")
		}
		values, results = values[:len(values)-1], results[:len(results)-1]
	}
	var was, zeros []string
	for _, v := range values {
		was = append(was, m.textOf(v))
	}
	for _, e := range results {
		zeros = append(zeros, m.zero(e))
	}
	zero := strings.Join(zeros, ", ")
	// That true becomes false is a mutant of the literal.
	if text := strings.Join(was, ", "); text != zero && text != "true" {
		m.add(values[0].Pos(), values[len(values)-1].End(), zero, "zero values are returned")
	}
}

// zero is the zero value of a type, as source text.
func (m *mutator) zero(e ast.Expr) string {
	t := m.info.TypeOf(e)
	if _, generic := t.(*types.TypeParam); generic {
		return "*new(" + m.textOf(e) + ")"
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0:
			return "false"
		case u.Info()&types.IsString != 0:
			return `""`
		}
		return "0"
	case *types.Struct, *types.Array:
		return m.textOf(e) + "{}"
	}
	return "nil"
}
