package render

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/superloop/superloop/internal/text"
)

// ChainLine is a chain in a list.
type ChainLine struct {
	ID, Status, Command string
	Held                bool // something was begun and has no outcome
	Depth, Attempts     int
	Error               string // why it cannot be read
}

// Chains lists chains for a person.
func Chains(w io.Writer, all []ChainLine) error {
	if len(all) == 0 {
		fmt.Fprintln(w, "there is no chain")
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHAIN\tSTATUS\tLEVEL\tTRIED\tCOMMAND")
	for _, c := range all {
		status := c.Status
		if c.Held {
			status = "held" // a person decides
		}
		if c.Error != "" {
			fmt.Fprintf(t, "%s\tbroken\t-\t-\t%s\n", Clean(c.ID), Cut(text.Display(c.Error), 200))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", Clean(c.ID), status, c.Depth, c.Attempts, Cut(text.Display(c.Command), 80))
	}
	return t.Flush()
}
