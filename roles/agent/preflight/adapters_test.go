package preflight

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/roles/agent"
)

// Each flag that the adapters add, for any turn, is known to the releases whose
// helps are recorded, and one that is gone is not.
func TestAdaptersSpeakTheirCLIs(t *testing.T) {
	t.Parallel()
	var turns []Turn
	for _, thinking := range []string{"", "none", "minimal", "low", "standard", "high", "max"} {
		for _, permissions := range []string{"", agent.PermitRead, agent.PermitWorkspace, agent.PermitAll} {
			for _, model := range []string{"", "some/model"} {
				turns = append(turns, Turn{Role: "implementer", Model: model, Thinking: thinking, Permissions: permissions, Resume: true,
					Worktree: model != "", MaxCostUSD: float64(len(model))})
			}
		}
	}
	for _, c := range []struct {
		cli, command string
		least        int // so many different flags are added
	}{{"claude", "claude", 5}, {"codex", "codex exec", 3}, {"gemini", "gemini", 4}, {"opencode", "opencode run", 4}, {"pi", "pi", 6}} {
		t.Run(c.cli, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.cli, c.cli)
			s.req.Turns, s.req.CLI.Command = turns, strings.Fields(c.command)
			e := &Examiner{}
			rep := e.Examine(t.Context(), s.req)
			if rep.Adapter != c.cli || rep.Unchecked != "" || rep.Version == "" {
				t.Fatalf("adapter %s, version %q, unchecked %q", rep.Adapter, rep.Version, rep.Unchecked)
			}
			for _, f := range rep.Flags {
				if f.State != FlagKnown || f.Pointer != "" {
					t.Errorf("%+v", f)
				}
			}
			if len(rep.Flags) < c.least {
				t.Errorf("only %d flags: %v", len(rep.Flags), rep.Flags)
			}
			for _, f := range rep.Findings {
				if !strings.Contains(f.Message, "has no login") && f.Severity == Error {
					t.Errorf("%+v", f)
				}
			}
			s.req.CLI.Args = []string{"--full-auto"}
			rep = e.Examine(t.Context(), s.req)
			if got := all(rep); !strings.Contains(got, c.cli+" 1.2.3 does not know --full-auto") || !strings.Contains(got, "(runners."+c.cli+".args[0])") {
				t.Errorf("--full-auto is not found: %s", got)
			}
		})
	}
}
