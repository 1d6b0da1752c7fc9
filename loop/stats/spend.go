package stats

import (
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// Spend is what runs of roles took. A run that ended before it was started took nothing.
type Spend struct {
	Runs   int          `json:"runs"`
	Cost   Sum[float64] `json:"cost_usd"`
	Tokens Sum[int64]   `json:"tokens"`
}

// Spending adds up what roles took, by the names that Name gives them and by time. Its memory grows with the number of
// names and steps, not with the number of events.
type Spending struct {
	From, To time.Time     // only ends of roles in [From, To); a zero time is no bound
	Step     time.Duration // the length of a step, from the zero time on; 0 makes a single step
	// Name returns the name for a run of a role.
	Name  func(role, model string) string
	names tally[spans]
}

type spans struct {
	at    map[time.Time]*figures
	total figures
}

// Add takes the next event of a journal.
func (s *Spending) Add(ev journal.Event) error {
	switch ev.Event {
	case "role_end", "role_failed", "role_timeout":
	default:
		return nil
	}
	if !s.From.IsZero() && ev.Timestamp.Before(s.From) || !s.To.IsZero() && !ev.Timestamp.Before(s.To) {
		return nil
	}
	var d fields
	if err := text.Decode(ev.Fields, &d); err != nil && len(ev.Fields) > 0 {
		return fmt.Errorf("reading event %d (%s): %w", ev.Seq, ev.Event, err)
	}
	x := s.names.at(s.Name(d.Role, d.Model))
	if x.at == nil {
		x.at = map[time.Time]*figures{}
	}
	at := time.Time{}
	if s.Step > 0 {
		at = ev.Timestamp.UTC().Truncate(s.Step)
	}
	if x.at[at] == nil {
		x.at[at] = &figures{}
	}
	one := d.figures()
	x.at[at].add(one)
	x.total.add(one)
	return nil
}

// Each calls f for each name, in the order in which the names came, with what it took in each step that has a run.
func (s *Spending) Each(f func(name string, total Spend, at map[time.Time]Spend)) {
	for name, x := range s.names.all() {
		steps := make(map[time.Time]Spend, len(x.at))
		for t, of := range x.at {
			steps[t] = of.spend()
		}
		f(name, x.total.spend(), steps)
	}
}

func (f *figures) spend() Spend {
	r := f.report()
	return Spend{Runs: r.Runs, Cost: r.Cost, Tokens: r.Tokens.Total}
}
