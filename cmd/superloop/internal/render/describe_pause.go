package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// describePause says why a loop waits, or stops, without anybody being at fault.
func describePause(ev journal.Event) string {
	var f struct {
		Role     string    `json:"role"`
		Runner   string    `json:"runner"`
		Limit    string    `json:"limit"`
		Source   string    `json:"source"`
		Provider string    `json:"provider"`
		Text     string    `json:"text"`
		Until    time.Time `json:"until"`
		WaitedMS int64     `json:"waited_ms"`
		Reason   string    `json:"reason"`
		By       string    `json:"by"`
		Note     string    `json:"note"`
		Spent    float64   `json:"spent"`
		Max      float64   `json:"max"`
		Expected float64   `json:"expected"`
		Error    string    `json:"error"`
		Fix      string    `json:"fix"`
		Type     string    `json:"type"`
		Command  string    `json:"command"`
		Method   string    `json:"method"`
		Awaiting string    `json:"awaiting"`
	}
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	until := f.Until.Local().Format(time.DateTime)
	switch ev.Event {
	case "rate_limit_wait":
		s := fmt.Sprintf("%s waits until %s: %s of %s", f.Role, until, f.Limit, f.Provider)
		if f.Source == "shared" {
			s += ", met by " + f.By
		}
		if f.Text != "" {
			s += " (" + f.Text + ")"
		}
		return s
	case "rate_limit_over":
		s := fmt.Sprintf("%s goes on after %s", f.Role, Duration(time.Duration(f.WaitedMS)*time.Millisecond))
		if f.Reason != "time" {
			s += ", " + f.Reason + by(f.By, "")
		}
		return s
	case "budget_reached":
		if f.Limit == "max_tokens" {
			return fmt.Sprintf("the budget does not cover the %s: %s of %s tokens are used", f.Role, Count(int64(f.Spent)), Count(int64(f.Max)))
		}
		return fmt.Sprintf("the budget does not cover the %s: $%.4f of $%.2f are spent", f.Role, f.Spent, f.Max)
	case "recovery_escalated":
		if f.Awaiting == "runner" {
			return fmt.Sprintf("no runner of the %s is fit, a person is told: %s", f.Role, Cut(text.Display(f.Error), 2*maxCommand))
		}
		if f.Type == "role_failure" || f.Type == "remediation_exhausted" {
			what := f.Error
			if what == "" {
				what = f.Reason
			}
			return fmt.Sprintf("waiting for a person (%s, %s): %s; superloop inbox shows all of it", strings.ReplaceAll(f.Type, "_", " "), f.Role, Cut(text.Display(what), 2*maxCommand))
		}
		if f.Type != "" && f.Type != "runner_unavailable" {
			return fmt.Sprintf("waiting for a person (%s): %s; %s; superloop approve-recovery --loop %s", strings.ReplaceAll(f.Type, "_", " "),
				Cut(text.Display(f.Command), maxCommand), Cut(text.Display(f.Reason), 2*maxCommand), ev.LoopID)
		}
		s := fmt.Sprintf("waiting for a person: the %s cannot run (%s)", f.Role, f.Reason)
		if f.Error != "" {
			s += ": " + f.Error
		}
		if f.Fix != "" {
			s += "; " + f.Fix + ", then:"
		}
		return s + " superloop kick --loop " + ev.LoopID
	}
	switch f.Method {
	case "approve":
		return "approved" + by(f.By, f.Note)
	case "reject":
		return "rejected" + by(f.By, f.Note)
	}
	return "mended" + by(f.By, f.Note)
}

// Count writes a large number with its unit: 950, 12.3k, 4.1M.
func Count(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}
