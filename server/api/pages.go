package api

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/superloop/superloop/loop/stats"
)

// cut returns the part of a list that a page shows, and the cursor of the next page, "" if there is none. key orders the
// list, and is different for each item.
func cut[T any](all []T, p Page, key func(T) string) (page []T, next string) {
	page = []T{}
	for _, x := range all {
		if p.Cursor != "" && key(x) <= p.Cursor {
			continue
		}
		if len(page) == p.Limit {
			return page, key(page[len(page)-1])
		}
		page = append(page, x)
	}
	return page, ""
}

// ordinal is a number whose text sorts as the number does.
func ordinal(n int) string {
	s := strconv.Itoa(max(0, n))
	return string(rune('a'+len(s))) + s
}

// timeIn reads a time of a query: RFC 3339, or "" for one that is not given.
func timeIn(name, s string) (t time.Time, err error) {
	if s == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, s); err != nil {
		return t, problem(http.StatusUnprocessableEntity, "bad-time", "%s=%q is no time such as 2026-01-02T03:04:05Z", name, s)
	}
	return t.UTC(), nil
}

// Cost is what something cost, as far as it is known.
type Cost = stats.Spend

// byCost orders series, the dearest first.
func byCost(x, y CostSeries) int {
	known := func(s CostSeries) float64 {
		if s.Total.Cost.Known == nil {
			return 0
		}
		return *s.Total.Cost.Known
	}
	return cmp.Or(cmp.Compare(known(y), known(x)), cmp.Compare(x.Name, y.Name))
}
