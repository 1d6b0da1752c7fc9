package inputs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

const (
	maxScript   = 1 << 20 // bytes of a shell text that is searched for commands
	maxCommands = 500     // simple commands of one text that are read
)

// scriptAt adds a file that a command executes. If the file is a shell script, scriptAt also reads its commands; shell
// says that the file is one, whatever its content.
func (c call) scriptAt(p string, shell bool) {
	// Installed files change with every installation. They are inputs only if the listed command names them itself.
	if c.depth > 0 && slices.Contains(strings.Split(p, "/"), "node_modules") {
		return
	}
	text, ok := c.whole(p, c.name)
	if !ok || text.text == nil || len(text.text) > maxScript || !shell && !forShell(p, text.text) {
		return
	}
	// Shell scripts often begin with a cd to their own directory, or to the one above.
	dirs := []string{c.dir}
	for _, d := range []string{path.Dir(p), path.Dir(path.Dir(p)), "."} {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	c.sequence(dirs, split(string(text.text)), c.depth+1)
}

// shellText reads the commands of a shell text from another file, such as a makefile.
func (c call) shellText(text string) {
	if len(text) <= maxScript {
		c.sequence([]string{c.dir}, split(text), c.depth+1)
	}
}

func forShell(p string, text []byte) bool {
	switch path.Ext(p) {
	case ".sh", ".bash", ".zsh", ".ksh":
		return true
	}
	first, _, _ := strings.Cut(string(text[:min(len(text), 200)]), "\n")
	first = strings.TrimSpace(first)
	return strings.HasPrefix(first, "#!") && (strings.HasSuffix(first, "sh") || strings.Contains(first, "sh "))
}

// split finds the simple commands of a shell text, roughly. It understands quotes, operators, comments and
// redirections, replaces expansions by Unknown, and treats a command in a substitution or a function like any other.
// split serves to find file names; no decision about a command may rest on it.
func split(text string) [][]string {
	var (
		out  [][]string
		argv []string
		word strings.Builder
		in   bool // a word has begun
		skip bool // the next word is the target of a redirection
	)
	endWord := func() {
		if in && !skip {
			argv = append(argv, word.String())
		}
		if in {
			skip = false
		}
		word.Reset()
		in = false
	}
	end := func() {
		endWord()
		skip = false
		if len(argv) > 0 && len(out) < maxCommands {
			out = append(out, argv)
		}
		argv = nil
	}
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
				in = true
			}
		case c == '\'' && !quoted:
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				n = len(text) - i - 1
			}
			word.WriteString(text[i+1 : i+1+n])
			in = true
			i += n + 1
		case c == '"':
			quoted = !quoted
			in = true
		case c == '`' && !quoted: // the text in the backticks is a command of its own
			end()
		case c == '$' || c == '`':
			in = true
			word.WriteString(Unknown)
			i += expansion(text[i:]) - 1
			if text[i] == '(' && !quoted {
				end()
			}
		case quoted:
			word.WriteByte(c)
		case c == ' ' || c == '\t' || c == '\r':
			endWord()
		case c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')':
			end()
		case c == '<' || c == '>':
			if strings.Trim(word.String(), "0123456789") == "" { // a file descriptor, as in 2>file
				word.Reset()
				in = false
			}
			endWord()
			for i+1 < len(text) && strings.IndexByte("<>&|-", text[i+1]) >= 0 {
				i++
			}
			skip = true
		case c == '#' && !in:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		default:
			word.WriteByte(c)
			in = true
		}
	}
	end()
	return out
}

// expansion returns the length of the expansion that begins with $ or a backtick. For a command substitution it returns
// only the length of the opening, since split reads the inside as commands.
func expansion(s string) int {
	if s[0] == '`' || len(s) == 1 {
		return 1
	}
	switch c := s[1]; {
	case c == '(':
		return 2
	case c == '{':
		if n := strings.IndexByte(s, '}'); n > 0 {
			return n + 1
		}
		return 2
	case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		n := 1
		for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' && s[n] <= '9') {
			n++
		}
		return n
	}
	return 2
}

// interprets reports whether a program executes the file that its arguments name. options lists the options whose value
// is the next word; this word may be an executed file, too.
func interprets(name string) (options string, ok bool) {
	switch name {
	case "node", "tsx", "ts-node", "esno", "jiti", "bun":
		options = "-r --require --import --loader --experimental-loader --env-file -C --conditions --preload --tsconfig -P --project --cwd --config -c"
	case "deno":
		options = "--import-map --config -c --lock --env-file"
	case "python", "pypy", "pypy3":
		options = "-W -X"
	case "ruby":
		options = "-r -I -C"
	case "perl":
		options = "-I"
	case "php":
		options = "-c -d -f"
	case "awk", "gawk", "sed":
		options = "-f --file"
	case "java":
		options = "-jar -cp -classpath -p"
	case "bash", "sh", "zsh", "dash", "ksh":
		options = "--rcfile --init-file -o +o -O +O"
	default:
		return "", among(name, "ash mksh fish . source lua luajit Rscript pwsh osascript tclsh groovy kotlin swift julia elixir")
	}
	return options, true
}

// among reports whether the word is in a list of words that are separated by spaces.
func among(word, list string) bool { return slices.Contains(strings.Fields(list), word) }

