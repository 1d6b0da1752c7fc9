package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/result"
)

// The measures of the plots, in units of their view box.
const (
	width   = 900
	left    = 90 // of the names
	right   = 28
	height  = 180 // of the plot of costs
	top     = 14
	bottom  = 26
	lane    = 24 // of a role in the timeline
	maxBars = 2000
	inner   = width - left - right
)

// plot is the cost over the time of a run.
type plot struct {
	Width, Height int
	Line, Area    string // paths of SVG
	Ys            []tick
	Xs            []tick
	Base          int // the y of no cost
	Left, Right   int
	Unknown       int // runs whose cost is not known
	Runs          int
}

// tick is a mark of an axis, at a place in units of the view box.
type tick struct {
	At   int
	Text string
}

// span returns the time that a run covers, at least a millisecond.
func span(r result.Result) (from time.Time, total time.Duration) {
	end := r.Updated
	if !r.Ended.IsZero() {
		end = r.Ended
	}
	return r.Started, max(end.Sub(r.Started), time.Millisecond)
}

// place returns the x of a time.
func place(at, from time.Time, total time.Duration) float64 {
	share := float64(at.Sub(from)) / float64(total)
	return left + math.Min(1, math.Max(0, share))*inner
}

// plotOf returns the plot of the costs, nil if no cost is known.
func plotOf(r result.Result) *plot {
	from, total := span(r)
	p := &plot{Width: width, Height: height, Base: height - bottom, Left: left, Right: width - right}
	type point struct {
		at   time.Time
		cost float64
	}
	var points []point
	for _, i := range r.Iterations {
		for _, x := range i.Roles {
			if x.Outcome == "open" {
				continue
			}
			p.Runs++
			if x.CostUSD == nil {
				p.Unknown++
				continue
			}
			points = append(points, point{x.To, *x.CostUSD})
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	sum := 0.0
	for _, x := range points {
		sum += x.cost
	}
	if sum <= 0 {
		return nil
	}
	most := nice(sum)
	y := func(cost float64) float64 { return float64(p.Base) - cost/most*float64(p.Base-top) }
	var line strings.Builder
	fmt.Fprintf(&line, "M%d %d", left, p.Base)
	sum = 0
	for _, x := range points {
		sum += x.cost
		fmt.Fprintf(&line, "H%.1fV%.1f", place(x.at, from, total), y(sum))
	}
	fmt.Fprintf(&line, "H%d", width-right)
	p.Line = line.String()
	p.Area = fmt.Sprintf("%sV%dZ", p.Line, p.Base)
	for _, share := range []float64{0, 0.5, 1} {
		p.Ys = append(p.Ys, tick{int(y(share * most)), fmt.Sprintf("$%.*f", digits(most), share*most)})
	}
	p.Xs = times(total)
	return p
}

// nice returns a round number that is not below v: 1, 2 or 5 with zeros.
func nice(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*unit*(1+1e-9) {
			return n * unit
		}
	}
	return 10 * unit
}

// digits returns how many digits after the point show halves of v.
func digits(v float64) int { return max(0, min(9, 1-int(math.Floor(math.Log10(v))))) }

func times(total time.Duration) (list []tick) {
	for n := range 5 {
		list = append(list, tick{left + inner*n/4, render.Duration(total * time.Duration(n) / 4)})
	}
	list[0].Text = "0"
	return list
}

// timeline is when which role ran.
type timeline struct {
	Width, Height, Bottom int
	Lanes                 []tick
	Bars                  []bar
	Lines                 []tick // where iterations begin
	Xs                    []tick
	Cut                   int // bars that are left out
}

// bar is one run of a role or of the tests.
type bar struct {
	X, W         float64
	Y, H         int
	Class, Title string
}

// timelineOf returns the timeline of a run, nil if nothing ran.
func timelineOf(r result.Result) *timeline {
	from, total := span(r)
	t := &timeline{Width: width}
	rows := map[string]int{}
	row := func(name string) int {
		n, known := rows[name]
		if !known {
			n = len(rows)
			rows[name] = n
			t.Lanes = append(t.Lanes, tick{top + n*lane + lane/2 + 4, text.Line(name, 12)})
		}
		return n
	}
	add := func(name string, at, to time.Time, class, title string) {
		if len(t.Bars) == maxBars {
			t.Cut++
			return
		}
		x := place(at, from, total)
		t.Bars = append(t.Bars, bar{X: x, W: math.Max(2, place(to, from, total)-x), Y: top + row(name)*lane + 3, H: lane - 6, Class: class, Title: title})
	}
	for _, role := range r.Plan.Roles {
		row(role)
	}
	for _, i := range r.Iterations {
		t.Lines = append(t.Lines, tick{int(place(i.From, from, total)), fmt.Sprint(i.N)})
		for _, x := range i.Roles {
			to := x.To
			if to.IsZero() {
				to = r.Updated
			}
			add(x.Role, x.From, to, kind(x.Outcome), fmt.Sprintf("iteration %d, %s by %s: %s, %s", i.N, text.Line(x.Role, 40), text.Line(x.Runner, 40), x.Outcome, render.Duration(to.Sub(x.From))))
		}
		for _, x := range i.Tests {
			took := time.Duration(x.DurationMS) * time.Millisecond
			add("tests", x.At, x.At.Add(took), kind(x.Status), fmt.Sprintf("iteration %d, tests: %s, %s", i.N, x.Status, render.Duration(took)))
		}
	}
	if len(t.Bars) == 0 {
		return nil
	}
	t.Bottom = top + len(rows)*lane
	t.Height, t.Xs = t.Bottom+bottom, times(total)
	return t
}
