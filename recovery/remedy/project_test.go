package remedy

import (
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
