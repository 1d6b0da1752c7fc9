// Package project finds out what kind of repository it is looking at: how it is
// built and tested, and which agent CLIs this machine has. It only looks.
package project

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/manifest"
)

// Facts are what was found; an empty string is "nothing".
type Facts struct {
	// Manager is the package manager: npm, pnpm, yarn, bun, cargo, go, ...
	Manager string `json:"manager,omitempty"`
	// Test is the command that runs the tests, and From what it was read off.
	Test string `json:"test,omitempty"`
	From string `json:"from,omitempty"`
	// Agents are the agent CLIs on PATH, best known first.
	Agents []string `json:"agents"`
}

// agents are the CLIs that init knows how to start, in order of preference.
var agents = []string{"claude", "codex", "gemini", "opencode"}

// Look inspects the repository. lookPath finds a program on PATH.
func Look(repo string, lookPath func(string) (string, error)) Facts {
	f := Facts{Agents: []string{}}
	for _, name := range agents {
		if _, err := lookPath(name); err == nil {
			f.Agents = append(f.Agents, name)
		}
	}
	for _, find := range []func(string) (manager, test, from string){javascript, rust, golang, python, jvm, ruby, others, makefile} {
		manager, test, from := find(repo)
		if f.Manager == "" {
			f.Manager = manager
		}
		if f.Test == "" && test != "" {
			f.Test, f.From = test, from
		}
	}
	return f
}

func has(repo string, names ...string) string {
	for _, n := range names {
		if _, err := os.Stat(filepath.Join(repo, n)); err == nil {
			return n
		}
	}
	return ""
}

// maxRead bounds the files that are read, in bytes.
const maxRead = 4 << 20

// read gives a file of the repository, nil where there is none to read.
func read(repo, name string) []byte {
	data, err := durable.Read(filepath.Join(repo, name), maxRead)
	if err != nil {
		return nil
	}
	return data
}

func contains(repo, name, needle string) bool {
	return strings.Contains(string(read(repo, name)), needle)
}

// javascript: the lock file chooses the package manager, the "test" script of
// package.json is the command, unless it is npm's own placeholder.
func javascript(repo string) (string, string, string) {
	if file := has(repo, "deno.json", "deno.jsonc"); file != "" && has(repo, "package.json") == "" {
		return "deno", "deno test", file
	}
	pkg, ok := manifest.PackageJSON(read(repo, "package.json"))
	if !ok {
		return "", "", "" // npm will say what is wrong with it
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

func rust(repo string) (string, string, string) {
	if has(repo, "Cargo.toml") == "" {
		return "", "", ""
	}
	return "cargo", "cargo test", "Cargo.toml"
}

func golang(repo string) (string, string, string) {
	if has(repo, "go.mod") == "" {
		return "", "", ""
	}
	return "go", "go test ./...", "go.mod"
}

// python: pytest where something says that pytest is used, else unittest where
// there are tests.
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
	if has(repo, "pytest.ini", "conftest.py", "tests/conftest.py") != "" ||
		contains(repo, "pyproject.toml", "pytest") || contains(repo, "setup.cfg", "pytest") ||
		contains(repo, "requirements.txt", "pytest") || contains(repo, "requirements-dev.txt", "pytest") || contains(repo, "tox.ini", "pytest") {
		return manager, prefix + "pytest", project
	}
	if has(repo, "tests", "test") != "" {
		return manager, prefix + "python3 -m unittest discover", project
	}
	return manager, "", ""
}

func jvm(repo string) (string, string, string) {
	gradle := has(repo, "build.gradle", "build.gradle.kts")
	switch {
	case has(repo, "gradlew") != "":
		return "gradle", "./gradlew test", "gradlew"
	case gradle != "":
		return "gradle", "gradle test", gradle
	case has(repo, "mvnw") != "":
		return "maven", "./mvnw -q test", "mvnw"
	case has(repo, "pom.xml") != "":
		return "maven", "mvn -q test", "pom.xml"
	}
	return "", "", ""
}

func ruby(repo string) (string, string, string) {
	if has(repo, "Gemfile") == "" {
		return "", "", ""
	}
	if has(repo, "spec") != "" {
		return "bundler", "bundle exec rspec", "Gemfile"
	}
	return "bundler", "bundle exec rake test", "Gemfile"
}

func others(repo string) (string, string, string) {
	phpunit := has(repo, "phpunit.xml", "phpunit.xml.dist", "vendor/bin/phpunit")
	switch {
	case has(repo, "mix.exs") != "":
		return "mix", "mix test", "mix.exs"
	case phpunit != "":
		return "composer", "vendor/bin/phpunit", phpunit
	case has(repo, "composer.json") != "":
		return "composer", "", ""
	}
	return "", "", ""
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
