package classify

import (
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
)

// calls is what a command is known to run.
type calls struct {
	words    [][]string // each a program, by its plain name, and its arguments
	families []string   // method families, in order of the calls
	opaque   bool       // it may run anything: make, npm test, a script
	own      bool       // it runs what the project says, see ownProgram
	script   bool       // it calls a program or a script of the project
	hints    int        // words[hints:] come from a project's files, not from the command
}

// kin is the family of the programs that a package manager installs and starts, "" if it has none.
func kin(family string) string { return named("kin", family) }

// familyOf names the method family of a program, "" if it has none.
func familyOf(program string) string { return named("family", program) }

// programName is the plain name of a program: without its directory, and without the version that some carry
// (python3.11, pip3, gcc-12).
func programName(word string) string {
	name := strings.TrimSuffix(strings.ToLower(path.Base(word)), ".exe")
	bare := strings.TrimRight(name, "0123456789.")
	bare = strings.TrimSuffix(bare, "-")
	switch bare {
	case "python", "pip", "gcc", "g++", "clang", "clang++", "php", "ruby", "node", "lua", "pypy":
		return bare
	}
	return name
}

// callsOf works out what a command runs, from its words alone.
func callsOf(command string, argv []string) calls {
	line := command
	if len(argv) > 0 {
		line = text.Words(argv)
	}
	var c calls
	if strings.TrimSpace(line) == "" {
		return c
	}
	a := recovery.Analyse(line)
	for _, part := range a.Parts {
		c.add(part.Words, 0)
	}
	if len(a.Parts) == 0 && len(argv) > 0 {
		c.add(argv, 0)
	}
	c.hints = len(c.words)
	return c
}

// maxWrapped bounds how many programs may start one another in one command.
const maxWrapped = 6

// add notes a simple command and what it starts in turn.
func (c *calls) add(words []string, depth int) {
	words = withoutAssignments(words)
	if len(words) == 0 || depth > maxWrapped || len(c.words) > 200 {
		return
	}
	name := programName(words[0])
	call := append([]string{name}, words[1:]...)
	c.words = append(c.words, call)
	rest, opaque := started(name, words)
	if opaque || strings.HasPrefix(words[0], "./") || strings.HasSuffix(name, ".sh") {
		c.opaque = true
	}
	c.own = c.own || ownProgram(name, words)
	c.script = c.script || ownScript(name, words)
	if len(rest) > 0 {
		c.add(rest, depth+1)
	}
	if f := familyOf(name); f != "" && !slices.Contains(c.families, f) {
		c.families = append(c.families, f) // after what it starts: python3 -m pip is pip first
	}
}

// started gives the command that a wrapper runs, or says that it runs something that its words do not tell.
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
		if len(a) > 1 {
			switch a[0] {
			case "run", "exec", "x":
				return afterFlags(a[1:]), false
			}
			if name == "corepack" {
				return a, false
			}
		}
		return nil, false
	case "python", "pypy":
		for i, a := range args {
			if a == "-m" && i+1 < len(args) {
				return args[i+1:], false
			}
			if !strings.HasPrefix(a, "-") {
				if base := programName(a); base == "manage.py" {
					return args[i:], false
				}
				return nil, false
			}
		}
		return nil, false
	case "make", "gmake", "just", "task", "rake", "invoke", "tox", "nox", "ninja", "bazel", "gradle", "gradlew", "mvn", "mvnw", "pre-commit", "lint-staged", "turbo", "nx", "lerna", "composer", "act", "earthly", "parallel", "docker", "podman", "docker-compose", "ssh", "sh", "bash", "dash", "zsh", "ash", "husky", "concurrently", "npm-run-all", "start-server-and-test", "watchexec", "entr":
		return nil, true
	}
	return nil, false
}

// afterFlags drops leading options and assignments.
func afterFlags(words []string) []string {
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") || assignment(words[0])) {
		if words[0] == "--" {
			return words[1:]
		}
		words = words[1:]
	}
	return words
}

func withoutAssignments(words []string) []string {
	for len(words) > 0 && assignment(words[0]) {
		words = words[1:]
	}
	return words
}

func assignment(w string) bool {
	i := strings.IndexByte(w, '=')
	if i <= 0 {
		return false
	}
	for j := 0; j < i; j++ {
		c := w[j]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9' || j == 0) {
			return false
		}
	}
	return true
}

// matches reports whether one of the calls is what a handler names: a program, or a program and its first words.
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
		} else if strings.HasPrefix(call[i], "-") {
			continue
		}
		seen++
	}
	return len(want) == 0
}
