package project

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/recovery/remedy"
)

// finding is what the files of one directory tell about one ecosystem. Without a manager and a test there is nothing.
type finding struct {
	manager  string
	test     string // a command that bash runs in the directory
	from     string // the file that tells of the test
	checks   []string
	installs []string
	note     string // a sentence for the operator, or ""
}

// tasks is the ecosystem of the files that name commands for any language.
const tasks = "tasks"

// kinds are the kinds of projects that are known, in the order in which their tests run. The ecosystems are those of
// remedy.Installs, where the catalog has project recipes for them.
var kinds = []struct {
	ecosystem string
	find      func(place) finding
}{
	{"node", javascript}, {"rust", rust}, {"go", golang}, {"python", python}, {"jvm", jvm}, {"ruby", ruby}, {"elixir", elixir},
	{"php", php}, {"dotnet", dotnet}, {tasks, taskfile},
}

// javascript takes the package manager that remedy.NodeManager finds, as remedies do. The test is the first script whose name says so, unless it is npm's placeholder.
func javascript(p place) finding {
	if file := p.has("deno.json", "deno.jsonc"); file != "" && p.has("package.json") == "" {
		return finding{manager: "deno", test: "deno test", from: file}
	}
	pkg, ok := manifest.PackageJSON(p.read("package.json"))
	if !ok {
		return finding{} // a package.json that is missing or invalid tells nothing
	}
	f := finding{manager: remedy.NodeManager(p.dir, p.repo)}
	for _, name := range []string{"test", "test:ci", "test:unit", "tests"} {
		if script := pkg.Scripts[name]; script != "" && !strings.Contains(script, "no test specified") {
			f.test, f.from = f.manager+" run "+name, "package.json"
			break
		}
	}
	for _, name := range []string{"build", "typecheck", "type-check", "lint"} {
		if pkg.Scripts[name] != "" {
			f.checks = append(f.checks, f.manager+" run "+name)
		}
	}
	return f
}

func rust(p place) finding {
	switch {
	case p.has("Cargo.toml") == "":
		return finding{}
	case p.names([]string{"[workspace]"}, "Cargo.toml") != "":
		return finding{manager: "cargo", test: "cargo test --workspace", from: "Cargo.toml"}
	}
	return finding{manager: "cargo", test: "cargo test", from: "Cargo.toml"}
}

// golang takes the tests of a module. A go.work alone has none: its modules are below it.
func golang(p place) finding {
	switch {
	case p.has("go.mod") != "":
		return finding{manager: "go", test: "go test ./...", from: "go.mod"}
	case p.has("go.work") != "":
		return finding{manager: "go"}
	}
	return finding{}
}

