package inputs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// call is one call of a program with its arguments, in one directory.
type call struct {
	*reader
	name  string // the name of the program in the table
	args  []string
	dir   string
	depth int
}

// in returns a copy of the call that runs in another directory.
func (c call) in(dir string) call {
	c.dir = dir
	return c
}

// sequence reads commands one after another. A cd among them adds a directory and never removes one, because sequence
// does not know which commands run in a subshell. A wrapper that Unwrap removes may be a script of the repository, such
// as ./retry; sequence reads it, too.
func (r *reader) sequence(dirs []string, commands [][]string, depth int) {
	for _, argv := range commands {
		rest := Unwrap(argv)
		if len(rest) > 0 && (rest[0] == "cd" || rest[0] == "pushd") {
			dirs = r.changeDir(dirs, rest[1:])
			continue
		}
		for _, dir := range dirs {
			for _, word := range argv[:len(argv)-len(rest)] {
				if strings.Contains(word, "/") {
					r.command(dir, []string{word}, depth)
				}
			}
			if len(rest) > 0 {
				r.command(dir, rest, depth)
			}
		}
	}
}

func (r *reader) changeDir(dirs, args []string) []string {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(args) == 0 {
		return dirs
	}
	out := slices.Clone(dirs)
	for i, dir := range dirs {
		to, ok := r.path(dir, args[0])
		if !ok {
			to = "." // unknown, or outside of the repository: later commands may run at the top
		}
		if i > 0 && r.is(to) != directory {
			continue // a directory that a script makes lies below the one where it begins
		}
		switch {
		case slices.Contains(out, to):
		case len(out) < maxDirs:
			out = append(out, to)
		default:
			r.beyond(".", "directories", "the command", "it changes to more than %d directories", maxDirs)
		}
	}
	return out
}

// path resolves a word of the command, seen from dir, to a path relative to the repository.
func (r *reader) path(dir, word string) (string, bool) {
	if word == "" || strings.Contains(word, Unknown) {
		return "", false
	}
	return Inside(r.query.Repo, dir, word)
}

// Inside resolves word, seen from the directory dir of the repository, to a path relative to the repository. An
// absolute word must lie below repo. ok is false if the path leads out of the repository or begins with "~".
func Inside(repo, dir, word string) (p string, ok bool) {
	if strings.HasPrefix(word, "~") || strings.IndexByte(word, 0) >= 0 {
		return "", false
	}
	if path.IsAbs(word) {
		rest, ok := strings.CutPrefix(path.Clean(word), path.Clean(repo))
		if !ok || rest != "" && rest[0] != '/' {
			return "", false
		}
		return path.Join(".", rest), true
	}
	return below(dir, word)
}

// command finds the inputs of one simple command.
func (r *reader) command(dir string, argv []string, depth int) {
	if r.was(dir+"\x00"+strings.Join(argv, "\x00"), depth) {
		return
	}
	if depth > maxDepth {
		r.deep(".", "the command")
		return
	}
	if r.steps--; r.steps < 0 {
		r.lose(".", "the command", fmt.Errorf("its scripts run more than %d commands", maxSteps))
		return
	}
	c := call{reader: r, name: programName(argv[0]), args: argv[1:], dir: dir, depth: depth}
	c.outside(argv[0])
	if p, ok := r.path(dir, argv[0]); ok && strings.Contains(argv[0], "/") {
		c.scriptAt(p, false)
	}
	if options, ok := interprets(c.name); ok {
		c.interpreter(options)
	}
	p, ok := r.programs[c.name]
	if !ok {
		return
	}
	for _, d := range c.directories(p) {
		c.in(d).program(p)
	}
}

// program adds the files that a row of the table names.
func (c call) program(p program) {
	dirs := []string{c.dir}
	if p.up {
		dirs = upwards(c.dir)
	}
	if p.members != nil {
		for _, d := range slices.Clone(dirs) {
			dirs = append(dirs, c.membersOf(p, d)...)
		}
		slices.Sort(dirs)
		dirs = slices.Compact(dirs)
	}
	for _, s := range p.sources {
		if s.when != nil && !s.when(c) {
			continue
		}
		for _, d := range dirs {
			for _, file := range c.expand(d, s.pattern) {
				c.source(file, s)
			}
		}
	}
	for _, f := range c.values(p.reads...) {
		c.named(f)
	}
	if p.also != nil {
		p.also(c, dirs)
	}
}

