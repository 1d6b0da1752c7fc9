package remedy

import (
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
)

func BenchmarkResolve(b *testing.B) {
	cat, p, dir := embedded(b), Presets()["debian12"], npmRepo(b)
	h := handler("h", catalog.LayerMethod, "npm", catalog.Option{ID: "x", Strategy: catalog.CleanupRetry, Project: "clean_install", Recommended: true}, catalog.Option{ID: "y", Strategy: catalog.InstallDep, Dep: "uv"})
	f := failure("dependency", dir, []string{"npm", "test"}, h, nil)
	policy := suggestedPolicy(b)
	b.ReportAllocs()
	for b.Loop() {
		plan := Resolve(cat, f, p, Situation{Dir: dir})
		if gate, _ := Gate(&plan, policy); gate != GateAuto {
			b.Fatal(gate)
		}
	}
}
