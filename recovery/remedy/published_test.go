package remedy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// publishedFailure is a failure that the published designs name.
type publishedFailure struct {
	command, stderr string
	tool            string // the recipe whose install this is
	exit            int    // 1 unless it says otherwise
	timedOut        bool
	files           map[string]string // of the repository
	handler         string
	category        string
	strategy        catalog.Strategy // of one of the options
	remedy          string           // part of that option's command or instructions
	gate            string           // "" for any
	system          string           // debian12 unless it says otherwise
}

// plan classifies the failure for real, and works out what can be done.
func (p publishedFailure) plan(t *testing.T, cat *catalog.Catalog, c *classify.Classifier) (classify.Failure, Plan, Profile) {
	t.Helper()
	dir, system, exit := repo(t, p.files), p.system, classify.Exit{Code: p.exit, TimedOut: p.timedOut}
	if exit.Code == 0 && !p.timedOut {
		exit.Code = 1
	}
	if system == "" {
		system = "debian12"
	}
	profile := Presets()[system].With("bun")
	f, err := c.Classify(context.Background(), classify.Input{Source: classify.SourceTests, Command: p.command, Tool: p.tool, Dir: dir, Exit: exit, Stdout: strings.NewReader(""), Stderr: strings.NewReader(p.stderr)})
	if err != nil {
		t.Fatal(err)
	}
	return f, Resolve(cat, f, profile, Situation{Dir: dir}), profile
}

func playPublished(t *testing.T, all map[string]publishedFailure) {
	t.Helper()
	cat := embedded(t)
	c, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, plan, profile := p.plan(t, cat, c)
			if p.handler != "" && f.Handler != p.handler || f.Category != p.category {
				t.Errorf("it is %s by %s, want %s by %s: %s", f.Category, f.Handler, p.category, p.handler, f.Why)
			}
			if p.strategy != "" && !slices.ContainsFunc(plan.Options, func(o Option) bool {
				return o.Strategy == p.strategy && strings.Contains(o.Command+o.Instructions+o.ImpossibleReason, p.remedy)
			}) {
				t.Errorf("no option is %s with %q: %+v", p.strategy, p.remedy, plan.Options)
			}
			if gate, _ := Gate(&plan, suggestedPolicy(t)); p.gate != "" && gate != p.gate {
				t.Errorf("the gate is %s, want %s", gate, p.gate)
			}
			for _, bad := range check(&plan, profile, cat) {
				t.Error(bad)
			}
		})
	}
}

