package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// word is one word of a command line, after the program.
type word struct {
	text  string
	flag  string // its name when it is a flag, without a value; "" otherwise
	known bool
	value string // what the flag was given, in the same word or the next
	// hungry: the flag wants a value, and the line ends.
	hungry bool
	taker  int  // index of the flag whose value this word is or may be, else -1
	level  int  // how many subcommands stand before it
	sub    bool // it is a subcommand itself
}

// levels says for each word how many of the subcommands stand before it, as
// flags belong to the command that they follow. When not all of subs are there,
// in order, the whole line is taken for the last of them: the program then
// knows a subcommand by another name.
func levels(args, subs []string) []word {
	words := make([]word, len(args))
	level := 0
	for i, a := range args {
		sub := level < len(subs) && a == subs[level]
		words[i] = word{text: a, taker: -1, level: level, sub: sub}
		if sub {
			level++
		}
	}
	if level < len(subs) {
		for i := range words {
			words[i].level, words[i].sub = len(subs), false
		}
	}
	return words
}

// isFlag reports whether a word is written as a flag is. A lone dash is none.
func isFlag(text string) bool { return len(text) > 1 && text[0] == '-' && text != "--" }

// read goes over the words up to "--" and says which are flags and whose values
// the others are. helps are by level; where there is none, every flag may take
// the next word.
func read(words []word, helps map[int]help) {
	for i := range words {
		w := &words[i]
		if w.text == "--" {
			return
		}
		if !isFlag(w.text) || w.taker >= 0 {
			continue
		}
		h, checked := helps[w.level]
		var t takes
		var given bool
		w.flag, w.value, given, t, w.known = h.split(w.text)
		if !checked {
			t = takesUnknown
		}
		if given || t == takesNone {
			continue
		}
		next := i + 1
		take := func() {
			words[next].taker, w.value = i, words[next].text
		}
		switch {
		case next == len(words):
			w.hungry = t == takesOne || t == takesMany
		case t == takesOne && (h.style == styleCommander || !isFlag(words[next].text)),
			(t == takesMaybe || t == takesUnknown) && !isFlag(words[next].text) && !words[next].sub:
			take()
		case t == takesMany:
			for ; next < len(words) && !isFlag(words[next].text) && words[next].text != "--"; next++ {
				take()
			}
		}
	}
}

// split parts a word into a flag and the value in the same word, and says what
// the help knows of it. "-mfast" is -m with a value when -m takes one, and -abc
// is -a, -b and -c when they are all known.
func (h help) split(text string) (name, value string, given bool, t takes, ok bool) {
	name, value, given = strings.Cut(text, "=")
	if t, ok = h.known(name); ok {
		return name, value, given, t, true
	}
	unknown := func() (string, string, bool, takes, bool) { return name, value, given, takesUnknown, false }
	if strings.HasPrefix(text, "--") || len(text) < 3 {
		return unknown()
	}
	first, known := h.known(text[:2])
	if known && first != takesNone {
		return text[:2], text[2:], true, first, true
	}
	if !known || h.style == styleUnknown {
		return unknown()
	}
	for _, c := range text[2:] {
		if t, ok = h.known("-" + string(c)); !ok {
			return unknown()
		}
	}
	return text, "", false, t, true
}

// has reports whether one of the flags is in the command line.
func has(words []word, flags ...string) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.flag != "" && slices.Contains(flags, w.flag) })
}

// valueOf is the value of the last of the flags.
func valueOf(words []word, flags ...string) (value string) {
	for _, w := range words {
		if w.flag != "" && slices.Contains(flags, w.flag) {
			value = w.value
		}
	}
	return value
}

// free are the words that are neither flags, nor values, nor subcommands.
func free(words []word) []word {
	return slices.DeleteFunc(slices.Clone(words), func(w word) bool { return w.flag != "" || w.taker >= 0 || w.sub || w.text == "--" })
}

// pointer is the place of a word of the configuration: the first that says the
// same. "" when the adapter has added it.
func (l line) pointer(text string) string {
	args, key := l.cli.Args, "args"
	if l.fast {
		args, key = l.cli.FastArgs, "fast_args"
	}
	says := func(s string) bool {
		short := len(text) == 2 && text != "--"
		return s == text || isFlag(text) && (strings.HasPrefix(s, text+"=") || short && strings.HasPrefix(s, text))
	}
	if i := slices.IndexFunc(args, says); i >= 0 {
		return fmt.Sprintf("%s.%s[%d]", l.at, key, i)
	}
	if i := slices.IndexFunc(l.cli.Command[1:], says); i >= 0 {
		return fmt.Sprintf("%s.command[%d]", l.at, i+1)
	}
	return ""
}
