package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

var neighbor = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

func (m *mutator) operator(e *ast.BinaryExpr) {
	if to, ok := neighbor[e.Op]; ok {
		m.add(e.OpPos, e.OpPos+token.Pos(len(e.Op.String())), to.String(), "%s becomes %s", e.Op, to)
	}
}

// condition negates a condition, or takes it as true or as false. What it
// calls is called all the same, and its variables stay used.
func (m *mutator) condition(cond ast.Expr, alsoTrue bool) {
	text := m.textOf(cond)
	be, comparison := ast.Unparen(cond).(*ast.BinaryExpr)
	if !comparison || be.Op != token.EQL && be.Op != token.NEQ { // else it is what operator does
		m.add(cond.Pos(), cond.End(), "!("+text+")", "the condition is negated")
	}
	if alsoTrue {
		m.add(cond.Pos(), cond.End(), "("+text+") || true", "the condition is taken as true")
	}
	what := "the condition is taken as false"
	if comparison && be.Op == token.NEQ && m.isError(be.X) && m.isNil(be.Y) {
		what = "the error is not looked at"
	}
	m.add(cond.Pos(), cond.End(), "("+text+") && false", "%s", what)
}

var errorType = types.Universe.Lookup("error").Type()

func (m *mutator) isError(e ast.Expr) bool {
	t := m.target.info.TypeOf(e)
	return t != nil && types.Identical(t, errorType)
}

func (m *mutator) isNil(e ast.Expr) bool { return m.target.info.Types[e].IsNil() }

func (m *mutator) literal(l *ast.BasicLit) {
	switch l.Kind {
	case token.INT:
		m.add(l.Pos(), l.End(), "("+l.Value+" + 1)", "%s is one more", l.Value)
	case token.STRING:
		if strings.HasPrefix(l.Value, "`") {
			m.add(l.End()-1, l.End(), "~`", "the text gets a ~ more")
			return
		}
		if s, err := strconv.Unquote(l.Value); err == nil {
			m.add(l.Pos(), l.End(), strconv.Quote(s+"~"), "the text %.40s gets a ~ more", l.Value)
		}
	}
}

func (m *mutator) boolean(id *ast.Ident) {
	flipped := map[string]string{"true": "false", "false": "true"}[id.Name]
	if c, ok := m.target.info.Uses[id].(*types.Const); ok && flipped != "" && c.Parent() == types.Universe {
		m.add(id.Pos(), id.End(), flipped, "%s becomes %s", id.Name, flipped)
	}
}

// deletions deletes each statement of the list that may be gone.
func (m *mutator) deletions(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && m.saysNothing(call) {
				continue
			}
		case *ast.DeferStmt:
			if m.saysNothing(s.Call) {
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
	for _, l := range s.Lhs {
		if id, ok := l.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	calls := false
	for _, r := range s.Rhs {
		ast.Inspect(r, func(n ast.Node) bool {
			_, call := n.(*ast.CallExpr)
			calls = calls || call
			return !calls
		})
	}
	return !calls
}

// returns gives nil instead of the error, and zero values instead of the rest.
func (m *mutator) returns(s *ast.ReturnStmt, sig *ast.FuncType) {
	if sig == nil || sig.Results == nil || len(s.Results) == 0 {
		return
	}
	var results []ast.Expr // the type of each result
	for _, f := range sig.Results.List {
		for range max(1, len(f.Names)) {
			results = append(results, f.Type)
		}
	}
	if len(s.Results) != len(results) { // one call gives them all
		zeros, ok := m.zeros(results)
		if ok {
			m.add(s.Results[0].Pos(), s.Results[0].End(), strings.Join(zeros, ", "), "zero values are returned")
		}
		return
	}
	values, errs := len(results), 0
	if m.isError(results[values-1]) {
		values, errs = values-1, 1
	}
	if errs == 1 && !m.isNil(s.Results[values]) {
		last := s.Results[values]
		m.add(last.Pos(), last.End(), "nil", "nil is returned instead of the error")
	}
	zeros, ok := m.zeros(results[:values])
	if !ok || values == 0 {
		return
	}
	was := make([]string, values)
	for i := range was {
		was[i] = m.textOf(s.Results[i])
	}
	flips := values == 1 && was[0] == "true" // boolean does that
	if !flips && strings.Join(was, ", ") != strings.Join(zeros, ", ") {
		m.add(s.Results[0].Pos(), s.Results[values-1].End(), strings.Join(zeros, ", "), "zero values are returned")
	}
}

// zeros are the zero values of the types, as source text.
func (m *mutator) zeros(of []ast.Expr) (zeros []string, ok bool) {
	for _, e := range of {
		t := m.target.info.TypeOf(e)
		if t == nil {
			return nil, false
		}
		zero := "*new(" + m.textOf(e) + ")"
		if _, generic := t.(*types.TypeParam); !generic {
			switch u := t.Underlying().(type) {
			case *types.Basic:
				switch {
				case u.Info()&types.IsBoolean != 0:
					zero = "false"
				case u.Info()&types.IsNumeric != 0:
					zero = "0"
				case u.Info()&types.IsString != 0:
					zero = `""`
				}
			case *types.Pointer, *types.Slice, *types.Map, *types.Chan, *types.Signature, *types.Interface:
				zero = "nil"
			case *types.Struct, *types.Array:
				zero = m.textOf(e) + "{}"
			}
		}
		zeros = append(zeros, zero)
	}
	return zeros, true
}
