package undo

import (
	"path"
	"slices"
	"strings"
)

// effect is what a program makes or replaces in a project's directory.
type effect struct {
	trees []string // directories, relative to the project
	files []string // lock files and the like
	// anywhere are names of directories that are looked for in the members of a
	// workspace, too.
	anywhere []string
	// deletes reports whether a call removes its trees first.
	deletes func(words []string) bool
	// builds: it runs the project's own scripts, which write what they like.
	builds func(words []string) bool
	// chdir are the options that name its directory.
	chdir []string
	up    bool // it works on the projects above, too
}

// buildTrees are the directories that build scripts usually write.
func buildTrees() []string {
	return []string{"dist", "build", "out", "lib", ".next", ".nuxt", ".output", ".svelte-kit", ".turbo", ".parcel-cache", ".cache", ".vite", ".angular",
		"coverage", "storybook-static", "node_modules/.cache", "node_modules/.vite", "public/build"}
}

// effects is the table of programs that install or build.
func effects() map[string]effect {
	has := func(verbs ...string) func([]string) bool {
		return func(words []string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(verbs, w) })
		}
	}
	script := has("run", "run-script", "test", "t", "start", "build", "exec", "x", "dlx")
	js := effect{
		anywhere: []string{"node_modules"}, deletes: has("ci", "clean-install", "cit"), builds: script, up: true,
		chdir: []string{"--prefix", "-C", "--dir", "--cwd"},
		trees: []string{".yarn/unplugged", ".yarn/cache"},
		files: []string{"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock", "bun.lockb", ".pnp.cjs",
			".pnp.loader.mjs", ".yarn/install-state.gz", ".yarn/build-state.yml", ".npmrc"},
	}
	venvs := []string{".venv", "venv", "env", "build"}
	return map[string]effect{
		"npm": js, "pnpm": js, "yarn": js, "bun": js,
		"cargo": {trees: []string{"target"}, files: []string{"Cargo.lock", "Cargo.toml"}, deletes: has("clean"), up: true, builds: has("run")},
		"pip":   {trees: venvs, files: []string{"requirements.txt"}},
		"pip3":  {trees: venvs, files: []string{"requirements.txt"}},
		"uv": {trees: venvs, files: []string{"uv.lock", "pyproject.toml", "requirements.txt", ".python-version"}, up: true, builds: has("run"),
			chdir: []string{"--directory", "--project"}, deletes: has("venv")},
		"poetry":     {trees: venvs, files: []string{"poetry.lock", "pyproject.toml"}, up: true, builds: has("run"), chdir: []string{"-C", "--directory"}},
		"pdm":        {trees: append([]string{"__pypackages__"}, venvs...), files: []string{"pdm.lock", "pyproject.toml", ".pdm-python"}, up: true, builds: has("run")},
		"pipenv":     {trees: venvs, files: []string{"Pipfile", "Pipfile.lock"}, up: true, builds: has("run"), deletes: has("--rm")},
		"virtualenv": {trees: venvs},
		"go":         {trees: []string{"vendor"}, files: []string{"go.mod", "go.sum", "go.work", "go.work.sum"}, up: true, builds: has("generate", "run", "test"), chdir: []string{"-C"}},
		"bundle":     {trees: []string{"vendor/bundle", ".bundle"}, files: []string{"Gemfile.lock", "gems.locked"}, up: true, builds: has("exec")},
		"gem":        {},
		"composer":   {trees: []string{"vendor"}, files: []string{"composer.json", "composer.lock"}, builds: script, chdir: []string{"-d", "--working-dir"}},
		"mvn":        {anywhere: []string{"target"}, deletes: has("clean"), up: true, builds: func([]string) bool { return true }},
		"mvnw":       {anywhere: []string{"target"}, deletes: has("clean"), up: true, builds: func([]string) bool { return true }},
		"gradle":     {anywhere: []string{"build", ".gradle"}, deletes: has("clean"), up: true, builds: func([]string) bool { return true }, chdir: []string{"-p"}},
		"gradlew":    {anywhere: []string{"build", ".gradle"}, deletes: has("clean"), up: true, builds: func([]string) bool { return true }, chdir: []string{"-p"}},
	}
}

// installer takes what a program of the table is going to touch; false: it is no
// such program.
func (p *planner) installer(name string, args []string) bool {
	if (name == "python" || name == "python3") && len(args) > 1 && args[0] == "-m" {
		switch args[1] {
		case "pip":
			name, args = "pip", args[2:]
		case "venv", "virtualenv":
			for _, w := range operands(args[2:]) {
				p.glob(w, "venv", slices.Contains(args, "--clear"))
			}
			return true
		}
	}
	e, ok := effects()[name]
	if !ok {
		return false
	}
	words := operands(args)
	dirs := []string{p.dir}
	for i, a := range args {
		for _, o := range e.chdir {
			word := ""
			switch {
			case a == o && i+1 < len(args):
				word = args[i+1]
			case strings.HasPrefix(a, o+"="):
				word = a[len(o)+1:]
			}
			if d, ok := inside(p.repo, p.dir, word); ok && word != "" && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	deleted := e.deletes != nil && e.deletes(append(words, args...))
	builds := e.builds != nil && e.builds(words)
	for _, d := range dirs {
		p.effect(e, name, d, deleted, builds)
	}
	if builds {
		p.out.Untracked = true
	}
	return true
}

func (p *planner) effect(e effect, name, dir string, deleted, builds bool) {
	all := []string{dir}
	for d := dir; e.up && d != "."; {
		d = path.Dir(d)
		all = append(all, d)
	}
	for _, d := range all {
		trees := e.trees
		if builds {
			trees = append(slices.Clone(trees), buildTrees()...)
		}
		for _, t := range trees {
			if rel := path.Join(d, t); p.kind(rel) == isDir {
				p.target(rel, name, deleted)
			}
		}
		for _, f := range e.files {
			// One that is not there is taken too: then undo can say that it is new.
			if rel := path.Join(d, f); d == dir || p.kind(rel) != isMissing {
				p.target(rel, name, false)
			}
		}
	}
	for _, n := range e.anywhere {
		for _, d := range all {
			if rel := path.Join(d, n); p.kind(rel) != isMissing {
				p.target(rel, name, deleted)
			}
		}
		p.members(dir, n, name, deleted, 4)
	}
}

// members looks for directories of a name in the directories below.
func (p *planner) members(dir, name, why string, deleted bool, depth int) {
	for _, c := range p.children(dir) {
		n, rel := c.name, path.Join(dir, c.name)
		if c.kind != isDir || n[0] == '.' || n == "node_modules" || n == "vendor" {
			continue
		}
		if sub := path.Join(rel, name); p.kind(sub) == isDir {
			p.target(sub, why, deleted)
		}
		if depth > 1 && n != name {
			p.members(rel, name, why, deleted, depth-1)
		}
	}
}
