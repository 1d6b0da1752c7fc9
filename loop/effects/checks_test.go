package effects

import (
	"testing"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/respond"
)

func TestConfiguredChecks(t *testing.T) {
	t.Parallel()
	got := ConfiguredChecks(config.Respond{Preflight: config.Ground{Checks: []config.GroundCheck{
		{Kind: "port", Port: 5432, Want: "open"},
		{Kind: "disk", Path: "/tmp", FreeMB: 10},
		{Kind: "port", Port: 5432, Want: "open"},
		{Kind: "moon"},
	}}})
	if len(got) != 3 || got[0].Kind != respond.CheckPort || got[0].Spec != (respond.CheckSpec{Port: 5432, Want: "open"}) || got[1].Spec.FreeMB != 10 {
		t.Fatalf("%+v", got)
	}
	for i, wrong := range []bool{false, false, true} {
		if (got[i].Valid() != nil) != wrong || got[i].ID == "" || got[i].AddedBy != respond.AddedByConfig {
			t.Errorf("%+v: %v", got[i], got[i].Valid())
		}
	}
	if ConfiguredChecks(config.Respond{}) != nil {
		t.Error("nothing is configured")
	}
}
