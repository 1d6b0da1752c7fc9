package recovery

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superloop/superloop/internal/text"
)

// script parses a text as bash would, and reads every simple command in it.
func (r *reader) script(src string, depth int) {
	if depth > maxDepth || r.full {
		r.opaque("it has commands inside commands", src)
		return
	}
	if why := tooMuch(src); why != "" { // an inner text, whose quotes hid its nesting before
		r.opaque(why, src)
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	switch {
	case err != nil:
		r.opaque("it cannot be read as a bash command: "+text.Display(clip(err.Error())), clip(src))
		return
	case len(file.Stmts) == 0:
		r.opaque("there is no command in it", clip(src))
		return
	}
	s := source{r, src, depth}
	syntax.Walk(file, s.node)
}

// source is the script that script reads.
type source struct {
	*reader
	text  string
	depth int
}

// slice returns the text of a node as it is written.
func (s source) slice(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(s.text) {
		return s.text // the parser's offsets are wrong: show all of the text
	}
	return strings.TrimSpace(s.text[from:to])
}

func (s source) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.CallExpr:
		s.command(newWords(n.Args), s.slice(n), s.depth)
	case *syntax.DeclClause:
		s.declaration(n)
	case *syntax.Word:
		if strings.Contains(strings.ToLower(newWord(n).text), stateDir) {
			s.state(s.slice(n))
		}
	case *syntax.Redirect:
		s.redirect(n)
	case *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		s.opaque("arithmetic can run commands", s.slice(n))
	case *syntax.ArithmExp:
		s.arithmetic(n.X, n)
	case *syntax.ParamExp:
		s.expansion(n)
	case *syntax.ExtGlob:
		// Without the option extglob, bash reads !(x) as the negation of a subshell that runs x.
		s.opaque("an extended glob can be a subshell", s.slice(n))
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			s.name(testWord(n.X), n)
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			if !isNumber(testWord(n.X)) || !isNumber(testWord(n.Y)) {
				s.opaque("arithmetic can run commands", s.slice(n))
			}
		}
	case *syntax.WordIter:
		s.variable(n.Name.Value, s.slice(n))
		for _, item := range n.Items {
			s.touches(newWord(item), s.slice(item))
		}
	case *syntax.Assign:
		s.assign(n)
	case *syntax.CoprocClause:
		// bash and the parser disagree on whether a word is the coprocess's name or its program.
		s.opaque("a coprocess is not read", s.slice(n))
	case *syntax.TimeClause:
		if n.Stmt != nil {
			s.time(n)
		}
	}
	return true
}

func newWords(args []*syntax.Word) []word {
	words := make([]word, len(args))
	for i, w := range args {
		words[i] = newWord(w)
	}
	return words
}

// declaration reads export, declare and similar commands, which the parser treats as syntax.
func (s source) declaration(n *syntax.DeclClause) {
	words := []word{literal(n.Variant.Value)}
	for _, arg := range n.Args {
		words = append(words, declared(arg))
	}
	s.command(words, s.slice(n), s.depth)
}

// declared returns an argument of a declaration as one word.
func declared(a *syntax.Assign) word {
	switch {
	case a.Name == nil:
		return newWord(a.Value)
	case a.Naked && a.Index == nil:
		return literal(a.Name.Value)
	case a.Array != nil || a.Index != nil:
		return word{text: a.Name.Value + "[" + string(unknown)}
	}
	w := literal("")
	if a.Value != nil {
		w = newWord(a.Value)
	}
	// bash does not split the values, and does not expand ~ and globs in them.
	return word{text: a.Name.Value + "=" + w.text, known: w.known}
}

// assign judges NAME=VALUE, in front of a command or alone.
func (s source) assign(n *syntax.Assign) {
	if n.Name != nil {
		s.variable(n.Name.Value, s.slice(n))
	}
	if n.Index != nil {
		s.arithmetic(n.Index, n)
	}
	if n.Array != nil {
		for _, e := range n.Array.Elems {
			if e.Index != nil {
				s.arithmetic(e.Index, n)
			}
		}
	}
}

func (s source) redirect(n *syntax.Redirect) {
	if n.N != nil {
		s.variable(strings.Trim(n.N.Value, "{}"), s.slice(n)) // {NAME}>file sets NAME
	}
	if n.Word == nil || n.Hdoc != nil {
		return
	}
	target := newWord(n.Word)
	s.touches(target, s.slice(n))
	if strings.HasPrefix(target.text, "/dev/tcp/") || strings.HasPrefix(target.text, "/dev/udp/") {
		s.opaque("it opens a connection", s.slice(n))
	}
}

// expansion judges ${...}. Some of its forms evaluate the value of a variable.
func (s source) expansion(n *syntax.ParamExp) {
	switch {
	case n.Excl && n.Names == 0:
		s.opaque("an indirect expansion can run commands", s.slice(n))
	case n.Exp != nil && n.Exp.Op == syntax.OtherParamOps:
		s.opaque("an expansion with @ can run commands", s.slice(n))
	}
	if n.Index != nil {
		s.arithmetic(n.Index, n)
	}
	if n.Slice != nil {
		s.arithmetic(n.Slice.Offset, n)
		s.arithmetic(n.Slice.Length, n)
	}
	if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
		s.variable(n.Param.Value, s.slice(n))
	}
}

// arithmetic accepts only numbers. bash evaluates the value of a variable in arithmetic, and a subscript in that value
// can run commands.
func (s source) arithmetic(x syntax.ArithmExpr, at syntax.Node) {
	if x == nil {
		return
	}
	numeric := true
	syntax.Walk(x, func(n syntax.Node) bool {
		w, ok := n.(*syntax.Word)
		if !ok {
			return true
		}
		text := newWord(w) // "*" and "@" are the subscripts of ${array[*]} and ${array[@]}
		numeric = numeric && (isNumber(text) || !text.known && text.many && (text.text == string(unknown)) && w.Lit() == "*" || text.text == "@")
		return false
	})
	if !numeric {
		s.opaque("arithmetic can run commands", s.slice(at))
	}
}

func isNumber(w word) bool {
	return w.known && w.text != "" && strings.Trim(strings.TrimPrefix(w.text, "-"), "0123456789") == ""
}

// testWord returns the word of a test, or an unknown word if the operand is not a word.
func testWord(x syntax.TestExpr) word {
	if w, ok := x.(*syntax.Word); ok {
		return newWord(w)
	}
	return word{text: string(unknown)}
}

// name judges a word that bash uses as the name of a variable.
func (s source) name(w word, at syntax.Node) {
	if !w.known || strings.Contains(w.text, "[") {
		s.opaque("the name of a variable can run commands", s.slice(at))
		return
	}
	s.variable(w.text, s.slice(at))
}

// time reads the keyword time before "--". The parser takes "--" for the command; bash runs the words behind it.
func (s source) time(n *syntax.TimeClause) {
	call, ok := n.Stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) < 2 {
		return
	}
	if first := newWord(call.Args[0]); first.known && first.text == "--" {
		words := newWords(call.Args[1:])
		s.command(words, show(words), s.depth+1)
	}
}