// TestPublishedHandlers: each failure for which the remediation model has a handler is recognised by one of superloop's,
// which offers what the model does.
// Conforms: 000-1-specific, 000-2-recipe, 000-2-method, 000-2-infra, 000-2-bootstrap, 000-3.1-exit, 000-3.1-pep668
// Conforms: 000-3.3-specific, 000-3.4-pip-pep668, 000-3.4-pip-missing, 000-3.4-cargo-rustc, 000-3.4-cargo-gcc
// Conforms: 000-3.4-cargo-lib, 000-3.4-npm-eacces, 000-3.4-npm-missing, 000-3.4-apt-stale, 000-3.4-apt-locked
// Conforms: 000-3.4-dnf, 000-3.4-snap, 000-3.4-brew, 000-3.4-curl, 000-3.4-git, 000-3.5-offline, 000-3.5-blocked
// Conforms: 000-3.5-disk, 000-3.5-sudoers, 000-3.5-password, 000-3.5-permission, 000-3.5-oom, 000-3.5-timeout
// Conforms: 000-3.6-manager, 000-3.6-shell, 000-4.2-headers, 000-4.2-conflict, 000-4.2-repo, 000-7-cases, 000-8-build
// Conforms: 000-13-map, 000-3.2-repo-epel, 000-3.3-opencv, 000-4.2-cuda
func TestPublishedHandlers(t *testing.T) {
	t.Parallel()
	playPublished(t, map[string]publishedFailure{
		"pep668, environment": {command: "pip3 install ruff", stderr: "error: externally-managed-environment", handler: "pep668", category: "environment", strategy: catalog.EnvFix, remedy: ".venv"},
		"pep668, pipx":        {command: "pip3 install ruff", stderr: "error: externally-managed-environment", handler: "pep668", category: "environment", strategy: catalog.InstallDepThenSwitch},
		"pep668, system":      {command: "pip3 install ruff", stderr: "error: externally-managed-environment", handler: "pep668", category: "environment", strategy: catalog.SwitchMethod},
		"pep668, override": {command: "pip3 install ruff", stderr: "error: externally-managed-environment", handler: "pep668", category: "environment",
			strategy: catalog.RetryWithModifier, remedy: "pip3 install ruff --break-system-packages"},
		"pip is missing": {command: "python3 -m pip install ruff", stderr: "/usr/bin/python3: No module named pip", handler: "missing_pip", category: "dependency", strategy: catalog.InstallDep, remedy: "python3-pip"},
		"rustc is too old": {command: "cargo install ripgrep", exit: 101, handler: "rustc_version_mismatch", category: "dependency", strategy: catalog.UpgradeDep, remedy: "cargo",
			stderr: "error: package `ripgrep v14.1.0` cannot be built because it requires rustc 1.72 or newer, while the currently active rustc version is 1.63.0"},
		"GCC's bug, GCC 12": {command: "cargo install x", exit: 101, handler: "gcc_memcmp_bug", category: "dependency", strategy: catalog.InstallPackages, remedy: "gcc-12",
			stderr: "### COMPILER BUG DETECTED ###\nYour compiler (cc) is not supported due to a memcmp related bug reported in https://gcc.gnu.org/bugzilla/show_bug.cgi?id=95189."},
		"GCC's bug, clang": {command: "cargo install x", exit: 101, handler: "gcc_memcmp_bug", category: "dependency", strategy: catalog.InstallDep, remedy: "clang",
			stderr: "### COMPILER BUG DETECTED ###\nYour compiler (cc) is not supported due to a memcmp related bug reported in https://gcc.gnu.org/bugzilla/show_bug.cgi?id=95189."},
		"a C library": {command: "cargo install x", exit: 101, handler: "missing_c_library", category: "dependency", strategy: catalog.InstallPackages, remedy: "libssl-dev",
			stderr: "/usr/bin/ld: cannot find -lssl: No such file or directory\ncollect2: error: ld returned 1 exit status"},
		"a C library of Fedora": {command: "cargo install x", exit: 101, handler: "missing_c_library", category: "dependency", strategy: catalog.InstallPackages, remedy: "openssl-devel", system: "fedora",
			stderr: "/usr/bin/ld: cannot find -lssl: No such file or directory\ncollect2: error: ld returned 1 exit status"},
		"headers of OpenCV": {command: "make", exit: 2, handler: "missing_header", category: "dependency", strategy: catalog.InstallPackages, remedy: "libopencv-dev",
			stderr: "a.cpp:1:10: fatal error: opencv2/core.hpp: No such file or directory\n    1 | #include <opencv2/core.hpp>\ncompilation terminated."},
		"headers of OpenCV, by its recipe": {tool: "opencv", command: ".venv/bin/pip install opencv-python", handler: "missing_opencv_headers", category: "dependency", strategy: catalog.InstallPackages, remedy: "libopencv-dev",
			stderr: "  cv2.hpp:9:10: fatal error: opencv2/core.hpp: No such file or directory\n  compilation terminated.\n  ERROR: Failed building wheel for opencv-python"},
		"CUDA's driver, by the recipe": {tool: "pytorch", command: ".venv/bin/python -c 'import torch; torch.zeros(1).cuda()'", handler: "pytorch_driver", category: "environment", strategy: catalog.Manual, remedy: "NVIDIA's driver",
			stderr: "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"},
		"CUDA's driver": {command: "./train", handler: "gpu_driver_missing", category: "environment", strategy: catalog.Manual, remedy: "NVIDIA's driver",
			stderr: "./train: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory", exit: 127},
		"npm may not write": {command: "npm install -g eslint", exit: 243, handler: "npm_eacces", category: "permission_denied", strategy: catalog.RetryWithModifier, remedy: "sudo npm install -g eslint",
			stderr: "npm error code EACCES\nnpm error syscall mkdir\nnpm error path /usr/lib/node_modules/eslint\nnpm error Error: EACCES: permission denied, mkdir '/usr/lib/node_modules/eslint'"},
		"npm is missing":      {command: "npm ci", stderr: "bash: line 1: npm: command not found", exit: 127, handler: "missing_npm", category: "command_not_found", strategy: catalog.InstallDep, remedy: "npm"},
		"apt's index":         {command: "apt-get install -y jq", stderr: "E: Unable to locate package jq", exit: 100, handler: "apt_stale_index", category: "package_manager", strategy: catalog.CleanupRetry, remedy: "apt-get update"},
		"apt is locked":       {command: "apt-get install -y jq", stderr: "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1234 (unattended-upgr)", exit: 100, handler: "apt_locked", category: "lock_held", strategy: catalog.RetryWithModifier, remedy: "apt-get install -y jq"},
		"dpkg was broken off": {command: "apt-get install -y jq", stderr: "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.", exit: 100, handler: "apt_dpkg_interrupted", category: "package_manager", strategy: catalog.EnvFix, remedy: "dpkg --configure -a"},
		"dnf has no match":    {command: "dnf install -y foo", stderr: "No match for argument: foo\nError: Unable to find a match: foo", handler: "dnf_no_match", category: "package_manager", strategy: catalog.Manual},
		"what EPEL has": {command: "dnf install -y htop", stderr: "No match for argument: htop\nError: Unable to find a match: htop", system: "rocky9", handler: "dnf_no_match", category: "package_manager", strategy: catalog.AddRepo,
			remedy: "dnf install -y epel-release"},
		"snapd is down":      {command: "snap install foo", stderr: "error: cannot communicate with server: Post \"http://localhost/v2/snaps/foo\": dial unix /run/snapd.socket: connect: no such file or directory", handler: "snapd_unavailable", category: "environment", strategy: catalog.SwitchMethod},
		"no such formula":    {command: "brew install nosuch", stderr: "Error: No formulae found for nosuch.", handler: "brew_no_formula", category: "package_manager", strategy: catalog.SwitchMethod},
		"curl is missing":    {command: "curl -fsSL https://x | sh", stderr: "bash: line 1: curl: command not found", exit: 127, handler: "missing_curl", category: "command_not_found", strategy: catalog.InstallDep, remedy: "curl"},
		"git is missing":     {command: "git clone https://x/y", stderr: "sh: 1: git: not found", exit: 127, handler: "missing_git", category: "command_not_found", strategy: catalog.InstallDep, remedy: "git"},
		"offline":            {command: "curl https://x", stderr: "curl: (6) Could not resolve host: x", exit: 6, handler: "network_offline", category: "network_error", strategy: catalog.Manual},
		"unreachable":        {command: "./x", stderr: "connect: Network is unreachable", handler: "network_offline", category: "network_error", strategy: catalog.Manual},
		"blocked":            {command: "wget https://x", stderr: "HTTP 407 Proxy Authentication Required", exit: 8, handler: "network_blocked", category: "network_error", strategy: catalog.Manual},
		"certificate":        {command: "curl -f https://x", stderr: "curl: (60) SSL certificate problem: unable to get local issuer certificate", exit: 60, category: "network_error", strategy: catalog.Manual},
		"disk full, apt":     {command: "cp a b", stderr: "cp: error writing 'b': No space left on device", handler: "disk_full", category: "disk_full", strategy: catalog.CleanupRetry, remedy: "apt-get clean"},
		"disk full, docker":  {command: "cp a b", stderr: "cp: error writing 'b': No space left on device", handler: "disk_full", category: "disk_full", strategy: catalog.CleanupRetry, remedy: "docker"},
		"no sudo":            {command: "sudo apt-get install jq", stderr: "dev is not in the sudoers file.", handler: "no_sudo_access", category: "permission_denied", strategy: catalog.Manual, remedy: "administrator"},
		"wrong password":     {command: "sudo apt-get install jq", stderr: "Sorry, try again.\nsudo: 3 incorrect password attempts", handler: "wrong_sudo_password", category: "permission_denied", strategy: catalog.RetryWithModifier, remedy: "sudo apt-get install jq"},
		"no permission":      {command: "mkdir /opt/x", stderr: "mkdir: cannot create directory '/opt/x': Permission denied", handler: "permission_denied_generic", category: "permission_denied", strategy: catalog.RetryWithModifier, remedy: "sudo mkdir /opt/x"},
		"137":                {command: "make", exit: 137, handler: "killed_137", category: "resources", strategy: catalog.RetryWithModifier, remedy: "make -j1"},
		"over its time":      {command: "npm test", timedOut: true, handler: "command_timeout", category: "timeout", strategy: catalog.RetryWithModifier, remedy: "npm test"},
		"no package manager": {command: "apt-get install jq", stderr: "bash: line 1: apt-get: command not found", exit: 127, handler: "no_package_manager", category: "package_manager", strategy: catalog.Manual},
		"no shell":           {command: "bash install.sh", stderr: "sh: 1: bash: not found", exit: 127, handler: "no_shell", category: "command_not_found", strategy: catalog.Manual},
		"a source is needed": {tool: "kubectl", command: "apt-get install -y kubectl", stderr: "E: Unable to locate package kubectl", exit: 100, handler: "kubectl_repo_not_configured", category: "package_manager", strategy: catalog.AddRepo},
		"in conflict":        {command: "yarn install --frozen-lockfile", stderr: "ERROR: There are no scenarios; must have at least one.", handler: "yarn_cmdtest", category: "environment"},
	})
}

