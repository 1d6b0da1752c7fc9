package inputs

import (
	"path"
	"slices"
	"strings"
)

const (
	maxScript   = 1 << 20 // bytes of a shell text that is searched for commands
	maxCommands = 5_000   // simple commands of one text that are read
)

// scriptAt adds a file that a command executes. If the file is a shell script, scriptAt also reads its commands; shell
// says that the file is one, whatever its content.
func (c call) scriptAt(p string, shell bool) {
	// Installed files change with every installation. They are inputs only if the listed command names them itself.
	if c.depth > 0 && slices.Contains(strings.Split(p, "/"), "node_modules") {
		return
	}
	text, ok := c.whole(p, c.name)
	if !ok || !shell && !forShell(p, text.text) {
		return
	}
	// Shell scripts often begin with a cd to their own directory, or to the one above.
	dirs := []string{c.dir}
	for _, d := range []string{path.Dir(p), path.Dir(path.Dir(p)), "."} {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	c.commands(p, dirs, text)
}

// commands reads the commands of a shell text, which a file of the given name holds.
func (c call) commands(file string, dirs []string, text *content) {
	if text.text == nil && text.size <= maxText {
		return // only the digest is known, in a baseline; then the file has changed, or it was not listed
	}
	if max(text.size, int64(len(text.text))) > maxScript {
		c.beyond(file, "commands", c.name, "they are not read: it has more than %d KiB", maxScript>>10)
		return
	}
	list, more := split(string(text.text))
	if more {
		c.beyond(file, "commands", c.name, "it has more than %d commands", maxCommands)
	}
	c.sequence(dirs, list, c.depth+1)
}

// shellText reads the commands of a shell text from another file, such as a makefile.
func (c call) shellText(text string) {
	c.commands(".", []string{c.dir}, &content{text: []byte(text), size: int64(len(text))})
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
// split serves to find file names; no decision about a command may rest on it. more says that there are more than
// maxCommands.
func split(text string) (out [][]string, more bool) {
	var (
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
		switch {
		case len(argv) == 0:
		case len(out) < maxCommands:
			out = append(out, argv)
		default:
			more = true
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
	return out, more
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
	c.command(c.dir, append([]string{name}, args...), c.depth+1)
}
