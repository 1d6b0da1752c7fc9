package selftest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
)

// Status says how far the behaviour of a CLI agrees with what superloop expects.
type Status string

// The statuses, from good to bad.
const (
	OK      Status = "ok"      // as expected
	Differs Status = "differs" // not as expected, but a loop still does what is right
	Failed  Status = "failed"  // a loop would do something wrong with this version
)

func worse(a, b Status) Status {
	order := []Status{OK, Differs, Failed}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Check is the comparison of one expected value with the value seen.
type Check struct {
	What     string `json:"what"`
	Status   Status `json:"status"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
}

// Case is the outcome of one case.
type Case struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	WallMS int64  `json:"wall_ms"`
	// Requests counts the model requests that the mock answered. Side counts those of them that were side requests,
	// such as for a title.
	Requests int     `json:"requests"`
	Side     int     `json:"side_requests"`
	Checks   []Check `json:"checks"`
}

// Card is the result of the self-test for one version of one CLI.
type Card struct {
	CLI     string `json:"cli"`
	Program string `json:"program"`
	Version string `json:"version"`
	Adapter string `json:"adapter"`
	// MissingFlags are the flags that superloop uses and the program's help does not list. Unchecked says why the flags
	// were not checked; "" if they were.
	MissingFlags []string `json:"missing_flags"`
	Unchecked    string   `json:"unchecked,omitempty"`
	Cases        []Case   `json:"cases"`
	Status       Status   `json:"status"`
	Verdict      string   `json:"verdict"` // Status as a sentence
}

func (c *Card) conclude() {
	count := map[Status]int{}
	c.Status = OK
	for _, k := range c.Cases {
		count[k.Status]++
		c.Status = worse(c.Status, k.Status)
	}
	name := c.CLI
	if c.Version != "" {
		name += " (" + c.Version + ")"
	}
	switch {
	case len(c.Cases) == 0:
		c.Status, c.Verdict = Failed, name+" was not tested"
	case c.Status == Failed:
		c.Verdict = fmt.Sprintf("%s does not work as superloop needs it: %d of %d cases failed", name, count[Failed], len(c.Cases))
	case c.Status == Differs || len(c.MissingFlags) > 0:
		c.Status = Differs
		c.Verdict = fmt.Sprintf("%s works, but not all is as expected: %d of %d cases ok", name, count[OK], len(c.Cases))
	default:
		c.Verdict = fmt.Sprintf("%s works with superloop: %d of %d cases ok", name, count[OK], len(c.Cases))
	}
}

// Head prints the first line of a CLI's table.
func Head(w io.Writer, cli, program string) { fmt.Fprintf(w, "%s at %s\n", cli, render.Clean(program)) }

// Line prints the status, name and duration of a case and a summary of what was seen. Below it prints the expected and
// the seen value of each check that is not ok.
func Line(w io.Writer, c Case) {
	fmt.Fprintf(w, "  %-7s  %-21s  %6s  %s\n", c.Status, c.Name, render.Duration(time.Duration(c.WallMS)*time.Millisecond),
		render.Cut(render.Clean(c.summary()), 150))
	// show makes a value safe for one line of a terminal, writes the line ends in it as \n, and cuts it at 300
	// characters.
	show := func(text string) string { return render.Cut(render.Clean(strings.ReplaceAll(text, "\n", `\n`)), 300) }
	for _, k := range c.Checks {
		if k.Status != OK {
			fmt.Fprintf(w, "           %s: %s\n             expected  %s\n             saw       %s\n", k.What, k.Status, show(k.Expected), show(k.Seen))
		}
	}
}

// summary returns what was seen in the most telling checks.
func (c Case) summary() string {
	before := map[string]string{"outcome": "", "class": "", "command": "", "reset": "until ", "key among arguments": "key among arguments: ", "cost": "cost ", "asked": "asked: ", "done": "done: ", "held": ""}
	var list []string
	for _, k := range c.Checks {
		if word, ok := before[k.What]; ok {
			list = append(list, word+k.Seen)
		} else if k.What == "usage" && k.Status == OK && k.Seen != "none" {
			list = append(list, "usage right to the token")
		}
	}
	return strings.Join(list, "; ")
}

// Tail prints the findings that belong to no single case, and then the verdict.
func Tail(w io.Writer, c Card) {
	switch {
	case len(c.MissingFlags) > 0:
		fmt.Fprintf(w, "  %-7s  flags that its help does not know: %s\n", Differs, render.Clean(strings.Join(c.MissingFlags, ", ")))
	case c.Unchecked != "":
		fmt.Fprintf(w, "  flags were not checked: %s\n", render.Clean(c.Unchecked))
	}
	fmt.Fprintf(w, "%s\n", render.Clean(c.Verdict))
}
