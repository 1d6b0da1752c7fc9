package agent

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used: all of
// them together cost every start of the program more than a millisecond, and
// most starts read no agent's output.
type pattern func() *regexp.Regexp

// lazily makes a pattern. An expression that does not compile panics at its
// first use, which is in a test.
func lazily(expr string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
