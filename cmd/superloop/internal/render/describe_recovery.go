package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// maxCommand is how much of a command a line shows, in characters as they are
// displayed; the event has all of it.
const maxCommand = 160

// recoveryFields is what the sentences about recoveries look at.
type recoveryFields struct {
	N          int       `json:"n"`
	Source     string    `json:"source"`
	Role       string    `json:"role"`
	Category   string    `json:"category"`
	Command    string    `json:"command"`
	WorkingDir string    `json:"working_dir"`
	Confidence string    `json:"confidence"`
	RootCause  string    `json:"root_cause"`
	Fallback   bool      `json:"fallback"`
	Verdict    string    `json:"verdict"`
	Rule       string    `json:"rule"`
	Reason     string    `json:"reason"`
	NotBefore  time.Time `json:"not_before"`
	By         string    `json:"by"`
	TimeoutMS  int64     `json:"timeout_ms"`
	Network    string    `json:"network"`
	Undo       string    `json:"undo"`
	UndoNote   string    `json:"undo_note"`
	ExitCode   int       `json:"exit_code"`
	Signal     string    `json:"signal"`
	Ended      string    `json:"ended"`
	Error      string    `json:"error"`
	DurationMS int64     `json:"duration_ms"`
	LeftBehind int       `json:"left_behind"`
	Appeared   []string  `json:"appeared"`
	Result     string    `json:"result"`
	Why        string    `json:"why"`
	Sandbox    *struct {
		Level string `json:"level"`
	} `json:"sandbox"`
	Problems []problem `json:"problems"`
}

// describeRecovery says what an agent proposed and what became of it. All that
// it wrote is inert: see text.Display.
func describeRecovery(ev journal.Event) string {
	var f recoveryFields
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	switch ev.Event {
	case "recovery_seen":
		return fmt.Sprintf("the %s, which still runs, is about to propose%s: %s; %s, if it stays so", f.Role, about(f), f.command(), f.verdict())
	case "recovery_proposed":
		return f.proposed()
	case "recovery_approved":
		if f.Source == "auto" {
			return fmt.Sprintf("%s approved by the rule %s", f.name(), f.Rule)
		}
		return fmt.Sprintf("%s approved by %s: %s", f.name(), f.By, f.command())
	case "recovery_executing":
		return f.executing()
	case "recovery_executed", "recovery_failed":
		return f.ended(ev.Event == "recovery_executed")
	case "recovery_verified":
		return f.verified()
	case "recovery_invalid":
		return f.invalid()
	}
	// recovery_denied
	if f.Rule == "stale" {
		return "a proposal is set aside and not judged: " + text.Display(f.Reason)
	}
	return fmt.Sprintf("%s denied: %s; %s", f.name(), f.command(), text.Display(f.Reason))
}

// name is how the events of one proposal refer to it.
func (f recoveryFields) name() string {
	if f.N == 0 {
		return "the recovery"
	}
	return fmt.Sprintf("recovery %d", f.N)
}

func (f recoveryFields) verdict() string {
	switch f.Verdict {
	case "auto":
		return "it may run"
	case "human":
		return "a person decides"
	case "deny":
		return "it is denied"
	case "invalid":
		return "it is no command"
	}
	return "its verdict is " + f.Verdict
}

func (f recoveryFields) command() string {
	s := Cut(text.Display(f.Command), maxCommand)
	if f.WorkingDir != "" && f.WorkingDir != "." {
		s += " (in " + Cut(text.Display(f.WorkingDir), maxCommand) + ")"
	}
	return s
}

func about(f recoveryFields) string {
	switch {
	case f.Category == "":
		return ""
	case f.Confidence == "":
		return " (" + f.Category + ")"
	}
	return fmt.Sprintf(" (%s, %s confidence)", f.Category, f.Confidence)
}

func (f recoveryFields) proposed() string {
	who := "the " + f.Role
	if f.Role == "" {
		who = f.Source
	}
	s := fmt.Sprintf("%s, by %s%s: %s", f.name(), who, about(f), f.command())
	if f.Fallback {
		s = f.name() + ", its fallback: " + f.command()
	}
	if f.RootCause != "" && !f.Fallback {
		s += ", since " + Cut(text.Display(f.RootCause), maxCommand)
	}
	s += "; " + f.verdict()
	if !f.NotBefore.IsZero() {
		s += " from " + f.NotBefore.Local().Format(time.TimeOnly) + " on"
	}
	if f.Reason != "" {
		s += ": " + text.Display(f.Reason)
	}
	return s
}

func (f recoveryFields) executing() string {
	s := f.name() + " runs " + f.command()
	if f.TimeoutMS > 0 {
		s += ", for at most " + Duration(time.Duration(f.TimeoutMS)*time.Millisecond)
	}
	if f.Network == "none" {
		s += ", without the network"
	}
	switch {
	case f.UndoNote != "":
		s += "; " + text.Display(f.UndoNote)
	case f.Undo != "":
		s += "; what it replaces is kept"
	}
	return s
}

func (f recoveryFields) ended(ok bool) string {
	took := Duration(time.Duration(f.DurationMS) * time.Millisecond)
	how := fmt.Sprintf("exited with %d after %s", f.ExitCode, took)
	switch {
	case ok:
		how = "done in " + took
	case f.Ended == "not_started":
		how = "could not be started"
	case f.Ended == "timed_out":
		how = "reached its time limit after " + took + " and was ended"
	case f.Ended == "output_limit":
		how = "printed too much and was ended after " + took
	case f.Ended == "killed":
		how = "was ended after " + took + ", since superloop had to leave"
	case f.Ended == "lost":
		how = "was lost: nobody knows how it ended"
	case f.Signal != "":
		how = "was ended by " + f.Signal + " after " + took
	}
	s := f.name() + " " + how
	if f.Error != "" {
		s += ": " + Cut(text.Display(f.Error), maxCommand)
	}
	switch {
	case f.Sandbox == nil:
	case f.Sandbox.Level == "none":
		s += "; nothing confined it"
	default:
		s += "; confined by " + f.Sandbox.Level
	}
	if f.LeftBehind > 0 {
		s += fmt.Sprintf("; %d processes that it left behind were ended", f.LeftBehind)
	}
	if len(f.Appeared) > 0 {
		s += "; look at what appeared: " + Cut(text.Display(strings.Join(f.Appeared, ", ")), maxCommand)
	}
	return s
}

func (f recoveryFields) verified() string {
	s := f.name()
	switch f.Result {
	case "verified":
		s += " is verified, the failure is gone"
	case "ineffective":
		s += " is ineffective, the failure is what it was"
	case "harmful":
		s += " is harmful, something that worked does not any more"
	default:
		s += " is not verified"
	}
	if f.Why != "" {
		s += ": " + Cut(text.Display(f.Why), 2*maxCommand)
	}
	return s
}

func (f recoveryFields) invalid() string {
	s := "the proposal is not usable"
	if f.Role != "" {
		s = "what the " + f.Role + " proposes is not usable"
	}
	if len(f.Problems) == 0 {
		if f.Reason != "" {
			s += ": " + text.Display(f.Reason)
		}
		return s
	}
	return s + firstOf("", f.Problems)
}
