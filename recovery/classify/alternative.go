package classify

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// reportEnd is the line with which npm ends what it says of a failure.
var reportEnd = pattern.Lazy(`^npm (?:ERR!|error) A complete log of this run can be found in:`)

// lastTry drops what an earlier alternative of `npm ci || npm install` died of,
// where the report of a later one follows it: the command ended with what the
// last of them said. Where nothing known stands in the last report, all stay.
func (j *judgement) lastTry(all []*match) []*match {
	if !strings.Contains(j.in.Command, "||") {
		return all
	}
	for _, o := range []*output{j.stderr, j.stdout} {
		cut := o.lastReport()
		if cut == 0 {
			continue
		}
		earlier := func(m *match) bool {
			return m.hit != nil && m.hit.stream == o.name && m.hit.line <= cut &&
				!slices.ContainsFunc(m.others, func(h hit) bool { return h.stream == o.name && h.line > cut })
		}
		if slices.ContainsFunc(all, func(m *match) bool { return m.hit != nil && m.hit.stream == o.name && !earlier(m) }) {
			all = slices.DeleteFunc(slices.Clone(all), earlier)
		}
	}
	return all
}

// lastReport is the number of the line that ends the report before the last one;
// 0 if there is but one.
func (o *output) lastReport() int64 {
	var cut, end int64
	for i, l := range o.tail {
		switch {
		case reportEnd().MatchString(l):
			cut, end = end, o.lines-int64(len(o.tail)-1-i)
		case end > 0 && strings.TrimSpace(l) != "" && !strings.HasPrefix(l, "npm ERR! ") && !strings.HasPrefix(l, "npm error "):
			// Another program than npm goes on; its report has no such end.
			cut = end
		}
	}
	return cut
}