// interpreter adds the files that an interpreter executes: the file that is its first operand, and the files that its
// options load.
func (c call) interpreter(options string) {
	if c.strict() {
		for _, a := range c.args { // every file of the repository that it may read
			if p, ok := c.path(c.dir, a); ok && c.is(p) == regular {
				c.whole(p, c.name)
			}
		}
	}
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a == "-m" && (c.name == "python" || strings.HasPrefix(c.name, "pypy")):
			if i+1 < len(c.args) {
				c.module(c.args[i+1], c.args[i+2:])
			}
			return
		case among(a, options):
			if i++; i < len(c.args) {
				c.operand(c.args[i])
			}
		case strings.HasPrefix(a, "-") && a != "-":
			if _, value, ok := strings.Cut(a, "="); ok {
				c.operand(value)
			}
		case (c.name == "deno" || c.name == "bun") && (a == "run" || a == "test" || a == "task" || a == "serve"):
		case c.name == "awk" || c.name == "gawk" || c.name == "sed":
			return // the first operand is code, the others are data
		default:
			c.operand(a)
			return
		}
	}
}

// operand adds the script that the interpreter would find for a word.
func (c call) operand(word string) {
	p, ok := c.path(c.dir, word)
	if !ok {
		return
	}
	tries := []string{p}
	switch c.name {
	case "node", "tsx", "ts-node", "esno", "jiti":
		tries = append(tries, p+".js", p+".cjs", p+".mjs", p+".ts", path.Join(p, "index.js"), path.Join(p, "package.json"))
	case "python", "pypy", "pypy3":
		tries = append(tries, path.Join(p, "__main__.py"))
	}
	for _, t := range tries {
		if k := c.is(t); k == regular || k == link || k == odd {
			c.scriptAt(t, among(c.name, "sh bash dash ash zsh ksh mksh . source"))
			return
		}
	}
}

// module reads "python -m". Python looks for the module first in the directory where it is called, so a file of that
// name there replaces the installed module.
func (c call) module(name string, args []string) {
	if strings.Contains(name, Unknown) {
		return
	}
	p, ok := c.path(c.dir, strings.ReplaceAll(name, ".", "/"))
	if !ok {
		return
	}
	for _, file := range []string{p + ".py", path.Join(p, "__init__.py"), path.Join(p, "__main__.py")} {
		c.whole(file, "python -m "+name)
	}
	if c.depth < maxDepth {
		c.command(c.dir, append([]string{name}, args...), c.depth+1)
	}
}

// Program is the program that the first word of a command runs.
type Program struct {
	Path    string // the absolute path with links resolved; "" for a builtin of bash
	Inside  bool   // the program is a file of the repository, and so one of the pinned inputs
	Builtin bool   // the word is a builtin of bash
}

// ResolveError says why a program may not run without an operator.
type ResolveError struct {
	Name string
	File string // the file that was found; "" if none was
	Why  string
	Hint string // a command or an action for the operator, or ""
}

func (e *ResolveError) Error() string {
	s := fmt.Sprintf("the program %s ", visible(e.Name))
	if e.File != "" && e.File != e.Name {
		s += "is " + visible(e.File) + ", which "
	}
	s += e.Why
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Resolve finds the program that bash would run for the first word of a command. It looks a name up in PATH, whose
// entries must be absolute. The first file found must lie outside of the repository. The file that its links lead to
// must not be writable by its group or by others. No directory above either file may be writable by everybody, unless
// it is sticky. Otherwise another user could replace the program. Resolve takes a word with a slash as a path, relative
// to dir. Such a path may lie in the repository, where the pinned inputs cover it (Program.Inside). Every refusal is a
// *ResolveError.
func Resolve(argv0, dir, searchPath, repo string) (Program, error) {
	if builtin(argv0) {
		return Program{Builtin: true}, nil
	}
	refuse := func(file, why, hint string) (Program, error) {
		return Program{}, &ResolveError{Name: argv0, File: file, Why: why, Hint: hint}
	}
	top, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return Program{}, fmt.Errorf("finding the program %q: %w", argv0, err)
	}
	if argv0 == "" || strings.IndexByte(argv0, 0) >= 0 || strings.Contains(argv0, Unknown) {
		return refuse("", "is not written out", "")
	}
	file := argv0
	if strings.Contains(argv0, "/") {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
	} else if file = search(argv0, searchPath); file == "" {
		return refuse("", "was not found in PATH="+visible(searchPath), "")
	} else if !filepath.IsAbs(file) {
		return refuse("", "would be looked for in the directory where the command runs: PATH has an entry that is not absolute", "take it out of PATH")
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return refuse(file, "cannot be followed: "+err.Error(), "")
	}
	for _, f := range []string{file, real} {
		if within(f, top) || within(f, repo) {
			if strings.Contains(argv0, "/") {
				return Program{Path: real, Inside: true}, nil
			}
			return refuse(f, "lies in the repository, where an agent can write", "take its directory out of PATH")
		}
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return refuse(file, "cannot be looked at: "+err.Error(), "")
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return refuse(file, "is not an executable file", "")
	case info.Mode()&0o022 != 0:
		return refuse(real, "can be changed by its group or by others", "chmod go-w "+text.Word(real))
	}
	for _, f := range []string{file, real} {
		for d := filepath.Dir(f); ; d = filepath.Dir(d) {
			info, err := os.Stat(d)
			if err != nil {
				return refuse(file, "cannot be looked at: "+err.Error(), "")
			}
			if info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
				return refuse(file, "lies below "+visible(d)+", where everybody can put another in its place", "chmod o-w "+text.Word(d))
			}
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	return Program{Path: real}, nil
}

// search returns the file that bash finds first in searchPath. It returns a relative path if it meets a relative entry
// before.
func search(name, searchPath string) string {
	for _, d := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(d) {
			return filepath.Join(".", d, name)
		}
		f := filepath.Join(d, name)
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return f
		}
	}
	return ""
}

func within(file, dir string) bool {
	rel, err := filepath.Rel(dir, file)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// builtin reports whether a name is a builtin of bash.
func builtin(name string) bool {
	return among(name, ": . [ [[ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable eval exec exit"+
		" export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt"+
		" source suspend test times trap true type typeset ulimit umask unalias unset wait")
}
