package remedy

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/recovery/catalog"
)

const (
	maxUp       = 64      // directories that projectOf visits from the command's directory upwards
	maxManifest = 4 << 20 // bytes of a package.json
)

// found is a project recipe that fits the files of a directory.
type found struct {
	recipe *catalog.ProjectRecipe
	dir    string
	root   string // where installs run: the root of the workspace, or dir
	locked bool   // one of the recipe's lock files exists
}

// projectOf finds the project to which a directory belongs. It searches the directory and those above it, up to the
// repository's root, and takes the nearest one that has a project. In a directory it prefers a project recipe whose
// lock file exists, and then the highest priority. If the ecosystem of the failed command is known, it takes no other.
// For Node.js nodeProjectOf decides; program is the package manager that the failed command calls, or "".
func projectOf(cat *catalog.Catalog, dir, root, ecosystem, program string) (found, bool) {
	for d := range upwards(dir, root) {
		f, ok := projectIn(cat, d, ecosystem)
		if !ok {
			continue
		}
		if ecosystemOf(f.recipe.Method) == "node" {
			if n, ok := nodeProjectOf(d, root, program); ok {
				return nodeRecipe(cat, n)
			}
		}
		return f, true
	}
	return found{}, false
}

func projectIn(cat *catalog.Catalog, dir, ecosystem string) (found, bool) {
	var best found
	better := func(f found) bool {
		if best.recipe != nil && f.locked == best.locked {
			return f.recipe.Priority > best.recipe.Priority
		}
		return best.recipe == nil || f.locked
	}
	for i := range cat.Projects {
		r := &cat.Projects[i]
		if ecosystem != "" && ecosystemOf(r.Method) != ecosystem || len(r.Manifests) > 0 && !anyFile(dir, r.Manifests) {
			continue
		}
		f := found{recipe: r, dir: dir, root: dir, locked: anyFile(dir, r.LockFiles)}
		if (f.locked || len(r.LockFiles) == 0) && better(f) {
			best = f
		}
	}
	return best, best.recipe != nil
}

// Installs returns the commands with which Resolve installs what the files in a directory declare for an ecosystem
// (node, python, go, rust, jvm, ruby, php, cc, dotnet, mix, swift, deno, bazel, r, nix), each in the bytes that a policy must list. All of them may run twice.
// Installs leaves out a command that deletes, and one that asks for newer versions. locked is true if the project has a
// lock file. Without a project of the ecosystem Installs returns nil, as it does for the member of a workspace, because
// the install in the workspace's root installs that as well. root is the directory of the repository.
func Installs(cat *catalog.Catalog, root, dir, ecosystem string) (commands []string, locked bool) {
	f, ok := projectIn(cat, dir, ecosystem)
	if !ok || ecosystem == "" {
		return nil, false
	}
	if ecosystem == "node" {
		n, _ := nodeProjectOf(dir, root, "")
		if f, ok = nodeRecipe(cat, n); !ok || n.root != filepath.Clean(dir) {
			return nil, false
		}
	}
	for _, action := range []string{"install", "clean_install"} {
		if keeps(f.recipe.Actions[action]) {
			commands = append(commands, commandText(stepsOf(f.recipe.Actions[action])))
			if text := commandText(stepsOf(inEnvironment(cmp.Or(environment(dir), madeEnvironment), f.recipe.Actions[action]))); !slices.Contains(commands, text) {
				commands = append(commands, text)
			}
		}
	}
	return commands, f.locked && f.recipe.Priority > lastResort
}

// keeps reports whether commands delete nothing and keep to the versions that are declared. No command keeps nothing.
func keeps(commands [][]string) bool {
	return len(commands) > 0 && !slices.ContainsFunc(commands, func(argv []string) bool {
		return argv[0] == "rm" || slices.ContainsFunc(argv[1:], func(a string) bool {
			return slices.Contains([]string{"-U", "--refresh-dependencies", "--sync", "--force", "--force-reinstall"}, a)
		})
	})
}

func stepsOf(commands [][]string) []Step {
	var steps []Step
	for _, argv := range commands {
		steps = append(steps, Step{Argv: argv})
	}
	return steps
}

// assumed returns a project for a failure without a directory, such as one in a batch of recorded failures. It prefers
// the project recipe of the failed program, then one of the failed package manager, then any of the ecosystem. Of
// several it takes the one of the lowest priority, which is the plain project without a framework or a wrapper.
func assumed(cat *catalog.Catalog, ecosystem, method, program string) found {
	var best *catalog.ProjectRecipe
	rank := func(r *catalog.ProjectRecipe) int {
		switch {
		case r.ID == program:
			return 2
		case r.Method == method:
			return 1
		}
		return 0
	}
	for i := range cat.Projects {
		r := &cat.Projects[i]
		if ecosystem == "" || ecosystemOf(r.Method) != ecosystem || r.Priority <= lastResort {
			continue
		}
		if best == nil || rank(r) > rank(best) || rank(r) == rank(best) && r.Priority < best.Priority {
			best = r
		}
	}
	return found{recipe: best, locked: best != nil}
}

