package preflight

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// flags checks every flag of a command line against the help of the program.
// It returns the words as the program will read them.
func (e *Examiner) flags(ctx context.Context, l line, s *subject, rep *Report) []word {
	args := l.Argv[1:]
	if s.unchecked != "" {
		words := levels(args, nil)
		read(words, nil)
		note(l, words, nil, rep)
		return words
	}
	asks := s.profile.Help(args)
	subs := asks[:slices.IndexFunc(append(slices.Clone(asks), "-"), func(w string) bool { return strings.HasPrefix(w, "-") })]
	words := levels(args, subs)
	helps := map[int]help{}
	for i, w := range words {
		if w.text == "--" {
			break
		}
		if _, have := helps[w.level]; have || !isFlag(w.text) && i < len(words)-1 {
			continue
		}
		h, why := e.help(ctx, l, s, subs[:w.level], asks[len(subs):])
		if why != "" {
			if rep.Unchecked == "" {
				rep.Unchecked = why
				rep.add(Note, "", "", "flags are not checked: "+why)
			}
			continue
		}
		helps[w.level] = h
		s.helps = append(s.helps, h)
	}
	read(words, helps)
	note(l, words, helps, rep)
	s.judge(l, words, helps, rep)
	return words
}

// help asks the program for the help of a subcommand; why says what is wrong
// with that.
func (e *Examiner) help(ctx context.Context, l line, s *subject, subs, asks []string) (h help, why string) {
	args := slices.Concat(subs, asks)
	command := strings.Join(append([]string{filepath.Base(s.path)}, args...), " ")
	bound := e.patience(s.adapter)
	said := e.ask(ctx, s.path, l, bound, true, args...)
	if said.err != nil {
		return h, fmt.Sprintf("%s gave no help: %s", command, said.why(bound))
	}
	h = parseHelp(said.out)
	if len(h.flags) == 0 {
		return h, command + " lists no flag"
	}
	h.command, h.after = command, strings.Join(subs, " ")
	for _, name := range s.profile.Hidden {
		if _, listed := h.flags[name]; !listed {
			h.flags[name] = takesUnknown
		}
	}
	return h, ""
}

// note puts the flags into the report.
func note(l line, words []word, helps map[int]help, rep *Report) {
	for _, w := range words {
		if w.flag == "" {
			continue
		}
		state := FlagUnknown
		if _, checked := helps[w.level]; !checked {
			state = FlagNotChecked
		} else if w.known {
			state = FlagKnown
		}
		rep.flag(Flag{w.flag, state, l.pointer(w.flag)})
	}
}

// judge says what is wrong with the flags.
func (s *subject) judge(l line, words []word, helps map[int]help, rep *Report) {
	for i, w := range words {
		h, checked := helps[w.level]
		if !checked {
			continue
		}
		switch at := l.pointer(w.flag); {
		case w.flag == "":
			if w.taker >= 0 {
				s.swallowed(l, words, i, h, rep)
			}
		case !w.known:
			message := fmt.Sprintf("%s does not know %s", s.name(), w.flag)
			if s.elsewhere(w.flag) {
				message += fmt.Sprintf(" after %q", h.after)
			}
			near := h.nearest(w.flag)
			switch {
			case at == "":
				rep.add(s.severity, at, fmt.Sprintf(`update %s, or set "adapter": "generic" in %s and write all flags there`, s.adapter.Name(), l.at),
					message+", which superloop adds to the command")
			case s.profile.Replaced[w.flag] != "":
				rep.add(s.severity, at, "write "+s.profile.Replaced[w.flag]+" instead", message)
			case near != "":
				rep.add(s.severity, at, "did you mean "+near+"?", message)
			default:
				rep.add(s.severity, at, "take it out, or see what it knows: "+h.command, message)
			}
		case w.hungry:
			rep.add(s.severity, at, "write "+oneWord(w.flag)+", or take it out", fmt.Sprintf("%s wants a value, and is the last word of the command", w.flag))
		}
	}
}

// elsewhere reports whether the program knows the flag after another subcommand.
func (s *subject) elsewhere(flag string) bool {
	return slices.ContainsFunc(s.helps, func(h help) bool {
		_, ok := h.known(flag)
		return ok
	})
}

// swallowed looks whether a flag takes what is meant as the prompt: the prompt
// itself, or the dash that stands for standard input.
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

// oneWord is a flag with its value as no CLI can misread it.
func oneWord(flag string) string {
	if strings.HasPrefix(flag, "--") {
		return flag + "=VALUE"
	}
	return flag + "VALUE"
}
