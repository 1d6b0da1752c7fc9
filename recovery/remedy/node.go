package remedy

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
)

// nodeManagers are the package managers of Node.js, in the order in which lock files count that stand side by side.
var nodeManagers = []string{"bun", "pnpm", "yarn", "npm"}

// maxDeep bounds the number of ** in the glob of a workspace.
const maxDeep = 3

// nodeProject is a package of Node.js and its package manager.
type nodeProject struct {
	manager string
	why     string // what says that it is this manager, for an operator
	dir     string // the directory of the package.json that is nearest to the command
	root    string // the directory that an install works on: the root of the workspace, or dir
}

// NodeManager returns the package manager of the Node.js package to which a directory belongs: npm, pnpm, yarn or bun.
// root is the repository's directory, at which the search upwards ends. Without a package.json it returns "".
func NodeManager(dir, root string) string {
	n, _ := nodeProjectOf(dir, root, "")
	return n.manager
}

// nodeProjectOf finds the Node.js package to which a directory belongs, and its package manager. A missing lock file
// says nothing; the first of these facts decides, and of equal ones that of the nearest directory:
//
//  1. packageManager and devEngines in package.json, and a preinstall script that allows one manager only
//  2. a lock file; of several the one that another fact confirms
//  3. a file that only one manager reads: pnpm-workspace.yaml, .yarnrc.yml, bunfig.toml
//  4. what a manager has left in node_modules
//  5. engines in package.json
//  6. the program of the failed command
//
// Else the manager is npm.
func nodeProjectOf(dir, root, program string) (nodeProject, bool) {
	n := nodeProject{}
	var above []nodeDir
	for d := range upwards(dir, root) {
		at := readNodeDir(d)
		if at.is && n.dir == "" {
			n.dir, n.root = d, d
		}
		if n.dir == "" {
			continue
		}
		above = append(above, at)
		if at.is && d != n.dir && at.member(n.dir) {
			n.root = d
		}
	}
	if n.dir == "" {
		return n, false
	}
	called := ""
	if slices.Contains(nodeManagers, program) {
		called = program
	}
	for _, fact := range []func(nodeDir) (string, string){
		nodeDir.declared,
		func(d nodeDir) (string, string) { return d.lock(called) },
		nodeDir.settings, nodeDir.marks, nodeDir.engines,
	} {
		for _, d := range above {
			if n.manager, n.why = fact(d); n.manager != "" {
				return n, true
			}
		}
	}
	n.manager, n.why = "npm", "nothing names another package manager"
	if called != "" {
		n.manager, n.why = called, "the failed command uses it"
	}
	return n, true
}

// upwards yields a directory and those above it up to root, at most maxUp.
func upwards(dir, root string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if dir == "" {
			return
		}
		dir, root = filepath.Clean(dir), filepath.Clean(root)
		for range maxUp {
			up := filepath.Dir(dir)
			if !yield(dir) || dir == root || up == dir || !within(root, up) {
				return
			}
			dir = up
		}
	}
}

// nodeDir holds what the files of one directory tell about its package manager.
type nodeDir struct {
	dir     string
	pkg     manifest.Package
	is      bool // it has a package.json that can be read
	members []string
}

func readNodeDir(dir string) nodeDir {
	d := nodeDir{dir: dir}
	if data, err := door.Read(filepath.Join(dir, "package.json"), maxManifest); err == nil {
		d.pkg, d.is = manifest.PackageJSON(data)
	}
	if !d.is {
		return d
	}
	d.members = d.pkg.Workspaces
	if data, err := door.Read(filepath.Join(dir, "pnpm-workspace.yaml"), maxManifest); err == nil {
		d.members = append(slices.Clone(d.members), manifest.YAMLList(data, "packages")...)
	}
	return d
}

// member reports whether a directory below is a member of the workspace of which d is the root.
func (d nodeDir) member(dir string) bool {
	rel, err := filepath.Rel(d.dir, dir)
	if err != nil {
		return false
	}
	is := false
	for _, glob := range d.members {
		out, excluded := strings.CutPrefix(glob, "!")
		segs := strings.Split(path.Clean(out), "/")
		deep := strings.Count(out, "**") > maxDeep // matching would take too long
		if deep || globSegments(segs, strings.Split(filepath.ToSlash(rel), "/")) {
			is = !excluded
		}
	}
	return is
}

// globSegments reports whether the elements of a path match those of a glob. The element ** stands for any elements.
func globSegments(glob, name []string) bool {
	switch {
	case len(glob) == 0:
		return len(name) == 0
	case glob[0] == "**":
		for i := range len(name) + 1 {
			if globSegments(glob[1:], name[i:]) {
				return true
			}
		}
		return false
	case len(name) == 0:
		return false
	}
	ok, err := path.Match(glob[0], name[0])
	return ok && err == nil && globSegments(glob[1:], name[1:])
}

