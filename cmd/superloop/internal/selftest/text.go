package selftest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
)

// maxSeen is how much of what was seen is shown of one check, in characters.
const maxSeen = 300

// Head is the first line of a CLI's table.
func Head(w io.Writer, cli, program string) {
	fmt.Fprintf(w, "%s at %s\n", cli, render.Clean(program))
}

// Line prints one case: how it went, how long it took and what was seen; below
// it what was expected instead, for each check that is not ok.
func Line(w io.Writer, c Case) {
	width := 0
	for _, sc := range scenarios() {
		width = max(width, len(sc.name))
	}
	fmt.Fprintf(w, "  %-7s  %-*s  %6s  %s\n", c.Status, width, c.Name, render.Duration(time.Duration(c.WallMS)*time.Millisecond),
		render.Cut(render.Clean(c.summary()), 150))
	for _, k := range c.Checks {
		if k.Status != OK {
			fmt.Fprintf(w, "           %s: %s\n             expected  %s\n             saw       %s\n", k.What, k.Status, show(k.Expected), show(k.Seen))
		}
	}
}

// summary is what was seen of the checks that say most.
func (c Case) summary() string {
	var list []string
	for _, k := range c.Checks {
		switch k.What {
		case "outcome", "class", "reset", "command", "key among arguments":
			list = append(list, map[string]string{"class": "", "reset": "until ", "key among arguments": "key among arguments: "}[k.What]+k.Seen)
		case "usage":
			if k.Status == OK && k.Seen != "none" {
				list = append(list, "usage right to the token")
			}
		case "cost":
			list = append(list, "cost "+k.Seen)
		}
	}
	return strings.Join(list, "; ")
}

// Tail prints what is not of one case, and last the verdict.
func Tail(w io.Writer, c Card) {
	switch {
	case len(c.MissingFlags) > 0:
		fmt.Fprintf(w, "  %-7s  flags that its help does not know: %s\n", Differs, render.Clean(joined(c.MissingFlags)))
	case c.Unchecked != "":
		fmt.Fprintf(w, "  flags were not checked: %s\n", render.Clean(c.Unchecked))
	}
	fmt.Fprintf(w, "%s\n", render.Clean(c.Verdict))
}

// show makes a value safe for one line, and says where the lines of it end.
func show(text string) string {
	return render.Cut(render.Clean(strings.ReplaceAll(text, "\n", `\n`)), maxSeen)
}
