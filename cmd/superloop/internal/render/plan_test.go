package render

import (
	"fmt"
	"slices"
	"testing"

	"github.com/superloop/superloop/recovery/remedy"
)

// Four possible options and the operator are shown; the others are behind them, and what superloop would do is seen.
func TestFold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options, gate string // a letter an option, an upper-case one is impossible; the operator is "?"
		first, more   string
	}{
		"few":               {"ab?", "a", "ab?", ""},
		"many":              {"abcdef?", "a", "abcd?", "ef"},
		"the gate's is far": {"abcdef?", "f", "abcf?", "de"},
		"impossible ones":   {"aBcDe?", "", "ace?", "BD"},
		"only the operator": {"?", "", "?", ""},
		"the code":          {"", "", "", ""},
	} {
		c := Classification{GateOption: tc.gate}
		for _, r := range tc.options {
			o := OptionView{ID: string(r), Availability: "ready"}
			switch {
			case r == '?':
				o.ID = remedy.AskUser
			case r < 'a':
				o.Availability = "impossible"
			}
			c.Options = append(c.Options, o)
		}
		ids := func(list []OptionView) (out string) {
			for _, o := range list {
				if o.ID == remedy.AskUser {
					out += "?"
				} else {
					out += o.ID
				}
			}
			return out
		}
		c.fold()
		if first, more := ids(c.Options), ids(c.More); first != tc.first || more != tc.more {
			t.Errorf("%s: %s and %s, want %s and %s", name, first, more, tc.first, tc.more)
		}
		if len(c.Fallback) != max(0, len(c.Options)-1) || len(c.Options) > 1 && c.Fallback[len(c.Fallback)-1] != remedy.AskUser {
			t.Errorf("%s: after the first come %s", name, fmt.Sprint(c.Fallback))
		}
		c.Unfold()
		if all := ids(c.Options); len(c.More) > 0 || !sameLetters(all, tc.options) || all != "" && all[len(all)-1] != '?' {
			t.Errorf("%s: unfolded %s", name, all)
		}
	}
}

func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}