func (d nodeDir) has(names ...string) string {
	for _, n := range names {
		if _, err := os.Lstat(filepath.Join(d.dir, n)); err == nil {
			return n
		}
	}
	return ""
}

func (d nodeDir) declared() (string, string) {
	name, _, _ := strings.Cut(d.pkg.Manager, "@")
	switch {
	case slices.Contains(nodeManagers, name):
		return name, "packageManager in package.json says so"
	case slices.Contains(nodeManagers, d.pkg.DevManager):
		return d.pkg.DevManager, "devEngines in package.json says so"
	}
	words := strings.Fields(d.pkg.Scripts["preinstall"])
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "only-allow") }); i >= 0 && i+1 < len(words) &&
		slices.Contains(nodeManagers, words[i+1]) {
		return words[i+1], "the script preinstall allows no other"
	}
	return "", ""
}

// lock returns the manager of the lock file. Of several lock files it prefers that of the manager which another fact
// names, and then that of the called manager.
func (d nodeDir) lock(called string) (string, string) {
	files := map[string]string{}
	var have []string
	for manager, names := range lockFiles {
		if f := d.has(names...); f != "" {
			files[manager] = f
			have = append(have, manager)
		}
	}
	if len(have) == 0 {
		return "", ""
	}
	slices.SortFunc(have, func(a, b string) int {
		return cmp.Compare(slices.Index(nodeManagers, a), slices.Index(nodeManagers, b))
	})
	best := have[0]
	settings, _ := d.settings()
	marks, _ := d.marks()
	engines, _ := d.engines()
	for _, m := range []string{called, engines, marks, settings} { // the last counts most
		if slices.Contains(have, m) {
			best = m
		}
	}
	return best, files[best] + " is its lock file"
}

func (d nodeDir) settings() (string, string) {
	for _, s := range [][2]string{{"pnpm-workspace.yaml", "pnpm"}, {".yarnrc.yml", "yarn"}, {"bunfig.toml", "bun"}} {
		if d.has(s[0]) != "" {
			return s[1], s[0] + " is its settings"
		}
	}
	return "", ""
}

func (d nodeDir) marks() (string, string) {
	for _, s := range [][2]string{{"node_modules/.pnpm", "pnpm"}, {"node_modules/.modules.yaml", "pnpm"}, {".pnp.cjs", "yarn"},
		{"node_modules/.yarn-integrity", "yarn"}, {"node_modules/.yarn-state.yml", "yarn"}, {"node_modules/.bun", "bun"},
		{"node_modules/.package-lock.json", "npm"}} {
		if d.has(s[0]) != "" {
			return s[1], "it has made " + s[0]
		}
	}
	return "", ""
}

// engines returns the one manager besides npm that engines asks for. A value such as please-use-pnpm names another.
func (d nodeDir) engines() (string, string) {
	var asked []string
	for _, m := range nodeManagers {
		v, ok := d.pkg.Engines[m]
		if !ok {
			continue
		}
		words := strings.FieldsFunc(strings.ToLower(v), func(c rune) bool { return c < 'a' || c > 'z' })
		if i := slices.IndexFunc(words, func(w string) bool { return slices.Contains(nodeManagers, w) }); i >= 0 {
			m = words[i]
		} else if m == "npm" || len(words) > 0 && strings.ContainsAny(v, " -") && !strings.ContainsAny(v, "0123456789*xX") {
			continue // engines.npm stands in the packages of all managers; a sentence forbids the manager
		}
		if !slices.Contains(asked, m) {
			asked = append(asked, m)
		}
	}
	if len(asked) == 1 {
		return asked[0], "engines in package.json says so"
	}
	return "", ""
}

// node returns the package of Node.js in which the failed command ran. It searches once.
func (r *resolver) node() (nodeProject, bool) {
	if r.nodes == nil {
		n, _ := nodeProjectOf(r.dir, r.root, r.nodeProgram())
		r.nodes = &n
	}
	return *r.nodes, r.nodes.dir != ""
}

// nodeProgram returns the package manager of Node.js that the failed command calls, or "".
func (r *resolver) nodeProgram() string {
	for _, p := range recovery.Analyse(r.text).Parts {
		if name := (callOf(p.Words)).program; slices.Contains(nodeManagers, name) {
			return name
		}
		if m := map[string]string{"bunx": "bun", "pnpx": "pnpm"}[append(p.Words, "")[0]]; m != "" {
			return m
		}
	}
	return ""
}

