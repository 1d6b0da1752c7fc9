package remedy

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

func TestNodeManager(t *testing.T) {
	t.Parallel()
	const bare = `{"name":"x"}`
	for name, tc := range map[string]struct {
		files         map[string]string
		dir, program  string
		manager, root string
	}{
		"nothing":                     {map[string]string{"package.json": bare}, ".", "", "npm", "."},
		"the command":                 {map[string]string{"package.json": bare}, ".", "bun", "bun", "."},
		"packageManager":              {map[string]string{"package.json": `{"packageManager":"pnpm@9.1.0"}`, "package-lock.json": "{}"}, ".", "npm", "pnpm", "."},
		"devEngines":                  {map[string]string{"package.json": `{"devEngines":{"packageManager":{"name":"yarn"}}}`}, ".", "npm", "yarn", "."},
		"only-allow":                  {map[string]string{"package.json": `{"scripts":{"preinstall":"npx only-allow pnpm"}}`}, ".", "npm", "pnpm", "."},
		"a lock file":                 {map[string]string{"package.json": bare, "yarn.lock": ""}, ".", "npm", "yarn", "."},
		"two lock files, a mark":      {map[string]string{"package.json": bare, "yarn.lock": "", "package-lock.json": "{}", "node_modules/.package-lock.json": "{}"}, ".", "", "npm", "."},
		"two lock files, the command": {map[string]string{"package.json": bare, "bun.lock": "", "package-lock.json": "{}"}, ".", "npm", "npm", "."},
		"two lock files":              {map[string]string{"package.json": bare, "bun.lock": "", "package-lock.json": "{}"}, ".", "", "bun", "."},
		"installed by pnpm":           {map[string]string{"package.json": bare, "node_modules/.pnpm/lock.yaml": ""}, ".", "npm", "pnpm", "."},
		"installed by yarn":           {map[string]string{"package.json": bare, "node_modules/.yarn-integrity": ""}, ".", "", "yarn", "."},
		"installed by bun":            {map[string]string{"package.json": bare, "node_modules/.bun/x": ""}, ".", "", "bun", "."},
		"settings":                    {map[string]string{"package.json": bare, "bunfig.toml": ""}, ".", "", "bun", "."},
		"engines":                     {map[string]string{"package.json": `{"engines":{"node":">=20","pnpm":">=8","npm":"please-use-pnpm","yarn":"please-use-pnpm"}}`}, ".", "npm", "pnpm", "."},
		"engines of npm only":         {map[string]string{"package.json": `{"engines":{"npm":">=10"}}`}, ".", "pnpm", "pnpm", "."},
		"a member of a workspace":     {map[string]string{"package.json": `{"workspaces":["packages/*"]}`, "bun.lock": "", "packages/a/package.json": bare}, "packages/a", "", "bun", "."},
		"below a member":              {map[string]string{"package.json": bare, "pnpm-workspace.yaml": "packages:\n  - 'apps/**'\n", "apps/x/a/package.json": bare, "apps/x/a/src/b.ts": ""}, "apps/x/a/src", "npm", "pnpm", "."},
		"no member":                   {map[string]string{"package.json": `{"workspaces":["packages/*","!packages/b"]}`, "bun.lock": "", "packages/b/package.json": bare}, "packages/b", "", "bun", "packages/b"},
		"a project of its own":        {map[string]string{"package.json": bare, "bun.lock": "", "site/package.json": bare, "site/package-lock.json": "{}"}, "site", "", "npm", "site"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := repo(t, tc.files)
			n, ok := nodeProjectOf(filepath.Join(top, tc.dir), top, tc.program)
			if !ok || n.manager != tc.manager || n.root != filepath.Join(top, tc.root) || n.why == "" {
				t.Errorf("%s in %s (%s), want %s in %s", n.manager, n.root, n.why, tc.manager, tc.root)
			}
		})
	}
	if n, ok := nodeProjectOf(t.TempDir(), "/", ""); ok {
		t.Errorf("an empty directory is a project of %s", n.manager)
	}
}

// No package manager changes a project of another one, or the node_modules of a member of a workspace instead of its root,
// whatever a handler says.
func TestManagersStayOutOfOthersProjects(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	files := map[string]string{"package.json": `{"name":"w","workspaces":["packages/*"],"scripts":{"build":"x","test":"y"}}`,
		"pnpm-workspace.yaml": "packages: ['packages/*']\n", "packages/a/package.json": `{"name":"a","scripts":{"build":"x","test":"y"}}`}
	p := Presets()["debian12"].With("node", "npm", "npx", "pnpm", "yarn", "bun")
	seen, every := 0, testkit.Sample(5, 1, 1)
	for manager, lock := range map[string]string{"bun": "bun.lock", "pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock", "npm": "package-lock.json"} {
		all := map[string]string{lock: ""}
		for n, text := range files {
			if manager == "pnpm" || n != "pnpm-workspace.yaml" {
				all[n] = text
			}
		}
		top := repo(t, all)
		member := filepath.Join(top, "packages/a")
		for i := 0; i < len(cat.Handlers); i += every {
			h := &cat.Handlers[i]
			for _, ex := range h.Examples {
				f := classify.Failure{Category: h.Category, Handler: h.ID, Layer: h.Layer, Confidence: .9, Method: h.Family, Command: ex.Command, Dir: member,
					Captures: map[string]string{"pkg": "esbuild", "package": "esbuild", "module": "esbuild"}, Matches: []classify.Match{{Handler: h,
						Captures: map[string]string{"pkg": "esbuild", "package": "esbuild", "module": "esbuild"}}}}
				plan := Resolve(cat, f, p, Situation{Dir: top})
				for _, o := range plan.Options {
					for _, s := range o.Steps {
						by := changer(s.Argv)
						if o.Plain() || by == "" {
							continue
						}
						seen++
						if manager != by {
							t.Errorf("%s, %s, %s: %q", manager, o.Key, ex.Command, s.Argv)
						}
						if s.Dir != top && o.Strategy != catalog.RetryWithModifier && !slices.Contains(s.Argv, "--save-dev") && o.Strategy != catalog.InstallDep {
							t.Errorf("%s, %s, %s: %q runs in %s", manager, o.Key, ex.Command, s.Argv, s.Dir)
						}
					}
				}
			}
		}
	}
	if seen < 300/every {
		t.Errorf("only %d installs were looked at", seen)
	}
}

// What a recipe brings into a project comes by the project's own manager.
func TestRecipesOfAProject(t *testing.T) {
	t.Parallel()
	cat, p := embedded(t), Presets()["debian12"].With("npm", "pnpm", "yarn", "bun")
	for lock, want := range map[string]string{"bun.lock": "bun add --dev vitest", "pnpm-lock.yaml": "pnpm add --save-dev vitest",
		"yarn.lock": "yarn add --dev vitest", "package-lock.json": "npm install --save-dev vitest", "x": "npm install --save-dev vitest"} {
		top := repo(t, map[string]string{"package.json": "{}", lock: ""})
		h := handler("h", catalog.LayerInfra, "", catalog.Option{ID: "x", Label: "X", Strategy: catalog.InstallDep, Dep: "vitest", Recommended: true})
		plan := Resolve(cat, failure("command_not_found", top, []string{"vitest"}, h, nil), p, Situation{Dir: top})
		if plan.Options[0].Command != want {
			t.Errorf("%s: %q, want %q", lock, plan.Options[0].Command, want)
		}
	}
}
