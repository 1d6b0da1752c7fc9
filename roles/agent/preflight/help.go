package preflight

import (
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
)

type takes int

const (
	takesNone takes = iota
	takesOne
	takesMany    // every following word, up to the next flag
	takesMaybe   // one word, if the next word is no flag
	takesUnknown // the help does not say
)

// help holds what a program's help says of its flags.
type help struct {
	flags          map[string]takes
	command, after string // command prints the help; after are the subcommands whose flags it lists
	style          style  // the library that printed the help, which decides how a command line is parsed
}

type style int

const (
	styleUnknown style = iota
	styleClap
	styleCommander
	styleYargs
)

// parseHelp reads the flags from a help text, as clap, commander, yargs, argparse, pflag and Go's flag print it. It
// takes flags only from lines that define one, never from prose, because a description may mention a flag that no
// longer exists. Such a line begins with a dash at the smallest indentation of all lines that do. Where the lines at
// that indentation have only short flags, lines with long flags may begin four columns further right, as "-x, " is four
// characters. Descriptions that begin with a dash are indented further.
func parseHelp(said string) help {
	lines := strings.Split(text.Uncoloured(strings.ReplaceAll(said, "\r", "")), "\n")
	base, short, long := -1, false, false
	for _, l := range lines {
		n, ok := dashed(l)
		if ok && (base < 0 || n < base) {
			base, short, long = n, false, false
		}
		if ok && n == base {
			isLong := strings.HasPrefix(l[n:], "--")
			long, short = long || isLong, short || !isLong
		}
	}
	aligned := short && !long
	h := help{flags: map[string]takes{}, style: styleOf(said)}
	for i := 0; i < len(lines); i++ {
		n, ok := dashed(lines[i])
		if !ok || n != base && (!aligned || n != base+4) {
			continue
		}
		parts := gap().Split(lines[i][n:], 2) // the definition and its description
		for ; i+1 < len(lines) && continues(lines[i+1], base, aligned); i++ {
			parts = append(parts, strings.TrimSpace(lines[i+1]))
		}
		h.define(parts[0], strings.Join(parts[1:], "\n"))
	}
	return h
}

var (
	gap       = pattern.Lazy(`\t| {2,}`)
	flagStart = pattern.Lazy(`^--?(?:[a-zA-Z0-9?#]|\[no-\])`)
	aliases   = pattern.Lazy(`\[(?:short )?alias(?:es)?: ([^\]]*)\]`)
	capital   = pattern.Lazy(`[A-Z]`)
	kinds     = pattern.Lazy(`\[(boolean|string|number|array|count)\]`)
)

// dashed returns the indentation of a line, and whether the line begins with a flag.
func dashed(l string) (indent int, ok bool) {
	t := strings.TrimLeft(l, " \t")
	return len(l) - len(t), flagStart().MatchString(t)
}

// continues reports whether a line continues a description: it is indented and defines no flag.
func continues(l string, base int, aligned bool) bool {
	if n, ok := dashed(l); ok && (n == base || aligned && n == base+4) {
		return false
	}
	t := strings.TrimLeft(l, " \t")
	return t == "" || len(l)-len(t) > base
}

// define reads the names and the value from one definition, such as "-o, --output-format <FORMAT>".
func (h *help) define(definition, description string) {
	var names []string
	value := ""
	for _, word := range strings.FieldsFunc(definition, func(r rune) bool { return r == ' ' || r == ',' || r == '/' }) {
		if !strings.HasPrefix(word, "-") {
			value += word
			continue
		}
		for _, name := range strings.Split(word, "|") {
			plain, negatable := strings.CutPrefix(name, "--[no-]")
			if negatable {
				name = "--" + plain
			}
			if i := strings.IndexAny(name, "=[<"); i >= 0 {
				value += name[i:]
				name = name[:i]
			}
			name = strings.TrimSuffix(name, "...") // "..." says that the flag may be repeated
			names = append(names, name)
			if negatable {
				names = append(names, "--no-"+strings.TrimPrefix(name, "--"))
			}
		}
	}
	for _, m := range aliases().FindAllStringSubmatch(description, -1) {
		for name := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return r == ' ' || r == ',' }) {
			names = append(names, name)
		}
	}
	t := h.valueOf(value, description)
	for _, name := range names {
		if strings.HasPrefix(name, "-") && !strings.ContainsAny(name, "=\n") { // foreign text has "|" and brackets anywhere
			h.flags[name] = t
		}
	}
}

func (h *help) valueOf(value, description string) takes {
	kind := ""
	if m := kinds().FindStringSubmatch(description); m != nil && h.style == styleYargs {
		kind = m[1]
	}
	switch {
	case strings.Contains(value, "..."), value == "" && kind == "array":
		return takesMany
	case strings.HasPrefix(value, "["):
		return takesMaybe
	case value != "", kind == "string" || kind == "number":
		return takesOne
	case h.style == styleYargs && kind == "":
		return takesUnknown
	}
	return takesNone
}

func styleOf(text string) style {
	switch {
	case kinds().MatchString(text):
		return styleYargs
	case strings.Contains(text, "[OPTIONS]"):
		return styleClap
	case strings.Contains(text, "[options]"):
		return styleCommander
	}
	return styleUnknown
}

// known looks up a flag as it is written on a command line, without "=value".
func (h help) known(name string) (takes, bool) {
	if t, ok := h.flags[name]; ok {
		return t, true
	}
	if h.style == styleYargs && strings.HasPrefix(name, "--") {
		// yargs reads --approvalMode as --approval-mode, and --no-x as x=false.
		dashes := strings.ToLower(capital().ReplaceAllString(name, "-$0"))
		if t, ok := h.flags[dashes]; ok {
			return t, true
		}
		if plain, ok := strings.CutPrefix(dashes, "--no-"); ok {
			if t, ok := h.flags["--"+plain]; ok && t == takesNone {
				return takesNone, true
			}
		}
	}
	return takesNone, false
}

// nearest returns the known long flag that is most similar to name; "" if none is similar.
func (h help) nearest(name string) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(h.flags)), func(n string) bool { return len(n) <= 2 })
	return schemas.Nearest(name, names)
}
