package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func noProgram(string) (string, error) { return "", exec.ErrNotFound }

// repository is a new folder with these files; a name that ends in "/" is a
// folder.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		folder := filepath.Dir(path)
		if name[len(name)-1] == '/' {
			folder = path
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if folder == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLook(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	const vitest = `{"scripts": {"test": "vitest"}}`
	for _, tt := range []struct {
		name                string
		files               files
		manager, test, from string
	}{
		{"nothing", files{"readme": "make test"}, "", "", ""},
		{"npm", files{"package.json": vitest}, "npm", "npm run test", "package.json"},
		{"npm lock", files{"package.json": vitest, "package-lock.json": "{}"}, "npm", "npm run test", "package.json"},
		{"npm placeholder", files{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`}, "npm", "", ""},
		{"npm placeholder and make", files{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`,
			"Makefile": "test:\n"}, "npm", "make test", "Makefile"},
		{"npm without scripts", files{"package.json": `{}`}, "npm", "", ""},
		{"broken package.json", files{"package.json": `{`}, "", "", ""},
		{"pnpm", files{"package.json": vitest, "pnpm-lock.yaml": ""}, "pnpm", "pnpm run test", "package.json"},
		{"yarn", files{"package.json": vitest, "yarn.lock": ""}, "yarn", "yarn run test", "package.json"},
		{"bun", files{"package.json": vitest, "bun.lock": ""}, "bun", "bun run test", "package.json"},
		{"bun, binary lock", files{"package.json": vitest, "bun.lockb": ""}, "bun", "bun run test", "package.json"},
		{"packageManager wins", files{"package.json": `{"packageManager": "yarn@4.1.0", "scripts": {"test": "jest"}}`, "pnpm-lock.yaml": ""},
			"yarn", "yarn run test", "package.json"},
		{"packageManager unknown", files{"package.json": `{"packageManager": "rm -rf@1", "scripts": {"test": "jest"}}`}, "npm", "npm run test", "package.json"},
		{"deno", files{"deno.json": "{}"}, "deno", "deno test", "deno.json"},
		{"deno with comments", files{"deno.jsonc": "{}"}, "deno", "deno test", "deno.jsonc"},
		{"cargo", files{"Cargo.toml": ""}, "cargo", "cargo test", "Cargo.toml"},
		{"go", files{"go.mod": "module x"}, "go", "go test ./...", "go.mod"},
		{"go before make", files{"go.mod": "module x", "Makefile": "test:\n"}, "go", "go test ./...", "go.mod"},
		{"pytest", files{"pyproject.toml": "[tool.pytest.ini_options]"}, "pip", "pytest", "pyproject.toml"},
		{"pytest of requirements", files{"requirements.txt": "pytest==8"}, "pip", "pytest", "requirements.txt"},
		{"pytest of conftest", files{"setup.py": "", "tests/conftest.py": ""}, "pip", "pytest", "setup.py"},
		{"unittest", files{"setup.py": "", "tests/": ""}, "pip", "python3 -m unittest discover", "setup.py"},
		{"python without tests", files{"pyproject.toml": "[project]"}, "pip", "", ""},
		{"uv", files{"pyproject.toml": "pytest", "uv.lock": ""}, "uv", "uv run pytest", "pyproject.toml"},
		{"poetry", files{"pyproject.toml": "[tool.poetry]\npytest = 1"}, "poetry", "poetry run pytest", "pyproject.toml"},
		{"pipenv", files{"Pipfile": "", "pytest.ini": ""}, "pipenv", "pipenv run pytest", "Pipfile"},
		{"gradle", files{"build.gradle": ""}, "gradle", "gradle test", "build.gradle"},
		{"gradle in kotlin", files{"build.gradle.kts": ""}, "gradle", "gradle test", "build.gradle.kts"},
		{"gradle wrapper", files{"build.gradle": "", "gradlew": ""}, "gradle", "./gradlew test", "gradlew"},
		{"maven", files{"pom.xml": ""}, "maven", "mvn -q test", "pom.xml"},
		{"maven wrapper", files{"pom.xml": "", "mvnw": ""}, "maven", "./mvnw -q test", "mvnw"},
		{"rspec", files{"Gemfile": "", "spec/": ""}, "bundler", "bundle exec rspec", "Gemfile"},
		{"rake", files{"Gemfile": ""}, "bundler", "bundle exec rake test", "Gemfile"},
		{"mix", files{"mix.exs": ""}, "mix", "mix test", "mix.exs"},
		{"phpunit", files{"composer.json": "{}", "phpunit.xml": ""}, "composer", "vendor/bin/phpunit", "phpunit.xml"},
		{"phpunit dist", files{"composer.json": "{}", "phpunit.xml.dist": ""}, "composer", "vendor/bin/phpunit", "phpunit.xml.dist"},
		{"composer", files{"composer.json": "{}"}, "composer", "", ""},
		{"make test", files{"Makefile": "all:\n\ttrue\ntest: all\n\ttrue\n"}, "", "make test", "Makefile"},
		{"make check", files{"GNUmakefile": "check:\n"}, "", "make check", "GNUmakefile"},
		{"make, a space before the colon", files{"makefile": "test : all\n"}, "", "make test", "makefile"},
		{"make, a variable", files{"Makefile": "test := 1\ntest:=2\n"}, "", "", ""},
		{"make, other targets", files{"Makefile": "test-all:\nmytest:\n.PHONY: test\n"}, "", "", ""},
		{"make, in a recipe", files{"Makefile": "all:\n\ttest: x\n"}, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Look(repository(t, tt.files), noProgram)
			if got.Manager != tt.manager || got.Test != tt.test || got.From != tt.from {
				t.Errorf("got %q, %q from %q; want %q, %q from %q", got.Manager, got.Test, got.From, tt.manager, tt.test, tt.from)
			}
			if got.Agents == nil || len(got.Agents) != 0 {
				t.Errorf("agents are %#v, want an empty list", got.Agents)
			}
		})
	}
}

func TestLookFindsAgentsInOrder(t *testing.T) {
	t.Parallel()
	got := Look(t.TempDir(), func(name string) (string, error) {
		if name == "opencode" || name == "codex" {
			return "/bin/" + name, nil
		}
		return "", exec.ErrNotFound
	})
	if want := []string{"codex", "opencode"}; !slices.Equal(got.Agents, want) {
		t.Errorf("agents are %v, want %v", got.Agents, want)
	}
}

func TestLookAtAFolderThatIsNotThere(t *testing.T) {
	t.Parallel()
	if got := Look(filepath.Join(t.TempDir(), "no"), noProgram); got.Manager != "" || got.Test != "" || got.From != "" {
		t.Errorf("found %+v in nothing", got)
	}
}