// TestPublishedPatterns: the patterns of the published designs lead to the remedies that they name, and what they call
// a person's or the code's runs by nothing.
// Conforms: 002-future-4, 003-c2.3-ts, 003-c2.3-fix, 003-c2.4-pattern, 004-app-module, 004-app-version, 004-app-dist
// Conforms: 004-app-next, 004-app-tsc, 004-app-eacces, 004-app-enospc, 004-app-enomem
func TestPublishedPatterns(t *testing.T) {
	t.Parallel()
	bun := map[string]string{"package.json": `{"name":"x","scripts":{"build":"next build"},"dependencies":{"express":"4","next":"14"},"devDependencies":{"vitest":"1","esbuild":"0.27.2"}}`, "bun.lock": "{}"}
	next := map[string]string{"package.json": bun["package.json"], "bun.lock": "{}", "next.config.js": ""}
	playPublished(t, map[string]publishedFailure{
		"Cannot find module": {command: "bun run test", stderr: "Error: Cannot find module 'express'\nRequire stack:\n- /repo/a.js\ncode: 'MODULE_NOT_FOUND'", files: bun, category: "dependency", strategy: catalog.EnvFix, remedy: "bun install"},
		"version mismatch": {command: "bun run test", stderr: `Error: Cannot start service: Host version "0.21.5" does not match binary version "0.27.2"`, files: bun, category: "dependency",
			strategy: catalog.CleanupRetry, remedy: "rm -rf node_modules && bun install", gate: GateAuto},
		"ENOENT dist": {command: "npm test", stderr: "Error: ENOENT: no such file or directory, open '/repo/dist/index.js'", files: bun, category: "build_failure", strategy: catalog.EnvFix, remedy: "bun run build"},
		"no .next": {command: "npm start", stderr: "Error: Could not find a production build in the '.next' directory. Try building your app with 'next build' before starting the production server.", files: next,
			category: "build_failure", strategy: catalog.CleanupRetry, remedy: "rm -rf .next && bun run build", gate: GateAuto},
		"error TS": {command: "npx tsc", exit: 2, stderr: "src/a.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'.", files: bun, category: "code_bug", gate: GateNone},
		"EACCES":   {command: "./x", stderr: "EACCES: permission denied, open '/etc/x'", files: bun, category: "permission_denied", gate: GateHuman},
		"ENOSPC":   {command: "npm ci", stderr: "npm error ENOSPC: no space left on device, write", files: bun, category: "disk_full", gate: GateHuman},
		"ENOMEM":   {command: "node a.js", stderr: "Error: ENOMEM: not enough memory, mmap", files: bun, category: "resources", gate: GateHuman},
	})
}