// nodeRecipe returns the project recipe for a package of Node.js. It prefers one whose lock file exists. If there is
// none, it prefers one that needs no lock file, then the higher priority.
func nodeRecipe(cat *catalog.Catalog, n nodeProject) (found, bool) {
	best := found{dir: n.dir, root: n.root}
	rank := func(r *catalog.ProjectRecipe, locked bool) int {
		switch {
		case locked:
			return 2
		case len(r.LockFiles) == 0:
			return 1
		}
		return 0
	}
	for i := range cat.Projects {
		r := &cat.Projects[i]
		if r.Method != n.manager || len(r.Manifests) > 0 && !anyFile(n.dir, r.Manifests) && !anyFile(n.root, r.Manifests) {
			continue
		}
		locked := anyFile(n.dir, r.LockFiles) || anyFile(n.root, r.LockFiles)
		if best.recipe == nil || cmp.Or(cmp.Compare(rank(r, locked), rank(best.recipe, best.locked)), cmp.Compare(r.Priority, best.recipe.Priority)) > 0 {
			best.recipe, best.locked = r, locked
		}
	}
	return best, best.recipe != nil
}

// projectChanges are the subcommands of the package managers that install into a project or change what it declares.
var projectChanges = strings.Fields("install i in ins isntall add ci clean-install install-clean install-test it cit update up upgrade udpate rebuild rb" +
	" dedupe ddp prune import fetch uninstall remove rm r un unlink link ln audit shrinkwrap")

// changer returns the package manager of a command that changes the project in which it runs, or "". npm audit only
// looks, unless it fixes.
func changer(argv []string) string {
	c := callOf(argv)
	words := afterOptions(c.args, repeatTable().options[c.program])
	global := slices.ContainsFunc(c.args, func(a string) bool { return a == "-g" || a == "--global" || a == "--location=global" })
	if !slices.Contains(nodeManagers, c.program) || global || len(words) > 0 && !slices.Contains(projectChanges, words[0]) ||
		len(words) == 0 && c.program != "yarn" || len(words) > 0 && words[0] == "audit" && !slices.Contains(words, "fix") {
		return ""
	}
	return c.program
}

// asManager returns the words with which the manager of the project does what a command of another manager in the
// catalog does. why is the reason if it cannot.
func asManager(n nodeProject, argv []string) (out []string, why string) {
	c := callOf(argv)
	rest := slices.DeleteFunc(slices.Clone(c.args), func(w string) bool { return w == "--save-dev" || w == "-D" })
	dev := len(rest) < len(c.args)
	options := slices.ContainsFunc(rest, func(w string) bool { return strings.HasPrefix(w, "-") })
	switch {
	case len(rest) == 0 || options:
	case (rest[0] == "install" || rest[0] == "ci") && len(rest) == 1:
		return []string{n.manager, "install"}, ""
	case rest[0] == "install" || rest[0] == "add":
		out = []string{n.manager, map[bool]string{true: "install", false: "add"}[n.manager == "npm"]}
		if dev {
			out = append(out, map[bool]string{true: "--save-dev", false: "--dev"}[n.manager == "npm" || n.manager == "pnpm"])
		}
		return append(out, rest[1:]...), ""
	case rest[0] == "rebuild" && (n.manager == "npm" || n.manager == "pnpm"):
		return append([]string{n.manager, "rebuild"}, rest[1:]...), ""
	case rest[0] == "rebuild":
		return []string{n.manager, "install", "--force"}, ""
	}
	return nil, n.notIts(c.program)
}

// notIts says why another package manager changes nothing in the project.
func (n nodeProject) notIts(manager string) string {
	return manager + " is not the package manager of this project, " + n.manager + " is: " + n.why
}

// lockFiles are the lock files of Node.js by manager.
var lockFiles = map[string][]string{"bun": {"bun.lock", "bun.lockb"}, "pnpm": {"pnpm-lock.yaml"}, "yarn": {"yarn.lock"},
	"npm": {"package-lock.json", "npm-shrinkwrap.json"}}

// forManager puts the project's own package manager in the place of another one in the commands of the catalog. place
// is the directory in which they must run, or "". Package managers work on the root of a workspace, whose node_modules
// and lock file count. why is the reason if a command has no counterpart.
func (r *resolver) forManager(commands [][]string) (out [][]string, place, why string) {
	if !slices.ContainsFunc(commands, func(argv []string) bool { return changer(argv) != "" }) {
		return commands, "", ""
	}
	n, ok := r.node()
	if !ok {
		return commands, "", ""
	}
	place = n.root
	for _, argv := range commands {
		manager := changer(argv)
		for m, names := range lockFiles {
			if m != n.manager && argv[0] == "rm" && slices.ContainsFunc(argv, func(w string) bool { return slices.Contains(names, w) }) {
				return nil, "", n.notIts(m)
			}
		}
		if manager != "" && manager != n.manager {
			if argv, why = asManager(n, argv); why != "" {
				return nil, "", why
			}
		}
		if manager != "" && (slices.Contains(argv, "add") || slices.Contains(argv, "--save-dev")) {
			place = n.dir // what the package needs is declared in the package
		}
		out = append(out, argv)
	}
	return out, place, ""
}
