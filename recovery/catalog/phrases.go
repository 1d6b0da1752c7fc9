package catalog

import (
	_ "embed" // for the phrases
	"regexp"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// phrases.txt holds what the C library and common tools say in other languages: an English phrase, then its
// translations, separated by tabs.
//
//go:embed phrases.txt
var phrasesText string

// phrases returns pairs of strings for a Replacer: an English phrase, and an expression that matches it in any of the
// languages. French has a space before a colon.
var phrases = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for line := range strings.Lines(phrasesText) {
		all := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, p := range all[1:] {
			all[i+1] = regexp.QuoteMeta(p)
		}
		any := "(?:" + strings.Join(all, "|") + ")"
		pairs = append(pairs, ": "+all[0], `[\s\x{a0}]?: `+any, all[0], any)
	}
	return strings.NewReplacer(pairs...)
})

// translate makes the patterns of a built-in handler match what its tool says in other languages, as far as phrases.txt
// knows it. The patterns of an overlay stay as they are: each of them has a bound of its size.
func (d *decoder) translate(n *yaml.Node, h *Handler) {
	if d.verbs || child(n, "match") == nil {
		return
	}
	for _, list := range []*[]string{&h.Match.Any, &h.Match.All, &h.Match.Not} {
		for i, expr := range *list {
			(*list)[i] = phrases().Replace(expr)
		}
	}
}
