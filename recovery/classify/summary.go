package classify

import (
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

// summaries are the runners' last lines. The groups are counts of failed tests;
// a line without one says that none failed.
var summaries = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`^Tests: +(?:(\d+) failed, )?.*\btotal$`),         // jest
		regexp.MustCompile(`^ +Tests +(?:(\d+) failed)?(?: \| )?.*\(\d+\)$`), // vitest
		regexp.MustCompile(`^ +(\d+) failing$`),                              // mocha
		regexp.MustCompile(`^ +\d+ passing \(`),                              // mocha
		regexp.MustCompile(`^(?:=+ )?(?:(\d+) failed)?(?:, )?(?:\d+ (?:passed|skipped|errors?|warnings?|deselected|xfailed|xpassed)(?:, )?)* in \d[\d.:]*s`), // pytest
		regexp.MustCompile(`^FAILED \((?:failures=(\d+))?(?:, )?(?:errors=(\d+))?`),                                                                          // unittest
		regexp.MustCompile(`^test result: \w+\. \d+ passed; (\d+) failed`),                                                                                   // cargo
		regexp.MustCompile(`^(?:# |ℹ )fail (\d+)$`),                                                                                                          // node --test
		regexp.MustCompile(`^\d+ examples?, (\d+) failures?`),                                                                                                // rspec
		regexp.MustCompile(`^\d+ (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors`),                                                              // minitest, test-unit
		regexp.MustCompile(`^Tests: \d+, Assertions: \d+(?:, Errors: (\d+))?(?:, Failures: (\d+))?`),                                                         // phpunit
		regexp.MustCompile(`Tests run: \d+, Failures: (\d+), Errors: (\d+)`),                                                                                 // maven
		regexp.MustCompile(`^\d+ tests? completed, (\d+) failed`),                                                                                            // gradle
		regexp.MustCompile(`^(?:Failed!|Passed!) +- Failed: +(\d+)`),                                                                                         // dotnet
		regexp.MustCompile(`^ +(\d+) tests? failed$`),                                                                                                        // ava
		regexp.MustCompile(`^ +(\d+) failed$`),                                                                                                               // playwright
		regexp.MustCompile(`^ *(\d+) fail$`),                                                                                                                 // bun
		regexp.MustCompile(`tests passed, (\d+) tests? failed out of`),                                                                                       // ctest
		regexp.MustCompile(`^\s*\d+ (?:tests? |checks? |specs? )?(?:passed|ok|succeeded)[,;] (\d+) (?:tests? |checks? |specs? )?failed\b`),                   // one's own
		regexp.MustCompile(`^(?:# )?(\d+) of \d+ (?:tests?|checks?|specs?|cases?|examples?|assertions?) failed\b`),                                           // one's own
		regexp.MustCompile(`^(?:Total|Results?|Summary|Tests?|Checks?|Done)\b[^.]*?\b(\d+) (?:failed|failures?|failing)\b`),                                  // one's own
		regexp.MustCompile(`^(\d+) (?:(?:tests?|checks?|specs?|cases?) )?(?:failed|failures?|failing)\b(?:[,;.:/ ]+\d+ (?:tests? |checks? )?(?:passed|ok|succeeded|run|total)\b.*)?\.?$`), // one's own
		regexp.MustCompile(`\b(?:passed|ok|PASS|pass)[:=] *\d+[,;]? +(?:failed|FAIL|fail|not ok)[:=] *(\d+)`),                                                                             // one's own
		regexp.MustCompile(`^\[  FAILED  \] (\d+) tests?`), // googletest
	}
})

// goFailed is the line of a package whose tests ran and failed.
var goFailed = pattern.Lazy(`^FAIL\t\S+\t\d[\d.]*s$`)

// counts reports, cheaply, whether a line may be a count of tests.
func counts(l string) bool {
	if !strings.ContainsAny(l, "0123456789") {
		return false
	}
	for _, w := range [...]string{"ail", "AIL", "ass", "rror", "Tests"} {
		if strings.Contains(l, w) {
			return true
		}
	}
	return false
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
