// Package pattern has regular expressions that are compiled when they are first used. Compiled at the start, all of
// them together cost every start of the program more than a millisecond, and most starts need few of them.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy gives a regular expression. An expression that does not compile panics at its first use, so a test has to use
// it.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
