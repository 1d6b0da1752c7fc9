package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
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

// lines are the lines that the fault changes, before and after it; what is longer than one is cut behind the first.
func (m *mutant) lines() (before, after string) {
	from := bytes.LastIndexByte(m.src.text[:m.begin], '\n') + 1
	cut := func(text []byte) string {
		line, _, more := bytes.Cut(text, []byte("\n"))
		s := strings.TrimSpace(string(line))
		if more && s == "" {
			return "(nothing)"
		}
		return s
	}
	return cut(m.src.text[from:]), cut(m.text()[from:])
}

// mutator finds the mutants of one file.
type mutator struct {
	fset   *token.FileSet
	src    *source
	target *target
	found  []*mutant
	seen   map[string]bool
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *mutator) textOf(n ast.Node) string {
	return string(m.src.text[m.offset(n.Pos()):m.offset(n.End())])
}

// add notes a mutant, once.
func (m *mutator) add(begin, end token.Pos, put, what string, args ...any) {
	f := &mutant{target: m.target, src: m.src, line: m.fset.Position(begin).Line, what: fmt.Sprintf(what, args...), begin: m.offset(begin), end: m.offset(end), put: put}
	key := fmt.Sprint(f.begin, " ", f.end, " ", put)
	if m.seen[key] || string(m.src.text[f.begin:f.end]) == put {
		return
	}
	m.seen[key] = true
	m.found = append(m.found, f)
}

// file walks the whole file.
func (m *mutator) file() {
	m.seen = map[string]bool{}
	for _, d := range m.src.tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && !forDebugging(d) {
				m.function(d.Type, d.Body)
			}
		case *ast.GenDecl:
			if d.Tok == token.CONST || d.Tok == token.VAR {
				m.walk(d, nil)
			}
		}
	}
	slices.SortStableFunc(m.found, func(a, b *mutant) int { return a.begin - b.begin })
}

// forDebugging reports whether the function only makes a text for people.
func forDebugging(d *ast.FuncDecl) bool {
	return d.Recv != nil && (d.Name.Name == "String" || d.Name.Name == "GoString") && len(d.Type.Params.List) == 0
}

func (m *mutator) function(sig *ast.FuncType, body *ast.BlockStmt) {
	m.walk(body, sig)
}

// walk finds the mutants below n, which is in a function of the type sig.
func (m *mutator) walk(n ast.Node, sig *ast.FuncType) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			m.function(n.Type, n.Body)
			return false
		case *ast.CallExpr:
			if m.saysNothing(n) {
				return false
			}
			m.arguments(n, sig)
			return false
		case *ast.ArrayType: // a length belongs to the type
			return false
		case *ast.Field, *ast.ImportSpec:
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
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, cond := range clause.(*ast.CaseClause).List {
						m.condition(cond, true)
					}
				}
			}
		case *ast.BinaryExpr:
			m.operator(n)
		case *ast.BasicLit:
			m.literal(n)
		case *ast.Ident:
			m.boolean(n)
		case *ast.KeyValueExpr: // the key of a struct is a name
			if id, ok := n.Key.(*ast.Ident); ok && m.target.info.Uses[id] != nil {
				if v, ok := m.target.info.Uses[id].(*types.Var); ok && v.IsField() {
					m.walk(n.Value, sig)
					return false
				}
			}
		case *ast.ReturnStmt:
			m.returns(n, sig)
		}
		return true
	})
}

// arguments walks a call; the text of a new error is left as it is.
func (m *mutator) arguments(call *ast.CallExpr, sig *ast.FuncType) {
	m.walk(call.Fun, sig)
	args := call.Args
	if f := m.callee(call); f != nil && len(args) > 0 && (f.FullName() == "errors.New" || f.FullName() == "fmt.Errorf") {
		args = args[1:]
	}
	for _, a := range args {
		m.walk(a, sig)
	}
}

// callee is the function or method that is called, if it has a name.
func (m *mutator) callee(call *ast.CallExpr) *types.Func {
	var id *ast.Ident
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return nil
	}
	f, _ := m.target.info.Uses[id].(*types.Func)
	return f
}

// saysNothing reports whether the call is one that no test has to notice: a logger, or a panic.
func (m *mutator) saysNothing(call *ast.CallExpr) bool {
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		if b, ok := m.target.info.Uses[id].(*types.Builtin); ok && b.Name() == "panic" {
			return true
		}
	}
	f := m.callee(call)
	return f != nil && f.Pkg() != nil && (slices.Contains([]string{"go.uber.org/zap", "log", "log/slog"}, f.Pkg().Path()) || strings.HasPrefix(f.Pkg().Path(), "go.uber.org/zap/"))
}
