package agent

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/roles/agent/class"
)

//go:embed failures.txt
var failuresText string

// failure is one line of failures.txt.
type failure struct {
	class class.Class
	text  func() *regexp.Regexp
}

// failures are the tables of failures.txt.
var failures = sync.OnceValue(func() map[string][]failure {
	tables := map[string][]failure{}
	name, flags := "", ""
	for line := range strings.Lines(failuresText) {
		line = strings.TrimSuffix(line, "\n")
		switch head, isHead := strings.CutPrefix(line, "["); {
		case line == "" || line[0] == '#':
		case isHead:
			name, flags, _ = strings.Cut(strings.TrimSuffix(head, "]"), " ")
		default:
			word, expr, _ := strings.Cut(line, " ")
			expr = strings.TrimLeft(expr, " ")
			switch flags {
			case "":
			case "=":
				expr = "^(?:" + expr + ")$"
			default:
				expr = "(?" + flags + ")" + expr
			}
			tables[name] = append(tables[name], failure{class.Class(word), pattern.Lazy(expr)})
		}
	}
	return tables
})

// findClass gives the class of a text by a table of failures.txt, and where in
// the text the words for it begin; class.None if the table has nothing on it.
func findClass(table, text string) (class.Class, int) {
	for _, f := range failures()[table] {
		if at := f.text().FindStringIndex(text); at != nil {
			return f.class, at[0]
		}
	}
	return class.None, 0
}

func classOf(table, text string) class.Class {
	found, _ := findClass(table, text)
	return found
}