// TestPublishedCategories: the examples of the recovery strategies have the categories of the design; what nobody knows
// is unknown, and a person can be asked.
// Conforms: 000-2-fallback, 000-7-none, 002-1-category, 002-3-category, 002-4-category, 002-5-category
// Conforms: 002-6-category, 002-8-category, 002-9-category, 002-10-category, 003-c2.2-pattern, 003-c2.2-fix
// Conforms: 003-c2.6-pattern
func TestPublishedCategories(t *testing.T) {
	t.Parallel()
	playPublished(t, map[string]publishedFailure{
		"command_not_found": {command: "git clone https://x/y", stderr: "bash: git: command not found", exit: 127, category: "command_not_found", strategy: catalog.InstallDep, remedy: "git"},
		"permission_denied": {command: "touch /etc/x", stderr: "touch: cannot touch '/etc/x': Permission denied", category: "permission_denied", gate: GateHuman},
		"eacces":            {command: "node x.js", stderr: "Error: EACCES: permission denied, open '/etc/x'", category: "permission_denied", strategy: catalog.Manual, gate: GateHuman},
		"timeout":           {command: "npm test", timedOut: true, category: "timeout"},
		"file_not_found":    {command: "cat config.yaml", stderr: "cat: config.yaml: No such file or directory", category: "file_not_found"},
		"invalid_arguments": {command: "grep --foo x", stderr: "grep: unrecognized option '--foo'", exit: 2, category: "invalid_arguments"},
		"network_error":     {command: "curl https://x", stderr: "curl: (7) Failed to connect to x port 443: Connection refused", exit: 7, category: "network_error"},
		"rate_limited":      {command: "curl -f https://x", stderr: "curl: (22) The requested URL returned error: 429 Too Many Requests", exit: 22, category: "rate_limited", strategy: catalog.RetryWithModifier},
		"disk_full":         {command: "cp a b", stderr: "cp: error writing 'b': No space left on device", category: "disk_full", gate: GateHuman},
		"unknown":           {command: "frobnicate", stderr: "zqx: 17 zqxx", exit: 3, category: "unknown", strategy: catalog.Manual},
	})
}

