package classify

import (
	_ "embed" // for the names
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery"
)

// calls holds the programs that a command is known to run.
type calls struct {
	words    [][]string // one element a call: the plain name of the program, then its arguments
	families []string   // method families, in order of the calls
	opaque   bool       // the command may run anything: make, npm test, a script
	own      bool       // the command runs programs that the project chooses, see ownProgram
	script   bool       // the command calls a program or a script of the project, see ownScript
	hints    int        // words[hints:] are hints: they come from a project's files, not from the command
}

// programName returns the plain name of a program: in lower case, without its directory and without ".exe". For some
// programs it removes the version, too (python3.11, pip3, gcc-12).
func programName(word string) string {
	name := strings.TrimSuffix(strings.ToLower(path.Base(word)), ".exe")
	bare := strings.TrimSuffix(strings.TrimRight(name, "0123456789."), "-")
	switch bare {
	case "python", "pip", "gcc", "g++", "clang", "clang++", "php", "ruby", "node", "lua", "pypy":
		return bare
	}
	return name
}

// callsOf finds the programs that a command runs. It looks at the words of the command only.
func callsOf(command string) calls {
	var c calls
	for _, part := range recovery.Analyse(command).Parts {
		c.add(part.Words, 0)
	}
	c.hints = len(c.words)
	return c
}

// maxWrapped bounds the length of a chain of wrappers in one command, such as sudo env timeout.
const maxWrapped = 6

// add notes a simple command and the commands that it starts in turn.
func (c *calls) add(words []string, depth int) {
	for len(words) > 0 && assignment().MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || depth > maxWrapped || len(c.words) > 200 {
		return
	}
	name := programName(words[0])
	c.words = append(c.words, append([]string{name}, words[1:]...))
	rest, opaque := started(name, words)
	if opaque || strings.HasPrefix(words[0], "./") || strings.HasSuffix(name, ".sh") {
		c.opaque = true
	}
	c.own = c.own || ownProgram(name, words)
	c.script = c.script || ownScript(name, words)
	if len(rest) > 0 {
		c.add(rest, depth+1)
	}
	if name == "concurrently" { // its arguments are the texts of commands
		for _, a := range words[1:] {
			if strings.Contains(a, " ") && !strings.HasPrefix(a, "[") {
				for _, part := range recovery.Analyse(a).Parts {
					c.add(part.Words, depth+1)
				}
			}
		}
	}
	if f := named("family", name); f != "" && !slices.Contains(c.families, f) {
		c.families = append(c.families, f) // after the family of the started command: python3 -m pip is pip first
	}
}

// started returns the command that a wrapper runs. opaque is true if the words do not tell which programs will run.
func started(name string, words []string) (rest []string, opaque bool) {
	args := words[1:]
	switch name {
	case "env", "sudo", "doas", "time", "nice", "ionice", "nohup", "stdbuf", "setsid", "command", "exec", "timeout", "xvfb-run", "chronic", "npx", "bunx", "dotenv", "cross-env", "xargs", "gtime", "caffeinate", "dbus-run-session", "faketime":
		rest = afterFlags(args)
		if name == "timeout" && len(rest) > 0 && rest[0] != "" && rest[0][0] >= '0' && rest[0][0] <= '9' {
			rest = rest[1:]
		}
		return rest, false
	case "npm", "pnpm", "yarn", "bun":
		a := afterFlags(args)
		if len(a) == 0 {
			return nil, false
		}
		switch a[0] {
		case "exec", "dlx", "x":
			return afterFlags(a[1:]), false
		case "run", "run-script", "test", "t", "start", "restart", "stop", "tst", "it", "install-test":
			return nil, name != "bun" || a[0] != "test"
		case "install", "i", "ci", "add", "publish", "pack", "rebuild", "update", "up", "remove", "rm", "uninstall", "audit", "cache", "config", "init", "create", "link", "view", "outdated", "prune", "version", "login", "fetch", "dedupe", "why", "ls", "list", "set", "store":
			return nil, false
		}
		if name == "yarn" || name == "pnpm" {
			return a, true // a script or a program of the project
		}
		return nil, name == "bun"
	case "uv", "poetry", "pipenv", "pdm", "rye", "hatch", "conda", "mamba", "mise", "asdf", "direnv", "nix-shell", "bundle", "bundler", "corepack", "volta":
		a := afterFlags(args)
		switch {
		case len(a) < 2:
		case a[0] == "run" || a[0] == "exec" || a[0] == "x":
			return afterFlags(a[1:]), false
		case name == "corepack":
			return a, false
		}
	case "python", "pypy":
		for i, a := range args {
			if a == "-m" && i+1 < len(args) {
				return args[i+1:], false
			}
			if !strings.HasPrefix(a, "-") {
				if programName(a) == "manage.py" {
					return args[i:], false
				}
				break
			}
		}
	case "make", "gmake", "just", "task", "rake", "invoke", "tox", "nox", "ninja", "bazel", "gradle", "gradlew", "mvn", "mvnw", "pre-commit", "lint-staged", "turbo", "nx", "lerna", "composer", "act", "earthly", "parallel", "docker", "podman", "docker-compose", "ssh", "sh", "bash", "dash", "zsh", "ash", "husky", "concurrently", "npm-run-all", "start-server-and-test", "watchexec", "entr":
		return nil, true
	}
	return nil, false
}

