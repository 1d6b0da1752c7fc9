package inputs

import "maps"

// program is a row of the table: which files a program reads.
type program struct {
	chdir []string // the options that tell it to work in another directory, or on a file there
	up    bool     // it looks in the directories above, too, as far as the repository goes
	// members are the directories that belong to the one in which it works.
	members func(c call, dir string) []string
	sources []source
	also    func(c call, dirs []string) // finds what no pattern can say; dirs are all directories that count
}

// source is a kind of file and what of it counts.
type source struct {
	pattern string // a path below a directory, see expand
	// parts takes the file apart; false: it cannot, the whole file counts. nil: the whole file always counts.
	parts func(text []byte) ([]part, bool)
	when  func(c call) bool // says whether the call reads the file at all; nil: it does
}

type part struct{ name, text string }

// table is the default table of programs.
func table() map[string]program {
	t := map[string]program{}
	maps.Copy(t, javascript())
	maps.Copy(t, pythons())
	maps.Copy(t, builders())
	maps.Copy(t, rubyAndPHP())
	maps.Copy(t, jvm())
	return t
}

// patterns are all patterns of the table, each once: a Baseline keeps the content
// of every file that one of them matches.
func patterns() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range table() {
		for _, s := range p.sources {
			if !seen[s.pattern] {
				seen[s.pattern] = true
				out = append(out, s.pattern)
			}
		}
	}
	return append(out, "*.mk", "*.mak", "requirements*.txt", "server.js", ".git/hooks/*")
}

func javascript() map[string]program {
	t := map[string]program{}
	install := func(c call) bool { return c.installs() }
	runs := func(c call) bool { return !c.installs() }
	common := []source{
		{pattern: ".npmrc", parts: iniLines},
		{pattern: "package.json", parts: packageJSON, when: install},
		{pattern: "package.json", parts: manifestTool, when: runs},
		{pattern: "binding.gyp", when: install}, // npm runs node-gyp if it is there
		{pattern: "patches/*", when: install},
	}
	for name, own := range map[string][]source{
		"npm": {
			{pattern: "package-lock.json", parts: lock("npm"), when: install},
			{pattern: "npm-shrinkwrap.json", parts: lock("npm"), when: install},
		},
		"pnpm": {
			{pattern: "pnpm-workspace.yaml", parts: workspaceYAML},
			{pattern: ".pnpmfile.cjs"}, {pattern: ".pnpmfile.mjs"}, {pattern: "pnpmfile.js"},
			{pattern: "package.yaml"}, {pattern: "package.json5"},
			{pattern: "pnpm-lock.yaml", parts: lock("pnpm"), when: install},
		},
		"yarn": {
			{pattern: ".yarnrc"}, {pattern: ".yarnrc.yml"},
			{pattern: ".yarn/plugins/**"}, {pattern: ".yarn/releases/**"}, {pattern: ".yarn/patches/**", when: install},
			{pattern: ".pnp.cjs", when: runs}, {pattern: ".pnp.js", when: runs}, {pattern: ".pnp.loader.mjs", when: runs},
			{pattern: "yarn.lock", parts: lock("yarn"), when: install},
		},
		"bun": {
			{pattern: "bunfig.toml"},
			{pattern: "bun.lock", parts: lock("bun"), when: install},
			{pattern: "bun.lockb", parts: lock("bunb"), when: install},
			// What it migrates from where it has no lock file of its own.
			{pattern: "package-lock.json", parts: lock("npm"), when: install},
			{pattern: "yarn.lock", parts: lock("yarn"), when: install},
			{pattern: "pnpm-lock.yaml", parts: lock("pnpm"), when: install},
		},
	} {
		t[name] = program{
			chdir: []string{"--prefix", "-C", "--dir", "--cwd"}, up: true, members: packageMembers,
			sources: append(append([]source{}, common...), own...), also: packageScripts,
		}
	}
	for alias, of := range map[string]string{"npx": "npm", "pnpx": "pnpm", "bunx": "bun"} {
		t[alias] = t[of]
	}
	t["corepack"] = program{up: true, sources: []source{{pattern: "package.json", parts: manifestTool}}, also: corepack}
	return t
}

