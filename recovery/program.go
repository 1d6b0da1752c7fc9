package recovery

import (
	"slices"
	"strings"
)

// program finds the commands among the words of one program. name is the name of the program in ws[0], without its
// path.
func (r *reader) program(name string, ws []word, text string, depth int) {
	c := call{r, name, ws[1:], text, depth}
	if listed(privilegedPrograms, name) {
		r.privileged(text)
	}
	if name == "superloop" {
		r.state(text)
	}
	c.ownCode()
	for _, w := range wrappers {
		if listed(w.programs, name) {
			c.wrapped(w)
			return
		}
	}
	switch name {
	case "sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "yash", "posh", "oksh":
		c.shell()
	case "find", "gfind":
		c.find()
	case "su", "runuser", "sg":
		c.switchUser()
	case "script":
		c.script()
	case "busybox", "toybox":
		if len(c.args) > 0 {
			c.inner(c.args)
		}
	case "git":
		c.git()
	case "npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun", "bundle", "poetry", "pipenv", "uv", "uvx", "pipx", "corepack",
		"rbenv", "pyenv", "nodenv", "fnm", "volta", "conda", "mamba", "micromamba", "hatch", "pdm", "rye":
		c.packageManager()
	default:
		if c.builtin() || c.interpreter() {
			return
		}
		c.known()
	}
}

// privilegedPrograms run commands with other rights.
const privilegedPrograms = "sudo sudoedit doas su pkexec " +
	"runuser run0 sg gosu su-exec machinectl kdesu gksu gksudo calife super please sudo-rs"

// listed reports whether a word is one of those in list, which are separated by single blanks.
func listed(list, word string) bool {
	return word != "" && !strings.Contains(word, " ") && strings.Contains(" "+list+" ", " "+word+" ")
}

// call is one program with its arguments.
type call struct {
	*reader
	name  string
	args  []word
	text  string
	depth int
}

func (c call) unclear(why string) { c.opaque(why, c.text) }

// inner reads words as a command that this program runs.
func (c call) inner(ws []word) { c.command(ws, show(ws), c.depth+1) }

// body reads a text that this program passes to a shell.
func (c call) body(w word) {
	if !w.known {
		c.unclear(c.name + " gets a script that is not written out")
		return
	}
	c.reader.script(w.text, c.depth+1)
}

// has reports whether an argument is one of the given words, or an option of that name with a value behind "=".
func (c call) has(words ...string) bool {
	for _, a := range c.args {
		name, _, _ := strings.Cut(a.text, "=")
		for _, w := range words {
			if a.text == w || strings.HasPrefix(w, "-") && name == w {
				return true
			}
		}
	}
	return false
}

// anyUnknown reports whether the text of an argument is not fully known.
func (c call) anyUnknown() bool {
	return slices.ContainsFunc(c.args, func(a word) bool { return !a.known })
}

// option is an option of a command line with its value.
type option struct {
	name  string // "-c", "--command"
	value word
}

// grammar describes the options of a program. short has the form of getopt ("ab:" means -a, and -b with a value). long
// holds names, with ":" behind the name of an option whose value may be the next word.
type grammar struct{ short, long string }

// split divides arguments into options and the words that follow them. ok is false if an option is not in the grammar,
// or if its text is not known, because then the end of the options is unknown. permute allows options after operands.
func (g grammar) split(args []word, permute bool) (options []option, rest []word, ok bool) {
	long := " " + g.long + " "
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !a.known && (a.many || a.mayBeOption()) {
			return options, nil, false
		}
		switch {
		case a.known && a.text == "--":
			return options, append(rest, args[i+1:]...), true
		case strings.HasPrefix(a.text, "--"):
			name, value, inline := strings.Cut(a.text, "=")
			switch {
			case strings.Contains(long, " "+name[2:]+": "):
				if !inline {
					if i++; i == len(args) || args[i].many {
						return options, nil, false // no value, or an unknown number of words
					}
					options = append(options, option{name, args[i]})
					continue
				}
				fallthrough
			case strings.Contains(long, " "+name[2:]+" "):
				options = append(options, option{name, word{text: value, known: a.known}})
			default:
				return options, nil, false
			}
		case isOption(a.text):
			used, good := g.bundle(a, args[i+1:], &options)
			if !good {
				return options, nil, false
			}
			i += used
		default:
			if !permute {
				return options, args[i:], true
			}
			rest = append(rest, a)
		}
	}
	return options, rest, true
}

// bundle reads a word such as -abVALUE and returns how many of the next words belong to it.
func (g grammar) bundle(a word, next []word, options *[]option) (used int, ok bool) {
	for j := 1; j < len(a.text); j++ {
		letter := a.text[j]
		at := strings.IndexByte(g.short, letter)
		if letter == ':' || at < 0 {
			return 0, false
		}
		name := "-" + string(letter)
		if at+1 == len(g.short) || g.short[at+1] != ':' {
			*options = append(*options, option{name: name})
			continue
		}
		if j+1 < len(a.text) {
			*options = append(*options, option{name, word{text: a.text[j+1:], known: a.known}})
			return 0, true
		}
		if len(next) == 0 || next[0].many {
			return 0, false
		}
		*options = append(*options, option{name, next[0]})
		return 1, true
	}
	return 0, true
}

// find returns the value of the last option that has one of these names.
func find(options []option, names ...string) (word, bool) {
	for _, o := range slices.Backward(options) {
		if slices.Contains(names, o.name) {
			return o.value, true
		}
	}
	return word{}, false
}
