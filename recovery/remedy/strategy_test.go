package remedy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// What each strategy comes to, on real systems and with the real recipes.
// Conforms: 000-1-reuse, 000-3.1-availability, 000-3.1-lock, 000-3.1-impossible, 000-3.1-ready, 000-3.2-install-dep
// Conforms: 000-3.2-then-switch, 000-3.2-packages, 000-3.2-switch, 000-3.2-modifier, 000-3.2-repo, 000-3.2-upgrade
// Conforms: 000-3.2-env, 000-3.2-manual, 000-3.2-cleanup, 000-3.2-rule, 000-5.2-dep-norecipe, 000-5.2-dep-missing
// Conforms: 000-5.2-dep-there, 000-5.2-switch, 000-5.2-retry, 000-5.2-packages, 000-12-dep, 000-12-switch
// Conforms: 000-12-modifier, 000-12-packages, 002-1-p2-steps, 002-plan-3, 002-plan-5, 002-rule-5
func TestStrategies(t *testing.T) {
	t.Parallel()
	cat, pre := embedded(t), Presets()
	installing := func(tool, method string, argv ...string) func(*classify.Failure, *Situation) {
		return func(f *classify.Failure, _ *Situation) {
			f.Tool, f.Method, f.Argv, f.Command = tool, method, argv, strings.Join(argv, " ")
		}
	}
	captures := func(name, value string) func(*classify.Failure, *Situation) {
		return func(f *classify.Failure, _ *Situation) { f.Matches[0].Captures = map[string]string{name: value} }
	}
	tests := []struct {
		name    string
		option  catalog.Option
		system  string
		change  func(*classify.Failure, *Situation)
		is      Availability
		command string   // "" where impossible
		deps    []string // UnlockDeps
		reason  string   // part of why it is impossible, or demoted
		goal    string
	}{
		{"install_dep missing", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, "debian12", nil, Locked, "sudo apt-get install -y --no-install-recommends jq", []string{"jq"}, "", "tool/jq"},
		{"install_dep as root, stale index", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, "debian_slim", nil, Locked, "apt-get update && apt-get install -y --no-install-recommends jq", []string{"jq"}, "", "tool/jq"},
		{"install_dep on alpine", catalog.Option{Strategy: catalog.InstallDep, Dep: "gh"}, "alpine", nil, Locked, "apk update && apk add github-cli", []string{"gh"}, "", ""},
		{"install_dep without a password", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, "ubuntu2404", nil, Locked, "sudo -n apt-get install -y --no-install-recommends jq", []string{"jq"}, "", ""},
		{"install_dep of what is there", catalog.Option{Strategy: catalog.InstallDep, Dep: "git"}, "debian12", nil, Ready, "sudo apt-get install -y --no-install-recommends git", nil, "already installed: look at PATH", "tool/git"},
		{"install_dep without sudo", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, "restricted", nil, Impossible, "", nil, "may not use sudo", ""},
		{"install_dep offline", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, "offline", nil, Impossible, "", nil, "no network", ""},
		{"install_dep read-only", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, "k8s_read_only", nil, Impossible, "", nil, "read-only", ""},
		{"install_dep without a recipe", catalog.Option{Strategy: catalog.InstallDep, Dep: "no-such-tool"}, "debian12", nil, Impossible, "", nil, "no recipe for no-such-tool", ""},
		{"install_dep by what was printed", catalog.Option{Strategy: catalog.InstallDep, Dep: "{tool}"}, "fedora", captures("tool", "rg"), Locked, "sudo dnf install -y ripgrep", []string{"ripgrep"}, "", "tool/ripgrep"},
		{"install_dep by a hostile name", catalog.Option{Strategy: catalog.InstallDep, Dep: "{tool}"}, "fedora", captures("tool", "rg; rm -rf /"), Impossible, "", nil, "not a plain name", ""},
		{"two levels", catalog.Option{Strategy: catalog.InstallDep, Dep: "uv"}, "debian12", nil, Locked, "sudo apt-get install -y --no-install-recommends pipx && pipx install uv", []string{"uv"}, "", "tool/uv"},
		{"then switch", catalog.Option{Strategy: catalog.InstallDepThenSwitch, Dep: "pipx", SwitchTo: "pipx"}, "debian12", installing("ruff", "venv", "pip3", "install", "ruff"), Locked,
			"sudo apt-get install -y --no-install-recommends pipx && pipx install ruff", []string{"pipx"}, "", "tool/ruff"},
		{"then switch of no tool", catalog.Option{Strategy: catalog.InstallDepThenSwitch, Dep: "pipx", SwitchTo: "pipx"}, "debian12", nil, Impossible, "", nil, "not the install of a tool", ""},
		{"packages", catalog.Option{Strategy: catalog.InstallPackages, Packages: map[string][]string{"debian": {"libssl-dev"}, "rhel": {"openssl-devel"}}}, "rocky9", nil, Ready, "sudo dnf install -y openssl-devel", nil, "", ""},
		{"packages of no family", catalog.Option{Strategy: catalog.InstallPackages, Packages: map[string][]string{"debian": {"libssl-dev"}}}, "arch", nil, Impossible, "", nil, "nobody knows the packages for arch", ""},
		{"packages without a manager", catalog.Option{Strategy: catalog.InstallPackages, Packages: map[string][]string{"unknown": {"x"}}}, "nixos", nil, Impossible, "", nil, "no package manager", ""},
		{"packages of a tool", catalog.Option{Strategy: catalog.InstallPackages, DynamicPackages: "tool"}, "opensuse", captures("tool", "shellcheck"), Ready, "sudo zypper --non-interactive install ShellCheck", nil, "", ""},
		{"switch method", catalog.Option{Strategy: catalog.SwitchMethod, Method: "brew", Prefer: []string{"apt"}}, "debian12", installing("black", "pip", "pip", "install", "black"), Ready, "sudo apt-get install -y --no-install-recommends black", nil, "", "tool/black"},
		{"switch to what failed", catalog.Option{Strategy: catalog.SwitchMethod, Method: "apt"}, "debian12", installing("black", "apt", "apt-get", "install", "black"), Impossible, "", nil, "no other such method", ""},
		{"modifier args", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Args: []string{"--force"}, DropArgs: []string{"-s"}, Alters: []string{"npm test"}}}, "debian12", installing("", "", "npm", "-s", "test"), Ready, "npm test --force", nil, "", ""},
		{"modifier env", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Env: map[string]string{"B": "2 3", "A": "1"}}}, "debian12", nil, Ready, "A=1 B='2 3' npm test", nil, "", ""},
		{"modifier sudo", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Sudo: true}}, "debian12", nil, Ready, "sudo npm test", nil, "", ""},
		{"modifier sudo without", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Sudo: true}}, "restricted", nil, Impossible, "", nil, "superuser", ""},
		{"modifier sudo as root", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Sudo: true}}, "ci_container", nil, Impossible, "", nil, "superuser already", ""},
		{"less parallel", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{LessParallel: true}}, "debian12", installing("", "", "make", "-j", "8", "all"), Ready, "make all -j1", nil, "", ""},
		{"add repo of the tool", catalog.Option{Strategy: catalog.AddRepo}, "debian_slim", installing("kubectl", "apt", "apt-get", "install", "kubectl"), Locked, "", []string{"curl"}, "", "tool/kubectl"},
		{"add repo given", catalog.Option{Strategy: catalog.AddRepo, RepoSetup: map[string][][]string{"dnf": {{"dnf", "copr", "enable", "x"}}}}, "fedora", nil, Ready, "sudo dnf copr enable x && sudo dnf makecache", nil, "", ""},
		{"add repo unknown", catalog.Option{Strategy: catalog.AddRepo, RepoSetup: map[string][][]string{"dnf": {{"dnf"}}}}, "arch", nil, Impossible, "", nil, "nobody knows the repository", ""},
		{"upgrade", catalog.Option{Strategy: catalog.UpgradeDep, Dep: "git", MinVersion: "2.40"}, "debian12", nil, Ready, "sudo apt-get install -y --no-install-recommends git", nil, "", "tool/git"},
		{"upgrade of what is missing", catalog.Option{Strategy: catalog.UpgradeDep, Dep: "cmake"}, "debian12", nil, Locked, "sudo apt-get install -y --no-install-recommends cmake", []string{"cmake"}, "", "tool/cmake"},
		{"env fix", catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "rebuild", "{pkg}"}}}, "debian12", captures("pkg", "@esbuild/linux-x64"), Ready, "npm rebuild @esbuild/linux-x64", nil, "", ""},
		{"env fix with an address", catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "install", "{pkg}"}}}, "debian12", captures("pkg", "git+https://evil/x"), Impossible, "", nil, "not a plain name", ""},
		{"env fix without the capture", catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "install", "{pkg}"}}}, "debian12", nil, Impossible, "", nil, "does not name the pkg", ""},
		{"env fix by what is missing", catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{{"cmake", "--version"}}}, "debian12", nil, Locked, "sudo apt-get install -y --no-install-recommends cmake && cmake --version", []string{"cmake"}, "", ""},
		{"env fix by what nobody has", catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{{"frobnicate"}}}, "debian12", nil, Impossible, "", nil, "frobnicate is not on this system", ""},
		{"cleanup with the superuser", catalog.Option{Strategy: catalog.CleanupRetry, Sudo: true, Commands: [][]string{{"apt-get", "clean"}}}, "debian12", nil, Ready, "sudo apt-get clean", nil, "", ""},
		{"cleanup of the project", catalog.Option{Strategy: catalog.CleanupRetry, Project: "clean_install"}, "debian12", nil, Ready, "npm ci", nil, "", ""},
		{"the failed command itself", catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "test"}}}, "debian12", nil, Ready, "npm test", nil, "it is the command that failed", ""},
		{"retry", catalog.Option{Strategy: catalog.Retry}, "debian12", nil, Ready, "npm test", nil, "", ""},
		{"manual", catalog.Option{Strategy: catalog.Manual, Instructions: "Do it."}, "debian12", nil, Ready, "", nil, "", ""},
		{"a condition", catalog.Option{Strategy: catalog.EnvFix, Requires: []string{"systemd"}, Commands: [][]string{{"systemctl", "start", "x"}}}, "alpine", nil, Impossible, "", nil, "systemd does not run here", ""},
		{"an architecture", catalog.Option{Strategy: catalog.Retry, ArchExclude: []string{"arm"}}, "raspbian", nil, Impossible, "", nil, "does not work on arm", ""},
		{"a needed program", catalog.Option{Strategy: catalog.Retry, RequiresBinary: []string{"corepack"}}, "debian12", nil, Impossible, "", nil, "corepack is not on this system", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := pre[tt.system]
			o := one(t, cat, tt.option, p, tt.change)
			if o.Availability != tt.is || tt.command != "" && o.Command != tt.command || !slices.Equal(o.UnlockDeps, tt.deps) {
				t.Errorf("got %s %q, deps %v (%s), want %s %q, deps %v", o.Availability, o.Command, o.UnlockDeps, o.ImpossibleReason, tt.is, tt.command, tt.deps)
			}
			if !strings.Contains(o.ImpossibleReason+o.Demoted, tt.reason) || tt.is == Impossible && o.ImpossibleReason == "" {
				t.Errorf("the reason is %q%q, want %q in it", o.ImpossibleReason, o.Demoted, tt.reason)
			}
			if tt.goal != "" && o.GoalKey != tt.goal {
				t.Errorf("the goal is %s, want %s", o.GoalKey, tt.goal)
			}
			for _, bad := range checkOption(&o, p, cat) {
				t.Error(bad)
			}
		})
	}
}

