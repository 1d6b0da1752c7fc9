package classify

import (
	"regexp"
	"sync"
)

// lazily compiles an expression when it is first needed: commands that judge
// nothing do not pay for it at their start.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
