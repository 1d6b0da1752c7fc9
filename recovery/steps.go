package recovery

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superloop/superloop/internal/text"
)

// Step is a simple command that bash runs on its way through a text, if all before it succeeds.
type Step struct {
	// Words are the words after quote removal, with "..." for text that only bash will know. Words[0] is the program.
	Words []string
	Text  string // the step as it is written
}

// Steps returns the simple commands that must succeed for a command to succeed, in the order in which bash runs them.
// It ends before the first construct behind which it does not know what runs, or what a word means: a condition, a loop,
// a function, an alias, ||, &, a variable in the place of a program, a changed PATH, source, eval. So Steps may return
// fewer steps than there are, never one that need not run. The error says why the text is no bash command, as far as the
// parser can tell: bash takes a few texts that it refuses. The error is nil for a text that is too large to be parsed.
func Steps(command string) ([]Step, error) {
	if !utf8.ValidString(command) || len(command) > MaxEntry || tooMuch(command) != "" {
		return nil, nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, fmt.Errorf("reading it as bash: %s", text.Display(clip(err.Error())))
	}
	p := way{source: source{text: command}}
	p.all(file.Stmts)
	return p.steps, nil
}

// way collects the steps of a text.
type way struct {
	source
	steps []Step
}

// all adds the steps of the statements. It reports whether it knows what runs behind them.
func (p *way) all(stmts []*syntax.Stmt) bool {
	for _, s := range stmts {
		if !p.stmt(s) {
			return false
		}
	}
	return true
}

func (p *way) stmt(s *syntax.Stmt) bool {
	if s.Negated || s.Background || s.Coprocess {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return p.call(c)
	case *syntax.BinaryCmd:
		return c.Op != syntax.OrStmt && p.stmt(c.X) && p.stmt(c.Y)
	case *syntax.Block:
		return p.all(c.Stmts)
	case *syntax.TimeClause:
		return c.Stmt != nil && p.stmt(c.Stmt)
	case *syntax.TestClause, nil:
		return true
	case *syntax.DeclClause:
		for _, a := range c.Args {
			if changesSearch(a) {
				return false
			}
		}
		return true
	}
	return false
}

// changesSearch reports whether an assignment decides where bash finds programs, or may do so.
func changesSearch(a *syntax.Assign) bool {
	return a.Name == nil || a.Name.Value == "PATH" || a.Name.Value == "BASH_ENV"
}

// stops are the programs behind which words may mean something else.
const stops = ". source eval exec alias unalias shopt enable hash trap exit return"

func (p *way) call(c *syntax.CallExpr) bool {
	for _, a := range c.Assigns {
		if changesSearch(a) {
			return false
		}
	}
	if len(c.Args) == 0 {
		return true
	}
	step := Step{Text: p.slice(c)}
	for _, w := range newWords(c.Args) {
		step.Words = append(step.Words, w.show())
	}
	if first := newWord(c.Args[0]); !first.known || first.text == "" {
		return false
	}
	p.steps = append(p.steps, step)
	return !listed(stops, step.Words[0])
}
