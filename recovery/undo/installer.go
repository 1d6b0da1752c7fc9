package undo

import (
	"path"
	"slices"
	"strings"
)

// effect is what a program makes or replaces in a project's directory.
type effect struct {
	trees    []string // directories, relative to the project
	files    []string // lock files and the like
	anywhere []string // names of directories that are looked for in the members of a workspace, too
	deletes  []string // words of a call that removes its trees first
	builds   []string // words of a call that runs the project's own scripts, which write what they like; "*": any call does
	chdir    []string // the options that name its directory
	up       bool     // it works on the projects above, too
}

// buildTrees are the directories that build scripts usually write.
func buildTrees() []string {
	return strings.Fields("dist build out lib .next .nuxt .output .svelte-kit .turbo .parcel-cache .cache .vite .angular coverage storybook-static" +
		" node_modules/.cache node_modules/.vite public/build")
}

// effects is the table of programs that install or build.
func effects() map[string]effect {
	words := strings.Fields
	scripts := words("run run-script test t start build exec x dlx")
	js := effect{anywhere: words("node_modules"), deletes: words("ci clean-install cit"), builds: scripts, up: true, chdir: words("--prefix -C --dir --cwd"),
		trees: words(".yarn/unplugged .yarn/cache"), files: words("package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml" +
			" pnpm-workspace.yaml bun.lock bun.lockb .pnp.cjs .pnp.loader.mjs .yarn/install-state.gz .yarn/build-state.yml .npmrc")}
	pip := effect{trees: words(".venv venv env build"), files: words("requirements.txt")}
	mvn := effect{anywhere: words("target"), deletes: words("clean"), up: true, builds: words("*")}
	gradle := effect{anywhere: words("build .gradle"), deletes: words("clean"), up: true, builds: words("*"), chdir: words("-p")}
	return map[string]effect{
		"npm": js, "pnpm": js, "yarn": js, "bun": js, "pip": pip, "pip3": pip, "mvn": mvn, "mvnw": mvn, "gradle": gradle, "gradlew": gradle, "gem": {},
		"cargo": {trees: words("target"), files: words("Cargo.lock Cargo.toml"), deletes: words("clean"), up: true, builds: words("run")},
		"uv": {trees: pip.trees, files: words("uv.lock pyproject.toml requirements.txt .python-version"), up: true, builds: words("run"),
			chdir: words("--directory --project"), deletes: words("venv")},
		"poetry":     {trees: pip.trees, files: words("poetry.lock pyproject.toml"), up: true, builds: words("run"), chdir: words("-C --directory")},
		"pdm":        {trees: append(words("__pypackages__"), pip.trees...), files: words("pdm.lock pyproject.toml .pdm-python"), up: true, builds: words("run")},
		"pipenv":     {trees: pip.trees, files: words("Pipfile Pipfile.lock"), up: true, builds: words("run"), deletes: words("--rm")},
		"virtualenv": {trees: pip.trees},
		"go":         {trees: words("vendor"), files: words("go.mod go.sum go.work go.work.sum"), up: true, builds: words("generate run test"), chdir: words("-C")},
		"bundle":     {trees: words("vendor/bundle .bundle"), files: words("Gemfile.lock gems.locked"), up: true, builds: words("exec")},
		"composer":   {trees: words("vendor"), files: words("composer.json composer.lock"), builds: scripts, chdir: words("-d --working-dir")},
	}
}

// installer takes what a program of the table is going to touch; false: it is no such program.
func (p *planner) installer(name string, args []string) bool {
	if (name == "python" || name == "python3") && len(args) > 1 && args[0] == "-m" {
		switch args[1] {
		case "pip":
			name, args = "pip", args[2:]
		case "venv", "virtualenv":
			p.globs(operands(args[2:]), "venv", slices.Contains(args, "--clear"))
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
			word, _ := strings.CutPrefix(a, o+"=")
			if a == o && i+1 < len(args) {
				word = args[i+1]
			} else if word == a {
				continue
			}
			if d, ok := inside(p.repo, p.dir, word); ok && word != "" && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	deleted := slices.ContainsFunc(args, func(w string) bool { return slices.Contains(e.deletes, w) })
	builds := slices.Contains(e.builds, "*") || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(e.builds, w) })
	for _, d := range dirs {
		p.effect(e, name, d, deleted, builds)
	}
	p.out.Untracked = p.out.Untracked || builds
	return true
}

func (p *planner) effect(e effect, name, dir string, deleted, builds bool) {
	all := []string{dir}
	for d := dir; e.up && d != "."; {
		d = path.Dir(d)
		all = append(all, d)
	}
	trees := e.trees
	if builds {
		trees = slices.Concat(trees, buildTrees())
	}
	for _, d := range all {
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