// lastResort is the priority of the project recipes for projects without a lock file.
const lastResort = 1

// anyFile reports whether a directory has one of the files. A name may be a glob pattern.
func anyFile(dir string, names []string) bool {
	for _, n := range names {
		if strings.ContainsAny(n, "*?[") {
			if hits, err := filepath.Glob(filepath.Join(globQuote(dir), n)); err == nil && len(hits) > 0 {
				return true
			}
		} else if _, err := os.Stat(filepath.Join(dir, n)); err == nil {
			return true
		}
	}
	return false
}

func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func within(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// ecosystemOf returns the ecosystem of a method, or "". Methods of one ecosystem share a project's files. So an action
// of a Go project is no remedy for a failure of npm.
func ecosystemOf(method string) string {
	for _, e := range [][]string{
		{"node", "npm", "pnpm", "yarn", "bun", "npx", "corepack"}, {"python", "pip", "pipx", "uv", "poetry", "pipenv", "conda"},
		{"cc", "source", "cmake", "make", "ninja", "meson"}, {"jvm", "maven", "gradle", "java"}, {"go"}, {"dotnet", "nuget", "msbuild"},
		{"mix", "elixir", "iex"}, {"swift"}, {"deno"}, {"bazel", "bazelisk"}, {"r", "R", "Rscript"}, {"nix", "nix-shell", "nix-build"},
		{"ruby", "gem", "bundler", "bundle"}, {"php", "composer", "composer_global"}, {"rust", "cargo", "rustup"},
	} {
		if slices.Contains(e, method) {
			return e[0]
		}
	}
	return ""
}

// action returns the commands of a project recipe for an action. If the recipe does not have the action, it takes the
// nearest other action: install for fetch, for example.
func (f found) action(name string) ([][]string, bool) {
	for _, n := range slices.Concat([]string{name}, map[string][]string{"clean_install": {"install"}, "fetch": {"install"},
		"install_loose": {"clean_install", "install"}, "clean_build": {"build"}}[name]) {
		if commands, ok := f.recipe.Actions[n]; ok {
			return commands, true
		}
	}
	return nil, false
}

// lacks returns the reason why a command such as npm run build cannot work: package.json, or the script in it, is
// missing. It returns "" if nothing is missing or if the directory is not known.
func (f found) lacks(argv []string) string {
	if f.dir == "" || len(argv) < 3 || argv[1] != "run" || ecosystemOf(argv[0]) != "node" {
		return ""
	}
	data, err := door.Read(filepath.Join(f.dir, "package.json"), maxManifest)
	if err != nil {
		return "there is no package.json that can be read"
	}
	m, ok := manifest.PackageJSON(data)
	if !ok {
		return "package.json cannot be read"
	}
	if _, ok := m.Scripts[argv[2]]; !ok {
		return "package.json has no script " + argv[2]
	}
	return ""
}

// project makes the steps of an action of the project to which the failed command's directory belongs.
func (r *resolver) project(b builder, action, family string) work {
	program := ""
	if len(r.argv) > 0 {
		program = filepath.Base(r.argv[0])
	}
	eco := cmp.Or(ecosystemOf(family), ecosystemOf(r.f.Method), ecosystemOf(strings.TrimSuffix(program, "3")))
	f, seen := r.projects[eco]
	if !seen {
		if r.dir == "" {
			f = assumed(r.cat, eco, r.f.Method, program)
		} else {
			f, _ = projectOf(r.cat, r.dir, r.root, eco, r.nodeProgram())
		}
		r.projects[eco] = f
	}
	if f.recipe == nil {
		return impossible("no project recipe fits the files in %s", r.rel(r.dir))
	}
	commands, ok := f.action(action)
	if !ok {
		return impossible("a %s project has no action %q", f.recipe.Label, action)
	}
	for _, argv := range commands {
		if why := f.lacks(argv); why != "" {
			return impossible("%s", why)
		}
	}
	if b.dir = f.root; strings.Contains(action, "build") {
		b.dir = f.dir
	}
	if f.dir != "" {
		commands = inEnvironment(environment(b.dir), commands)
	}
	w := b.steps(commands, false)
	w.method, w.foreign = f.recipe.Method, foreign(f.recipe.Origin, "the project recipe "+f.recipe.ID)
	if b.p.Network == NetworkNo {
		w.notes = append(w.notes, "there is no network: it works only from what is cached")
	}
	return b.unlock(w, f.recipe.Requires)
}
