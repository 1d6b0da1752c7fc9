package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}, {Key: "vcs.time", Value: "2026-11-29T12:00:00Z"}}
	here := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		module   string
		release  built
		settings []debug.BuildSetting
		want     string
	}{
		{"", built{}, nil, "superloop dev (" + here + ")"},
		{"(devel)", built{}, vcs, "superloop dev (" + here + "; commit 0123456789ab of 2026-11-29)"},
		{"v1.2.3", built{}, nil, "superloop v1.2.3 (" + here + ")"},
		{"v1.2.4-0.2026", built{Version: "1.2.3", Commit: "fedcba9876543210", Date: "2026-11-28T00:00:00Z"}, vcs, "superloop 1.2.3 (" + here + "; commit fedcba987654 of 2026-11-28)"},
		{"(devel)", built{}, append(vcs, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "superloop dev (" + here + "; commit 0123456789ab of 2026-11-29, with changes)"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}
		if got := builtFrom(info, c.release).String(); got != c.want {
			t.Errorf("%q %+v: %s, want %s", c.module, c.release, got, c.want)
		}
	}
}