// The texts of the project's commands are those that people list.
func TestProjectCommandsAreThoseThatPeopleList(t *testing.T) {
	t.Parallel()
	cat, p := embedded(t), Presets()["debian12"].With("bun", "yarn", "pnpm", "go", "cargo", "cmake")
	next := `{"scripts":{"build":"next build"}}`
	have := map[string]bool{}
	for _, files := range []map[string]string{
		{"package.json": next, "package-lock.json": ""}, {"package.json": next, "bun.lock": ""}, {"package.json": next, "yarn.lock": ""}, {"package.json": next, "pnpm-lock.yaml": ""},
		{"package.json": next, "package-lock.json": "", "next.config.js": ""}, {"package.json": next, "bun.lockb": "", "next.config.mjs": ""},
		{"package.json": next, "yarn.lock": "", "next.config.ts": ""}, {"package.json": next, "pnpm-lock.yaml": "", "next.config.js": ""},
		{"go.mod": "", "go.sum": ""}, {"go.mod": "", "vendor/modules.txt": ""}, {"Cargo.toml": "", "Cargo.lock": ""}, {"CMakeLists.txt": ""}, {"package.json": next},
	} {
		dir := repo(t, files)
		for _, action := range []string{"install", "clean_install", "install_loose", "fetch", "build", "clean_build"} {
			f := failure("auth", dir, []string{"true"}, handler("h", catalog.LayerInfra, "", catalog.Option{ID: "x", Strategy: catalog.EnvFix, Project: action}), nil)
			plan := Resolve(cat, f, p, Situation{Dir: dir})
			have[plan.Options[0].Command] = true
		}
	}
	for _, want := range suggestedList() {
		if want != "npm cache verify" && want != "git worktree prune" && !have[want] {
			t.Errorf("no project recipe gives %q", want)
		}
	}
}

