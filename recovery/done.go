package recovery

import (
	"fmt"
	"path"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superloop/superloop/recovery/action"
)

// AlreadyDone reports whether a repeats d. It does if both run in the same directory, and bash reads the same words in
// the same order from both: blanks, comments, and quotes that change nothing do not count. A nil d is repeated by
// nothing. Whoever keeps d forgets it when it no longer holds.
func AlreadyDone(d *action.Done, a action.Action) bool {
	if d == nil || path.Clean(d.WorkingDir) != path.Clean(a.WorkingDir) {
		return false
	}
	words := normal(a.Command)
	return d.Command == a.Command || words != "" && words == normal(d.Command)
}

// DoneReason says in a sentence when superloop executed d, and what showed that it helped.
func DoneReason(d action.Done) string {
	s := fmt.Sprintf("superloop has run this very command as recovery %d, and the tests confirmed it at %s", d.N, d.At.UTC().Format(time.RFC3339))
	if d.Why != "" {
		s += ": " + d.Why
	}
	return s + "; nothing has failed since"
}

// normal returns a command in the one form that all its spellings have, or "" if it is no bash command.
func normal(command string) string {
	if tooMuch(command) != "" {
		return ""
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 {
		return ""
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok {
			plain(w)
		}
		return true
	})
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.Minify(true)).Print(&b, file); err != nil {
		return ""
	}
	return b.String()
}

// plain takes away quotes around text that bash reads in the same way without them.
func plain(w *syntax.Word) {
	for i, part := range w.Parts {
		var lit string
		switch p := part.(type) {
		case *syntax.SglQuoted:
			lit = p.Value
		case *syntax.DblQuoted:
			if len(p.Parts) != 1 {
				continue
			}
			if l, ok := p.Parts[0].(*syntax.Lit); ok {
				lit = l.Value
			}
		}
		if lit != "" && strings.Trim(lit, harmless) == "" {
			w.Parts[i] = &syntax.Lit{Value: lit}
		}
	}
}

// harmless are the characters that mean themselves with and without quotes, wherever they stand in a word.
const harmless = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/@%+:,"
