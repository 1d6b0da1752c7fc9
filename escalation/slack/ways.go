package slack

import "github.com/superloop/superloop/escalation/notify"

// ways adds the command lines to paste into a terminal.
func (b *builder) ways(m notify.Message) {
	b.section("*Next*", m.Next)
	for _, way := range m.Ways {
		b.section(notify.Offer(way)+":", way.Line)
	}
}
