// Package render turns events into what people read: lines for a pipe, a live
// line for a terminal, JSON for scripts.
package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// fields is what Describe looks at; every event uses some of it.
type fields struct {
	Role      string          `json:"role"`
	Runner    string          `json:"runner"`
	Model     string          `json:"model"`
	Attempt   int             `json:"attempt"`
	Outcome   string          `json:"outcome"`
	ExitCode  int             `json:"exit_code"`
	Signal    string          `json:"signal"`
	Duration  int64           `json:"duration_ms"`
	Timeout   int64           `json:"timeout_ms"`
	Error     string          `json:"error"`
	Output    string          `json:"output_status"`
	OutFile   string          `json:"output_file"`
	Left      int             `json:"left_behind"`
	Dropped   int64           `json:"log_dropped_bytes"`
	Status    string          `json:"status"`
	Reason    string          `json:"reason"`
	Detail    string          `json:"detail"`
	Details   string          `json:"details"`
	Failed    string          `json:"failed_command"`
	Matched   bool            `json:"matched"`
	Text      *string         `json:"text"`
	Expected  string          `json:"expected"`
	Changed   int             `json:"changed"`
	Streak    int             `json:"streak"`
	Threshold int             `json:"threshold"`
	SHA       string          `json:"sha"`
	Subject   string          `json:"subject"`
	By        string          `json:"by"`
	Note      string          `json:"note"`
	Until     time.Time       `json:"until"`
	Missing   []string        `json:"missing"`
	Complete  bool            `json:"complete"`
	Kept      string          `json:"kept_in"`
	Cut       int64           `json:"cut_bytes"`
	Summary   string          `json:"summary"`
	Interrupt string          `json:"interrupted"`
	Killed    []int           `json:"killed"`
	Plan      json.RawMessage `json:"plan"`
	SpecFile  string          `json:"spec_file"`
	Commands  []string        `json:"commands"`
	Kind      string          `json:"kind"`
	Class     string          `json:"class"`
	Usage     *loop.Usage     `json:"usage"`
	Cost      *float64        `json:"cost_usd"`
	Denied    int64           `json:"denied"`
	Proposal  bool            `json:"proposal"`
	Protect   struct {
		Level string `json:"level"`
	} `json:"protection"`
}

// Describe says an event in one sentence without control characters. An event
// that this build does not know is its name and its fields.
func Describe(ev journal.Event) string {
	var f fields
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	return Clean(describe(ev, f))
}