func pythons() map[string]program {
	project := []source{{pattern: "setup.py"}, {pattern: "setup.cfg"}, {pattern: "pyproject.toml", parts: pyproject}}
	return map[string]program{
		"pip": {also: pip},
		"uv": {chdir: []string{"--directory", "--project"}, up: true, members: uvMembers, also: uv, sources: append(append([]source{}, project...),
			source{pattern: "uv.toml"}, source{pattern: "uv.lock", parts: lock("python")})},
		"poetry": {chdir: []string{"-C", "--directory", "-P", "--project"}, up: true, also: runsRest, sources: append(append([]source{}, project...),
			source{pattern: "poetry.toml"}, source{pattern: "poetry.lock", parts: lock("python")})},
		"pdm": {chdir: []string{"-p", "--project"}, up: true, also: runsRest, sources: append(append([]source{}, project...),
			source{pattern: "pdm.toml"}, source{pattern: ".pdm.toml"}, source{pattern: "pdm.lock", parts: lock("python")})},
		"pipenv": {up: true, also: runsRest, sources: []source{{pattern: "Pipfile", parts: pipfile}, {pattern: "Pipfile.lock", parts: lock("pipenv")}}},
	}
}

func builders() map[string]program {
	return map[string]program{
		"make": {chdir: []string{"-C", "--directory"}, also: makefiles,
			sources: []source{{pattern: "GNUmakefile"}, {pattern: "makefile"}, {pattern: "Makefile"}, {pattern: "BSDmakefile"}}},
		"just": {up: true, also: justfile, sources: []source{{pattern: "justfile"}, {pattern: "Justfile"}, {pattern: ".justfile"}}},
		"cargo": {chdir: []string{"--manifest-path", "-C"}, up: true, members: cargoMembers, also: cargoBuild, sources: []source{
			{pattern: "Cargo.toml", parts: cargoToml}, {pattern: "Cargo.lock", parts: lock("cargo")}, {pattern: "build.rs"},
			{pattern: ".cargo/config.toml"}, {pattern: ".cargo/config"}, {pattern: "rust-toolchain.toml"}, {pattern: "rust-toolchain"}}},
		"go": {chdir: []string{"-C"}, up: true, members: goMembers, also: goCommand,
			sources: []source{{pattern: "go.mod", parts: goMod}, {pattern: "go.work", parts: goMod}}},
		"git": {chdir: []string{"-C"}, up: true, also: gitHooks,
			sources: []source{{pattern: ".git/config", parts: gitConfig}, {pattern: ".gitmodules"}}},
	}
}

func rubyAndPHP() map[string]program {
	bundle := []source{{pattern: "Gemfile"}, {pattern: "gems.rb"}, {pattern: "*.gemspec"}, {pattern: ".bundle/config"}, {pattern: ".bundle/plugin/index"},
		{pattern: "Gemfile.lock", parts: lock("gem")}, {pattern: "gems.locked", parts: lock("gem")}}
	return map[string]program{
		"bundle": {up: true, sources: bundle, also: bundler},
		"gem":    {also: gem},
		"rake": {up: true, also: bundler, sources: append(append([]source{}, bundle...),
			source{pattern: "Rakefile"}, source{pattern: "rakefile"}, source{pattern: "Rakefile.rb"}, source{pattern: "rakelib/*.rake"}, source{pattern: "lib/tasks/**"})},
		"composer": {chdir: []string{"-d", "--working-dir"}, also: composerScripts, sources: []source{
			{pattern: "composer.json", parts: composerJSON}, {pattern: "composer.lock", parts: lock("composer")}, {pattern: "auth.json"}}},
	}
}

func jvm() map[string]program {
	return map[string]program{
		"mvn": {chdir: []string{"-f", "--file"}, up: true, members: mavenModules, also: maven, sources: []source{
			{pattern: "pom.xml", parts: pom}, {pattern: ".mvn/**"}, {pattern: "mvnw"}}},
		"gradle": {chdir: []string{"-p", "--project-dir"}, up: true, also: gradle, sources: []source{
			{pattern: "build.gradle"}, {pattern: "build.gradle.kts"}, {pattern: "settings.gradle"}, {pattern: "settings.gradle.kts"}, {pattern: "init.gradle"},
			{pattern: "gradle.properties"}, {pattern: "gradlew"}, {pattern: "gradle/**"}, {pattern: "buildSrc/**"}, {pattern: "**/*.gradle"},
			{pattern: "**/*.gradle.kts"}}},
	}
}
