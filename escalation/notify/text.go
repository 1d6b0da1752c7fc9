package notify

import (
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
	switch m.Kind {
	case Opened:
		return fmt.Sprintf("superloop: %s needs a person", loop)
	case Reminder:
		return fmt.Sprintf("superloop: %s still waits for a person", loop)
	case Aged:
		return fmt.Sprintf("superloop: %s has waited long and nobody answered", loop)
	case Resolved:
		title := fmt.Sprintf("superloop: %s: %s", loop, OneLine(orElse(m.Status, "resolved"), titleName))
		if m.By != "" {
			title += " by " + OneLine(m.By, titleName)
		}
		return title
	case ConfigChangeHeld:
		return fmt.Sprintf("superloop: a change of the configuration is held (%s)", OneLine(orElse(m.Repo, loop), titleName))
	case Alert:
		return fmt.Sprintf("superloop: %s: %s", loop, OneLine(orElse(m.Status, "alert"), titleName))
	case Test:
		return "superloop: this is a test message, nothing is waiting"
	}
	return fmt.Sprintf("superloop: %s: %s", loop, OneLine(string(m.Kind), titleName))
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
		fmt.Fprintf(&b, "Command, in %s:\n    %s\n", OneLine(orElse(m.WorkingDir, "."), lineField), strings.ReplaceAll(command, "\n", "\n    "))
		if marks > 0 {
			fmt.Fprintf(&b, "Note: %s\n", MarksNote(marks))
		}
	}
	line("Approve", m.Actions.Approve)
	line("Reject", m.Actions.Reject)
	line("Solved by hand", m.Actions.Manual)
	line("Note", m.Note)
	if SafeLink(m.Link) {
		fmt.Fprintf(&b, "See: %s\n", m.Link)
	}
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

// SafeLink reports whether link is an http(s) address that can stand in a text
// without being taken for anything else.
func SafeLink(link string) bool {
	if !strings.HasPrefix(link, "https://") && !strings.HasPrefix(link, "http://") || len(link) > 1000 {
		return false
	}
	for i := 0; i < len(link); i++ {
		if c := link[i]; c <= ' ' || c > '~' || strings.IndexByte("<>|\"'`\\", c) >= 0 {
			return false
		}
	}
	return true
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