func describe(ev journal.Event, f fields) string {
	role := f.Role
	if f.Attempt > 1 {
		role = fmt.Sprintf("%s (attempt %d)", f.Role, f.Attempt)
	}
	took := Duration(time.Duration(f.Duration) * time.Millisecond)
	switch ev.Event {
	case "loop_start":
		return "loop started, spec " + f.SpecFile + protection("its configuration", f.Protect.Level)
	case "loop_resume":
		s := "loop resumed"
		if f.Interrupt != "" {
			s += ", " + place(f.Interrupt) + " was under way and starts again"
		}
		if len(f.Killed) > 0 {
			s += fmt.Sprintf(", %d leftover processes ended", len(f.Killed))
		}
		return s + protection("its configuration", f.Protect.Level)
	case "loop_complete":
		return "loop completed" + because(f.Reason, f.Detail)
	case "loop_stop":
		return "loop " + f.Status + because(f.Reason, f.Detail) + by(f.By, f.Note)
	case "iteration_start":
		return fmt.Sprintf("iteration %d", ev.Iteration)
	case "iteration_end":
		return fmt.Sprintf("iteration %d ended after %s", ev.Iteration, took)
	case "role_start":
		with := f.Runner
		if f.Model != "" {
			with += ", " + f.Model
		}
		return fmt.Sprintf("%s starts (%s)", role, with)
	case "role_end":
		s := fmt.Sprintf("%s done in %s", role, took)
		if f.Output != "" && f.Output != "fresh" {
			s += fmt.Sprintf(", but its %s is %s", f.OutFile, f.Output)
		}
		return s + extras(f)
	case "role_timeout":
		if f.Outcome == "inactive" {
			return fmt.Sprintf("%s gave no output for %s and was ended", role, Duration(time.Duration(f.Timeout)*time.Millisecond)) + extras(f)
		}
		return fmt.Sprintf("%s reached its time limit after %s and was ended", role, took) + extras(f)
	case "role_failed":
		return fmt.Sprintf("%s %s after %s", role, failure(f), took) + extras(f)
	case "rate_limit_wait", "rate_limit_over", "budget_reached", "recovery_escalated", "recovery_resolved":
		return describePause(ev)
	case "notification_sent", "notification_failed", "escalation_damaged":
		return describeNews(ev)
	case "recovery_seen", "recovery_proposed", "recovery_approved", "recovery_denied", "recovery_invalid", "recovery_executing",
		"recovery_executed", "recovery_failed", "recovery_verified":
		return describeRecovery(ev)
	case "failure_classified", "leftovers_ended", "chain_opened", "chain_pushed", "chain_popped", "chain_closed", "tool_verified", "verify_self_repaired", "verify_self_repair_failed":
		return describeRemediation(ev)
	case "failure_detected", "runner_reassigned", "runner_tripped", "root_cause_analysed", "prevention_added", "preflight_failed", "systemic_alert":
		return describeRespond(ev)
	case "config_loaded", "config_warning", "config_reloaded", "config_rejected", "config_change_held":
		return describeConfig(ev)
	case "role_retry_wait":
		return fmt.Sprintf("%s is tried again at %s", f.Role, f.Until.Local().Format(time.TimeOnly))
	case "tests_start", "tests_rerun_start":
		s := fmt.Sprintf("tests start (%s)", strings.Join(f.Commands, "; "))
		if f.Reason == "tree_changed" {
			s += ", again: the tree changed after they ran"
		}
		if f.Reason == "recovery" {
			s += ", again: does the recovery help?"
		}
		return s
	case "tests_end", "tests_rerun_end":
		if f.Status == "ok" {
			return "tests passed in " + took
		}
		s := fmt.Sprintf("tests %s after %s", f.Status, took)
		if f.Failed != "" {
			s += fmt.Sprintf(": `%s` exited with %d", f.Failed, f.ExitCode)
		}
		return s
	case "promise_checked":
		switch {
		case f.Matched:
			return "the promise was given"
		case f.Text != nil:
			return fmt.Sprintf("a promise was given, but %q is not %q", *f.Text, f.Expected)
		}
		return "no promise yet"
	case "checklist_end", "validation_end", "prerequisites_end", "evidence_end":
		s := strings.TrimSuffix(ev.Event, "_end") + " " + f.Status
		if f.Details != "" && f.Status != "ok" {
			s += ": " + f.Details
		}
		return s
	case "checklist_start", "validation_start", "prerequisites_start", "evidence_start":
		return strings.TrimSuffix(ev.Event, "_start") + " is looked at"
	case "iteration_reported":
		return f.Summary
	case "effect_lost":
		return "what ran is gone, and nobody knows how it ended: " + f.Reason
	case "wait_over":
		return "the wait is over"
	case "stuck_checked":
		if f.Streak > 0 {
			return fmt.Sprintf("nothing changed, %d of %d iterations in a row", f.Streak, f.Threshold)
		}
		if f.Changed == 1 {
			return "1 file changed"
		}
		return fmt.Sprintf("%d files changed", f.Changed)
	case "gates_evaluated":
		if f.Complete {
			return "every gate is passed"
		}
		return "not complete yet: " + strings.Join(f.Missing, ", ")
	case "auto_commit_success":
		return fmt.Sprintf("committed %.9s %s", f.SHA, f.Subject)
	case "auto_commit_skipped", "auto_commit_failed":
		return strings.ReplaceAll(strings.TrimPrefix(ev.Event, "auto_"), "_", " ") + ": " + f.Reason
	case "approval_requested":
		return "waiting for approval: superloop approve --loop " + ev.LoopID
	case "approval_decided":
		return f.Status + by(f.By, f.Note)
	case "journal_repaired":
		return fmt.Sprintf("the last line of events.jsonl was torn: %d bytes cut, kept in %s", f.Cut, f.Kept)
	case "intent_ignored":
		return fmt.Sprintf("%s by %s came when %s", f.Kind, f.By, f.Reason)
	}
	return ev.Event + " " + string(ev.Fields)
}

// place is the readable part of an effect's id: <run>/<iteration>/<step>[/...].
func place(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return id
	}
	return strings.TrimPrefix(parts[2], "role:")
}

func failure(f fields) string {
	switch f.Outcome {
	case "not_started":
		return "could not be started: " + f.Error
	case "signal":
		return "was ended by " + f.Signal
	case "interrupted":
		return "was interrupted"
	case "lost":
		return "was lost: " + f.Error
	case "unfit":
		return "ended well and did not leave what was asked for (" + f.Error + ")"
	}
	what := fmt.Sprintf("failed with exit code %d", f.ExitCode)
	if f.Outcome == "error" {
		what = "failed"
	}
	if f.Class != "" {
		what += " (" + f.Class + ": " + f.Error + ")"
	}
	return what
}

func extras(f fields) string {
	var s string
	if f.Proposal {
		s += ", with a proposal"
	}
	if n, ok := f.Usage.Total(); ok {
		s += fmt.Sprintf(", %s tokens", Count(n))
	}
	if f.Cost != nil {
		s += fmt.Sprintf(", $%.4f", *f.Cost)
	}
	if f.Denied > 0 {
		s += fmt.Sprintf("; %d of its tool calls were denied by its own permissions", f.Denied)
	}
	if f.Left > 0 {
		s += fmt.Sprintf("; %d processes that it left behind were ended", f.Left)
	}
	if f.Dropped > 0 {
		s += fmt.Sprintf("; %s of its output left out of the log", Bytes(f.Dropped))
	}
	return s
}

func because(reason, detail string) string {
	switch {
	case detail != "":
		return ": " + detail
	case reason != "":
		return " (" + reason + ")"
	}
	return ""
}

func by(who, note string) string {
	var s string
	if who != "" {
		s = " by " + who
	}
	if note != "" {
		s += ": " + note
	}
	return s
}

// Quiet reports whether an event is detail that a person watching does not
// need line by line.
func Quiet(event string) bool {
	switch event {
	case "checklist_start", "validation_start", "prerequisites_start", "evidence_start",
		"iteration_reported", "wait_over", "iteration_end":
		return true
	}
	return false
}

// Role is the role that an event is about, "" if it is about none.
func Role(ev journal.Event) string {
	var f struct {
		Role string `json:"role"`
	}
	_ = json.Unmarshal(ev.Fields, &f) // no role then
	return f.Role
}
