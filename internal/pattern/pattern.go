// Package pattern compiles regular expressions at their first use. To compile all of them at each start of the program
// would take more than a millisecond, and most runs need few of them.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that returns the regular expression. If expr does not compile, the first call panics, so a
// test has to call it.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
