package preflight

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// flags checks every flag against the help of the program. It returns the words of the command line as the program will
// parse them.
func (e *Examiner) flags(ctx context.Context, l line, s *subject, rep *Report) []word {
	args := l.Argv[1:]
	var subs []string
	if s.unchecked == "" {
		subs = s.adapter.Profile().Help(args)
	}
	words := levels(args, subs)
	helps := map[int]help{}
	for i, w := range words {
		if s.unchecked != "" || w.text == "--" {
			break
		}
		if _, have := helps[w.level]; have || !isFlag(w.text) && i < len(words)-1 {
			continue
		}
		h, why := e.help(ctx, l, s, subs[:w.level])
		switch {
		case why == "":
			helps[w.level] = h
			s.helps = append(s.helps, h)
		case rep.Unchecked == "":
			rep.Unchecked = why
			rep.add(Note, "", "", "flags are not checked: "+why)
		}
	}
	read(words, helps)
	s.judge(l, words, helps, rep)
	return words
}

// help asks the program for the help of a subcommand. why says why the help is unusable; "" if it is usable.
func (e *Examiner) help(ctx context.Context, l line, s *subject, subs []string) (h help, why string) {
	args := append(slices.Clone(subs), "--help")
	command := strings.Join(append([]string{filepath.Base(s.path)}, args...), " ")
	said := e.ask(ctx, s, l, true, args...)
	if said.err != nil {
		return h, fmt.Sprintf("%s gave no help: %s", command, said.why())
	}
	h = parseHelp(said.out)
	if len(h.flags) == 0 {
		return h, command + " lists no flag"
	}
	h.command, h.after = command, strings.Join(subs, " ")
	for _, name := range s.adapter.Profile().Hidden {
		if _, listed := h.flags[name]; !listed {
			h.flags[name] = takesUnknown
		}
	}
	return h, ""
}

// judge adds the flags to the report, and a finding for each problem with a flag.
func (s *subject) judge(l line, words []word, helps map[int]help, rep *Report) {
	for i, w := range words {
		h, checked := helps[w.level]
		at := l.pointer(w.flag)
		switch {
		case w.flag == "" && checked && w.taker >= 0:
			s.swallowed(l, words, i, h, rep)
		case w.flag == "":
		case !checked:
			rep.flag(Flag{w.flag, FlagNotChecked, at})
		case w.known:
			rep.flag(Flag{w.flag, FlagKnown, at})
			if w.hungry {
				rep.add(s.severity, at, "write "+oneWord(w.flag)+", or take it out", w.flag+" wants a value, and is the last word of the command")
			}
		default:
			rep.flag(Flag{w.flag, FlagUnknown, at})
			message := fmt.Sprintf("%s does not know %s", s.name(), w.flag)
			elsewhere := func(h help) bool {
				_, ok := h.known(w.flag)
				return ok
			}
			if slices.ContainsFunc(s.helps, elsewhere) {
				message += fmt.Sprintf(" after %q", h.after)
			}
			fix := "take it out, or see what it knows: " + h.command
			if near := h.nearest(w.flag); near != "" {
				fix = "did you mean " + near + "?"
			}
			if instead := s.adapter.Profile().Replaced[w.flag]; instead != "" {
				fix = "write " + instead + " instead"
			}
			if at == "" {
				message += ", which superloop adds to the command"
				fix = fmt.Sprintf(`update %s, or set "adapter": "generic" in %s and write all flags there`, s.adapter.Name(), l.at)
			}
			rep.add(s.severity, at, fix, message)
		}
	}
}

// swallowed checks whether a flag takes the prompt, or the "-" for standard input, as its value.
func (s *subject) swallowed(l line, words []word, i int, h help, rep *Report) {
	flag := words[words[i].taker].flag
	t, _ := h.known(flag)
	_, prompts := h.flags["--prompt"]
	what := ""
	switch {
	case t == takesUnknown, prompts && slices.Contains([]string{"-p", "--prompt", "-i", "--prompt-interactive"}, flag):
		return
	case l.prompt != "" && words[i].text == l.prompt:
		what = "the prompt"
	case t == takesMany && words[i].text == "-":
		what = `the "-" that stands for standard input`
	default:
		return
	}
	rep.add(s.severity, l.pointer(flag), "write "+oneWord(flag)+", in one word", flag+" takes the words after it as its values, and so "+what)
}

// oneWord returns a flag with its value in one word, which no CLI can misread.
func oneWord(flag string) string {
	if strings.HasPrefix(flag, "--") {
		return flag + "=VALUE"
	}
	return flag + "VALUE"
}

// word is one word of a command line, after the program.
type word struct {
	text   string
	flag   string // the name of the flag without its value; "" if the word is no flag
	known  bool
	value  string // the value of the flag, from the same word or the next
	hungry bool   // the flag needs a value, but the command line ends
	taker  int    // index of the flag whose value this word is or may be; -1 if there is none
	level  int    // how many subcommands come before the word
	sub    bool   // the word itself is a subcommand
}

// levels counts for each word the subcommands before it, because a flag belongs to the command that it follows. If the
// words do not contain all of subs in order, the program knows a subcommand by another name. Then all words count as
// flags and arguments of the last subcommand.
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

// isFlag reports whether a word is written like a flag. "-" and "--" are no flags.
func isFlag(text string) bool { return len(text) > 1 && text[0] == '-' && text != "--" }

// read finds among the words up to "--" the flags and their values. helps are by level. Where a level has no help,
// every flag may take the next word.
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
		w.hungry = i+1 == len(words) && (t == takesOne || t == takesMany)
		for next := i + 1; next < len(words) && h.takes(t, words[next]); next++ {
			words[next].taker, w.value = i, words[next].text
			if t != takesMany {
				break
			}
		}
	}
}

// takes reports whether a flag takes the next word as its value.
func (h help) takes(t takes, next word) bool {
	switch {
	case t == takesOne && h.style == styleCommander:
		return true
	case t == takesMany:
		return !isFlag(next.text) && next.text != "--"
	}
	return !isFlag(next.text) && (t == takesOne || !next.sub)
}

// split splits a word into a flag and a value in the same word, and returns what the help says of the flag. "-mfast" is
// -m with a value if -m takes one. "-abc" is -a, -b and -c if all of them are known.
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

func has(words []word, flags ...string) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.flag != "" && slices.Contains(flags, w.flag) })
}

func valueOf(words []word, flags ...string) (value string) {
	for _, w := range words {
		if w.flag != "" && slices.Contains(flags, w.flag) {
			value = w.value
		}
	}
	return value
}

// free returns the words that are neither flags nor values nor subcommands.
func free(words []word) []word {
	return slices.DeleteFunc(slices.Clone(words), func(w word) bool { return w.flag != "" || w.taker >= 0 || w.sub || w.text == "--" })
}

// pointer returns the place in the configuration of the first word that equals text or begins with the flag text. It
// returns "" if the adapter added the word.
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
