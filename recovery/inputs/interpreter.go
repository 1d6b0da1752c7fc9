package inputs

import (
	"path"
	"slices"
	"strings"
)

// interprets reports whether a program executes the file that its arguments name.
func interprets(name string) bool {
	switch name {
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", ".", "source", "node", "deno", "bun", "tsx", "ts-node", "esno", "jiti", "python", "pypy", "pypy3",
		"ruby", "perl", "php", "lua", "luajit", "Rscript", "pwsh", "osascript", "tclsh", "awk", "gawk", "sed", "java", "groovy", "kotlin", "swift", "julia", "elixir":
		return true
	}
	return false
}

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", ".", "source"}, name)
}

// valued are options of interpreters that take the next word, which may be a file that is executed too.
func valued(name string) []string {
	switch name {
	case "node", "tsx", "ts-node", "esno", "jiti", "bun":
		return []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file", "-C", "--conditions", "--preload", "--tsconfig",
			"-P", "--project", "--cwd", "--config", "-c"}
	case "deno":
		return []string{"--import-map", "--config", "-c", "--lock", "--env-file"}
	case "python", "pypy", "pypy3":
		return []string{"-W", "-X"}
	case "ruby":
		return []string{"-r", "-I", "-C"}
	case "perl":
		return []string{"-I"}
	case "php":
		return []string{"-c", "-d", "-f"}
	case "awk", "gawk", "sed":
		return []string{"-f", "--file"}
	case "java":
		return []string{"-jar", "-cp", "-classpath", "-p"}
	case "bash", "sh", "zsh", "dash", "ksh":
		return []string{"--rcfile", "--init-file", "-o", "+o", "-O", "+O"}
	}
	return nil
}

// interpreter adds what an interpreter is told to execute: the file that is its
// first operand, and those that its options load.
func (c call) interpreter() {
	if c.strict() {
		for _, a := range c.args { // whatever it may read of the repository
			if p, ok := c.path(c.dir, a); ok && c.is(p) == regular {
				c.whole(p, c.name)
			}
		}
	}
	options := valued(c.name)
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a == "-m" && (c.name == "python" || strings.HasPrefix(c.name, "pypy")):
			if i+1 < len(c.args) {
				c.module(c.args[i+1], c.args[i+2:])
			}
			return
		case slices.Contains(options, a):
			if i++; i < len(c.args) {
				c.operand(c.args[i])
			}
		case strings.HasPrefix(a, "-") && a != "-":
			if _, value, ok := strings.Cut(a, "="); ok {
				c.operand(value)
			}
		case (c.name == "deno" || c.name == "bun") && (a == "run" || a == "test" || a == "task" || a == "serve"):
		case c.name == "awk" || c.name == "gawk" || c.name == "sed":
			return // its first operand is code, the others are data
		default:
			c.operand(a)
			return
		}
	}
}

// operand adds a script as the interpreter would find it.
func (c call) operand(word string) {
	p, ok := c.path(c.dir, word)
	if !ok {
		return
	}
	var tries []string
	switch c.name {
	case "node", "tsx", "ts-node", "esno", "jiti":
		tries = []string{p, p + ".js", p + ".cjs", p + ".mjs", p + ".ts", path.Join(p, "index.js"), path.Join(p, "package.json")}
	case "python", "pypy", "pypy3":
		tries = []string{p, path.Join(p, "__main__.py")}
	default:
		tries = []string{p}
	}
	for _, t := range tries {
		if k := c.is(t); k == regular || k == link || k == odd {
			c.scriptAt(t, isShell(c.name))
			return
		}
	}
}

// module reads "python -m": the module is looked for where it is called before
// anywhere else, so a file of that name there takes the place of the real one.
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
