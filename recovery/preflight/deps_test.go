package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/failures"
)

const (
	npmLock = `{"lockfileVersion":3,"packages":{"":{"name":"x","dependencies":{"a":"^1.0.0"}},
"node_modules/a":{"version":"1.0.0"},"node_modules/a/node_modules/b":{"version":"2.0.0"},
"node_modules/opt":{"version":"1.0.0","optional":true},"node_modules/dev":{"version":"1.0.0","dev":true},"node_modules/dev2":{"version":"1.0.0","dev":true},
"node_modules/ws":{"resolved":"ws","link":true},"ws":{"version":"1.0.0"}}}`
	npmHidden = `{"packages":{"node_modules/a":{"version":"1.0.0"},"node_modules/a/node_modules/b":{"version":"2.0.0"},
"node_modules/dev":{"version":"1.0.0","dev":true},"node_modules/dev2":{"version":"1.0.0","dev":true}}}`
	npmProd  = `{"packages":{"node_modules/a":{"version":"1.0.0"},"node_modules/a/node_modules/b":{"version":"2.0.0"}}}`
	pnpmLock = `lockfileVersion: '9.0'

importers:
  .:
    dependencies:
      left:
        specifier: ^1
        version: 1.0.0(right@2.0.0)

packages:

  left@1.0.0:
    resolution: {integrity: sha512-x}
    peerDependencies:
      right: '*'

  '@s/right@2.0.0':
    resolution: {integrity: sha512-y}

  opt@3.0.0:
    resolution: {integrity: sha512-z}

snapshots:

  left@1.0.0(right@2.0.0):
    dependencies:
      right: 2.0.0

  '@s/right@2.0.0': {}

  opt@3.0.0:
    optional: true
`
	yarn1 = `# yarn lockfile v1


"@s/a@^1.0.0":
  version "1.0.0"
  resolved "https://x/a.tgz#1"

b@^2.0.0, b@^2.1.0:
  version "2.1.0"
`
	yarn4 = `__metadata:
  version: 8

"a@npm:^1.0.0":
  version: 1.0.0
  resolution: "a@npm:1.0.0"
  linkType: hard

"only-mac@npm:^1.0.0":
  version: 1.0.0
  resolution: "only-mac@npm:1.0.0"
  conditions: os=darwin

"x@workspace:.":
  version: 0.0.0-use.local
  resolution: "x@workspace:."
  dependencies:
    a: "npm:^1.0.0"
    only-mac: "npm:^1.0.0"
  dependenciesMeta:
    only-mac:
      optional: true

"only-for-mac@npm:^1.0.0":
  version: 1.0.0
  resolution: "only-for-mac@npm:1.0.0"
`
	goMod = `module x

go 1.26

require (
	a.b/c v1.2.3
	d.e/f v0.1.0 // indirect
)

require g.h/i v2.0.0+incompatible

replace d.e/f => ../f
`
	goSum    = "a.b/c v1.2.3 h1:x=\na.b/c v1.2.3/go.mod h1:y=\ng.h/i v2.0.0+incompatible/go.mod h1:z=\n"
	gemsLock = `GEM
  remote: https://rubygems.org/
  specs:
    nokogiri (1.15.4-arm64-darwin)
      racc (~> 1.4)
    nokogiri (1.15.4-x86_64-linux)
    racc (1.7.1)

DEPENDENCIES
  nokogiri (~> 1.15)
  own!
`
)

