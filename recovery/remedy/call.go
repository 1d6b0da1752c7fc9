package remedy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// call is a program with its arguments. An entry such as "pip install" or "mvn !deploy" names calls, see names.
type call struct {
	program string   // without its directory; "" if the program is a file of the repository, or one that superloop cannot name
	args    []string // with "python -m pip install" those of pip
	at      int      // the place of the first of args in the words of the command
}

// wrappers are the programs that directly run the rest of their words and change nothing about them.
var wrappers = []string{"sudo", "env", "nice", "nohup", "time", "command"}

// callOf reads a command that runs without a shell. It looks through wrappers without options of their own ("sudo -n"
// and NAME=value words of env are none), and through "python -m".
func callOf(argv []string) call {
	i := 0
	for i < len(argv) && slices.Contains(wrappers, argv[i]) {
		wrapper := argv[i]
		for i++; i < len(argv) && (wrapper == "sudo" && argv[i] == "-n" || wrapper == "env" && isAssignment(argv[i])); {
			i++
		}
	}
	if i == len(argv) {
		return call{at: i}
	}
	c := call{program: named(argv[i]), args: argv[i+1:], at: i + 1}
	if c.program == "python" && len(c.args) > 1 && c.args[0] == "-m" {
		c = call{program: named(c.args[1]), args: c.args[2:], at: c.at + 2}
	}
	return c
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsAny(name, "-/.")
}

// named returns the name of a program, or "" if its path may lead to a program of the repository. Of those it knows the
// wrappers of Gradle and Maven, and the programs of a virtual environment and of node_modules, by their usual paths. It
// takes the version from the names of python and pip.
func named(program string) string {
	dir, name := path.Split(program)
	switch {
	case dir == "", slices.Contains([]string{"/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"}, dir):
	case dir == "./" && (name == "gradlew" || name == "mvnw"):
	case slices.Contains([]string{".venv/bin/", "venv/bin/", "./.venv/bin/", "./venv/bin/", "node_modules/.bin/", "./node_modules/.bin/"}, dir):
	default:
		return ""
	}
	switch bare := strings.TrimRight(name, "0123456789."); bare {
	case "python", "pip":
		return bare
	}
	return name
}

// names reports whether an entry names the call. The entry holds the program, and the words with which its arguments
// must begin. "." says that the call has no operand, "!x" that no argument before a "--" matches the glob x, and "!~xy"
// that no bundle of short options holds one of the letters x and y. skip holds options that may stand before the words;
// an option that ends in "=" has a value, which may be the next word.
func (c call) names(entry string, skip []string) bool {
	want := strings.Fields(entry)
	if len(want) == 0 || c.program == "" || want[0] != c.program {
		return false
	}
	own := c.args
	if end := slices.Index(own, "--"); end >= 0 {
		own = own[:end]
	}
	rest := afterOptions(own, skip)
	for _, w := range want[1:] {
		letters, bundles := strings.CutPrefix(w, "!~")
		glob, forbids := strings.CutPrefix(w, "!")
		switch {
		case bundles && slices.ContainsFunc(own, func(a string) bool {
			return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a[1:], letters)
		}),
			!bundles && forbids && slices.ContainsFunc(own, func(a string) bool { return globs(glob, a) }),
			w == "." && slices.ContainsFunc(rest, func(a string) bool { return !strings.HasPrefix(a, "-") }):
			return false
		case forbids || w == ".":
		case len(rest) == 0 || rest[0] != w:
			return false
		default:
			rest = rest[1:]
		}
	}
	return true
}

func globs(glob, word string) bool {
	ok, err := filepath.Match(strings.ReplaceAll(glob, "/", ":"), strings.ReplaceAll(word, "/", ":"))
	return ok || err != nil
}

// afterOptions returns the words from the first on that is not one of the options.
func afterOptions(args, options []string) []string {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, _, inline := strings.Cut(args[0], "=")
		switch {
		case slices.Contains(options, args[0]), inline && slices.Contains(options, name+"="):
			args = args[1:]
		case slices.Contains(options, name+"=") && len(args) > 1:
			args = args[2:]
		default:
			return args
		}
	}
	return args
}