// afterFlags drops leading options and assignments, up to and including a "--".
func afterFlags(words []string) []string {
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") || assignment().MatchString(words[0])) {
		if words[0] == "--" {
			return words[1:]
		}
		words = words[1:]
	}
	return words
}

// assignment matches the beginning of a word that sets an environment variable, such as CI=1.
var assignment = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*=`)

// matches reports whether one of the calls matches an entry of a handler's commands: the name of a program, or the name
// and some of its first words. hinted is true if only calls from a project's files match.
func (c *calls) matches(commands []string) (yes, hinted bool) {
	for n, call := range c.words {
		for _, want := range commands {
			if callMatches(call, strings.Fields(want)) {
				if n < c.hints {
					return true, false
				}
				yes, hinted = true, true
			}
		}
	}
	return yes, hinted
}

func callMatches(call, want []string) bool {
	if len(want) == 0 || len(call) == 0 || call[0] != programName(want[0]) {
		return false
	}
	want = want[1:]
	for i, seen := 1, 0; i < len(call) && len(want) > 0 && seen < 4; i++ {
		if call[i] == want[0] {
			want = want[1:]
			seen++
		} else if !strings.HasPrefix(call[i], "-") {
			seen++
		}
	}
	return len(want) == 0
}

// maxHintFile bounds how many bytes of a project's file superloop reads for hints.
const maxHintFile = 64 << 10

// lookInto adds the calls that stand in a project's own files: in a script of package.json, in the recipe of a
// Makefile's target, in a shell script. These calls are hints only: the command stays opaque.
func (c *calls) lookInto(dir string) {
	known := len(c.words)
	for _, call := range c.words[:known] {
		for _, text := range c.ownText(dir, call) {
			parts := recovery.Analyse(text).Parts
			for _, part := range parts[:min(len(parts), 100)] {
				c.add(part.Words, 1)
			}
		}
	}
}

// ownText returns the shell texts that one call runs, if they stand in a file of the project.
func (c *calls) ownText(dir string, call []string) []string {
	args := afterFlags(call[1:])
	switch call[0] {
	case "npm", "pnpm", "yarn", "bun":
		name := "test"
		if len(args) > 0 {
			name = args[0]
			if (name == "run" || name == "run-script") && len(args) > 1 {
				name = args[1]
			}
		}
		if name == "t" || name == "tst" {
			name = "test"
		}
		m, _ := manifest.PackageJSON(readSome(filepath.Join(dir, "package.json")))
		var out []string
		for _, s := range []string{"pre" + name, name, "post" + name} {
			if text := m.Scripts[s]; text != "" {
				out = append(out, text)
			}
		}
		return out
	case "make", "gmake":
		target := append(args, "")[0]
		for _, f := range []string{"GNUmakefile", "makefile", "Makefile"} {
			if b := readSome(filepath.Join(dir, f)); b != nil {
				return []string{makeRecipe(string(b), target)}
			}
		}
	case "sh", "bash", "dash", "zsh":
		if len(args) > 0 {
			return script(dir, args[0])
		}
	}
	if strings.HasSuffix(call[0], ".sh") {
		return script(dir, call[0])
	}
	return nil
}

// script reads a shell script in dir or below. It returns nil for a path that is absolute or contains "..".
func script(dir, name string) []string {
	if filepath.IsAbs(name) || strings.Contains(name, "..") {
		return nil
	}
	if b := readSome(filepath.Join(dir, name)); b != nil {
		return []string{string(b)}
	}
	return nil
}

// makeRecipe returns the command lines of a target of a Makefile. If target is "", it takes the first target that has
// command lines.
func makeRecipe(text, target string) string {
	var out []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "\t") {
			if inside {
				out = append(out, strings.TrimLeft(strings.TrimSpace(line), "@-+"))
			}
			continue
		}
		name, _, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ".") || strings.Contains(name, "=") {
			continue
		}
		if inside && target == "" && len(out) > 0 {
			break
		}
		inside = target == "" && len(out) == 0 || target != "" && slices.Contains(strings.Fields(name), target)
	}
	return strings.Join(out, "\n")
}

// readSome reads the first maxHintFile bytes of a regular file. It returns nil if there is no such file.
func readSome(path string) []byte {
	f, _, err := door.OpenOwn(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxHintFile))
	return b
}

//go:embed names.txt
var namesText string

// names holds the values of names.txt. A key is the kind of the name, a space and the word, such as "family npx".
var names = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(namesText) {
		kind, rest, _ := strings.Cut(line, " ")
		value, words, _ := strings.Cut(rest, ": ")
		for w := range strings.FieldsSeq(words) {
			all[kind+" "+w] = value
		}
	}
	return all
})

// named returns the value of a word in names.txt, or "" if the word is not there.
func named(kind, word string) string { return names()[kind+" "+word] }

// ownProgram reports whether a command runs programs that the project chooses: a target of make, just or rake, a script
// of package.json, or a program for which ownScript is true.
func ownProgram(name string, words []string) bool {
	switch name {
	case "make", "gmake", "just", "rake":
		return true
	case "npm", "pnpm", "yarn", "bun":
		a := afterFlags(words[1:])
		return len(a) > 0 && (a[0] == "run" || a[0] == "test" || a[0] == "start" || a[0] == "run-script")
	}
	return ownScript(name, words)
}

// ownScript reports whether a command calls a program of the project: by its path, as a file that an interpreter runs,
// or as a hook of git.
func ownScript(name string, words []string) bool {
	if w := words[0]; strings.HasPrefix(w, "./") && !strings.Contains(w, "node_modules/") && !strings.Contains(w, "venv/") && !strings.HasSuffix(w, "gradlew") && !strings.HasSuffix(w, "mvnw") || strings.HasSuffix(w, ".sh") && !strings.HasPrefix(w, "/") {
		return true
	}
	switch name {
	case "git":
		return slices.Contains(words, "commit") || slices.Contains(words, "push") // commit and push run the hooks of the project
	case "python", "node", "ruby", "perl", "php", "java", "sh", "bash", "dash", "zsh", "tsx", "ts-node", "deno", "lua", "awk", "gawk", "mawk", "rscript", "guile", "racket", "sbcl", "clisp", "swipl", "groovy", "kotlin", "crystal", "pwsh", "expect", "wish", "luajit", "gjs", "raku", "fish", "ksh", "busybox", "octave-cli", "pypy", "escript", "elixir",
		"tclsh", "nim", "julia", "ocaml", "runghc", "octave":
		for _, a := range words[1:] {
			if a == "-m" || a == "-c" || a == "-e" {
				return false
			}
			if scriptFile().MatchString(a) {
				return !foreign(a)
			}
		}
	}
	return false
}
