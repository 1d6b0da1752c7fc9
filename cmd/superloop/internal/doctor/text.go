package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
)

// Writer prints results for a person as they come, one line each, and the fix
// on a line of its own below.
func Writer(w io.Writer) func(Result) {
	return func(r Result) {
		fmt.Fprintf(w, "%-4s %-20s %s\n", r.Status, r.Name, render.Clean(r.Detail))
		if r.Fix != "" {
			fmt.Fprintf(w, "     fix: %s\n", render.Clean(r.Fix))
		}
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// firstOf shows the first problem, and how many there are besides it.
func firstOf(problems []config.Problem) string {
	text := problems[0].String()
	if n := len(problems) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// firstLine is what a program said first, shortened.
func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return render.Cut(render.Clean(strings.TrimSpace(line)), 120)
}
