package render

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// remediationFields are the fields of automatic remediation's events.
type remediationFields struct {
	Source     string   `json:"source"`
	Role       string   `json:"role"`
	Command    string   `json:"command"`
	Category   string   `json:"category"`
	Handler    string   `json:"handler"`
	Infra      bool     `json:"infra"`
	Code       bool     `json:"code"`
	Why        string   `json:"why"`
	Gate       string   `json:"gate"`
	Evidence   []string `json:"evidence"`
	DurationUS int64    `json:"duration_us"`
	Depth      int      `json:"depth"`
	Label      string   `json:"label"`
	Status     string   `json:"status"`
	Attempts   int      `json:"attempts"`
	Tool       string   `json:"tool"`
	Result     string   `json:"result"`
	Original   string   `json:"original"`
	Repaired   string   `json:"repaired"`
	Method     string   `json:"method"`
	ExitCode   int      `json:"exit_code"`
	Broken     bool     `json:"broken"`
	PIDs       []int    `json:"pids"`
}

// describeRemediation says what rules found out about a failure, and what they did. What
// tools have printed is inert in it.
func describeRemediation(ev journal.Event) string {
	var f remediationFields
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	label := Cut(text.Display(f.Label), maxCommand)
	switch ev.Event {
	case "failure_classified":
		return f.classified()
	case "leftovers_ended":
		return fmt.Sprintf("a port is in use: what earlier runs left behind was ended (processes %v)", f.PIDs)
	case "tool_verified":
		if f.Result == loop.ToolSkipped {
			return fmt.Sprintf("%s was installed, and is not looked at: %s", text.Display(f.Tool), text.Display(f.Why))
		}
		return text.Display(f.Tool) + " was installed and works"
	case "verify_self_repaired", "verify_self_repair_failed":
		return f.verified(ev.Event == "verify_self_repaired")
	case "chain_opened":
		return fmt.Sprintf("automatic remediation for %s begins", label)
	case "chain_pushed":
		return fmt.Sprintf("level %d: first %s", f.Depth, label)
	case "chain_popped":
		return fmt.Sprintf("level %d is %s: %s", f.Depth, f.Status, label)
	}
	// chain_closed
	tried := "1 command"
	if f.Attempts != 1 {
		tried = fmt.Sprintf("%d commands", f.Attempts)
	}
	switch f.Status {
	case "done":
		return fmt.Sprintf("automatic remediation helped after %s: %s passes", tried, label)
	case "cancelled":
		return fmt.Sprintf("automatic remediation ends after %s: %s", tried, text.Display(f.Why))
	}
	return fmt.Sprintf("automatic remediation did not help after %s: %s", tried, text.Display(f.Why))
}

func (f remediationFields) classified() string {
	what := "the environment"
	switch {
	case f.Code:
		what = "the code"
	case !f.Infra:
		what = "not known to rules"
	}
	s := fmt.Sprintf("why it failed: %s, %s", what, strings.ReplaceAll(f.Category, "_", " "))
	if f.Handler != "" {
		s += " (" + f.Handler + ")"
	}
	if why := text.Display(f.Why); why != "" {
		s += ": " + Cut(why, 2*maxCommand)
	}
	return s
}

// verified says what became of the check of an installed tool.
func (f remediationFields) verified(works bool) string {
	tool, original := Cut(text.Display(f.Tool), maxCommand), Cut(text.Display(f.Original), maxCommand)
	switch {
	case works && f.Repaired == f.Original:
		return fmt.Sprintf("%s works: its check %s asks the wrong question, and what it prints with exit code %d shows it", tool, original, f.ExitCode)
	case works:
		return fmt.Sprintf("%s works: its check %s asks the wrong question, %s with exit code %d shows it", tool, original, Cut(text.Display(f.Repaired), maxCommand), f.ExitCode)
	case f.Broken:
		return fmt.Sprintf("%s was installed and is broken: %s: %s", tool, original, Cut(text.Display(f.Why), 2*maxCommand))
	}
	return fmt.Sprintf("%s was installed, and nothing shows that it works: %s: %s", tool, original, Cut(text.Display(f.Why), 2*maxCommand))
}
