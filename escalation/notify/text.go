package notify

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

const (
	titleName = 80  // characters of a name in a title
	lineField = 600 // characters of a field in Text
)

// Title says in one line, and in superloop's words, what m is about. It begins
// with "superloop". Names in it went through OneLine; it is not escaped.
func Title(m Message) string {
	loop := "a loop"
	if m.Loop != "" {
		loop = "loop " + OneLine(m.Loop, titleName)
	}
	said := OneLine(string(m.Kind), titleName)
	switch m.Kind {
	case Opened:
		return "superloop: " + loop + " needs a person"
	case Reminder:
		return "superloop: " + loop + " still waits for a person"
	case Aged:
		return "superloop: " + loop + " has waited long and nobody answered"
	case ConfigChangeHeld:
		return "superloop: a change of the configuration is held (" + OneLine(cmp.Or(m.Repo, loop), titleName) + ")"
	case Test:
		return "superloop: this is a test message, nothing is waiting"
	case Alert:
		said = OneLine(cmp.Or(m.Status, "alert"), titleName)
	case Resolved:
		said = OneLine(cmp.Or(m.Status, "resolved"), titleName)
		if m.By != "" {
			said += " by " + OneLine(m.By, titleName)
		}
	}
	return "superloop: " + loop + ": " + said
}

// Text says the same at length, for a reader of plain text. All of it went
// through Visible; it is not escaped.
func Text(m Message) string {
	var b strings.Builder
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", label, OneLine(value, lineField))
		}
	}
	b.WriteString(Title(m) + "\n")
	line("Type", m.Type)
	line("Reason", m.Reason)
	line("Category", m.Category)
	line("Root cause", m.RootCause)
	if m.Command != "" {
		command, marks := Visible(m.Command)
		fmt.Fprintf(&b, "Command, in %s:\n    %s\n", OneLine(cmp.Or(m.WorkingDir, "."), lineField), strings.ReplaceAll(command, "\n", "\n    "))
		if marks > 0 {
			fmt.Fprintf(&b, "Note: %s\n", MarksNote(marks))
		}
	}
	line("Approve", m.Actions.Approve)
	line("Reject", m.Actions.Reject)
	line("Solved by hand", m.Actions.Manual)
	line("Note", m.Note)
	line("Repository", m.Repo)
	if m.Iteration > 0 {
		fmt.Fprintf(&b, "Iteration: %d\n", m.Iteration)
	}
	line("Escalation", m.Escalation)
	line("Digest", m.Digest)
	if !m.Expires.IsZero() && m.Kind.asks() {
		fmt.Fprintf(&b, "Expires: %s\n", m.Expires.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// MarksNote explains to a reader what Visible did.
func MarksNote(marks int) string {
	if marks == 1 {
		return "the command has 1 hidden or repeated character, written here as <...>"
	}
	return fmt.Sprintf("the command has %d hidden or repeated characters, written here as <...>", marks)
}