// TestInStep: what is installed, and what its lock file says.
// Conforms: 003-c2.4-prevent, 003-c5-prevention-deps
func TestInStep(t *testing.T) {
	t.Parallel()
	npm := func(hidden string, dirs ...string) map[string]string {
		out := map[string]string{"package-lock.json": npmLock}
		if hidden != "" {
			out["node_modules/.package-lock.json"] = hidden
		}
		for _, d := range dirs {
			out["node_modules/"+d+"/"] = ""
		}
		return out
	}
	with := func(files map[string]string, name, text string) map[string]string { files[name] = text; return files }
	all := []string{"a/node_modules/b", "dev", "dev2"}
	toml := "[package]\nname = \"x\"\n\n[dependencies]\nserde = { version = \"1\" }\nother = { package = \"real-name\", version = \"1\" }\nunder_score = \"1\"\n\n[dev-dependencies.rand]\nversion = \"0.8\"\n"
	for name, c := range map[string]struct {
		manager string
		files   map[string]string
		state   string
		why     string
	}{
		"npm":                     {"npm", npm(npmHidden, all...), failures.CheckOK, ""},
		"npm, without dev":        {"npm", npm(npmProd, all[:1]...), failures.CheckOK, ""},
		"npm, nothing":            {"npm", npm(""), failures.CheckBroken, "node_modules is not there"},
		"npm, not written down":   {"npm", npm("", "a"), failures.CheckUnknown, "npm has not"},
		"npm, other version":      {"npm", npm(strings.Replace(npmHidden, "2.0.0", "1.9.0", 1), all...), failures.CheckBroken, "b installed in another version"},
		"npm, one missing":        {"npm", npm(strings.Replace(npmHidden, `"node_modules/a":{"version":"1.0.0"},`, "", 1), all...), failures.CheckBroken, "a not installed"},
		"npm, one dev missing":    {"npm", npm(strings.Replace(npmHidden, `,"node_modules/dev2":{"version":"1.0.0","dev":true}`, "", 1), all...), failures.CheckBroken, "dev2 not installed"},
		"npm, taken away":         {"npm", npm(npmHidden, "a", "dev", "dev2"), failures.CheckBroken, "b not installed"},
		"npm, only written down":  {"npm", with(npm(npmHidden, all...), "node_modules/a/package.json", `{"version":"0.9.0"}`), failures.CheckBroken, "a installed in another version"},
		"npm, broken lock":        {"npm", map[string]string{"package-lock.json": "<<<<<<< HEAD"}, failures.CheckUnknown, "can be read"},
		"npm, no lock":            {"npm", map[string]string{"package.json": "{}"}, failures.CheckUnknown, "there is no package-lock.json"},
		"pnpm":                    {"pnpm", map[string]string{"pnpm-lock.yaml": pnpmLock, "node_modules/.pnpm/lock.yaml": pnpmLock}, failures.CheckOK, ""},
		"pnpm, without optional":  {"pnpm", map[string]string{"pnpm-lock.yaml": pnpmLock, "node_modules/.pnpm/lock.yaml": strings.ReplaceAll(pnpmLock, "opt@", "no@")}, failures.CheckOK, ""},
		"pnpm, one missing":       {"pnpm", map[string]string{"pnpm-lock.yaml": pnpmLock, "node_modules/.pnpm/lock.yaml": strings.ReplaceAll(pnpmLock, "left@1.0.0", "left@0.9.0")}, failures.CheckBroken, "left@1.0.0 not installed"},
		"pnpm, nothing":           {"pnpm", map[string]string{"pnpm-lock.yaml": pnpmLock}, failures.CheckBroken, "node_modules"},
		"yarn 1":                  {"yarn", map[string]string{"yarn.lock": yarn1, "node_modules/.yarn-integrity": `{"lockfileEntries":{"@s/a@^1.0.0":"u","b@^2.0.0":"u","b@^2.1.0":"u"}}`}, failures.CheckOK, ""},
		"yarn 1, one missing":     {"yarn", map[string]string{"yarn.lock": yarn1, "node_modules/.yarn-integrity": `{"lockfileEntries":{"@s/a@^1.0.0":"u","b@^2.0.0":"u"}}`}, failures.CheckBroken, "b@^2.1.0"},
		"yarn 1, production":      {"yarn", map[string]string{"yarn.lock": yarn1, "node_modules/.yarn-integrity": `{"flags":["production"]}`}, failures.CheckUnknown, "production"},
		"yarn 4":                  {"yarn", map[string]string{"yarn.lock": yarn4, "node_modules/.yarn-state.yml": "__metadata:\n  version: 1\n\n\"a@virtual:123#npm:1.0.0\":\n  locations:\n    - \"node_modules/a\"\n"}, failures.CheckOK, ""},
		"yarn 4, one missing":     {"yarn", map[string]string{"yarn.lock": yarn4, "node_modules/.yarn-state.yml": "__metadata:\n  version: 1\n\n\"a@npm:0.9.0\":\n"}, failures.CheckBroken, "a 1.0.0 not installed"},
		"yarn 4, nothing":         {"yarn", map[string]string{"yarn.lock": yarn4}, failures.CheckBroken, "neither"},
		"yarn 4, archives":        {"yarn", map[string]string{"yarn.lock": yarn4, ".pnp.cjs": ""}, failures.CheckUnknown, "archives"},
		"bun":                     {"bun", map[string]string{"bun.lock": `"packages": {` + "\n" + `"a": ["a@1.0.0", "", {}],`, "package.json": `{"dependencies":{"a":"^1"}}`, "node_modules/a/package.json": `{"version":"1.0.0"}`}, failures.CheckOK, ""},
		"bun, other version":      {"bun", map[string]string{"bun.lock": `  "a": ["a@1.0.1", "", {}],`, "package.json": `{"dependencies":{"a":"^1"}}`, "node_modules/a/package.json": `{"version":"1.0.0"}`}, failures.CheckBroken, "another version"},
		"bun, missing":            {"bun", map[string]string{"bun.lockb": "x", "package.json": `{"dependencies":{"a":"^1"}}`, "node_modules/": ""}, failures.CheckBroken, "a not installed"},
		"pip":                     {"pip", map[string]string{"requirements.txt": "My_Pkg[extra]==1.0 # x\nother>=2\nwin; sys_platform=='win32'\n-r more.txt\n", ".venv/lib/python3.12/site-packages/my_pkg-1.0.dist-info/": "", ".venv/lib/python3.12/site-packages/other-2.3.dist-info/": ""}, failures.CheckOK, ""},
		"pip, other version":      {"pip", map[string]string{"requirements.txt": "a==1.1\n", ".venv/lib/python3.12/site-packages/a-1.0.dist-info/": ""}, failures.CheckBroken, "another version"},
		"pip, missing":            {"pip", map[string]string{"requirements.txt": "a\n", "venv/lib/python3.9/site-packages/": ""}, failures.CheckBroken, "a not installed"},
		"pip, no venv":            {"pip", map[string]string{"requirements.txt": "a\n"}, failures.CheckUnknown, "no virtual environment"},
		"go":                      {"go", map[string]string{"go.mod": goMod, "go.sum": goSum}, failures.CheckOK, ""},
		"go, no sum":              {"go", map[string]string{"go.mod": goMod}, failures.CheckBroken, "a.b/c, g.h/i not in go.sum"},
		"go, other version":       {"go", map[string]string{"go.mod": strings.Replace(goMod, "v1.2.3", "v1.2.4", 1), "go.sum": goSum}, failures.CheckBroken, "a.b/c not in go.sum"},
		"go, vendor behind":       {"go", map[string]string{"go.mod": goMod, "go.sum": goSum, "vendor/modules.txt": "# a.b/c v1.2.3\n## explicit\n"}, failures.CheckBroken, "g.h/i not in vendor"},
		"cargo":                   {"cargo", map[string]string{"Cargo.toml": toml, "Cargo.lock": "[[package]]\nname = \"serde\"\n[[package]]\nname = \"real-name\"\n[[package]]\nname = \"rand\"\n[[package]]\nname = \"under-score\"\n"}, failures.CheckOK, ""},
		"cargo, missing":          {"cargo", map[string]string{"Cargo.toml": toml, "Cargo.lock": "[[package]]\nname = \"serde\"\n[[package]]\nname = \"real-name\"\n"}, failures.CheckBroken, "rand, under_score not in Cargo.lock"},
		"bundler":                 {"bundler", map[string]string{"Gemfile": "gem 'nokogiri', '~> 1.15'\ngem \"own\", path: \".\"\n", "Gemfile.lock": gemsLock, "vendor/bundle/ruby/3.2.0/gems/nokogiri-1.15.4-x86_64-linux/": "", "vendor/bundle/ruby/3.2.0/gems/racc-1.7.1/": ""}, failures.CheckOK, ""},
		"bundler, not locked":     {"bundler", map[string]string{"Gemfile": "gem 'rake'\n", "Gemfile.lock": gemsLock}, failures.CheckBroken, "rake not in Gemfile.lock"},
		"bundler, not installed":  {"bundler", map[string]string{"Gemfile": "gem 'nokogiri'\n", "Gemfile.lock": gemsLock, "vendor/bundle/ruby/3.2.0/gems/nokogiri-1.15.4-x86_64-linux/": ""}, failures.CheckBroken, "racc not installed"},
		"bundler, somewhere else": {"bundler", map[string]string{"Gemfile": "gem 'nokogiri'\n", "Gemfile.lock": gemsLock}, failures.CheckUnknown, "not kept"},
		"all, one broken":         {"", map[string]string{"go.mod": goMod, "go.sum": goSum, "package-lock.json": npmLock}, failures.CheckBroken, "node_modules is not there"},
		"all, fine":               {"", map[string]string{"go.mod": goMod, "go.sum": goSum}, failures.CheckOK, ""},
		"none":                    {"", map[string]string{"README": ""}, failures.CheckUnknown, "no lock file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inStep(tree(t, c.files), c.manager)
			if s.State != c.state || !strings.Contains(s.Why, c.why) || (s.State == failures.CheckBroken) != (s.Command != "") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestChanged: what has changed since an earlier look is seen.
// Conforms: 003-c4-evidence-system
func TestChanged(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"package-lock.json": npmLock, "node_modules/.package-lock.json": npmHidden, "node_modules/a/node_modules/b/": "", "node_modules/dev/": "", "node_modules/dev2/": ""})
	if s := inStep(dir, "npm"); s.State != failures.CheckOK {
		t.Fatalf("%+v", s)
	}
	must(t, os.Remove(filepath.Join(dir, "node_modules/dev2")))
	if s := inStep(dir, "npm"); s.State != failures.CheckBroken {
		t.Errorf("a package was taken away: %+v", s)
	}
	put(t, dir, "node_modules/dev2/", "")
	if s := inStep(dir, "npm"); s.State != failures.CheckOK {
		t.Errorf("%+v", s)
	}
	put(t, dir, "package-lock.json", strings.Replace(npmLock, "2.0.0", "2.0.1", 1)+" ")
	if s := inStep(dir, "npm"); s.State != failures.CheckBroken {
		t.Errorf("the lock file has changed: %+v", s)
	}
}

// BenchmarkInStep compares 400 packages with their lock file.
func BenchmarkInStep(b *testing.B) {
	var lock strings.Builder
	lock.WriteString(`{"packages":{"":{}`)
	files := map[string]string{}
	for n := range 400 {
		fmt.Fprintf(&lock, `,"node_modules/p%d":{"version":"1.0.%d","resolved":"https://registry.example/p%d/-/p%d.tgz","integrity":"sha512-%088d","license":"MIT","engines":{"node":">=18"}}`, n, n, n, n, n)
		files[fmt.Sprintf("node_modules/p%d/", n)] = ""
	}
	lock.WriteString("}}")
	files["package-lock.json"], files["node_modules/.package-lock.json"] = lock.String(), lock.String()
	dir := tree(b, files)
	for b.Loop() {
		if s := inStep(dir, "npm"); s.State != failures.CheckOK {
			b.Fatalf("%+v", s)
		}
	}
}
