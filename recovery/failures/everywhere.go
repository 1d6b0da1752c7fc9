package failures

import (
	"fmt"
	"slices"
	"strings"
)

// everywhereRule applies when other loops fail in the same way. If only the same role of theirs does, the cause is in
// what that kind of task shares, and otherwise in what the loops share.
func everywhereRule(c Case, e Entry) RootCause {
	if e.Signature == "" {
		return RootCause{}
	}
	var loops []string
	same, oneKind := false, c.Task.Role != ""
	for _, o := range c.Facts.Others {
		if o.Signature == e.Signature || o.Category == e.Category && e.Category != CategoryUnknown && e.Category != "code_bug" {
			same, oneKind = same || o.Signature == e.Signature, oneKind && o.Role == c.Task.Role
			if !slices.Contains(loops, o.Loop) {
				loops = append(loops, o.Loop)
			}
		}
	}
	if len(loops) == 0 {
		return RootCause{}
	}
	slices.Sort(loops)
	f := RootCause{Type: CauseInfrastructure, Confidence: 0.5, Description: fmt.Sprintf("loops %s fail of the same: it is what they share, not this task", strings.Join(loops, ", ")),
		Evidence: []Quote{{Source: "other loops", Text: fmt.Sprintf("%s in %s", e.Category, strings.Join(loops, ", "))}},
		Fix:      Fix{Kind: FixPerson, Instruction: "look at what these loops share: the machine, the network, the repository"}}
	if oneKind { // other roles of these loops do not fail so
		f.Type, f.Description = CauseConfig, fmt.Sprintf("the %s of loops %s fails of the same, and no other role does: it is this kind of task, not this loop", c.Task.Role, strings.Join(loops, ", "))
		f.Fix.Instruction = "look at what each " + c.Task.Role + " shares: its prompt, its tools, its runner"
	}
	if same && len(loops) > 1 {
		f.Confidence = 0.65
	}
	return f
}
