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

type costIn struct {
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
