package trust

import (
	"cmp"
	"encoding/json"
	"slices"
)

// order says which of two values of a key is tighter. It gives the loosest value
// that is looser neither than the pinned one nor than the new one, and what leads
// from the pinned one to it (tighter) and from it to the new one (looser). ok is
// false when the two cannot be compared.
type order func(pinned, now any) (in any, tighter, looser []step, ok bool)

// step is one change of a value: a whole value for another, or one element of a
// set that comes or goes, the other side being nil.
type step struct{ from, to any }

// ladder lists the values of a key, the tightest first.
func ladder(values ...any) order {
	return func(pinned, now any) (any, []step, []step, bool) {
		i, j := slices.Index(values, pinned), slices.Index(values, now)
		if i < 0 || j < 0 {
			return nil, nil, nil, false
		}
		return whole(pinned, now, j < i)
	}
}

// whole is a change of a value that is taken or held as one.
func whole(pinned, now any, tightens bool) (any, []step, []step, bool) {
	if tightens {
		return now, []step{{pinned, now}}, nil, true
	}
	return pinned, nil, []step{{pinned, now}}, true
}

// lower: the lower whole number is tighter. higher: the higher one.
func lower(pinned, now any) (any, []step, []step, bool)  { return number(pinned, now, -1) }
func higher(pinned, now any) (any, []step, []step, bool) { return number(pinned, now, 1) }

func number(pinned, now any, tighter int) (any, []step, []step, bool) {
	p, okP := integer(pinned)
	n, okN := integer(now)
	if !okP || !okN {
		return nil, nil, nil, false
	}
	return whole(pinned, now, cmp.Compare(n, p) == tighter)
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	i, err := n.Int64()
	return i, ok && err == nil
}

// fewer: a set that grants; what is in both is in force.
func fewer(pinned, now any) (any, []step, []step, bool) {
	both, gone, came, ok := compareSets(pinned, now)
	return anys(both), went(gone), arrived(came), ok
}

// more: a set that forbids; what is in either is in force.
func more(pinned, now any) (any, []step, []step, bool) {
	both, gone, came, ok := compareSets(pinned, now)
	return anys(distinct(slices.Concat(both, gone, came))), arrived(came), went(gone), ok
}

// nowhere is a root that grants nothing, since every program can read it anyway.
// Alone it stands for the empty set; beside others normal leaves it out.
const nowhere = "/dev/null"

// roots: a set that grants, but that grants everything when it is empty. Paths
// are compared as text: one below another may be a link to anywhere.
func roots(pinned, now any) (any, []step, []step, bool) {
	both, gone, came, ok := compareSets(pinned, now)
	switch {
	case !ok:
		return nil, nil, nil, false
	case len(both)+len(gone) == 0: // everything was
		return whole(pinned, now, true)
	case len(both)+len(came) == 0: // everything would be
		return whole(pinned, now, false)
	case len(both) == 0:
		both = []string{nowhere}
	}
	return anys(both), went(less(gone, nowhere)), arrived(less(came, nowhere)), true
}

// rights is the order of permissions: read-only is the tightest, full the
// loosest, and between them workspace and "", which leaves it to the command,
// cannot be compared.
func rights(pinned, now any) (any, []step, []step, bool) {
	if in, tighter, looser, ok := ladder("read-only", "workspace", "full")(pinned, now); ok {
		return in, tighter, looser, ok
	}
	return ladder("read-only", "", "full")(pinned, now)
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
	x, y = distinct(x), distinct(y)
	in := func(list []string, want bool) func(string) bool {
		return func(s string) bool { _, found := slices.BinarySearch(list, s); return found != want }
	}
	return slices.DeleteFunc(slices.Clone(x), in(y, true)), slices.DeleteFunc(slices.Clone(x), in(y, false)), slices.DeleteFunc(y, in(x, false)), true
}

func went(list []string) []step {
	out := make([]step, len(list))
	for i, s := range list {
		out[i] = step{s, nil}
	}
	return out
}

func arrived(list []string) []step {
	out := went(list)
	for i, s := range list {
		out[i] = step{nil, s}
	}
	return out
}
