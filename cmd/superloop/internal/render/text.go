package render

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/superloop/superloop/internal/text"
)

// Clean makes foreign text safe for a terminal: it returns one line without control, bidi or other invisible
// characters.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == unicode.ReplacementChar, unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, s)
}

// Cut shortens s to at most n characters, with a mark where it was cut.
func Cut(s string, n int) string { return text.Cut(s, n) }

// Duration formats d for an operator: 0.4s, 12s, 3m05s, 2h10m.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Bytes formats n in the largest unit in which it is at least one.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// Count formats a number with at most five digits and a unit (k, M, G). It rounds down, so it never shows more than
// there is.
func Count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%d.%02dG", n/1e9, n%1e9/1e7)
	case n >= 1e6:
		return fmt.Sprintf("%d.%02dM", n/1e6, n%1e6/1e4)
	case n >= 1e4:
		return fmt.Sprintf("%d.%dk", n/1e3, n%1e3/1e2)
	}
	return fmt.Sprint(n)
}

// Number formats a count with its noun: 1 event, 2 events.
func Number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// More returns " (and n more)", or "" if n is not positive.
func More(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// ChainLine is one remediation plan (chain) in a list, as text and as JSON.
type ChainLine struct {
	ID       string    `json:"chain_id"`
	Loop     string    `json:"loop_id,omitempty"` // "" for a plan of superloop fix
	Status   string    `json:"status"`
	Held     bool      `json:"held,omitempty"` // a step was begun and has no outcome
	Command  string    `json:"command"`
	Depth    int       `json:"depth"`
	Attempts int       `json:"attempts"`
	Why      string    `json:"why,omitempty"`
	Updated  time.Time `json:"updated_at"`
	Error    string    `json:"error,omitempty"` // why the plan cannot be read
}

// Chains lists remediation plans (chains) for an operator.
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
			status = "held" // an operator decides
		}
		if c.Error != "" {
			fmt.Fprintf(t, "%s\tbroken\t-\t-\t%s\n", Clean(c.ID), Cut(text.Display(c.Error), 200))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", Clean(c.ID), status, c.Depth, c.Attempts, Cut(text.Display(c.Command), 80))
	}
	return t.Flush()
}
