package manifest

import "strings"

// Directive is a directive of a go.mod or go.work, in a block of its kind or not.
type Directive struct {
	Verb  string
	Words []string // behind the verb, as they are written
}

// GoMod gives the directives of a go.mod or go.work, in their order.
func GoMod(text []byte) []Directive {
	var out []Directive
	block := ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case block != "" && words[0] == ")":
			block = ""
		case block != "":
			out = append(out, Directive{block, words})
		case len(words) > 1 && words[1] == "(" || strings.HasSuffix(words[0], "("):
			block = strings.TrimSuffix(words[0], "(")
		default:
			out = append(out, Directive{words[0], words[1:]})
		}
	}
	return out
}
