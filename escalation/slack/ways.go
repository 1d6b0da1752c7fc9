package slack

import "github.com/superloop/superloop/escalation/notify"

// ways adds the command lines that answer the question.
func (b *builder) ways(m notify.Message) {
	words := map[string]string{"approve": "To approve, paste this into a terminal:", "reject": "To reject:", "mended": "When you have mended it:",
		"go on": "To go on all the same:", "end it": "To end the loop:", "done": "If it is done:", "not yet": "If it is not:"}
	if m.Command == "" {
		b.section("What to do:", m.Actions.Manual)
	}
	for _, way := range m.Ways {
		b.section(words[way.Does], way.Line)
	}
	if len(m.Ways) == 0 {
		b.section(words["approve"], m.Actions.Approve)
		b.section(words["reject"], m.Actions.Reject)
	}
	if m.Command != "" {
		b.section("To run it by hand:", m.Actions.Manual)
	}
}
