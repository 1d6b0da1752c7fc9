package recovery

import (
	"testing"

	"github.com/superloop/superloop/recovery/action"
)

// TestAskBelowConfidence: who is unsure asks an operator, even about a listed command; the default is at low. It only
// ever takes a permission away.
func TestAskBelowConfidence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ below, sure, want string }{
		{"", action.Low, RuleConfidence}, {"", action.Medium, RuleAutoApprove}, {"", action.High, RuleAutoApprove}, {"", "", RuleAutoApprove},
		{action.Low, action.Low, RuleAutoApprove},
		{action.Medium, action.Low, RuleConfidence}, {action.Medium, action.Medium, RuleAutoApprove},
		{action.High, action.Low, RuleConfidence}, {action.High, action.Medium, RuleConfidence}, {action.High, action.High, RuleAutoApprove}, {action.High, "", RuleAutoApprove},
	} {
		section := `{"auto_approve":["npm ci"],"require_human":[],"on_unknown":"allow"`
		if tt.below != "" {
			section += `,"ask_below_confidence":"` + tt.below + `"`
		}
		p, problems := ReadPolicy(Section{Raw: []byte(section + "}"), Pointer: "/recovery"})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for command, auto := range map[string]string{"npm ci": RuleAutoApprove, "ls": RuleUnknown} {
			want, decision := tt.want, action.Human
			if want == RuleAutoApprove {
				want, decision = auto, action.Auto
			}
			v := Decide(p, Command{Text: command, Confidence: tt.sure}, Facts{LooseOK: true, Confined: true})
			if v.Rule != want || v.Decision != decision {
				t.Errorf("%q below %q at %q: %s (%s), want %s (%s)", command, tt.below, tt.sure, v.Decision, v.Rule, decision, want)
			}
		}
	}
}
