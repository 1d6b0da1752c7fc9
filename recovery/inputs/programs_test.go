package inputs

import (
	"sync"
	"testing"
)

// TestPrograms: for each program of the table a project, an edit that counts and
// one that does not. An edit is an archive that is laid over the project.
func TestPrograms(t *testing.T) {
	t.Parallel()
	const (
		workspace = `
-- package.json --
{"workspaces": ["packages/*", "!packages/old"], "scripts": {"build": "tsc"}}
-- packages/a/package.json --
{"name": "a", "scripts": {"build": "tsc", "postinstall": "node post.js"}}
-- packages/a/post.js --
1
-- packages/b/package.json --
{"name": "b"}
-- packages/old/package.json --
{"name": "old"}
`
		pnpm = `
-- package.json --
{"name": "app"}
-- pnpm-workspace.yaml --
packages:
  - 'apps/**'   # all of them
  - "libs/{x,y}"
catalog:
  react: ^18.0.0
-- apps/web/site/package.json --
{"name": "site"}
-- libs/x/package.json --
{"name": "x"}
-- libs/z/package.json --
{"name": "z"}
-- pnpm-lock.yaml --
lockfileVersion: '9.0'
packages:
  react@18.0.0:
    resolution: {integrity: sha512-xxx}
    deprecated: see https://example.org
`
		yarn = `
-- package.json --
{"name": "app"}
-- .yarnrc.yml --
yarnPath: .yarn/releases/yarn-4.cjs
-- .yarn/releases/yarn-4.cjs --
module.exports = 1
-- .yarn/plugins/p.cjs --
1
-- yarn.lock --
"left-pad@npm:^1.0.0":
  version: 1.3.0
  resolution: "left-pad@npm:1.3.0"
`
		cargo = `
-- Cargo.toml --
[workspace]
members = ["crates/*"]
[package]
name = "app"
[dependencies]
serde = "1"
-- Cargo.lock --
[[package]]
name = "serde"
source = "registry+https://index.example.org"
-- build.rs --
fn main() {}
-- crates/a/Cargo.toml --
[package]
name = "a"
build = "make.rs"
-- crates/a/make.rs --
fn main() {}
-- src/main.rs --
fn main() {}
`
		python = `
-- pyproject.toml --
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "app"
dependencies = ["requests>=2"]
[tool.ruff]
line-length = 100
-- setup.py --
from setuptools import setup
-- requirements.txt --
requests==2.0
-r more.txt
-- more.txt --
flask
-- manage.py --
print(1)
-- uv.lock --
[[package]]
name = "requests"
source = { registry = "https://pypi.example.org/simple" }
sdist = { url = "https://files.example.org/packages/aa/requests-2.0.tar.gz", hash = "sha256:1" }
`
		golang = `
-- go.mod --
module example.org/app

go 1.26

require example.org/x v1.0.0
-- gen.go --
package main

//go:generate go run ./internal/gen
func main() {}
-- internal/gen/main.go --
package main

func main() {}
`
		ruby = `
-- Gemfile --
source "https://gems.example.org"
eval_gemfile "Gemfile.local"
-- Gemfile.local --
gem "rails"
-- Gemfile.lock --
GEM
  remote: https://gems.example.org/
  specs:
    rails (7.0)
-- Rakefile --
task :x
`
		php = `
-- composer.json --
{"require": {"a/b": "^1"}, "scripts": {"post-install-cmd": ["@gen", "Foo::bar"], "gen": "php bin/gen.php", "lint": "x"}}
-- bin/gen.php --
<?php
-- composer.lock --
{"_readme": ["x"], "packages": [{"name": "a/b", "source": {"type": "git", "url": "https://git.example.org/a/b.git"},
 "dist": {"type": "zip", "url": "https://dist.example.org/a/b/1.zip"}, "support": {"source": "https://support.example.org"}}]}
`
		maven = `
-- pom.xml --
<project><modules><module>core</module></modules>
<dependencies><dependency><groupId>a</groupId><artifactId>b</artifactId></dependency></dependencies>
<build><plugins/></build></project>
-- core/pom.xml --
<project><artifactId>core</artifactId></project>
-- mvnw --
#!/bin/sh
-- .mvn/wrapper/maven-wrapper.properties --
distributionUrl=https://maven.example.org/m.zip
`
		gradle = `
-- build.gradle --
plugins {}
-- settings.gradle.kts --
include("app")
-- app/build.gradle.kts --
plugins {}
-- gradlew --
#!/bin/sh
-- gradle/wrapper/gradle-wrapper.properties --
distributionUrl=https://gradle.example.org/g.zip
-- buildSrc/src/X.java --
class X {}
-- app/src/Main.java --
class Main {}
`
	)
	projects := newShared(t)
	for _, c := range []struct{ name, project, command, dir, edit, want string }{
		{"member's script", workspace, "npm install", "", "-- packages/b/package.json --\n{\"scripts\": {\"prepare\": \"evil\"}}", "appeared packages/b/package.json scripts.prepare"},
		{"from a member", workspace, "npm install", "packages/b", "-- package.json --\n{\"workspaces\": [\"packages/*\", \"!packages/old\"], \"scripts\": {\"install\": \"evil\"}}",
			"appeared package.json scripts.install"},
		{"another member's file", workspace, "npm ci", "packages/b", "-- packages/a/post.js --\nevil", "changed packages/a/post.js"},
		{"not a member", workspace, "npm install", "", "-- packages/old/package.json --\n{\"scripts\": {\"prepare\": \"evil\"}}", ""},
		{"a new member", workspace, "npm install", "", "-- packages/c/package.json --\n{\"scripts\": {\"prepare\": \"evil\"}}", "appeared packages/c/package.json scripts.prepare"},
		{"run in all", workspace, "npm run build --workspaces", "", "-- packages/a/package.json --\n{\"scripts\": {\"build\": \"evil\"}}", "changed packages/a/package.json scripts.build"},
		{"run in one", workspace, "npm run build", "packages/a", "-- packages/b/package.json --\n{\"scripts\": {\"build\": \"evil\"}}", ""},
		{"a nearer package", workspace, "npm run build", "packages/a/src", "-- packages/a/src/package.json --\n{\"scripts\": {\"build\": \"evil\"}}",
			"vanished packages/a/package.json scripts.build, appeared packages/a/src/package.json scripts.build"},

		{"pnpm member", pnpm, "pnpm install", "", "-- apps/web/site/package.json --\n{\"scripts\": {\"prepare\": \"evil\"}}", "appeared apps/web/site/package.json scripts.prepare"},
		{"pnpm braces", pnpm, "pnpm install", "", "-- libs/x/package.json --\n{\"scripts\": {\"prepare\": \"evil\"}}", "appeared libs/x/package.json scripts.prepare"},
		{"pnpm not a member", pnpm, "pnpm install", "", "-- libs/z/package.json --\n{\"scripts\": {\"prepare\": \"evil\"}}", ""},
		{"pnpm hook", pnpm, "pnpm install --frozen-lockfile", "", "-- .pnpmfile.cjs --\nevil", "appeared .pnpmfile.cjs"},
		{"pnpm catalog", pnpm, "pnpm install", "", "-- pnpm-workspace.yaml --\npackages:\n  - 'apps/**'   # all of them\n  - \"libs/{x,y}\"\ncatalog:\n  react: ^18.0.0\n  vue: ^3.0.0\n", ""},
		{"pnpm built", pnpm, "pnpm install", "", "-- pnpm-workspace.yaml --\npackages:\n  - 'apps/**'   # all of them\n  - \"libs/{x,y}\"\nonlyBuiltDependencies:\n  - evil\n", "changed pnpm-workspace.yaml settings"},
		{"pnpm plain", pnpm, "pnpm install", "", "-- pnpm-lock.yaml --\npackages:\n  vue@3.0.0:\n    resolution: {integrity: sha512-yyy}\n", ""},
		{"pnpm tarball", pnpm, "pnpm install", "", "-- pnpm-lock.yaml --\npackages:\n  vue@3.0.0:\n    resolution: {tarball: https://evil.example.org/x.tgz}\n", "appeared pnpm-lock.yaml sources"},

		{"yarn plugin", yarn, "yarn install", "", "-- .yarn/plugins/q/r.cjs --\nevil", "appeared .yarn/plugins/q/r.cjs"},
		{"yarn itself", yarn, "yarn", "", "-- .yarn/releases/yarn-4.cjs --\nevil", "changed .yarn/releases/yarn-4.cjs"},
		{"yarn settings", yarn, "yarn install --immutable", "", "-- .yarnrc.yml --\nyarnPath: evil.cjs\n", "changed .yarnrc.yml"},
		{"yarn plain", yarn, "yarn", "", "-- yarn.lock --\n\"typescript@patch:typescript@npm%3A^5#optional!builtin<compat/typescript>\":\n  resolution: \"x@npm:1\"\n", ""},
		{"yarn git", yarn, "yarn", "", "-- yarn.lock --\n\"x@git@github.com:evil/x.git\":\n  resolution: \"x@https://github.com/evil/x.git#commit=1\"\n", "appeared yarn.lock sources"},
		{"npm does not read yarnrc", yarn, "npm install", "", "-- .yarnrc.yml --\nevil\n", ""},

		{"cargo build script", cargo, "cargo build", "", "-- build.rs --\nevil", "changed build.rs"},
		{"cargo named build script", cargo, "cargo fetch", "crates/a", "-- crates/a/make.rs --\nevil", "changed crates/a/make.rs"},
		{"cargo plain", cargo, "cargo build", "", "-- Cargo.toml --\n[workspace]\nmembers = ['crates/*'] # same\n[package]\nname = \"app\"\nversion = \"2.0.0\"\n[dependencies]\nserde = \"1\"\nlog = { version = \"0.4\", features = [\"std\"] }\n", "changed Cargo.toml workspace.members"},
		{"cargo git", cargo, "cargo build", "", "-- Cargo.toml --\n[workspace]\nmembers = [\"crates/*\"]\n[package]\nname = \"app\"\n[dependencies]\nserde = { git = \"https://evil.example.org/serde\" }\n", "appeared Cargo.toml dependencies.serde"},
		{"cargo git in a table", cargo, "cargo build", "", "-- Cargo.toml --\n[workspace]\nmembers = [\"crates/*\"]\n[package]\nname = \"app\"\n[dependencies.serde]\n\"git\" = \"https://evil.example.org/serde\"\n", "appeared Cargo.toml dependencies.serde.git"},
		{"cargo config", cargo, "cargo build", "crates/a", "-- .cargo/config.toml --\n[build]\nrustc-wrapper = \"./evil\"\n", "appeared .cargo/config.toml"},
		{"cargo source", cargo, "cargo build", "", "-- src/main.rs --\nfn main() { println!() }", ""},
		{"cargo no TOML", cargo, "cargo build", "", "-- Cargo.toml --\n[workspace]\nmembers = [\"crates/*\"]\nx = = 1\n", "appeared Cargo.toml, vanished Cargo.toml workspace.members, vanished crates/a/Cargo.toml package.build, vanished crates/a/make.rs"},

		{"pip project", python, "pip install -e .", "", "-- setup.py --\nevil()", "changed setup.py"},
		{"pip backend", python, "python -m pip install .[dev]", "", "-- pyproject.toml --\n[\"build-system\"]\nrequires = [\"setuptools\"]\nbuild-backend = \"evil\"\n", "changed pyproject.toml build-system.build-backend"},
		{"pip plain", python, "pip install .", "", "-- pyproject.toml --\n[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n[project]\nname = \"app\"\ndependencies = [\"requests>=2\", \"flask\"]\n", ""},
		{"pip place", python, "pip3 install .", "", "-- pyproject.toml --\n[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n[project]\ndependencies = [\"x @ git+https://evil.example.org/x\"]\n", "appeared pyproject.toml project.dependencies"},
		{"pip module in the way", python, "python -m pip install x", "", "-- pip.py --\nevil()", "appeared pip.py"},
		{"pip plain requirement", python, "pip install -r requirements.txt", "", "-- more.txt --\nflask\ndjango>=4 ; python_version > '3'\n", ""},
		{"pip requirement", python, "pip install -r requirements.txt", "", "-- more.txt --\nflask\n--extra-index-url https://evil.example.org/simple\n", "appeared more.txt options and places"},
		{"pip without a project", python, "pip install -r requirements.txt", "", "-- setup.py --\nevil()", ""},
		{"pip project by a requirement", python, "pip install -rrequirements.txt", "", "-- more.txt --\n-e ./lib\n-- lib/setup.py --\nx", "appeared lib/setup.py, appeared more.txt options and places"},
		{"python script", python, "python3.12 manage.py migrate", "", "-- manage.py --\nevil()", "changed manage.py"},
		{"uv plain", python, "uv sync", "", "-- uv.lock --\n[[package]]\nname = \"flask\"\nsource = { registry = \"https://pypi.example.org/simple\" }\nwheels = [{ url = \"https://files.example.org/packages/bb/flask-1.whl\" }]\n", ""},
		{"uv host", python, "uv sync --frozen", "", "-- uv.lock --\n[[package]]\nname = \"flask\"\nsource = { registry = \"https://evil.example.org/simple\" }\n", "changed uv.lock sources"},
		{"uv index", python, "uv run manage.py", "", "-- uv.toml --\nindex-url = 'https://evil.example.org'\n", "appeared uv.toml"},
		{"uv run", python, "uv run manage.py", "", "-- manage.py --\nevil", "changed manage.py"},
		{"linter settings", python, "uv sync", "", "-- pyproject.toml --\n[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n[tool.ruff]\nline-length = 80\n", ""},
		{"unknown tool", python, "uv sync", "", "-- pyproject.toml --\n[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n[tool.new]\nx = 80\n", "appeared pyproject.toml tool.new.x"},

		{"go plain", golang, "go mod download", "", "-- go.mod --\nmodule example.org/app\n\ngo 1.26\n\nrequire (\n\texample.org/x v1.0.0\n\texample.org/y v1.0.0\n)\n", ""},
		{"go replace", golang, "go build ./...", "", "-- go.mod --\nmodule example.org/app\n\ngo 1.26\n\nreplace (\n\texample.org/x => ./evil\n)\n", "appeared go.mod replace"},
		{"go run", golang, "go run ./internal/gen", "", "-- internal/gen/more.go --\npackage main", "appeared internal/gen/more.go"},
		{"go generate directive", golang, "go generate ./...", "", "-- gen.go --\npackage main\n\n//go:generate sh evil.sh\n//go:generate go run ./internal/gen\n", "changed gen.go go:generate"},
		{"go generate source", golang, "go generate ./...", "", "-- gen.go --\npackage main\n\n//go:generate go run ./internal/gen\nfunc main() { println() }\n", ""},
		{"go generate runs", golang, "go generate ./...", "", "-- internal/gen/main.go --\npackage main // evil", "changed internal/gen/main.go"},

		{"bundle", ruby, "bundle install", "", "-- Gemfile.local --\nevil", "changed Gemfile.local"},
		{"bundle plain", ruby, "bundle install", "", "-- Gemfile.lock --\nGEM\n  remote: https://gems.example.org/\n  specs:\n    rack (3)\n", ""},
		{"bundle host", ruby, "bundle install", "", "-- Gemfile.lock --\nGIT\n  remote: https://evil.example.org/x.git\n", "changed Gemfile.lock sources"},
		{"bundle config", ruby, "bundle install", "", "-- .bundle/config --\nBUNDLE_X: y\n", "appeared .bundle/config"},
		{"rake", ruby, "bundle exec rake x", "", "-- Rakefile --\nevil", "changed Rakefile"},
		{"gem", ruby, "gem install -g Gemfile", "", "-- Gemfile --\nevil", "changed Gemfile"},

		{"composer script by another", php, "composer install", "", "-- bin/gen.php --\nevil", "changed bin/gen.php"},
		{"composer plain", php, "composer install", "", "-- composer.json --\n{\"require\": {\"a/b\": \"^1\", \"c/d\": \"^2\"}, \"scripts\": {\"post-install-cmd\": [\"@gen\", \"Foo::bar\"], \"gen\": \"php bin/gen.php\", \"lint\": \"y\"}}", ""},
		{"composer plugin", php, "composer update", "", "-- composer.json --\n{\"config\": {\"allow-plugins\": true}, \"scripts\": {\"post-install-cmd\": [\"@gen\", \"Foo::bar\"], \"gen\": \"php bin/gen.php\"}}", "appeared composer.json config"},
		{"composer repository", php, "composer install", "", "-- composer.json --\n{\"repositories\": [{\"type\": \"vcs\", \"url\": \"x\"}]}",
			"vanished bin/gen.php, appeared composer.json repositories, vanished composer.json scripts.gen, vanished composer.json scripts.post-install-cmd"},
		{"composer named", php, "composer run lint", "", "-- composer.json --\n{\"scripts\": {\"post-install-cmd\": [\"@gen\", \"Foo::bar\"], \"gen\": \"php bin/gen.php\", \"lint\": \"evil\"}}", "changed composer.json scripts.lint"},
		{"composer host", php, "composer install", "", "-- composer.lock --\n{\"_readme\": [], \"packages\": [{\"dist\": {\"url\": \"https://evil.example.org/x.zip\"}, \"support\": {\"source\": \"https://s.example.org\"}}]}", "changed composer.lock sources"},

		{"maven plain", maven, "mvn package", "", "-- pom.xml --\n<project><modules><module>core</module></modules>\n<dependencies><dependency><groupId>c</groupId></dependency></dependencies>\n<build><plugins/></build></project>\n", ""},
		{"maven plugin", maven, "./mvnw package", "", "-- pom.xml --\n<project><modules><module>core</module></modules>\n<build><plugins><plugin>evil</plugin></plugins></build></project>\n", "changed pom.xml build"},
		{"maven plugin's dependency", maven, "mvn -q package", "", "-- core/pom.xml --\n<project><artifactId>core</artifactId><build><plugins><plugin><dependencies><dependency>x</dependency></dependencies></plugin></plugins></build></project>\n", "changed core/pom.xml build"},
		{"maven system dependency", maven, "mvn package", "", "-- pom.xml --\n<project><modules><module>core</module></modules>\n<dependencies><dependency><scope>system</scope><systemPath>evil.jar</systemPath></dependency></dependencies>\n<build><plugins/></build></project>\n", "changed pom.xml build"},
		{"maven wrapper", maven, "./mvnw package", "", "-- .mvn/wrapper/maven-wrapper.properties --\ndistributionUrl=https://evil.example.org/m.zip\n", "changed .mvn/wrapper/maven-wrapper.properties"},
		{"maven wrapper script", maven, "./mvnw package", "", "-- mvnw --\nevil\n", "changed mvnw"},

		{"gradle", gradle, "./gradlew build", "", "-- app/build.gradle.kts --\nevil {}", "changed app/build.gradle.kts"},
		{"gradle wrapper", gradle, "./gradlew build", "", "-- gradle/wrapper/gradle-wrapper.properties --\ndistributionUrl=evil", "changed gradle/wrapper/gradle-wrapper.properties"},
		{"gradle buildSrc", gradle, "gradle build", "", "-- buildSrc/src/Y.java --\nclass Y {}", "appeared buildSrc/src/Y.java"},
		{"gradle source", gradle, "gradle build", "", "-- app/src/Main.java --\nclass Main { int x; }", ""},
		{"gradle from above", gradle, "gradle build", "app", "-- settings.gradle.kts --\nevil", "changed settings.gradle.kts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := query(c.command)
			q.WorkingDir = c.dir
			b := box{t: t, dir: t.TempDir()}
			b.files(c.project)
			origin, base := projects.of(t, c.project)
			if got := names(b.check(base, q)); got != "" { // nobody knew the command when it was taken
				t.Errorf("%s: unchanged, but %s", c.command, got)
			}
			base = origin.take(q)
			b.files(c.edit + "\n")
			changes := b.check(base, q)
			if got := names(changes); got != c.want {
				t.Errorf("%s: got %s, want %s\n%s", c.command, got, c.want, Diff(changes))
			}
			if q.Mode = Strict; c.want != "" && len(b.check(base, q)) == 0 {
				t.Errorf("%s: strict sees less than scripts: not %s", c.command, c.want)
			}
		})
	}
}

