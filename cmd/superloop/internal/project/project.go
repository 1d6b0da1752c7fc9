// Package project finds out how a repository is built and tested, and which agent CLIs this machine has. It only reads
// files.
package project

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/manifest"
)

// Facts are the findings about a repository. A text is empty if nothing was found.
type Facts struct {
	// Manager is the package manager: npm, pnpm, yarn, bun, cargo, go, ...
	Manager string `json:"manager,omitempty"`
	// Test is the command that runs the tests. From names the file that Test was derived from.
	Test string `json:"test,omitempty"`
	From string `json:"from,omitempty"`
	// Agents are the agent CLIs on PATH, in order of preference.
	Agents []string `json:"agents"`
}

// agents are the CLIs for which init can write a runner, in order of preference.
var agents = []string{"claude", "codex", "gemini", "opencode"}

// Look returns the facts about a repository. lookPath finds a program on PATH.
func Look(repo string, lookPath func(string) (string, error)) Facts {
	f := Facts{Agents: []string{}}
	for _, name := range agents {
		if _, err := lookPath(name); err == nil {
			f.Agents = append(f.Agents, name)
		}
	}
	for _, t := range tools {
		manager, test, from := t.manager, t.test, ""
		if t.find != nil {
			manager, test, from = t.find(repo)
		} else if from = has(repo, strings.Fields(t.files)...); from == "" || t.beside != "" && has(repo, t.beside) == "" {
			continue
		}
		f.Manager = cmp.Or(f.Manager, manager)
		if f.Test == "" && test != "" {
			f.Test, f.From = test, from
		}
	}
	return f
}

// tools list the package managers and test commands, with the files or the function that recognise them. Manager and
// test command are each taken from the first entry that matches and has one, so the more specific entries come first.
var tools = []struct {
	files, beside, manager, test string // an entry matches if one of files exists, and beside too unless it is ""
	find                         func(repo string) (manager, test, from string)
}{
	{find: javascript},
	{files: "Cargo.toml", manager: "cargo", test: "cargo test"},
	{files: "go.mod", manager: "go", test: "go test ./..."},
	{find: python},
	{files: "gradlew", manager: "gradle", test: "./gradlew test"},
	{files: "build.gradle build.gradle.kts", manager: "gradle", test: "gradle test"},
	{files: "mvnw", manager: "maven", test: "./mvnw -q test"},
	{files: "pom.xml", manager: "maven", test: "mvn -q test"},
	{files: "Gemfile", beside: "spec", manager: "bundler", test: "bundle exec rspec"},
	{files: "Gemfile", manager: "bundler", test: "bundle exec rake test"},
	{files: "mix.exs", manager: "mix", test: "mix test"},
	{files: "phpunit.xml phpunit.xml.dist vendor/bin/phpunit", manager: "composer", test: "vendor/bin/phpunit"},
	{files: "composer.json", manager: "composer"},
	{find: makefile},
}

func has(repo string, names ...string) string {
	for _, n := range names {
		if _, err := os.Stat(filepath.Join(repo, n)); err == nil {
			return n
		}
	}
	return ""
}

// maxRead is the largest file that read returns, in bytes.
const maxRead = 4 << 20

// read returns the content of a file of the repository, or nil if it cannot be read.
func read(repo, name string) []byte {
	data, _ := durable.Read(filepath.Join(repo, name), maxRead)
	return data
}

func contains(repo, name, needle string) bool {
	return strings.Contains(string(read(repo, name)), needle)
}

// javascript finds the package manager and the test command of a JavaScript project. packageManager in package.json, or
// else the lock file, names the manager. The test command is the "test" script of package.json, unless that is npm's
// placeholder.
func javascript(repo string) (string, string, string) {
	if file := has(repo, "deno.json", "deno.jsonc"); file != "" && has(repo, "package.json") == "" {
		return "deno", "deno test", file
	}
	pkg, ok := manifest.PackageJSON(read(repo, "package.json"))
	if !ok {
		return "", "", "" // a package.json that is missing or invalid tells nothing
	}
	manager := "npm"
	switch name, _, _ := strings.Cut(pkg.Manager, "@"); {
	case name == "pnpm" || name == "yarn" || name == "bun" || name == "npm":
		manager = name
	case has(repo, "bun.lock", "bun.lockb") != "":
		manager = "bun"
	case has(repo, "pnpm-lock.yaml") != "":
		manager = "pnpm"
	case has(repo, "yarn.lock") != "":
		manager = "yarn"
	}
	script := pkg.Scripts["test"]
	if script == "" || strings.Contains(script, "no test specified") {
		return manager, "", ""
	}
	return manager, manager + " run test", "package.json"
}

// python finds the package manager and the test command of a Python project: pytest if a file of the project mentions
// or configures it, and otherwise unittest if there is a directory of tests.
func python(repo string) (string, string, string) {
	project := has(repo, "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "pytest.ini", "tox.ini")
	if project == "" {
		return "", "", ""
	}
	manager, prefix := "pip", ""
	switch {
	case has(repo, "uv.lock") != "":
		manager, prefix = "uv", "uv run "
	case has(repo, "poetry.lock") != "" || contains(repo, "pyproject.toml", "[tool.poetry]"):
		manager, prefix = "poetry", "poetry run "
	case has(repo, "Pipfile") != "":
		manager, prefix = "pipenv", "pipenv run "
	}
	named := slices.ContainsFunc([]string{"pyproject.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt", "tox.ini"},
		func(file string) bool { return contains(repo, file, "pytest") })
	if named || has(repo, "pytest.ini", "conftest.py", "tests/conftest.py") != "" {
		return manager, prefix + "pytest", project
	}
	if has(repo, "tests", "test") != "" {
		return manager, prefix + "python3 -m unittest discover", project
	}
	return manager, "", ""
}

func makefile(repo string) (string, string, string) {
	name := has(repo, "Makefile", "makefile", "GNUmakefile")
	if name == "" {
		return "", "", ""
	}
	target := regexp.MustCompile(`(?m)^(test|check)[ \t]*:([^=]|$)`).FindSubmatch(read(repo, name))
	if target == nil {
		return "", "", ""
	}
	return "", "make " + string(target[1]), name
}
