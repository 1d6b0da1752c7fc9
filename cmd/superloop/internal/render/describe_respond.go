package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// respondFields are the fields of the events about failing roles.
type respondFields struct {
	Role       string    `json:"role"`
	Runner     string    `json:"runner"`
	Provider   string    `json:"provider"`
	Model      string    `json:"model"`
	Kind       string    `json:"kind"`
	Category   string    `json:"category"`
	Error      string    `json:"error"`
	Step       string    `json:"rung"`
	Reason     string    `json:"reason"`
	Failures   int       `json:"failures"`
	Counted    bool      `json:"counted"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	Until      time.Time `json:"until"`
	RootCause  string    `json:"root_cause"`
	Location   string    `json:"location"`
	Type       string    `json:"type"`
	By         string    `json:"by"`
	Confidence float64   `json:"confidence"`
	File       string    `json:"file"`
	Check      string    `json:"check"`
	Action     string    `json:"action"`
	Why        string    `json:"why"`
	Trigger    string    `json:"trigger"`
	Severity   string    `json:"severity"`
	Runs       int       `json:"runs"`
	Command    struct {
		Command string `json:"command"`
	} `json:"command"`
}

// describeRespond says what follows from a role's failure. What tools and agents
// have printed is inert in it.
func describeRespond(ev journal.Event) string {
	var f respondFields
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	inert := func(s string) string { return Cut(text.Display(s), 2*maxCommand) }
	switch ev.Event {
	case "failure_detected":
		s := fmt.Sprintf("the %s has failed (%s)", f.Role, strings.ReplaceAll(f.Kind, "_", " "))
		if f.Counted {
			s = fmt.Sprintf("failure %d of the %s (%s)", f.Failures, f.Role, strings.ReplaceAll(f.Kind, "_", " "))
		}
		return s + ": " + inert(f.Error) + "; " + f.step()
	case "runner_reassigned":
		return fmt.Sprintf("the %s goes from %s to %s", f.Role, inert(f.From), inert(f.To))
	case "runner_tripped":
		s := fmt.Sprintf("runner %s is unfit: %s", inert(f.Runner), inert(f.Reason))
		if f.Until.IsZero() {
			return s + "; until a person has mended it"
		}
		return s + ", until " + f.Until.Local().Format(time.TimeOnly)
	case "root_cause_analysed":
		s := fmt.Sprintf("the cause, by %s: ", inert(f.By))
		if f.Type == "unknown" {
			return s + "not found"
		}
		s += inert(f.RootCause)
		if f.Location != "" {
			s += " (" + inert(f.Location) + ")"
		}
		return s + fmt.Sprintf("; %s, confidence %.1f", f.Type, f.Confidence)
	case "prevention_added":
		return fmt.Sprintf("from now on looked at before each iteration: %s, since %s", strings.ReplaceAll(f.Check, "_", " "), inert(f.Reason))
	case "preflight_failed":
		s := fmt.Sprintf("the %s is not started, nothing is spent: %s", f.Role, inert(f.Why))
		if f.Action == "recover" {
			s += "; remedy: " + inert(f.Command.Command)
		}
		return s
	}
	return f.alert(ev.Fields)
}

// step is what the failure policy answers.
func (f respondFields) step() string {
	switch f.Step {
	case "retry":
		return "again, by the same runner"
	case "wait":
		return "nobody can take it now"
	case "reassign":
		return "another runner takes it"
	case "root_cause":
		return "its cause is looked for"
	case "resume":
		return "it goes on"
	}
	return "a person is asked"
}

func (f respondFields) alert(fields json.RawMessage) string {
	var n struct {
		Failures int `json:"failures"`
	}
	_ = json.Unmarshal(fields, &n)
	switch f.Trigger {
	case "same_category":
		return fmt.Sprintf("%s: %d failures of one kind in several tasks: %s", f.Severity, n.Failures, strings.ReplaceAll(f.Category, "_", " "))
	case "no_success":
		return fmt.Sprintf("%s: no role succeeds any more, %d have failed", f.Severity, n.Failures)
	}
	return fmt.Sprintf("%s: %d of %d role runs have failed", f.Severity, n.Failures, f.Runs)
}
