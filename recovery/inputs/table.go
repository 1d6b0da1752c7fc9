package inputs

import (
	"maps"
	"slices"
	"strings"
)

// program is a row of the table: the files that a program reads.
type program struct {
	chdir []string // the options that name another working directory, or a file in it
	reads []string // the options that name a file; the file counts whole
	up    bool     // the program also looks in the directories above, up to the top of the repository
	// members returns the directories of the workspace whose top is dir.
	members func(c call, dir string) []string
	sources []source
	also    func(c call, dirs []string) // adds files that no pattern can describe; dirs are all directories that count
}

// source is a pattern of files, and the parts of such a file that count.
type source struct {
	pattern string // a path below a directory, as expand takes it
	// parts selects the parts that count. It returns false if the whole file counts. If parts is nil, the whole file
	// always counts.
	parts func(text []byte) ([]part, bool)
	when  func(c call) bool // whether the call reads the file at all; nil means always
}

type part struct{ name, text string }

// table returns the rows of all programs, by program name.
func table() map[string]program {
	t := javascript()
	for _, more := range []map[string]program{pythons(), builders(), rubyAndPHP(), jvm()} {
		maps.Copy(t, more)
	}
	return t
}

// patterns returns all patterns of the table, each once. A Baseline stores the content of every file that matches one
// of them.
func patterns() []string {
	out := []string{"*.mk", "*.mak", "requirements*.txt", "server.js", ".git/hooks/*"}
	for _, p := range table() {
		for _, s := range p.sources {
			out = append(out, s.pattern)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// files returns sources that count whole, one for each of the patterns, which are separated by spaces.
func files(patterns string) (out []source) {
	for _, p := range strings.Fields(patterns) {
		out = append(out, source{pattern: p})
	}
	return out
}

func javascript() map[string]program {
	t := map[string]program{}
	install := func(c call) bool { return c.installs() }
	runs := func(c call) bool { return !c.installs() }
	locked := func(file, family string) source { return source{pattern: file, parts: lock(family), when: install} }
	common := []source{
		{pattern: ".npmrc", parts: iniLines},
		{pattern: "package.json", parts: packageJSON, when: install},
		{pattern: "package.json", parts: manifestTool, when: runs},
		{pattern: "binding.gyp", when: install}, // npm runs node-gyp if the file exists
		{pattern: "patches/*", when: install},
	}
	for name, own := range map[string][]source{
		"npm": {locked("package-lock.json", "npm"), locked("npm-shrinkwrap.json", "npm")},
		"pnpm": append(files(".pnpmfile.cjs .pnpmfile.mjs pnpmfile.js package.yaml package.json5"),
			source{pattern: "pnpm-workspace.yaml", parts: workspaceYAML}, locked("pnpm-lock.yaml", "pnpm")),
		"yarn": append(files(".yarnrc .yarnrc.yml .yarn/plugins/** .yarn/releases/**"), source{pattern: ".yarn/patches/**", when: install},
			source{pattern: ".pnp.cjs", when: runs}, source{pattern: ".pnp.js", when: runs}, source{pattern: ".pnp.loader.mjs", when: runs},
			locked("yarn.lock", "yarn")),
		// Without a lock file of its own, bun migrates from one of the last three.
		"bun": {{pattern: "bunfig.toml"}, locked("bun.lock", "bun"), locked("bun.lockb", "bunb"), locked("package-lock.json", "npm"),
			locked("yarn.lock", "yarn"), locked("pnpm-lock.yaml", "pnpm")},
	} {
		t[name] = program{chdir: []string{"--prefix", "-C", "--dir", "--cwd"}, up: true, members: packageMembers,
			sources: slices.Concat(common, own), also: packageScripts}
	}
	for alias, of := range map[string]string{"npx": "npm", "pnpx": "pnpm", "bunx": "bun"} {
		t[alias] = t[of]
	}
	t["corepack"] = program{up: true, sources: []source{{pattern: "package.json", parts: manifestTool}}, also: corepack}
	return t
}

func pythons() map[string]program {
	project := func(own, locked string) []source {
		return append(files("setup.py setup.cfg "+own), source{pattern: "pyproject.toml", parts: pyproject}, source{pattern: locked, parts: lock("python")})
	}
	return map[string]program{
		"pip":    {also: pip},
		"uv":     {chdir: []string{"--directory", "--project"}, up: true, members: uvMembers, also: uv, sources: project("uv.toml", "uv.lock")},
		"poetry": {chdir: []string{"-C", "--directory", "-P", "--project"}, up: true, also: runsRest, sources: project("poetry.toml", "poetry.lock")},
		"pdm":    {chdir: []string{"-p", "--project"}, up: true, also: runsRest, sources: project("pdm.toml .pdm.toml", "pdm.lock")},
		"pipenv": {up: true, also: runsRest, sources: []source{{pattern: "Pipfile", parts: pipfile}, {pattern: "Pipfile.lock", parts: lock("pipenv")}}},
	}
}

func builders() map[string]program {
	return map[string]program{
		"make": {chdir: []string{"-C", "--directory"}, also: makefiles, sources: files("GNUmakefile makefile Makefile BSDmakefile")},
		"just": {up: true, also: justfile, sources: files("justfile Justfile .justfile")},
		"cargo": {chdir: []string{"--manifest-path", "-C"}, up: true, members: cargoMembers, also: cargoBuild,
			sources: append(files("build.rs .cargo/config.toml .cargo/config rust-toolchain.toml rust-toolchain"),
				source{pattern: "Cargo.toml", parts: cargoToml}, source{pattern: "Cargo.lock", parts: lock("cargo")})},
		"go": {chdir: []string{"-C"}, up: true, members: goMembers, also: goCommand,
			sources: []source{{pattern: "go.mod", parts: goMod}, {pattern: "go.work", parts: goMod}}},
		"git": {chdir: []string{"-C"}, up: true, also: gitHooks,
			sources: []source{{pattern: ".git/config", parts: gitConfig}, {pattern: ".gitmodules"}}},
	}
}

func rubyAndPHP() map[string]program {
	bundle := append(files("Gemfile gems.rb *.gemspec .bundle/config .bundle/plugin/index"),
		source{pattern: "Gemfile.lock", parts: lock("gem")}, source{pattern: "gems.locked", parts: lock("gem")})
	return map[string]program{
		"bundle": {up: true, sources: bundle, also: bundler},
		"gem":    {also: gem},
		"rake":   {up: true, also: bundler, sources: slices.Concat(bundle, files("Rakefile rakefile Rakefile.rb rakelib/*.rake lib/tasks/**"))},
		"composer": {chdir: []string{"-d", "--working-dir"}, also: composerScripts, sources: []source{
			{pattern: "composer.json", parts: composerJSON}, {pattern: "composer.lock", parts: lock("composer")}, {pattern: "auth.json"}}},
	}
}

func jvm() map[string]program {
	return map[string]program{
		"mvn": {chdir: []string{"-f", "--file"}, up: true, members: mavenModules,
			reads:   []string{"-s", "--settings", "-gs", "--global-settings", "-t", "--toolchains", "-f", "--file"},
			sources: []source{{pattern: "pom.xml", parts: pom}, {pattern: ".mvn/**"}, {pattern: "mvnw"}}},
		"gradle": {chdir: []string{"-p", "--project-dir"}, up: true,
			reads: []string{"-I", "--init-script", "-b", "--build-file", "-c", "--settings-file"}, sources: files("build.gradle build.gradle.kts settings.gradle " +
				"settings.gradle.kts init.gradle gradle.properties gradlew gradle/** buildSrc/** **/*.gradle **/*.gradle.kts")},
	}
}