// shared are the repositories of projects, each made once, with a baseline.
type shared struct {
	t    *testing.T
	mu   sync.Mutex
	box  map[string]box
	base map[string]*Baseline
}

func newShared(t *testing.T) *shared {
	return &shared{t: t, box: map[string]box{}, base: map[string]*Baseline{}}
}

func (s *shared) of(t *testing.T, project string) (box, *Baseline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base[project] == nil {
		s.box[project] = newBox(s.t, project)
		s.base[project] = s.box[project].take()
	}
	b := s.box[project]
	b.t = t
	return b, s.base[project]
}

func TestGitHooks(t *testing.T) {
	t.Parallel()
	b := newBox(t, "-- x --\n1\n")
	q := query("git checkout -- x")
	base := b.take(q)
	b.put(".git/hooks/new.sample", "echo")
	if got := names(b.check(base, q)); got != "" {
		t.Errorf("an example: %s", got)
	}
	b.put(".git/hooks/post-checkout", "#!/bin/sh\nevil # To enable this hook, rename this file to\n")
	b.put(".gitmodules", "[submodule \"x\"]\n")
	if got := names(b.check(base, q)); got != "appeared .git/hooks/post-checkout, appeared .gitmodules" {
		t.Errorf("a hook: %s", got)
	}
}

func TestGitConfig(t *testing.T) {
	t.Parallel()
	b := newBox(t, "-- x --\n1\n")
	q := query("git fetch")
	base := b.take(q)
	b.git("checkout", "-q", "-b", "other")
	b.git("config", "branch.other.remote", "origin")
	b.git("config", "user.name", "Bob")
	if got := names(b.check(base, q)); got != "" {
		t.Errorf("a branch and a name: %s", got)
	}
	b.git("config", "core.fsmonitor", "./evil")
	if got := names(b.check(base, q)); got != "appeared .git/config settings" {
		t.Errorf("a monitor: %s", got)
	}
	for _, text := range []string{"[core] fsmonitor = ./evil\n", "[user]\n name = x \\\n[branch \"y\"]\n", "[branch \"x\"] remote = y\n"} {
		b.put(".git/config", "[core]\n\trepositoryformatversion = 0\n"+text)
		if got := names(b.check(base, q)); got != "appeared .git/config" {
			t.Errorf("%q: %s", text, got)
		}
	}
}
