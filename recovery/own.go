package recovery

import (
	"path"
	"strings"
)

// ownProgram records a program that is called by a path, unless the path leads into a directory of the system. It may be
// a file of the repository, where an agent can write.
func (r *reader) ownProgram(name, text string) {
	if strings.Contains(name, "/") && !systemPath(name) {
		r.own("it runs "+shown(name), text)
	}
}

// systemPath reports whether a path leads to a file of the system, where agents cannot write.
func systemPath(name string) bool {
	return begins(path.Clean(name), "/bin/", "/sbin/", "/lib", "/usr/", "/opt/", "/nix/store/", "/snap/bin/", "/Applications/", "/System/")
}

// runners are programs that run what a file of the repository says: a Makefile, a noxfile.
const runners = "make gmake bmake nmake just task rake ant invoke inv doit mage gradle gradlew tox nox"

// runVerbs are the subcommands with which programs run code of the repository, or what its files name: scripts of
// package.json, lines of go:generate.
var runVerbs = []struct{ programs, verbs string }{
	{"npm", "run test start stop restart install-test install-ci-test"},
	{"pnpm", "run test start install-test"},
	{"bun", "run start"},
	{"composer", "run-script"},
	{"go", "run generate"},
	{"cargo dotnet swift stack cabal zig flutter dart mix", "run"},
	{"deno", "run task"},
}

// yarnVerbs are the subcommands that yarn has itself. yarn takes any other word for a script of package.json.
const yarnVerbs = "add audit autoclean bin cache check config constraints create dedupe dlx exec explain generate-lock-entry " +
	"global help import info init install licenses link list login logout ls node npm outdated owner pack patch patch-commit " +
	"plugin policies prune publish rebuild remove rm search self-update set stage tag team unlink unplug up upgrade " +
	"upgrade-interactive version versions why workspace workspaces"

// ownCode records a program that runs code of the repository by its name: a target, a script.
func (c call) ownCode() {
	if listed(runners, c.name) {
		c.own(c.name+" runs what a file of the repository says", c.text)
		return
	}
	for _, a := range c.args {
		if !a.known {
			return // others say so
		}
		if isOption(a.text) {
			continue
		}
		if c.name == "yarn" && !listed(yarnVerbs, a.text) {
			c.own("yarn runs a script of package.json", c.text)
			return
		}
		for _, r := range runVerbs {
			if !listed(r.programs, c.name) {
				continue
			}
			for _, full := range vocabularyOf(c.name).meanings(a.text) {
				if listed(r.verbs, full) {
					c.own(c.name+" "+full+" runs code of the repository", c.text)
					return
				}
			}
		}
		if c.name != "cargo" || !strings.HasPrefix(a.text, "+") { // cargo +nightly run
			return
		}
	}
}

// modules are the modules that python -m runs from its own library, or that projects install to build and to test.
const modules = "pip venv virtualenv ensurepip pytest unittest build mypy black ruff isort flake8 pylint coverage tox nox " +
	"http.server json.tool compileall py_compile site sysconfig zipfile tarfile doctest timeit"

// module reads the words behind python -m as a command.
func (c call) module(words []word) {
	if len(words) == 0 {
		return
	}
	if !words[0].known || !listed(modules, words[0].text) {
		c.own(c.name+" runs a module", c.text)
	}
	c.inner(words)
}

// deletes records that the command deletes files as rm does.
func (c call) deletes(options string, what []word) {
	ws := append([]word{literal("rm"), literal(options)}, what...)
	c.command(ws, c.text, c.depth+1)
}

// findDeletes records the deletion by find -delete: of whole trees, unless the expression picks names.
func (c call) findDeletes() {
	var places []word
	for _, a := range c.args {
		if a.known && (isOption(a.text) || a.text == "(" || a.text == "!") {
			break
		}
		places = append(places, a)
	}
	if len(places) == 0 {
		places = []word{literal(".")}
	}
	if c.picksNames() {
		c.deletes("-f", places)
		return
	}
	c.deletes("-rf", places)
}

// picksNames reports whether the expression of find only holds for files with certain names.
func (c call) picksNames() bool {
	picks := false
	for i, a := range c.args {
		switch a.text {
		case "-o", "-or", "!", "-not", ",", "(", "\\(":
			return false
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename":
			const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			if i+1 < len(c.args) && c.args[i+1].known && len(c.args[i+1].text)-len(strings.Trim(c.args[i+1].text, letters)) >= 2 {
				picks = true
			}
		}
	}
	return picks
}

// otherDeletes records what other programs delete besides their work.
func (c call) otherDeletes() {
	var operands []word
	option := func(names ...string) bool {
		for _, a := range c.args {
			name, _, _ := strings.Cut(a.before(), "=")
			for _, n := range names {
				if name == n || strings.HasPrefix(n, "--") && len(name) > 5 && strings.HasPrefix(n, name) {
					return true
				}
			}
		}
		return false
	}
	for _, a := range c.args {
		if !a.known || !isOption(a.text) {
			operands = append(operands, a)
		}
	}
	switch {
	case c.name == "unlink":
		c.deletes("-f", operands)
	case c.name == "rsync" && len(operands) > 0 && option("--delete", "--del", "--delete-before", "--delete-during", "--delete-delay", "--delete-after", "--delete-excluded", "--remove-source-files"):
		c.deletes("-rf", operands)
	case listed("tar gtar bsdtar", c.name) && option("--remove-files"), c.name == "zip" && option("-m", "--move"):
		c.deletes("-rf", operands)
	case listed("shred gshred", c.name) && option("-u", "--remove"):
		c.deletes("-f", operands)
	}
}