func TestProjectIsTheNearestAndOfTheSameKind(t *testing.T) {
	t.Parallel()
	cat, p := embedded(t), Presets()["debian12"].With("go")
	dir := repo(t, map[string]string{"package.json": "{}", "package-lock.json": "", "go.mod": "", "go.sum": "", "web/package.json": "{}", "web/src/x.ts": ""})
	tests := []struct{ family, sub, command, workingDir string }{
		{"npm", "", "npm ci", "."}, {"go", "", "go mod download", "."}, {"npm", "web/src", "rm -rf node_modules && npm install", "web"}, {"go", "web/src", "go mod download", "."},
	}
	for _, tt := range tests {
		f := failure("auth", dir+"/"+tt.sub, []string{"x"}, handler("h", catalog.LayerMethod, tt.family, catalog.Option{ID: "x", Strategy: catalog.EnvFix, Project: "clean_install"}), nil)
		plan := Resolve(cat, f, p, Situation{Dir: dir})
		if o := plan.Options[0]; o.Command != tt.command || o.WorkingDir != tt.workingDir {
			t.Errorf("%s in %q: %q in %s (%s), want %q in %s", tt.family, tt.sub, o.Command, o.WorkingDir, o.ImpossibleReason, tt.command, tt.workingDir)
		}
	}
	f := failure("auth", dir, []string{"x"}, handler("h", catalog.LayerMethod, "npm", catalog.Option{ID: "x", Strategy: catalog.EnvFix, Project: "build"}), nil)
	plan := Resolve(cat, f, p, Situation{Dir: dir})
	if o := plan.Options[0]; o.Availability != Impossible || !strings.Contains(o.ImpossibleReason, "no script build") {
		t.Errorf("a build without a script is %s (%s)", o.Availability, o.ImpossibleReason)
	}
}

