// Package early keeps Bubble Tea from asking the terminal for its background colour when the program starts.
//
// Bubble Tea asks in the initialisation of its package, so in every verb: it writes to the terminal, waits up to five
// seconds for an answer, and takes away what somebody has typed ahead. It does not ask where the variable CI is set. Go
// initialises packages in the order of their paths, each as soon as its imports are initialised. This package imports
// little, so it comes before Bubble Tea, which imports os/exec. Whoever imports Bubble Tea calls Restore in the
// initialisation of its own package, which comes after it. A test watches the order.
package early

import (
	"os"
	"strings"
)

const mark = "superloop asks no terminal"

var _ = hide()

// hide sets CI. It leaves the helper processes of superloop alone: some become another program before Restore.
func hide() struct{} {
	helper := len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "__")
	if os.Getenv("CI") == "" && !helper {
		_ = os.Setenv("CI", mark) // without it Bubble Tea only asks
	}
	return struct{}{}
}

// Restore takes back what the initialisation of this package has done.
func Restore() struct{} {
	if os.Getenv("CI") == mark {
		_ = os.Unsetenv("CI") // does not fail for a valid name
	}
	return struct{}{}
}
