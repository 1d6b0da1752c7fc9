package remedy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// A failure without a directory, as in a batch, is taken to have the usual files
// of its ecosystem; one with a directory has what is there.
func TestAssumedProject(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	p := Presets()["debian12"].With("node", "npm", "pnpm", "cargo", "go", "python3", "python3-venv")
	h := handler("x", catalog.LayerInfra, "", catalog.Option{ID: "install", Label: "Install", Strategy: catalog.EnvFix, Recommended: true, Project: "install"})
	for _, tc := range []struct{ method, program, want string }{
		{"npm", "npm", "npm install"},
		{"pnpm", "pnpm", "pnpm install"},
		{"node", "node", "npm install"},
		{"python", "pytest", "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"},
		{"go", "go", "go mod download"},
		{"cargo", "cargo", "cargo fetch"},
		{"", "zorkctl", ""},
	} {
		f := classify.Failure{Category: "dependency", Method: tc.method, Command: tc.program + " x", Argv: []string{tc.program, "x"}, Matches: []classify.Match{{Handler: h}}}
		got := func(dir string) string {
			f.Dir = dir
			plan := Resolve(cat, f, p, Situation{Dir: dir})
			for i := range plan.Options {
				if o := &plan.Options[i]; o.From.ID == "x" && o.Availability != Impossible {
					return o.Command
				}
			}
			return ""
		}
		if g := got(""); g != tc.want {
			t.Errorf("%s without a directory: %q, want %q", tc.program, g, tc.want)
		}
		if g := got(t.TempDir()); g != "" {
			t.Errorf("%s in an empty directory: %q, want nothing", tc.program, g)
		}
	}
}

// Each kind of project is found by its files, also where several kinds lie together, and installs and builds by its own
// tool.
func TestProjectsOfOtherKinds(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	p := Presets()["debian12"].With("dotnet", "mix", "swift", "deno", "bazel", "R", "Rscript", "nix", "nvcc", "cmake", "java")
	for name, tc := range map[string]struct {
		files          map[string]string
		command        string
		install, build string
	}{
		"dotnet":  {map[string]string{"a.sln": "", "src/a.csproj": ""}, "dotnet test", "dotnet restore", "dotnet build"},
		"locked":  {map[string]string{"a.csproj": "", "packages.lock.json": "{}"}, "dotnet test", "dotnet restore --locked-mode", "dotnet build"},
		"mix":     {map[string]string{"mix.exs": "", "mix.lock": "", "package.json": "{}"}, "mix test", "mix deps.get --check-locked", "mix compile"},
		"swift":   {map[string]string{"Package.swift": ""}, "swift test", "swift package resolve", "swift build"},
		"deno":    {map[string]string{"deno.json": "{}", "deno.lock": "{}"}, "deno test", "deno install --frozen", ""},
		"bazel":   {map[string]string{"MODULE.bazel": "", "go.mod": "module x\n"}, "bazel test //...", "bazel fetch //...", "bazel build //..."},
		"renv":    {map[string]string{"renv.lock": "{}", "DESCRIPTION": ""}, "Rscript t.R", "Rscript -e 'renv::restore(prompt = FALSE)'", ""},
		"R":       {map[string]string{"DESCRIPTION": ""}, "R CMD check .", "Rscript -e 'remotes::install_deps(dependencies = TRUE, upgrade = '\\''never'\\'')'", "R CMD build ."},
		"nix":     {map[string]string{"flake.nix": "", "flake.lock": "{}"}, "nix build", "nix develop --no-update-lock-file --command true", "nix build --no-update-lock-file"},
		"cuda":    {map[string]string{"CMakeLists.txt": "", "src/k.cu": ""}, "cmake --build build", "cmake -B build", "cmake -B build && cmake --build build"},
		"android": {map[string]string{"build.gradle": "", "gradlew": "#!/bin/sh\n", "app/src/main/AndroidManifest.xml": ""}, "./gradlew test", "./gradlew dependencies", "./gradlew assembleDebug"},
	} {
		top := repo(t, tc.files)
		for action, want := range map[string]string{"install": tc.install, "build": tc.build} {
			h := handler("x", catalog.LayerInfra, "", catalog.Option{ID: "o", Label: "O", Strategy: catalog.EnvFix, Recommended: true, Project: action})
			f := failure("dependency", top, strings.Fields(tc.command), h, nil)
			if strings.HasPrefix(tc.command, "./") {
				f.Method = "gradle"
			}
			plan := Resolve(cat, f, p, Situation{Dir: top})
			got := ""
			for i := range plan.Options {
				if o := &plan.Options[i]; o.ID == "o" && o.Availability != Impossible {
					got = o.Command
				}
			}
			if got != want {
				t.Errorf("%s, %s: %q, want %q", name, action, got, want)
			}
		}
	}
}

// A virtual environment that is there is used as it is: nothing makes it anew, and init lists both commands.
func TestExistingEnvironment(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	p := Presets()["debian12"].With("python3", "python3-venv")
	h := handler("x", catalog.LayerInfra, "", catalog.Option{ID: "install", Label: "Install", Strategy: catalog.EnvFix, Recommended: true, Project: "install"},
		catalog.Option{ID: "clean", Label: "From nothing", Strategy: catalog.EnvFix, Project: "clean_install"})
	const made, kept = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt", ".venv/bin/pip install -r requirements.txt"
	whole := func(dir string) []string { return []string{dir + "/pyvenv.cfg", dir + "/bin/python", dir + "/bin/pip"} }
	for name, tc := range map[string]struct {
		files []string
		want  string
	}{
		"none":        {nil, made},
		"whole":       {whole(".venv"), kept},
		"another one": {whole("venv"), "venv/bin/pip install -r requirements.txt"},
		"both":        {append(whole("venv"), whole(".venv")...), kept},
		"no Python":   {[]string{".venv/pyvenv.cfg", ".venv/bin/pip"}, made},
		"no pip":      {[]string{".venv/pyvenv.cfg", ".venv/bin/python"}, made},
		"no config":   {[]string{".venv/bin/python", ".venv/bin/pip"}, made},
	} {
		dir := t.TempDir()
		for _, file := range append(tc.files, "requirements.txt") {
			path := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		f := classify.Failure{Category: "dependency", Method: "python", Command: "pytest", Argv: []string{"pytest"}, Dir: dir, Matches: []classify.Match{{Handler: h}}}
		got := map[string]string{}
		plan := Resolve(cat, f, p, Situation{Dir: dir})
		for i := range plan.Options {
			got[plan.Options[i].ID] = plan.Options[i].Command
		}
		if got["install"] != tc.want || got["clean"] != "rm -rf .venv && "+made {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		listed, _ := Installs(cat, dir, dir, "python")
		if !slices.Contains(listed, made) || !slices.Contains(listed, tc.want) {
			t.Errorf("%s: listed are %q", name, listed)
		}
	}
}
