package api

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/server"
)

// Costs is what roles cost, over time.
type Costs struct {
	By     string       `json:"by"`
	Step   string       `json:"step,omitempty" doc:"missing: only totals"`
	Total  Cost         `json:"total"`
	Series []CostSeries `json:"series" nullable:"false" doc:"the dearest first"`
	Unread []string     `json:"unread,omitempty" nullable:"false" doc:"the ids of loops whose journals cannot be read to their end: what they cost is not all here"`
}

// CostSeries is what one name cost.
type CostSeries struct {
	Name   string      `json:"name" doc:"empty: the runner did not tell its model"`
	Total  Cost        `json:"total"`
	Points []CostPoint `json:"points" nullable:"false" doc:"the steps in which a role ended, in order"`
}

// CostPoint is what was spent in one step.
type CostPoint struct {
	At time.Time `json:"at" doc:"when the step begins, UTC"`
	Cost
}

// Merge adds what another machine knows of the same question.
func (c *Costs) Merge(o Costs) {
	c.By, c.Step = o.By, o.Step
	c.Total = added(c.Total, o.Total)
	c.Unread = append(c.Unread, o.Unread...)
	for _, s := range o.Series {
		i := slices.IndexFunc(c.Series, func(x CostSeries) bool { return x.Name == s.Name })
		if i < 0 {
			c.Series = append(c.Series, s)
			continue
		}
		mine := &c.Series[i]
		mine.Total = added(mine.Total, s.Total)
		for _, p := range s.Points {
			if j := slices.IndexFunc(mine.Points, func(x CostPoint) bool { return x.At.Equal(p.At) }); j >= 0 {
				mine.Points[j].Cost = added(mine.Points[j].Cost, p.Cost)
			} else {
				mine.Points = append(mine.Points, p)
			}
		}
		slices.SortFunc(mine.Points, func(x, y CostPoint) int { return x.At.Compare(y.At) })
	}
	slices.SortFunc(c.Series, byCost)
}

// added is the sum of two costs. What neither knows stays unknown.
func added(x, y Cost) Cost {
	x.Runs += y.Runs
	x.Cost, x.Tokens = plus(x.Cost, y.Cost), plus(x.Tokens, y.Tokens)
	return x
}

func plus[T int64 | float64](x, y stats.Sum[T]) stats.Sum[T] {
	x.Unknown += y.Unknown
	switch {
	case y.Known == nil:
	case x.Known == nil:
		x.Known = y.Known
	default:
		x.Known = new(*x.Known + *y.Known)
	}
	return x
}

type costIn struct {
	OnMachine

	From string `query:"from" maxLength:"40" doc:"only roles that ended at this time or later (RFC 3339)"`
	To   string `query:"to" maxLength:"40" doc:"only roles that ended before this time"`
	Step string `query:"step" enum:"1m,5m,15m,1h,6h,24h" doc:"the length of a step of time; without it there are only totals"`
	By   string `query:"by" enum:"role,model,loop,repo" default:"role"`
	RoleChoice
}

func (a *api) cost(ctx context.Context, in *costIn) (*body[Costs], error) {
	var err error
	s := stats.Spending{}
	if s.From, err = timeIn("from", in.From); err == nil {
		s.To, err = timeIn("to", in.To)
	}
	if err != nil {
		return nil, err
	}
	s.Step, _ = time.ParseDuration(in.Step) // "" or a value of the enum
	whole := stats.Spending{From: s.From, To: s.To, Name: func(string, string) string { return "" }}
	out := Costs{By: in.By, Step: in.Step, Series: []CostSeries{}}
	all, _ := a.store.All()
	for _, e := range all {
		if in.Machine != "" && in.Machine != e.Machine() {
			continue
		}
		p, err := server.Paths(a.store, e)
		if err != nil {
			out.Unread = append(out.Unread, e.ID())
			continue
		}
		s.Name = func(role, model string) string {
			return map[string]string{"role": role, "model": model, "loop": e.ID(), "repo": e.Repo}[in.By]
		}
		err = journal.Read(p.Events(), 0, func(ev journal.Event) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !in.has(ev) {
				return nil
			}
			return errors.Join(s.Add(ev), whole.Add(ev))
		})
		if ctx.Err() != nil {
			return nil, problem(http.StatusServiceUnavailable, "interrupted", "%v", ctx.Err())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			out.Unread = append(out.Unread, e.ID())
		}
	}
	whole.Each(func(_ string, total Cost, _ map[time.Time]Cost) { out.Total = total })
	s.Each(func(name string, total Cost, at map[time.Time]Cost) {
		one := CostSeries{Name: name, Total: total, Points: []CostPoint{}}
		for t, c := range at {
			if in.Step != "" {
				one.Points = append(one.Points, CostPoint{t, c})
			}
		}
		slices.SortFunc(one.Points, func(x, y CostPoint) int { return x.At.Compare(y.At) })
		out.Series = append(out.Series, one)
	})
	slices.SortFunc(out.Series, byCost)
	return &body[Costs]{out}, nil
}
