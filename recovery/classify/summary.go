package classify

import (
	_ "embed" // for the summaries
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/pattern"
)

// summary is the last count of tests that a runner printed.
type summary struct {
	found  bool
	failed int   // tests that ran and failed, or did not end
	line   int64 // where it stands
}

// summaries are the runners' last lines, as summaries.txt has them: behind a runner's name an expression, whose
// groups are counts of failed tests; a line without one says that none failed.
var summaries = sync.OnceValue(func() (all []*regexp.Regexp) {
	for line := range strings.Lines(summariesText) {
		_, expr, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, regexp.MustCompile(expr))
	}
	return all
})

//go:embed summaries.txt
var summariesText string

// goFailed is the line of a package whose tests ran and failed.
var goFailed = pattern.Lazy(`^FAIL\t\S+\t\d[\d.]*s$`)

// counts reports, cheaply, whether a line may be a count of tests.
func counts(l string) bool {
	if !strings.ContainsAny(l, "0123456789") {
		return false
	}
	return hasAny(l, "ail", "AIL", "ass", "rror", "Tests")
}

// lastSummary finds the last count; its line is counted within lines, from 1.
func lastSummary(lines []string) summary {
	var s summary
	for i := len(lines) - 1; i >= 0; i-- {
		l := lines[i]
		if len(l) < 5 || len(l) > 200 || !counts(l) {
			continue
		}
		if goFailed().MatchString(l) {
			return summary{found: true, failed: max(1, s.failed), line: int64(i + 1)}
		}
		for _, re := range summaries() {
			m := re.FindStringSubmatch(l)
			if m == nil {
				continue
			}
			if !s.found {
				s = summary{found: true, line: int64(i + 1)}
			}
			for _, g := range m[1:] {
				if n, err := strconv.Atoi(g); err == nil {
					s.failed += n
				}
			}
			break
		}
		if s.found && s.line-int64(i) > 12 {
			break
		}
	}
	return s
}
