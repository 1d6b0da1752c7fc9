package learn

import (
	"fmt"
	"strings"
)

// Past says how one option did here before, and what operators did with it.
type Past struct {
	Helped, Failed  int // how often the tests have confirmed that it helped, or that it did not
	Harmful         int // how many of Failed did harm
	Chosen, Refused int // how often an operator has let it run, or has not
	// Elsewhere says that the outcomes are of other failures, because there are none of this one.
	Elsewhere bool
}

// Past returns how an option did against a failure. Without a record of it against this failure, Past returns how it did
// against all failures. An empty option has no past.
func (m Memory) Past(signature, option string) Past {
	var here, all Past
	all.Elsewhere = true
	if option == "" {
		return Past{}
	}
	for _, e := range m.Entries {
		if e.Option != option {
			continue
		}
		all.add(e)
		if e.Signature == signature && signature != "" {
			here.add(e)
		}
	}
	if here != (Past{}) {
		return here
	}
	if all == (Past{Elsewhere: true}) {
		return Past{}
	}
	return all
}

func (p *Past) add(e Entry) {
	p.Helped, p.Failed, p.Harmful = p.Helped+e.Helped, p.Failed+e.Failed, p.Harmful+e.Harmful
	p.Chosen, p.Refused = p.Chosen+e.Approved, p.Refused+e.Refused
}

// Score rates how well the option did, from -1 to 1; 0 if nothing is known. Results against other failures count by
// half. One outcome changes a rating by at most about a third, so that an accident decides nothing. A harmful outcome
// counts twice, so it changes a rating by about a half.
func (p Past) Score() float64 {
	failed := p.Failed + p.Harmful
	score := float64(p.Helped-failed) / float64(p.Helped+failed+2)
	if p.Elsewhere {
		score /= 2
	}
	return score
}

// Preference says whether an operator prefers the option: more than 0 if it was chosen more often than refused and has
// not failed more often than helped, less than 0 if it was refused more often than chosen, otherwise 0. The larger, the
// more often.
func (p Past) Preference() int {
	liking := p.Chosen - p.Refused
	if liking > 0 && (p.Failed > p.Helped || p.Harmful > 0) {
		return 0
	}
	return liking
}

// adapts bounds how much outcomes change a confidence.
const adapts = 0.2

// The bounds of a confidence that outcomes have changed, beyond which only the confidence itself reaches.
const (
	least = 0.05
	most  = 0.95
)

// Adapt returns a confidence, from 0 to 1, as the outcomes change it: by at most 0.2, and less the fewer they are. A
// success never lowers it, and a failure never raises it.
func (p Past) Adapt(confidence float64) float64 {
	next := confidence + adapts*p.Score()
	return min(max(next, min(confidence, least)), max(confidence, most))
}

// String says in words what is known, for operators and agents; "" if nothing is.
func (p Past) String() string {
	var out []string
	where := "here"
	if p.Elsewhere {
		where = "here against other failures"
	}
	if n := p.Helped + p.Failed; n > 0 {
		out = append(out, fmt.Sprintf("worked %d of %d times %s", p.Helped, n, where))
	}
	if p.Harmful > 0 {
		out = append(out, "did harm "+times(p.Harmful))
	}
	if p.Chosen > 0 {
		out = append(out, "an operator chose it "+times(p.Chosen))
	}
	if p.Refused > 0 {
		out = append(out, "an operator refused it "+times(p.Refused))
	}
	return strings.Join(out, ", ")
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
