package recovery

import (
	_ "embed" // for the words
	"slices"
	"strings"
	"sync"
	"unicode"
)

// words.txt says how programs read shortened words: "npm pub" publishes, "ip l" is ip link, and docker image rm does what
// docker rmi does. Only the comparison with require_human uses it, so a shortened word can only need an operator. An
// entry of auto_approve is compared byte for byte.
//
//go:embed words.txt
var wordsText string

// vocabulary holds the words of one program. A nil vocabulary knows no other word for any word.
type vocabulary struct {
	abbreviates, camel, humps, anywhere, kinds bool
	full                                       map[string][]string // the words for which a word or an option stands
	words                                      []string            // all full words and their other names
}

type vocabularies struct {
	of    map[string]*vocabulary
	equal [][][]string // groups of beginnings of commands that do the same, word by word
}

var vocabulariesOf = sync.OnceValue(func() vocabularies {
	v := vocabularies{of: map[string]*vocabulary{}}
	for line := range strings.Lines(wordsText) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "equal":
			var group [][]string
			for one := range strings.SplitSeq(strings.Join(f[1:], " "), " | ") {
				group = append(group, strings.Fields(one))
			}
			v.equal = append(v.equal, group)
		case "like":
			v.of[f[2]] = v.of[f[1]]
		default:
			if v.of[f[0]] == nil {
				v.of[f[0]] = &vocabulary{full: map[string][]string{}}
			}
			v.of[f[0]].learn(f[1:])
		}
	}
	return v
})

// learn takes one line of words.txt, without the name of the program.
func (v *vocabulary) learn(line []string) {
	switch line[0] {
	case "abbreviates":
		v.abbreviates = true
	case "camel":
		v.camel = true
	case "humps":
		v.humps = true
	case "anywhere":
		v.anywhere = true
	case "kinds":
		v.kinds = true
	case "words":
		v.words = append(v.words, line[1:]...)
		for _, w := range line[1:] {
			v.full[w] = append(v.full[w], w)
		}
	default: // A = B C
		for _, w := range slices.Concat(line[:1], line[2:]) {
			if !slices.Contains(v.full[w], line[0]) {
				v.full[w] = append(v.full[w], line[0])
			}
			v.words = append(v.words, w)
		}
	}
}

// vocabularyOf returns the vocabulary of a program, or nil.
func vocabularyOf(program string) *vocabulary { return vocabulariesOf().of[program] }

// meanings returns the full words for which a word of a command may stand, at least the word itself.
func (v *vocabulary) meanings(w string) []string {
	if v == nil || w == "" {
		return []string{w}
	}
	if v.camel && w[0] != '-' {
		w = hyphened(w)
	}
	if v.kinds {
		if i := strings.IndexAny(w, "/."); i > 0 {
			w = w[:i]
		}
	}
	if full := v.full[w]; len(full) > 0 {
		return full
	}
	all := []string{w}
	if v.abbreviates && isAlpha(w[0]) {
		for _, long := range v.words {
			if strings.HasPrefix(long, w) {
				all = append(all, v.full[long]...)
			}
		}
	}
	return all
}

func isAlpha(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// same reports whether a word of a command may stand for the word of a pattern.
func (v *vocabulary) same(want, got string) bool {
	if want == got {
		return true
	}
	if v == nil {
		return false
	}
	if v.humps && likeHumps(want, got[strings.LastIndexByte(got, ':')+1:]) {
		return true
	}
	wanted := v.meanings(want)
	return slices.ContainsFunc(v.meanings(got), func(w string) bool { return slices.Contains(wanted, w) })
}

// hyphened turns fooBar into foo-bar.
func hyphened(w string) string {
	var b strings.Builder
	for i, c := range w {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// likeHumps reports whether short abbreviates the name of a task: each of its parts begins the part of the name at the
// same place. The parts of fooBar are foo and bar.
func likeHumps(name, short string) bool {
	parts, begins := strings.Split(hyphened(name), "-"), strings.Split(hyphened(short), "-")
	if short == "" || len(begins) > len(parts) {
		return false
	}
	for i, b := range begins {
		if !strings.HasPrefix(parts[i], b) {
			return false
		}
	}
	return true
}

// equals returns the words of a pattern, and what else a command may begin with that does the same.
func equals(words []string) [][]string {
	all := [][]string{words}
	const most = 12
	for i := 0; i < len(all) && len(all) < most; i++ {
		for _, group := range vocabulariesOf().equal {
			for _, beginning := range group {
				if len(all[i]) < len(beginning) || !slices.Equal(all[i][:len(beginning)], beginning) {
					continue
				}
				for _, other := range group {
					next := slices.Concat(other, all[i][len(beginning):])
					if !slices.ContainsFunc(all, func(have []string) bool { return slices.Equal(have, next) }) {
						all = append(all, next)
					}
				}
			}
		}
	}
	return all
}

// spelledOut returns the forms of a command in which its first shortened operand, and its short options, are full words.
// A program without a vocabulary has no such forms.
func (v *vocabulary) spelledOut(ws []word) [][]word {
	if v == nil || len(ws) < 2 {
		return nil
	}
	out := slices.Clone(ws)
	verb, found, changed := -1, false, false
	for i, w := range ws[1:] {
		switch {
		case !w.known:
		case isOption(w.text):
			name, value, inline := strings.Cut(w.text, "=")
			if full := v.full[name]; len(full) > 0 && full[0] != name {
				if out[i+1].text, changed = full[0], true; inline {
					out[i+1].text += "=" + value
				}
			}
		case !found:
			if m := v.meanings(w.text); len(m) > 1 || m[0] != w.text {
				verb, found = i+1, true
			} else {
				found = !v.anywhere && slices.Contains(v.words, w.text)
			}
		}
	}
	if verb < 0 {
		if !changed {
			return nil
		}
		return [][]word{out}
	}
	const most = 8
	var forms [][]word
	for _, m := range v.meanings(ws[verb].text)[:min(most, len(v.meanings(ws[verb].text)))] {
		form := slices.Clone(out)
		form[verb] = literal(m)
		forms = append(forms, form)
	}
	return forms
}
