package slots

import (
	"fmt"
	"slices"
	"strings"
)

// lack is a kind of place of which none is free.
type lack struct {
	what  string
	limit int
	taken []string
}

// shownHolders bounds the names in a reason.
const shownHolders = 5

func (l lack) String() string {
	slices.Sort(l.taken)
	names := strings.Join(l.taken[:min(len(l.taken), shownHolders)], ", ")
	if more := len(l.taken) - shownHolders; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d of %d %s: %s", len(l.taken), l.limit, l.what, names)
}

// Waiting returns the requests that wait, in the order in which they are served if all need the same places.
func (t *Table) Waiting() []Waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Waiter, 0, len(t.queue))
	for i, w := range t.queue {
		var why []string
		for _, l := range t.lacks(w.Request) {
			why = append(why, l.String())
		}
		all = append(all, Waiter{Request: w.Request, Since: w.since, Ahead: i, Why: strings.Join(why, "; ")})
	}
	return all
}
