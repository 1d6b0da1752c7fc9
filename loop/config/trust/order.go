package trust

import (
	"encoding/json"
	"slices"
	"strconv"
)

// order says which of two values of a key is tighter.
type order interface {
	// meet is the loosest value that is looser neither than the pinned one nor
	// than the new one, and what leads from the pinned one to it (tighter) and
	// from it to the new one (looser). ok is false when the two cannot be
	// compared.
	meet(pinned, now any) (in any, tighter, looser []step, ok bool)
}

// step is one change of a value: a whole value for another, or one element of a
// set that comes or goes, the other side being nil.
type step struct{ from, to any }

// ladder lists the values of a key, the tightest first.
type ladder []any

func (l ladder) meet(pinned, now any) (any, []step, []step, bool) {
	i, j := slices.Index(l, pinned), slices.Index(l, now)
	if i < 0 || j < 0 {
		return nil, nil, nil, false
	}
	in, tighter, looser := whole(pinned, now, j < i)
	return in, tighter, looser, true
}

// whole is a change of a value that is taken or held as one.
func whole(pinned, now any, tightens bool) (any, []step, []step) {
	if tightens {
		return now, []step{{pinned, now}}, nil
	}
	return pinned, nil, []step{{pinned, now}}
}

// lower: the lower whole number is tighter.
type lower struct{}

func (lower) meet(pinned, now any) (any, []step, []step, bool) {
	p, n, ok := integers(pinned, now)
	in, tighter, looser := whole(pinned, now, n < p)
	return in, tighter, looser, ok
}

// higher: the higher whole number is tighter.
type higher struct{}

func (higher) meet(pinned, now any) (any, []step, []step, bool) {
	p, n, ok := integers(pinned, now)
	in, tighter, looser := whole(pinned, now, n > p)
	return in, tighter, looser, ok
}

func integers(a, b any) (x, y int64, ok bool) {
	x, okX := integer(a)
	y, okY := integer(b)
	return x, y, okX && okY
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return i, err == nil
}

// fewer: a set that grants; what is in both is in force.
type fewer struct{}

func (fewer) meet(pinned, now any) (any, []step, []step, bool) {
	both, gone, came, ok := compareSets(pinned, now)
	if !ok {
		return nil, nil, nil, false
	}
	return anys(both), went(gone), arrived(came), true
}

// more: a set that forbids; what is in either is in force.
type more struct{}

func (more) meet(pinned, now any) (any, []step, []step, bool) {
	both, gone, came, ok := compareSets(pinned, now)
	if !ok {
		return nil, nil, nil, false
	}
	return anys(distinct(slices.Concat(both, gone, came))), arrived(came), went(gone), true
}

// roots: a set that grants, but that grants everything when it is empty. Paths
// are compared as text: one below another may be a link to anywhere.
type roots struct{}

// nowhere is a root that grants nothing, since every program can read it anyway.
// Alone it stands for the empty set; beside others normal leaves it out.
const nowhere = "/dev/null"

func (roots) meet(pinned, now any) (any, []step, []step, bool) {
	both, gone, came, ok := compareSets(pinned, now)
	if !ok {
		return nil, nil, nil, false
	}
	switch {
	case len(both)+len(gone) == 0: // everything was
		return now, []step{{pinned, now}}, nil, true
	case len(both)+len(came) == 0: // everything would be
		return pinned, nil, []step{{pinned, now}}, true
	case len(both) == 0:
		both = []string{nowhere}
	}
	return anys(both), went(less(gone, nowhere)), arrived(less(came, nowhere)), true
}

// less is the list without one value.
func less(list []string, value string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == value })
}

// compareSets gives what is in both, only in the first, only in the second,
// sorted.
func compareSets(a, b any) (both, gone, came []string, ok bool) {
	x, okX := stringsOf(a)
	y, okY := stringsOf(b)
	if !okX || !okY {
		return nil, nil, nil, false
	}
	inX, inY := index(x), index(y)
	for _, s := range x {
		if inY[s] {
			both = append(both, s)
		} else {
			gone = append(gone, s)
		}
	}
	for _, s := range y {
		if !inX[s] {
			came = append(came, s)
		}
	}
	return distinct(both), distinct(gone), distinct(came), true
}

func index(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

func went(list []string) []step {
	out := make([]step, len(list))
	for i, s := range list {
		out[i] = step{s, nil}
	}
	return out
}

func arrived(list []string) []step {
	out := make([]step, len(list))
	for i, s := range list {
		out[i] = step{nil, s}
	}
	return out
}

// rights is the order of permissions: read-only is the tightest, full the
// loosest, and between them workspace and "", which leaves it to the command,
// cannot be compared.
type rights struct{}

func (rights) meet(pinned, now any) (any, []step, []step, bool) {
	for _, l := range []ladder{{"read-only", "workspace", "full"}, {"read-only", "", "full"}} {
		if in, tighter, looser, ok := l.meet(pinned, now); ok {
			return in, tighter, looser, true
		}
	}
	return nil, nil, nil, false
}
