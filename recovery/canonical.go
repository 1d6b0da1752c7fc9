package recovery

import (
	"slices"
	"strings"
)

// plain is the command as word by word comparison wants it: without the options
// that stand between git and its own command, which have values.
func (p *Part) plain() []word {
	if len(p.words) > 1 && p.words[0].known && programName(p.words[0].text) == "git" {
		if _, rest, ok := gitGlobals.split(p.words[1:], false); ok {
			return slices.Concat(p.words[:1], rest)
		}
	}
	return p.words
}

// joined are the texts that a glob is compared with: the words as they are, and in their canonical form.
func (p *Part) joined() []string {
	if p.forms == nil {
		p.forms = []string{join(p.words)}
		if c := join(canonical(p.plain())); c != p.forms[0] {
			p.forms = append(p.forms, c)
		}
	}
	return p.forms
}

// canonical gives a command its usual form: the program by its name, options before operands, rm's in one bundle.
func canonical(ws []word) []word {
	if len(ws) == 0 || !ws[0].known {
		return ws
	}
	name := programName(ws[0].text)
	var options, operands []word
	for i, w := range ws[1:] {
		if w.known && w.text == "--" {
			operands = append(operands, ws[1+i:]...)
			break
		}
		if w.known && isOption(w.text) {
			options = append(options, w)
		} else {
			operands = append(operands, w)
		}
	}
	if name == "rm" {
		options = foldRm(options)
	}
	return slices.Concat([]word{literal(name)}, options, operands)
}

// foldRm writes rm's options as people do: -rf first, then the others.
func foldRm(options []word) []word {
	recursive, force := false, false
	var others []word
	for _, o := range options {
		switch long := strings.HasPrefix(o.text, "--"); {
		case long && len(o.text) > 2 && strings.HasPrefix("--recursive", o.text):
			recursive = true
		case long && len(o.text) > 2 && strings.HasPrefix("--force", o.text):
			force = true
		case long:
			others = append(others, o)
		default:
			recursive = recursive || strings.ContainsAny(o.text, "rR")
			force = force || strings.Contains(o.text, "f")
			if rest := strings.Map(func(c rune) rune {
				if strings.ContainsRune("rRf", c) {
					return -1
				}
				return c
			}, o.text); rest != "-" {
				others = append(others, literal(rest))
			}
		}
	}
	bundle := "-"
	if recursive {
		bundle += "r"
	}
	if force {
		bundle += "f"
	}
	if bundle == "-" {
		return others
	}
	return append([]word{literal(bundle)}, others...)
}
