package remedy

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/catalog"
)

// asked is the one tool that an install command asks for.
type asked struct {
	method string          // the method of the command: pip, npm, cargo, gem, go, pipx, or a package manager
	name   string          // the package's name in the command, without its version
	spec   string          // the package as the command has it
	recipe *catalog.Recipe // nil if the command asks for no tool, or for several
}

// askedFor are the calls that install tools by name, with their options that have a value. An empty manager stands for
// the entry's own program.
var askedFor = []struct {
	entry, method string
	values        string
}{
	{"pip install", "pip", "-i --index-url --extra-index-url --trusted-host --timeout --retries --cache-dir --python --proxy --find-links -f"},
	{"pipx install", "pipx", "--python --pip-args --index-url -i --suffix"},
	{"uv tool install", "uv", "--python -p --index-url --index"},
	{"npm install", "npm", "--registry --prefix --loglevel"}, {"npm i", "npm", "--registry --prefix --loglevel"}, {"npm add", "npm", "--registry --prefix"},
	{"pnpm add", "npm", "--registry"}, {"yarn global add", "npm", "--registry"}, {"bun add", "npm", "--registry"}, {"bun install", "npm", "--registry"},
	{"cargo install", "cargo", "--version --vers --features -F --bin -j --jobs --profile --root --target --index --registry"},
	{"gem install", "gem", "-v --version -i --install-dir -n --bindir -s --source -P"},
	{"go install", "go", "-tags -ldflags -p"},
	{"apt-get install", "apt", "-t -o"}, {"apt install", "apt", "-t -o"}, {"dnf install", "dnf", ""}, {"yum install", "yum", ""}, {"apk add", "apk", "-t --virtual -X"},
	{"pacman -S", "pacman", ""}, {"zypper install", "zypper", ""}, {"zypper in", "zypper", ""}, {"brew install", "brew", ""}, {"snap install", "snap", "--channel"},
}

// asked returns the tool that the failed command asks for. It looks once.
func (r *resolver) asked() asked {
	if r.wants == nil {
		a := r.askedTool()
		r.wants = &a
	}
	return *r.wants
}

var pipSpec = pattern.Lazy(`^([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9,._ -]*\])?((?:[=<>~!]=?|===)[^;@ ]*)?$`)

func (r *resolver) askedTool() asked {
	c := callOf(r.argv)
	for _, e := range askedFor {
		if !c.names(e.entry, repeatTable().options[c.program]) {
			continue
		}
		values := strings.Fields(e.values)
		args := slices.Clone(c.args)
		for _, w := range strings.Fields(e.entry)[1:] {
			args = slices.Delete(args, slices.Index(args, w), slices.Index(args, w)+1)
		}
		var words []string
		for i := 0; i < len(args); i++ {
			switch a := args[i]; {
			case a == "--":
			case slices.Contains(values, a):
				i++
			case !strings.HasPrefix(a, "-"):
				words = append(words, a)
			case slices.Contains([]string{"-r", "--requirement", "-e", "--editable", "-c", "--constraint", "--git", "--path", "-g"}, a) && e.method != "npm":
				return asked{} // what a file or a repository names
			}
		}
		global := e.method != "npm" || c.program == "yarn" || slices.ContainsFunc(c.args, func(a string) bool {
			return a == "-g" || a == "--global" || a == "--location=global"
		})
		if len(words) != 1 || !global {
			return asked{}
		}
		return r.wanted(e.method, words[0])
	}
	return asked{}
}