// membersOf returns the members of a workspace. It computes them once for each program and directory.
func (c call) membersOf(p program, dir string) []string {
	k := key{c.name, dir}
	list, ok := c.members[k]
	if !ok {
		list = p.members(c, dir)
		c.members[k] = list
	}
	return list
}

// source adds a file whole, or the parts of it that its row in the table selects.
func (c call) source(file string, s source) {
	if s.parts == nil {
		c.whole(file, c.name)
	} else if text := c.open(file, c.name); text != nil {
		parts, ok := s.parts(text)
		if !ok {
			c.whole(file, c.name)
		}
		for _, p := range parts {
			c.text(file, p.name, c.name, p.text)
		}
	}
}

// directories returns the directory of the call and the directories that options such as -C name.
func (c call) directories(p program) []string {
	out := []string{c.dir}
	for _, value := range c.values(p.chdir...) {
		to, ok := c.path(c.dir, value)
		if ok && c.is(to) == regular {
			to = path.Dir(to) // the option named a file, as --manifest-path and mvn -f do
		}
		if ok && !slices.Contains(out, to) {
			out = append(out, to)
		}
	}
	return out
}

func (c call) values(options ...string) []string { return Values(c.args, options) }

// Values returns the values of the given options in args. It understands "-C dir", "-Cdir", "--dir dir" and
// "--dir=dir".
func Values(args, options []string) []string {
	var out []string
	for i, a := range args {
		for _, o := range options {
			switch {
			case a == o:
				if i+1 < len(args) {
					out = append(out, args[i+1])
				}
			case strings.HasPrefix(a, o+"="):
				out = append(out, a[len(o)+1:])
			case len(o) == 2 && len(a) > 2 && strings.HasPrefix(a, o):
				out = append(out, a[2:])
			}
		}
	}
	return out
}

// named adds the file that the word names, whole.
func (c call) named(word string) {
	if p, ok := c.path(c.dir, word); ok {
		c.whole(p, c.name)
	}
}

func (c call) words() []string { return Operands(c.args) }

// Operands returns the arguments that are not options. All arguments after "--" are operands.
func Operands(args []string) []string {
	var out []string
	for i, a := range args {
		if a == "--" {
			return append(out, args[i+1:]...)
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			out = append(out, a)
		}
	}
	return out
}

// has reports whether the arguments contain one of the options. An option with the value "false" does not count.
func (c call) has(options ...string) bool {
	return slices.ContainsFunc(c.args, func(a string) bool {
		name, value, _ := strings.Cut(a, "=")
		return slices.Contains(options, name) && value != "false"
	})
}

// programName returns the name of a program in the table: without directory and version ("python3.12" is "python").
func programName(word string) string {
	name := path.Base(word)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".cmd"), ".exe")
	for _, family := range []string{"python", "pip", "ruby", "php", "perl", "lua", "node", "gem"} {
		if rest, ok := strings.CutPrefix(name, family); ok && strings.Trim(rest, "0123456789.-") == "" {
			return family
		}
	}
	usual := map[string]string{"gmake": "make", "bmake": "make", "nodejs": "node", "mvnw": "mvn", "mvnd": "mvn", "gradlew": "gradle",
		"bundler": "bundle", "composer.phar": "composer"}
	return cmp.Or(usual[name], name)
}

// Unwrap removes from the front of a command the words that only run the rest: assignments, shell keywords, and
// wrappers such as env, time and timeout with their options.
func Unwrap(argv []string) []string {
	for len(argv) > 0 {
		switch name := path.Base(argv[0]); {
		case assignment(argv[0]), among(name, "if then else elif do while until ! { } fi done time exec command builtin eval nohup setsid exit return"):
			argv = argv[1:]
		case among(name, "env sudo doas nice ionice stdbuf timeout cross-env dotenv xargs chronic retry"):
			argv = argv[1:]
			for len(argv) > 0 && (strings.HasPrefix(argv[0], "-") || assignment(argv[0]) || argv[0] != "" && strings.Trim(argv[0], "0123456789.smhd") == "") {
				argv = argv[1:]
			}
		default:
			return argv
		}
	}
	return nil
}

func assignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+[]") == ""
}
