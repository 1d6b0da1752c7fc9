package metrics

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a journal can make of series.
const (
	maxSeries = 500 // of one metric of one loop; further ones are added to the one whose labels are all "other"
	maxValue  = 64  // bytes of a label's value
	maxRoles  = 16
	maxOpen   = 64 // different values of a label whose values are not known beforehand
)

// What stands for a value that is not told, and for one too many, too long, or not printable.
const (
	notTold = "unknown"
	other   = "other"
)

// words bounds the values of one label: the first max that come, in the order of the
// journal, so that a restart keeps the same ones.
type words struct {
	max  int
	seen map[string]bool
}

func (w *words) of(s string) string {
	switch {
	case s == "":
		return notTold
	case w.seen[s]:
		return s
	case len(w.seen) >= w.max || !plain(s):
		return other
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[s] = true
	return s
}

func plain(s string) bool {
	if len(s) > maxValue || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// among is a value of a closed list.
func among(s string, list []string) string {
	switch {
	case s == "":
		return notTold
	case slices.Contains(list, s):
		return s
	}
	return other
}

// strs are the values of a closed list of any string type.
func strs[T ~string](list ...T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}
