package undo

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/inputs"
)

// Target is a file or tree of the repository that a command is going to delete or change.
type Target struct {
	Path    string // relative to the repository, with slashes
	Deleted bool   // the command removes the whole target, and may make a new one
	Why     string // the program that deletes or changes it
}

// Targets describes what is to be kept before a command. Tracked files are always kept.
type Targets struct {
	Paths     []Target
	Untracked bool    // keep the files that git neither tracks nor ignores
	Ignored   bool    // keep the files that git ignores
	Refused   []Named // words that name something that is never kept
}

// Named is a path with an explanation.
type Named struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Plan finds out which paths a command is going to change. commands are its simple commands in their order, each as its
// words after quote removal. Plan executes nothing; it matches globs against the existing names. It returns an error
// only if the working directory is outside of the repository.
func Plan(repo, workingDir string, commands [][]string) (Targets, error) {
	dir, ok := inputs.Inside(repo, ".", workingDir)
	if !ok {
		return Targets{}, fmt.Errorf("planning what to keep: the working directory %q is not in the repository", workingDir)
	}
	p := planner{repo: repo, dir: dir, entries: maxPlanned}
	for _, argv := range commands {
		p.command(argv)
	}
	p.out.Paths = outermost(p.out.Paths)
	return p.out, nil
}

type planner struct {
	repo    string
	dir     string
	out     Targets
	entries int
}

func (p *planner) command(argv []string) {
	argv = inputs.Unwrap(argv)
	if len(argv) == 0 {
		return
	}
	name, args := path.Base(argv[0]), argv[1:]
	switch name {
	case "cd", "pushd":
		if words := inputs.Operands(args); len(words) > 0 {
			if d, ok := inputs.Inside(p.repo, p.dir, words[0]); ok && !strings.Contains(d, inputs.Unknown) {
				p.dir = d
			}
		}
	case "rm", "rmdir", "unlink", "rimraf", "del", "trash":
		p.globs(inputs.Operands(args), name, true)
	case "shx", "npx", "bunx", "pnpx":
		p.command(inputs.Operands(args))
	case "find":
		if slices.ContainsFunc(args, func(a string) bool { return a == "-delete" || strings.HasPrefix(a, "-exec") || a == "-ok" }) {
			roots := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
			p.globs(args[:roots], name, false)
			p.out.Untracked = true
		}
	case "mv", "cp", "ln", "install", "rsync":
		p.moves(name, inputs.Operands(args))
	case "tee", "truncate", "shred":
		p.globs(inputs.Operands(args), name, false)
	case "sed", "perl":
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-i") || strings.HasPrefix(a, "--in-place") }) {
			p.globs(inputs.Operands(args), name, false)
		}
	case "git":
		if words := inputs.Operands(args); len(words) > 0 { // tracked files are kept anyway
			p.out.Untracked = p.out.Untracked || slices.Contains([]string{"clean", "stash", "apply", "am", "submodule"}, words[0])
			p.out.Ignored = p.out.Ignored || words[0] == "clean" && slices.ContainsFunc(args, func(a string) bool {
				return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a, "xX")
			})
		}
	default:
		const harmless = "echo printf ls cat true false test [ export set pwd which type sleep grep head tail wc mkdir date uname id whoami stat file du df ps kill :"
		if !p.installer(name, args) && !slices.Contains(strings.Fields(harmless), name) {
			p.out.Untracked = true
		}
	}
}

// moves adds the targets of commands that move or copy. mv removes its sources, and all of them overwrite their
// destination.
func (p *planner) moves(name string, words []string) {
	if len(words) < 2 {
		return
	}
	to, from := words[len(words)-1], words[:len(words)-1]
	if name == "mv" {
		p.globs(from, name, true)
	}
	d, ok := inputs.Inside(p.repo, p.dir, to)
	if ok && p.kind(d) == isDir {
		for _, w := range from {
			p.glob(path.Join(to, path.Base(w)), name, false)
		}
		ok = name == "rsync"
	}
	if ok {
		p.glob(to, name, false)
	}
}