// wanted finds the recipe of a package by its name in a registry.
func (r *resolver) wanted(method, spec string) asked {
	a := asked{method: method, name: spec, spec: spec}
	switch method {
	case "pip", "pipx", "uv":
		m := pipSpec().FindStringSubmatch(spec)
		if m == nil {
			return asked{}
		}
		a.name = m[1]
	case "go":
		a.name, _, _ = strings.Cut(spec, "@")
	default:
		if i := strings.LastIndex(spec, "@"); i > 0 {
			a.name = spec[:i]
		}
	}
	if !plainName(a.name) || method == "npm" && strings.Contains(a.name, "/") && a.name[0] != '@' {
		return asked{}
	}
	for i := range r.cat.Recipes {
		if rec := &r.cat.Recipes[i]; installsPackage(rec, method, a.name) {
			a.recipe = rec
			break
		}
	}
	if a.recipe == nil {
		for _, program := range slices.Sorted(maps.Keys(r.cat.Names.Programs)) {
			if rec, ok := r.cat.Recipe(program); ok && installsPackage(rec, method, a.name) {
				a.recipe = rec
				break
			}
		}
	}
	if a.recipe == nil {
		a.recipe = &catalog.Recipe{ID: path.Base(a.name), Label: a.name, CLI: path.Base(a.name), Risk: catalog.RiskMedium}
	}
	a.recipe = r.moreWays(a)
	return a
}

// installsPackage reports whether a recipe installs the package of that name by the method or a kindred one.
func installsPackage(rec *catalog.Recipe, method, name string) bool {
	if pkgs := packaged(rec, method); len(pkgs) == 1 && pkgs[0] == name {
		return true
	}
	for _, m := range map[string][]string{"pip": {"pipx", "venv", "pip", "uv"}, "pipx": {"pipx", "venv", "pip", "uv"}, "uv": {"pipx", "venv", "pip", "uv"},
		"npm": {"npm"}, "cargo": {"cargo"}, "gem": {"gem"}, "go": {"go"}}[method] {
		commands := rec.Install[m]
		if len(commands) == 0 {
			continue
		}
		last := commands[len(commands)-1]
		pkg := last[len(last)-1]
		if i := strings.LastIndex(pkg, "@"); i > 0 {
			pkg = pkg[:i]
		}
		if pkg == name {
			return true
		}
	}
	return false
}

// moreWays returns the recipe with the ways to install the package that need no entry in the catalog: a virtual
// environment that contains the tool, and the package of the same software that the system's index knows. pipx and uv
// install what the command itself names, so no name is guessed. But pipx fails for a library, so only a recipe or the
// command itself says that the package is a tool.
func (r *resolver) moreWays(a asked) *catalog.Recipe {
	rec := *a.recipe
	rec.Install, rec.Packages = maps.Clone(rec.Install), maps.Clone(rec.Packages)
	rec.Requires.Binaries = maps.Clone(rec.Requires.Binaries)
	if rec.Install == nil {
		rec.Install = map[string][][]string{}
	}
	if rec.Packages == nil {
		rec.Packages = map[string][]string{}
	}
	if rec.Requires.Binaries == nil {
		rec.Requires.Binaries = map[string][]string{}
	}
	kin := map[string]string{"pip": "python3-", "pipx": "python3-", "uv": "python3-", "gem": "ruby-", "npm": "node-"}[a.method]
	if kin == "python3-" && rec.Install["venv"] == nil {
		rec.Install["venv"] = [][]string{{"python3", "-m", "venv", ".venv"}, {".venv/bin/pip", "install", a.spec}}
		rec.Requires.Binaries["venv"] = []string{"python3"}
	}
	if r.p.Index == nil {
		return &rec
	}
	for _, id := range r.p.Managers {
		if mgr, ok := r.cat.Manager(id); !ok || !mgr.Native || len(rec.Packages[id]) > 0 {
			continue
		}
		for _, pkg := range []string{path.Base(a.name), kin + strings.ToLower(a.name)} {
			if kin != "" && pkg == kin || strings.ContainsAny(pkg, "/@") {
				continue
			}
			if slices.Contains(r.p.Index.Providers(path.Base(a.name)), pkg) || strings.HasPrefix(pkg, kin) && kin != "" && r.p.Index.Package(pkg) {
				rec.Packages[id] = []string{pkg}
				break
			}
		}
	}
	return &rec
}