// TestCaseOfOutputDoesNotMatter: a handler recognises its failure in whatever case the tool writes.
// Conforms: 000-3.1-pattern
func TestCaseOfOutputDoesNotMatter(t *testing.T) {
	t.Parallel()
	playPublished(t, map[string]publishedFailure{
		"lower": {command: "cp a b", stderr: "cp: error writing 'b': no space left on device", handler: "disk_full", category: "disk_full"},
		"upper": {command: "cp a b", stderr: "CP: ERROR WRITING 'B': NO SPACE LEFT ON DEVICE", handler: "disk_full", category: "disk_full"},
	})
}

// TestOptionsOfAllLayersAreCollected: a plan has the options of all handlers that match, what is recommended by the most
// specific layer first, and then by what is ready, locked and impossible.
// Conforms: 000-3.3-firstwins, 000-5.1-collect, 000-5.1-sort, 000-5.1-priority, 000-13-options
func TestOptionsOfAllLayersAreCollected(t *testing.T) {
	t.Parallel()
	of := func(id string, layer catalog.Layer) *catalog.Handler {
		run := func(name string, recommended bool) catalog.Option {
			return catalog.Option{ID: id + "_" + name, Label: name, Strategy: catalog.EnvFix, Recommended: recommended, Commands: [][]string{{"npm", "run", id + name}}}
		}
		locked := catalog.Option{ID: id + "_locked", Label: "locked", Strategy: catalog.InstallDep, Dep: map[catalog.Layer]string{
			catalog.LayerRecipe: "jq", catalog.LayerMethod: "ripgrep", catalog.LayerInfra: "cmake", catalog.LayerBootstrap: "ninja"}[layer]}
		gone := catalog.Option{ID: id + "_gone", Label: "gone", Strategy: catalog.EnvFix, Commands: [][]string{{"nosuch-" + id}}}
		return handler(id, layer, "npm", gone, locked, run("other", false), run("best", true))
	}
	layers := []catalog.Layer{catalog.LayerRecipe, catalog.LayerMethod, catalog.LayerInfra, catalog.LayerBootstrap}
	for i, first := range layers {
		f := failure("environment", npmRepo(t), []string{"npm", "test"}, of(string(first), first), nil)
		f.Matches = nil
		for _, layer := range layers[i:] {
			f.Matches = append(f.Matches, classify.Match{Handler: of(string(layer), layer)})
		}
		plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: f.Dir})
		for _, layer := range layers[i:] {
			for _, name := range []string{"_best", "_other", "_locked", "_gone"} {
				if !slices.ContainsFunc(plan.Options, func(o Option) bool { return o.ID == string(layer)+name }) {
					t.Errorf("%s: %s%s is not there", first, layer, name)
				}
			}
		}
		if o := plan.Options[0]; o.ID != string(first)+"_best" || !o.Recommended {
			t.Errorf("%s: the first is %s", first, o.ID)
		}
		rank := map[Availability]int{Ready: 0, Locked: 1, Impossible: 2}
		var own []Option
		for _, o := range plan.Options[1:] {
			if o.Executor == catalog.ByWrapper {
				own = append(own, o)
			}
		}
		if !slices.IsSortedFunc(own, func(a, b Option) int { return rank[a.Availability] - rank[b.Availability] }) {
			t.Errorf("%s: not in order: %+v", first, own)
		}
	}
}