func (p *planner) globs(words []string, why string, deleted bool) {
	for _, w := range words {
		p.glob(w, why, deleted)
	}
}

// glob adds the entries that a word names.
func (p *planner) glob(word, why string, deleted bool) {
	if word == inputs.Unknown || strings.HasPrefix(word, "~") || strings.HasPrefix(word, inputs.Unknown) {
		p.refuse(word, "what it means is not written out")
		p.out.Untracked = true
		return
	}
	rel, ok := inputs.Inside(p.repo, p.dir, strings.ReplaceAll(word, inputs.Unknown, "*"))
	if !ok {
		p.refuse(word, "it is not in the repository")
		return
	}
	for _, m := range p.match(rel) {
		p.target(m, why, deleted)
	}
}

func (p *planner) refuse(word, why string) {
	p.out.Refused = append(p.out.Refused, Named{word, why})
}

func (p *planner) target(rel, why string, deleted bool) {
	switch first, _, _ := strings.Cut(rel, "/"); {
	case rel == ".":
		p.refuse(rel, "it is the whole repository; tracked and untracked files are kept")
		p.out.Untracked = true
	case first == ".git" || first == ".superloop":
		p.refuse(rel, "what belongs to git or to superloop itself is not kept")
	case len(p.out.Paths) >= maxTargets:
		if len(p.out.Refused) == 0 || p.out.Refused[len(p.out.Refused)-1].Path != "..." {
			p.refuse("...", fmt.Sprintf("there are more than %d targets", maxTargets))
		}
	default:
		p.out.Paths = append(p.out.Paths, Target{rel, deleted, why})
	}
}

// outermost removes duplicates, and targets that lie in another target.
func outermost(list []Target) []Target {
	slices.SortStableFunc(list, func(a, b Target) int { return strings.Compare(a.Path, b.Path) })
	var out []Target
	at := map[string]int{}
	for _, t := range list {
		d := t.Path
		for ; d != "."; d = path.Dir(d) {
			if _, ok := at[d]; ok {
				break
			}
		}
		switch d {
		case t.Path:
			out[at[d]].Deleted = out[at[d]].Deleted || t.Deleted
		case ".":
			at[t.Path] = len(out)
			out = append(out, t)
		}
	}
	return out
}

// effect describes what a program makes or replaces in the directory of a project.
type effect struct {
	trees    []string // directories, relative to the project
	files    []string // lock files and similar files
	anywhere []string // directory names that are also searched in the members of a workspace
	deletes  []string // words of a call that removes these trees first
	builds   []string // words of a call that runs scripts of the project, which may write anything; "*" means every call
	chdir    []string // the options that name the directory of the project
	up       bool     // it also works on the projects above
}

// buildTrees are the directories that build scripts usually write.
const buildTrees = "dist build out lib .next .nuxt .output .svelte-kit .turbo .parcel-cache .cache .vite .angular coverage storybook-static" +
	" node_modules/.cache node_modules/.vite public/build"

// effects returns the table of programs that install or build, by program name.
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

// installer adds the targets of a program in the table. It returns false for other programs.
func (p *planner) installer(name string, args []string) bool {
	if (name == "python" || name == "python3") && len(args) > 1 && args[0] == "-m" {
		switch args[1] {
		case "pip":
			name, args = "pip", args[2:]
		case "venv", "virtualenv":
			p.globs(inputs.Operands(args[2:]), "venv", slices.Contains(args, "--clear"))
			return true
		}
	}
	e, ok := effects()[name]
	if !ok {
		return false
	}
	words := inputs.Operands(args)
	dirs := []string{p.dir}
	for _, word := range inputs.Values(args, e.chdir) {
		if d, ok := inputs.Inside(p.repo, p.dir, word); ok && word != "" && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
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
		trees = slices.Concat(trees, strings.Fields(buildTrees))
	}
	for _, d := range all {
		for _, t := range trees {
			if rel := path.Join(d, t); p.kind(rel) == isDir {
				p.target(rel, name, deleted)
			}
		}
		for _, f := range e.files {
			// A missing file is a target, too, so that undo can report it as new.
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
