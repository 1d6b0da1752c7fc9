package classify

import (
	_ "embed" // for the names
	"strings"
	"sync"
)

//go:embed names.txt
var namesText string

// names are the values of names.txt, by "kind word".
var names = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(namesText) {
		kind, rest, _ := strings.Cut(line, " ")
		value, words, _ := strings.Cut(rest, ": ")
		for w := range strings.FieldsSeq(words) {
			all[kind+" "+w] = value
		}
	}
	return all
})

// named is the value of a word in names.txt, "" if it has none.
func named(kind, word string) string { return names()[kind+" "+word] }