// TestOrderOfOptions: who can carry an option out comes first, then whether it can be done, the confidence and the risk.
// Conforms: 002-plan-4, 002-sel-p1, 002-sel-p3, 002-rule-3
func TestOrderOfOptions(t *testing.T) {
	t.Parallel()
	run := func(id string, change func(*catalog.Option)) catalog.Option {
		o := catalog.Option{ID: id, Label: id, Strategy: catalog.EnvFix, Commands: [][]string{{"npm", "run", id}}, Confidence: .5}
		change(&o)
		return o
	}
	want := []catalog.Option{
		run("best", func(o *catalog.Option) { o.Recommended, o.Confidence = true, .1 }),
		run("sure", func(o *catalog.Option) { o.Confidence = .9 }),
		run("harmless", func(*catalog.Option) {}),
		run("risky", func(o *catalog.Option) { o.Risk = catalog.RiskHigh }),
		run("doubtful", func(o *catalog.Option) { o.Confidence = .3 }),
		run("locked", func(o *catalog.Option) { o.Commands, o.Confidence = [][]string{{"cmake", "--version"}}, 1 }),
		run("impossible", func(o *catalog.Option) { o.Commands, o.Confidence = [][]string{{"frobnicate"}}, 1 }),
		run("person", func(o *catalog.Option) { o.Executor, o.Confidence = catalog.ByHuman, 1 }),
	}
	options := slices.Clone(want)
	slices.Reverse(options)
	f := failure("auth", npmRepo(t), []string{"npm", "test"}, handler("h", catalog.LayerMethod, "npm", options...), nil)
	plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: f.Dir})
	var got []string
	for _, o := range plan.Options {
		if o.From.ID == "h" {
			got = append(got, o.ID)
		}
	}
	var ids []string
	for _, o := range want {
		ids = append(ids, o.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("got  %q\nwant %q", got, ids)
	}
}

// TestSourcesComeFirst: a package source that a recipe needs is set up before the package is installed from it.
// Conforms: 000-8-source
func TestSourcesComeFirst(t *testing.T) {
	t.Parallel()
	o := Install(embedded(t), "kubectl", Presets()["debian_slim"].With("curl"), Situation{})
	source, install := strings.Index(o.Command, "sources.list.d"), strings.Index(o.Command, "apt-get install")
	if o.Availability != Ready || source < 0 || install < source {
		t.Errorf("%s: %s", o.Availability, o.Command)
	}
}

// TestANewToolNeedsOnlyARecipe: what is known of a method serves a tool that only has a recipe, and no handler.
// Conforms: 000-1-shared, 000-4.2-none, 000-10-free
func TestANewToolNeedsOnlyARecipe(t *testing.T) {
	t.Parallel()
	cat := *embedded(t)
	cat.Recipes = append(slices.Clone(cat.Recipes), catalog.Recipe{ID: "newtool", CLI: "newtool", Label: "New", Category: "python",
		Install: map[string][][]string{"pip": {{"pip3", "install", "newtool"}}, "pipx": {{"pipx", "install", "newtool"}}}})
	cat = catalog.Catalog{Categories: cat.Categories, Chains: cat.Chains, Handlers: cat.Handlers, Recipes: cat.Recipes, Projects: cat.Projects, Managers: cat.Managers, Names: cat.Names}
	c, err := classify.New(&cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := publishedFailure{tool: "newtool", command: "pip3 install newtool", stderr: "error: externally-managed-environment"}
	f, plan, _ := p.plan(t, &cat, c)
	if f.Handler != "pep668" || !slices.ContainsFunc(plan.Options, func(o Option) bool {
		return o.Strategy == catalog.InstallDepThenSwitch && o.Availability == Locked && strings.HasSuffix(o.Command, "pipx install newtool")
	}) {
		t.Errorf("%s: %+v", f.Handler, plan.Options)
	}
}
