package notify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

// Kind says what a message is about.
type Kind string

const (
	Opened           Kind = "escalation_opened"
	Resolved         Kind = "escalation_resolved"
	Reminder         Kind = "reminder"
	Aged             Kind = "aged" // nobody has answered for a long time; for the channels of the second line
	ConfigChangeHeld Kind = "config_change_held"
	Alert            Kind = "alert"      // a problem that needs no answer
	Ended            Kind = "loop_ended" // Status is how: completed, stuck, limit_reached, failed, cancelled
	Test             Kind = "test"
)

// asks reports whether the message asks for an answer, so that it is useless after its question has expired.
func (k Kind) asks() bool { return k == Opened || k == Reminder || k == Aged }

// Message is what a channel sends to operators. Any of its strings may come from an agent, except for ID, which
// superloop makes: the id of the escalation, the kind, and a number if the kind repeats. Two messages with the same ID
// are one message. Command is for reading only: superloop removes secrets from it and shortens it, so it is not an
// action.Action.
type Message struct {
	ID         string   `json:"id"`
	Escalation string   `json:"escalation_id,omitempty"` // for the answer by a button; orders the messages
	Kind       Kind     `json:"event"`
	Loop       string   `json:"loop_id,omitempty"`
	Repo       string   `json:"repo,omitempty"`
	Iteration  int      `json:"iteration,omitempty"`
	Type       string   `json:"escalation_type,omitempty"` // such as recovery_approval_required; Mattermost uses the key "type" itself
	Status     string   `json:"status,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Command    string   `json:"command,omitempty"`
	WorkingDir string   `json:"working_dir,omitempty"`
	Category   string   `json:"category,omitempty"`
	Severity   string   `json:"severity,omitempty"`   // blocking, degraded
	Confidence string   `json:"confidence,omitempty"` // high, medium, low
	RootCause  string   `json:"root_cause,omitempty"`
	Evidence   []string `json:"evidence,omitempty"` // lines that support the root cause; at most maxEvidence are sent
	Digest     string   `json:"digest,omitempty"`
	// Ways are what an operator can do about it, the best first: complete command lines that can be pasted anywhere. Offer
	// says each in words.
	Ways    []escalation.Way `json:"ways,omitempty"`
	Facts   []string         `json:"facts,omitempty"` // what is known, a line each: what the loop did, what it cost; at most maxFacts are sent
	Diff    string           `json:"diff,omitempty"`  // how what the command reads differs from what was trusted
	Next    string           `json:"next,omitempty"`  // what to type now, if nothing is asked
	By      string           `json:"by,omitempty"`
	At      time.Time        `json:"at,omitzero"` // when By answered
	Note    string           `json:"note,omitempty"`
	Created time.Time        `json:"created,omitzero"`
	Expires time.Time        `json:"expires,omitzero"`
}

const (
	maxID       = 512
	maxEvidence = 5
	maxFacts    = 24
	maxField    = 8 << 10  // bytes
	maxCommand  = 64 << 10 // bytes; the limit of a whole recovery.json
	titleName   = 80       // characters of a name in a title
	lineField   = 600      // characters of a field in Text
	longestRun  = 3        // number of blanks or newlines in a row that stay as they are
)

// check returns an error if an Outbox cannot store m.
func (m Message) check() error {
	switch {
	case m.ID == "":
		return fmt.Errorf("a message needs an id")
	case len(m.ID) > maxID:
		return fmt.Errorf("the id of a message has %d bytes; %d is the bound", len(m.ID), maxID)
	case m.Kind == "":
		return fmt.Errorf("message %q has no kind", m.ID)
	}
	return nil
}

// Kinds returns the category, the severity and the confidence in words.
func (m Message) Kinds() string { return escalation.Kinds(m.Category, m.Severity, m.Confidence) }

// texts returns pointers to all text fields except ID and Kind.
func (m *Message) texts() []*string {
	var evidence []*string
	for i := range m.Evidence {
		evidence = append(evidence, &m.Evidence[i])
	}
	for i := range m.Ways {
		evidence = append(evidence, &m.Ways[i].Line)
	}
	for i := range m.Facts {
		evidence = append(evidence, &m.Facts[i])
	}
	return append(evidence, &m.Escalation, &m.Loop, &m.Repo, &m.Type, &m.Status, &m.Reason, &m.Command, &m.WorkingDir,
		&m.Category, &m.Severity, &m.Confidence, &m.RootCause, &m.Digest, &m.Diff, &m.Next, &m.By, &m.Note)
}

// prepared removes known secrets from m and shortens its fields, so that an Outbox may store it and send it through any
// channel.
func (m Message) prepared(secrets *redact.Replacer) Message {
	m.Evidence, m.Facts, m.Ways = slices.Clone(m.Evidence), slices.Clone(m.Facts), slices.Clone(m.Ways)
	m.Facts = m.Facts[:min(len(m.Facts), maxFacts)]
	if shown := maxEvidence - 1; len(m.Evidence) > maxEvidence {
		m.Evidence = append(m.Evidence[:shown:shown], fmt.Sprintf("and %d more lines", len(m.Evidence)-shown))
	}
	for _, field := range m.texts() {
		bound := maxField
		if field == &m.Command {
			bound = maxCommand
		}
		*field = cut(secrets.String(strings.ToValidUTF8(*field, "\ufffd")), bound)
	}
	return m
}

// cut shortens s to limit bytes and adds a note about the bytes left out.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := text.Head(s, limit)
	return fmt.Sprintf("%s [%d more bytes are left out]", head, len(s)-len(head))
}

// endings say each way in which a loop ends.
var endings = map[string]string{
	"completed": "is completed", "stuck": "is stuck", "limit_reached": "has reached a limit", "failed": "has failed", "cancelled": "was cancelled",
}

// subjects say what a question is about, for a title.
var subjects = map[escalation.Type]string{
	escalation.RecoveryApproval:     "may a command run?",
	escalation.RecoveryFailed:       "a recovery has failed",
	escalation.RoleFailure:          "it fails again and again",
	escalation.RunnerUnavailable:    "an agent cannot run",
	escalation.RemediationExhausted: "something has to be mended by hand",
	escalation.CompletionApproval:   "is it done?",
	escalation.ToolPermission:       "may an agent use a tool?",
}

// troubles say what an alert about more than one role is about, by its trigger.
var troubles = map[string]string{"failure_rate": "many role runs fail", "same_category": "role runs fail in the same way", "no_success": "no role succeeds"}

// answers say how a question was answered, or that it was not. The other states follow an approval.
var answers = map[escalation.State]string{
	escalation.Rejected: "answered: rejected", escalation.Resolved: "answered: mended by hand", escalation.Superseded: "withdrawn", escalation.Expired: "not answered in time",
}

// offers say what a Way does, in front of its command line.
var offers = map[string]string{
	"approve": "To approve", "reject": "To reject", "by hand": "To run it by hand", "repair": "To repair it", "mended": "When it is mended",
	"go on": "To go on all the same", "end it": "To end the loop", "done": "If it is done", "not yet": "If it is not done",
	"look": "To look at it", "trust": "To let it take effect",
}

// Offer says what w does, in words that go before its command line.
func Offer(w escalation.Way) string { return cmp.Or(offers[w.Does], w.Does) }

// Title returns one line, in superloop's own words, that says what m is about. Foreign names in it went through
// OneLine. Title does not escape for any markup.
func Title(m Message) string {
	loop := "a loop"
	if m.Loop != "" {
		loop = "loop " + OneLine(m.Loop, titleName)
	}
	about := ""
	if s := subjects[escalation.Type(m.Type)]; s != "" {
		about = ": " + s
	}
	said := OneLine(string(m.Kind), titleName)
	switch m.Kind {
	case Opened:
		return "superloop: " + loop + " needs an operator" + about
	case Reminder:
		return "superloop: " + loop + " still waits for an operator" + about
	case Aged:
		return "superloop: " + loop + " has waited long and nobody answered" + about
	case ConfigChangeHeld:
		return "superloop: a change of the configuration is held (" + OneLine(cmp.Or(m.Repo, loop), titleName) + ")"
	case Test:
		return "superloop: this is a test message, nothing is waiting"
	case Ended:
		if words, ok := endings[m.Status]; ok {
			return "superloop: " + loop + " " + words
		}
		said = OneLine(m.Status, titleName)
	case Alert:
		said = OneLine(cmp.Or(troubles[m.Type], m.Status, "alert"), titleName)
	case Resolved:
		said = "the question is " + cmp.Or(answers[escalation.State(m.Status)], "answered: approved") // whatever came of it since
		if m.By != "" {
			said += ", by " + OneLine(m.By, titleName)
		}
	}
	return "superloop: " + loop + ": " + said
}

// Text returns the content of m as plain text: what happened and where, what is known of it, what to type, and at the end
// what programs need. Its foreign parts went through Visible. Text does not escape for any markup.
func Text(m Message) string {
	var b strings.Builder
	line := func(label, value string) {
		switch {
		case value == "":
		case label == "-":
			fmt.Fprintf(&b, "  - %s\n", OneLine(value, lineField))
		default:
			fmt.Fprintf(&b, "%s: %s\n", label, OneLine(value, lineField))
		}
	}
	b.WriteString(Title(m) + "\n")
	line("Repository", m.Repo)
	if m.Iteration > 0 {
		fmt.Fprintf(&b, "Iteration: %d\n", m.Iteration)
	}
	line("Reason", m.Reason)
	for _, f := range m.Facts {
		line("-", f)
	}
	line("Category", m.Kinds())
	line("Root cause", m.RootCause)
	for _, e := range m.Evidence {
		line("Evidence", e)
	}
	if m.Command != "" {
		command, marks := Visible(m.Command)
		fmt.Fprintf(&b, "Command, in %s:\n    %s\n", OneLine(cmp.Or(m.WorkingDir, "."), lineField), strings.ReplaceAll(command, "\n", "\n    "))
		if marks > 0 {
			fmt.Fprintf(&b, "Note: %s\n", MarksNote(marks))
		}
	}
	if !m.At.IsZero() {
		fmt.Fprintf(&b, "Answered: %s\n", m.At.UTC().Format(time.RFC3339))
	}
	line("Note", m.Note)
	line("Next", m.Next)
	for _, way := range m.Ways {
		line(Offer(way), way.Line)
	}
	if !m.Expires.IsZero() && m.Kind.asks() {
		fmt.Fprintf(&b, "Expires: %s\n", m.Expires.UTC().Format(time.RFC3339))
	}
	line("Type", m.Type)
	line("Escalation", m.Escalation)
	line("Digest", m.Digest)
	return b.String()
}

// MarksNote returns the sentence that tells a reader about the replacements of Visible.
func MarksNote(marks int) string {
	if marks == 1 {
		return "the command has 1 hidden or repeated character, written here as <...>"
	}
	return fmt.Sprintf("the command has %d hidden or repeated characters, written here as <...>", marks)
}

// Visible rewrites s so that a reader sees every character. Control characters, bidi controls, blanks other than the
// ASCII blank, and invisible characters become marks such as <U+202E>. A byte that is not UTF-8 becomes <0xFF>. More
// than three blanks or newlines in a row become <5000 blanks>. No remaining character moves, hides or reverses others.
// marks is the number of replacements; 0 means that shown equals s. Newlines stay.
func Visible(s string) (shown string, marks int) {
	var b strings.Builder
	accents := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == ' ' || r == '\n' {
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], string(r)))
			i, accents = i+n, 0
			switch {
			case n <= longestRun:
				b.WriteString(s[i-n : i])
				continue
			case r == ' ':
				fmt.Fprintf(&b, "<%d blanks>", n)
			default:
				fmt.Fprintf(&b, "<%d newlines>\n", n)
			}
			marks++
			continue
		}
		i += size
		if unicode.Is(unicode.M, r) {
			accents++
		} else {
			accents = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i-1])
			marks++
		case !text.Seen(r), accents > text.MostAccents:
			fmt.Fprintf(&b, "<U+%04X>", r)
			marks++
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), marks
}

// OneLine returns s through Visible on one line. It replaces newlines by blanks. If the result would be longer than
// limit characters, it ends with "...".
func OneLine(s string, limit int) string {
	s = strings.TrimSpace(s)
	longer := len(s) > 8*limit // the rest would be cut off anyway
	if longer {
		s = strings.ToValidUTF8(s[:8*limit], "")
	}
	line, _ := Visible(s)
	line = strings.ReplaceAll(line, "\n", " ")
	if longer {
		line += text.Dots
	}
	return text.Cut(line, limit)
}

// Escape writes & < > as entities, for readers of Slack's markup. In that markup, links and mentions of everybody need
// a bare "<".
func Escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