// python takes pytest if a file of the project names it or a test is written for it, then tox and nox, and then
// unittest if there are tests. Programs of a virtual environment that exists come from there.
func python(p place) finding {
	project := p.has("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "pytest.ini", "tox.ini", "noxfile.py", "conftest.py")
	tests := append(append(p.like("test_*.py"), p.like("tests/test*.py")...), p.like("test/test*.py")...)
	if project == "" && (p.below || len(tests) == 0) || p.below && p.has("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile") == "" {
		return finding{} // a directory of tests is no project of its own
	}
	f, run, module := finding{manager: "pip"}, "", "python3 -m "
	switch {
	case p.has("uv.lock") != "":
		f.manager, run = "uv", "uv run "
	case p.has("poetry.lock") != "" || p.names([]string{"[tool.poetry]"}, "pyproject.toml") != "":
		f.manager, run = "poetry", "poetry run "
	case p.has("Pipfile") != "":
		f.manager, run = "pipenv", "pipenv run "
	}
	module, pytest := run+module, run+"pytest"
	switch venv := p.has(".venv/bin/python", "venv/bin/python"); {
	case run != "":
	case venv != "":
		module, pytest = venv+" -m ", venv+" -m pytest"
	case p.has("requirements.txt", "pyproject.toml", "setup.py") != "":
		f.note = "the tests run with the Python on PATH, and a recovery installs into .venv: make .venv, and init --force takes the tests from there"
	}
	named := p.names([]string{"pytest"}, "pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "requirements-dev.txt", "dev-requirements.txt",
		"requirements/dev.txt", "requirements/test.txt", "Pipfile")
	if named == "" {
		named = p.has("pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py")
	}
	if named == "" {
		named = p.names([]string{"[pytest]"}, "tox.ini")
	}
	if named == "" && p.has("tox.ini", "noxfile.py") == "" {
		named = p.names([]string{"import pytest", "from pytest ", "\ndef test_"}, tests...)
	}
	if named != "" {
		f.test, f.from = pytest, named
		return f
	}
	if file := p.names([]string{"[testenv", "[tool.tox"}, "tox.ini", "setup.cfg", "pyproject.toml"); file != "" {
		f.test, f.from = run+"tox", file
		return f
	}
	if file := p.has("noxfile.py"); file != "" {
		f.test, f.from = run+"nox", file
		return f
	}
	if file := p.names([]string{"unittest"}, tests...); file != "" {
		f.test, f.from = module+"unittest discover", file
		if dir, _, below := strings.Cut(file, "/"); below && p.has(dir+"/__init__.py") == "" {
			f.test += " -s " + dir // without it, discover finds nothing in a directory that is no package
		}
	}
	return f
}

func jvm(p place) finding {
	switch {
	case p.has("gradlew") != "":
		return finding{manager: "gradle", test: "./gradlew test", from: "gradlew"}
	case p.has("build.gradle", "build.gradle.kts") != "":
		return finding{manager: "gradle", test: "gradle test", from: p.has("build.gradle", "build.gradle.kts")}
	case p.has("pom.xml") != "" && p.has("mvnw") != "":
		return finding{manager: "maven", test: "./mvnw -q test", from: "mvnw"}
	case p.has("pom.xml") != "":
		return finding{manager: "maven", test: "mvn -q test", from: "pom.xml"}
	}
	return finding{}
}

func ruby(p place) finding {
	f, run := finding{}, ""
	if p.has("Gemfile") != "" {
		f.manager, run = "bundler", "bundle exec "
	}
	switch {
	case p.has(".rspec", "spec/spec_helper.rb") != "" || f.manager != "" && p.has("spec") != "":
		f.test, f.from = run+"rspec", p.has(".rspec", "spec")
	case p.has("bin/rails") != "" && p.has("test") != "":
		f.test, f.from = "bin/rails test", "bin/rails"
	case p.names([]string{"TestTask", "task :test", "task test", `task "test"`}, "Rakefile", "rakefile", "Rakefile.rb") != "":
		f.test, f.from = run+"rake test", p.has("Rakefile", "rakefile", "Rakefile.rb")
	}
	return f
}

func elixir(p place) finding {
	if p.has("mix.exs") == "" {
		return finding{}
	}
	return finding{manager: "mix", test: "mix test", from: "mix.exs"}
}

func php(p place) finding {
	f := finding{}
	if p.has("composer.json") != "" {
		f.manager = "composer"
	}
	var composer struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	_ = json.Unmarshal(p.read("composer.json"), &composer) // a file that cannot be read has no scripts
	switch {
	case composer.Scripts["test"] != nil:
		f.test, f.from = "composer run-script test", "composer.json"
	case p.has("tests/Pest.php") != "":
		f.manager, f.test, f.from = "composer", "vendor/bin/pest", "tests/Pest.php"
	case p.has("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "vendor/bin/phpunit") != "":
		f.manager, f.test = "composer", "vendor/bin/phpunit"
		f.from = p.has("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "vendor/bin/phpunit")
	}
	return f
}

// dotnet takes a solution, or else a project that holds tests.
func dotnet(p place) finding {
	projects := slices.Concat(p.like("*.csproj"), p.like("*.fsproj"), p.like("*.vbproj"))
	if all := slices.Concat(p.like("*.sln"), p.like("*.slnx")); len(all) > 0 {
		return finding{manager: "dotnet", test: "dotnet test", from: all[0]}
	}
	if file := p.names([]string{"Microsoft.NET.Test.Sdk"}, projects...); file != "" {
		return finding{manager: "dotnet", test: "dotnet test", from: file}
	}
	if len(projects) > 0 {
		return finding{manager: "dotnet"}
	}
	return finding{}
}

// taskfile takes the target of a Makefile or a justfile that runs tests.
func taskfile(p place) finding {
	for _, t := range []struct {
		program, target string
		files           []string
	}{
		{"make", `(?m)^(test|check)[ \t]*:(?:[^=]|$)`, []string{"GNUmakefile", "makefile", "Makefile"}},
		{"just", `(?m)^@?(test|check)(?:[ \t][^:\n]*)?:(?:[^=]|$)`, []string{"justfile", "Justfile", ".justfile"}},
	} {
		file := p.has(t.files...)
		if file == "" {
			continue
		}
		if target := regexp.MustCompile(t.target).FindSubmatch(p.read(file)); target != nil {
			return finding{test: t.program + " " + string(target[1]), from: file}
		}
	}
	return finding{}
}
