package permit

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superloop/superloop/recovery"
)

// grants returns "" if Settings.Programs grants a command, and otherwise a phrase that says why not.
//
// The command must be a list of simple commands joined by ; && || or pipes, without substitutions, expansions,
// assignments, functions and background jobs. Each simple command in it, also one inside of another (`timeout 5 go test`
// has two), must begin with the words of an entry, written out. Files that it redirects to must lie in the work tree, and
// must not be protected.
func (j *judge) grants(a *recovery.Analysis) string {
	switch {
	case len(j.programs) == 0:
		return "it has no entries"
	case a == nil:
		return "nobody has read the command"
	case len(a.Opaque) > 0: // also a text that must not be given to the parser
		return a.Opaque[0].Why
	case a.Privileged != "":
		return "it runs with other rights"
	case a.State != "":
		return "it touches superloop's own files"
	case len(a.Hidden) > 0:
		return "it has characters that people do not see"
	case !j.in(j.at(".")):
		return "it would run outside of the work tree"
	}
	for _, part := range a.Parts {
		if !slices.ContainsFunc(j.programs, func(p []string) bool { return len(part.Words) >= len(p) && slices.Equal(part.Words[:len(p)], p) }) {
			return fmt.Sprintf("no entry has the first words of %s", quoted(part.Text))
		}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(j.Request.Command), "")
	if err != nil {
		return "it cannot be read as a command of bash"
	}
	s := shell{judge: j}
	for _, stmt := range file.Stmts {
		s.stmt(stmt)
	}
	if s.why == "" && s.moves && s.writes {
		return "it changes the directory and redirects to a file"
	}
	return s.why
}

// shell looks at the form of a command.
type shell struct {
	*judge
	why           string // the first thing that does not have the plain form
	moves, writes bool
}

func (s *shell) not(format string, args ...any) {
	if s.why == "" {
		s.why = fmt.Sprintf(format, args...)
	}
}

func (s *shell) stmt(st *syntax.Stmt) {
	if st.Background || st.Coprocess {
		s.not("it runs something in the background")
	}
	for _, r := range st.Redirs {
		s.redirect(r)
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Assigns) > 0 || len(c.Args) == 0 {
			s.not("it sets a variable")
			return
		}
		first := ""
		for i, w := range c.Args {
			text := s.word(w)
			if i == 0 {
				first = text
			}
			if strings.ContainsAny(text, "/.~") && s.secret(s.at(text)) {
				s.not("it names %s, a place for secrets", quoted(text))
			}
		}
		if slices.Contains([]string{"cd", "pushd", "popd"}, first) {
			s.moves = true
			if len(c.Args) != 2 || !s.in(s.at(s.word(c.Args[1]))) {
				s.not("it changes to a directory that may lie outside of the work tree")
			}
		}
	case *syntax.BinaryCmd:
		s.stmt(c.X)
		s.stmt(c.Y)
	default:
		s.not("it is more than a list of simple commands")
	}
}

// word returns the text of a word without its quotes. A word that bash would expand, but for wildcards, does not have the
// plain form.
func (s *shell) word(w *syntax.Word) string {
	var b strings.Builder
	var part func(p syntax.WordPart, quoted bool)
	part = func(p syntax.WordPart, quoted bool) {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			if p.Dollar {
				s.not("it has a text in $'...'")
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if quoted || p.Dollar {
				s.not("it has a translated text")
			}
			for _, inner := range p.Parts {
				part(inner, true)
			}
		default:
			s.not("bash puts something into it that is not written out")
		}
	}
	for _, p := range w.Parts {
		part(p, false)
	}
	return b.String()
}

func (s *shell) redirect(r *syntax.Redirect) {
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		if strings.Trim(s.word(r.Word), "0123456789-") != "" {
			s.not("it redirects to something that is no number")
		}
		return
	case syntax.RdrIn, syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob:
	default:
		s.not("it redirects in a way that is not read")
		return
	}
	name := s.word(r.Word)
	switch path := s.at(name); {
	case name == "/dev/null":
	case r.Op == syntax.RdrIn && !s.secret(path):
	case strings.ContainsAny(name, "*?[{~"):
		s.not("the file that it redirects to is not written out")
	case !s.in(path) || s.protected(path) || s.secret(path):
		s.not("it redirects to %s", quoted(name))
	default:
		s.writes = s.writes || !strings.HasPrefix(name, "/")
	}
}
