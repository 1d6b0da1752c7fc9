package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/permit"
)

const askedLoop = `{"runners": {"claude": {"command": "claude"}, "mine": {"command": ["npx", "x"], "adapter": "claude"}, "codex": {"command": ["codex", "exec"]}, "gemini": {"command": "gemini"}, "own": {"command": "agent.sh"}},
	"loops": [{"id": "l", "spec_file": "s.md", "tests": {"commands": ["true"]}, "roles": {"implementer": {"runner": %RUNNER%}}}], "permissions": %PERMISSIONS%}`

func asked(runner, permissions string) string {
	return strings.NewReplacer("%RUNNER%", `"`+runner+`"`, "%PERMISSIONS%", permissions).Replace(askedLoop)
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	s := loaded(t, asked("claude", `{"mode": "enforce", "auto_approve_programs": ["go"], "wait": "1h", "paths": {"secret": ["*.key"]}}`)).Permissions
	if s.Mode != permit.Enforce || s.Wait != time.Hour || s.MaxOpen != 3 || s.OnUnknown != permit.UnknownEscalate || len(s.Programs) != 1 || len(s.Paths.Secret) != 1 {
		t.Errorf("%+v", s)
	}
	if s := loaded(t, asked("claude", `{"mode": "observe", "wait": 0}`)).Permissions; s.Wait != 0 || !s.On() {
		t.Errorf("%+v", s)
	}
	for section, want := range map[string]string{
		`{"on_unknown": "allow"}`: "/permissions/on_unknown", `{"mode": "on"}`: "/permissions/mode", `{"auto_approve_programs": ["go", "x=1 go"]}`: "/permissions/auto_approve_programs/1", `{"deny": [" "]}`: "/permissions/deny/0",
		`{"hosts": ["https://x"]}`: "/permissions/hosts/0", `{"max_open": 0}`: "/permissions/max_open", `{"paths": {"deny": ["a["]}}`: "/permissions/paths/deny/0", `{"aloud": 1}`: "/permissions/aloud",
	} {
		_, err := LoadBytes(home, []byte(asked("claude", section)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "problems\n") {
			t.Errorf("%s: %v, want one problem at %s", section, err, want)
		}
	}
	c := loaded(t, asked("claude", `{"deny": ["x"]}`))
	if !slices.ContainsFunc(c.Warnings, func(p Problem) bool { return p.Pointer == "/permissions" && p.Code == CodeNoEffect }) {
		t.Errorf("%+v", c.Warnings)
	}
}

// A runner that cannot be asked is refused before a run, and never simply not asked, where that is enforced.
func TestPermissionsNeedARunnerThatAsks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runner, mode, asked, says string }{
		{"claude", "enforce", permit.Enforce, ""}, {"mine", "enforce", permit.Enforce, ""}, {"codex", "enforce", permit.Enforce, ""}, {"gemini", "enforce", permit.Enforce, ""}, {"own", "enforce", permit.Enforce, `"own"`},
		{"claude", "observe", permit.Observe, ""}, {"codex", "observe", permit.Observe, ""}, {"gemini", "observe", permit.Observe, ""}, {"own", "observe", "", ""}, {"claude", "off", "", ""}, {"codex", "off", "", ""},
	} {
		cfg := loaded(t, asked(c.runner, `{"mode": "`+c.mode+`"}`))
		if got := cfg.Asked(c.runner); got != c.asked {
			t.Errorf("%+v: asked in the mode %q", c, got)
		}
		says := ""
		for _, p := range cfg.Check(t.TempDir(), func(string) (string, error) { return "", nil }) {
			if p.Pointer == "/permissions/mode" {
				says += p.Message
			}
		}
		if (says == "") != (c.says == "") || !strings.Contains(says, c.says) || says != "" && !strings.Contains(says, "adapter claude, codex, gemini, opencode, qwen, copilot can") {
			t.Errorf("%+v: %q", c, says)
		}
	}
}