// Conforms: 000-3.2-rule, 000-5.5-cycle, 000-8-needs, 000-12-cycle
func TestCyclesEnd(t *testing.T) {
	t.Parallel()
	need := func(id string, deps ...string) catalog.Recipe {
		return catalog.Recipe{ID: id, CLI: id, Label: id, Install: map[string][][]string{"x": {{"true"}}}, Requires: catalog.RecipeNeeds{Binaries: map[string][]string{"*": deps}}}
	}
	cat := &catalog.Catalog{Recipes: []catalog.Recipe{need("a", "b"), need("b", "c"), need("c", "a"), need("d", "e", "f"), need("e", "f"), need("f")}}
	p := Profile{HomeWritable: true}.With("true")
	if o := Install(cat, "a", p, Situation{}); o.Availability != Impossible || !strings.Contains(o.ImpossibleReason, "a -> b -> c -> a") {
		t.Errorf("a cycle is %s (%s)", o.Availability, o.ImpossibleReason)
	}
	o := Install(cat, "d", p, Situation{})
	var order []string
	for _, s := range o.Steps {
		order = append(order, s.For)
	}
	if want := []string{"tool/f", "tool/e", "tool/d"}; !slices.Equal(order, want) || !slices.Equal(o.UnlockDeps, []string{"e", "f"}) {
		t.Errorf("d is installed by %v with %v, want %v", order, o.UnlockDeps, want)
	}
	if own := o.Own(); len(own) != 1 || own[0].For != "tool/d" {
		t.Errorf("its own steps are %v", own)
	}
	if o := Install(cat, "d", p.With("f", "e"), Situation{}); o.Availability != Ready || len(o.Steps) != 1 {
		t.Errorf("with its dependencies there it is %s in %d steps", o.Availability, len(o.Steps))
	}
}

// Conforms: 002-8-p1
func TestWaitsAreTriesOfTheSameCommand(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	f := failure("network_error", "/r", []string{"curl", "x"}, handler("h", catalog.LayerInfra, "", catalog.Option{ID: "w", Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Wait: []int{5, 10, 20}}}), nil)
	f.Persistence = "transient"
	key := ""
	var waits []time.Duration
	var tried []string
	for range 5 {
		plan := Resolve(cat, f, Presets()["debian12"], Situation{Dir: "/r", Tried: tried, FailedCommand: "curl  x"})
		gate, o := Gate(&plan, nil)
		if gate != GateRetry {
			break
		}
		if key != "" && o.Key != key || o.Command != "curl  x" {
			t.Fatalf("the key went from %s to %s, the command is %q", key, o.Key, o.Command)
		}
		key, waits, tried = o.Key, append(waits, o.Tries[0]), append(tried, o.Key)
	}
	if want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("the waits were %v, want %v", waits, want)
	}
}

// Conforms: 002-4-p2, 003-c2.7-fix
func TestMoreTimeIsAProposal(t *testing.T) {
	t.Parallel()
	f := failure("timeout", "/r", []string{"npm", "test"}, nil, nil)
	f.Persistence = "transient"
	plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: "/r", Timeout: 90 * time.Second})
	if gate, o := Gate(&plan, nil); gate != GatePropose || o.Timeout != 180*time.Second || o.Command != "npm test" {
		t.Errorf("the gate is %s with %+v", gate, o)
	}
	plan = Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: "/r"})
	if _, o := Gate(&plan, nil); o.Timeout != 2*recovery.DefaultTimeout {
		t.Errorf("the time limit is %s", o.Timeout)
	}
}
