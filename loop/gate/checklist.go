package gate

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

const (
	maxMarkdown = 8 << 20 // bounds a checklist, in bytes; a larger one is not read and counts as one open item
	maxListed   = 2000    // bounds the open items that a report lists; Remaining counts all of them
	maxItem     = 300     // bounds one item in a report, in characters
)

// Item is an unchecked item of a checklist. Line is its line number, from 1.
type Item struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Unread is a checklist that the gate could not read: a pattern without a match, or a file that cannot be read.
type Unread struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// ChecklistResult holds the open items of the checklists. Items holds at most the first 2,000 of them. Remaining counts
// all of them, and counts each Unread as one.
type ChecklistResult struct {
	OK        bool
	Remaining int
	Files     int // number of checklists that were read
	Items     []Item
	Missing   []Unread
}

// Status returns "ok" or "remaining".
func (r ChecklistResult) Status() string { return okOr(r.OK, StatusRemaining) }

// Look adds the unchecked items of every file below root that the patterns name (see expand for their syntax). A
// pattern without a match, a directory, a file outside the repository and an unreadable file count as one open item
// each, because nobody can tell that they are done. A file that two patterns name counts once. Look returns an error
// only if it cannot open the repository.
func (r *ChecklistResult) Look(root string, patterns []string) error {
	r.OK = r.Remaining == 0
	if len(patterns) == 0 {
		return nil
	}
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	t.each(patterns, func(file string, err error) bool {
		var data []byte
		if err == nil {
			data, err = t.read(file, maxMarkdown)
		}
		if err != nil {
			f := faultOf(err)
			r.Missing = append(r.Missing, Unread{file, f.reason, f.detail()})
			r.Remaining++
			return true
		}
		r.Files++
		open := uncheckedItems(string(data))
		r.Remaining += len(open)
		for _, it := range open[:min(len(open), maxListed-len(r.Items))] {
			it.File = file
			r.Items = append(r.Items, it)
		}
		return true
	})
	r.OK = r.Remaining == 0
	return nil
}

// StatusJSON returns the content of checklist-status.json.
func (r ChecklistResult) StatusJSON(at time.Time) []byte {
	m := members{{"ok", r.OK}, {"remaining", r.Remaining}, {"generated_at", stamp(at)}, {"files", r.Files}}
	if len(r.Missing) > 0 {
		m = append(m, member{"missing", r.Missing})
	}
	return pretty(m)
}

// RemainingMarkdown returns the content of checklist-remaining.md: one line "file:line:text" for each open item. It is
// empty if there is none.
func (r ChecklistResult) RemainingMarkdown() []byte {
	var b bytes.Buffer
	for _, it := range r.Items {
		fmt.Fprintf(&b, "%s:%d:%s\n", pathText(it.File), it.Line, it.Text)
	}
	if more := r.Remaining - len(r.Missing) - len(r.Items); more > 0 {
		fmt.Fprintf(&b, "... and %d more\n", more)
	}
	return b.Bytes()
}

// MissingMarkdown returns the content of checklist-missing.md: one line for each pattern without a match and for each
// file that could not be read. The line gives the reason, unless the reason is that no such file exists.
func (r ChecklistResult) MissingMarkdown() []byte {
	var b bytes.Buffer
	for _, m := range r.Missing {
		why := m.Reason
		if m.Detail != "" {
			why += ": " + oneLine(m.Detail, maxItem)
		}
		if b.WriteString(pathText(m.Path)); why != ReasonNotFound {
			b.WriteString(" (" + why + ")")
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// markers matches the start of a Markdown line: the marks of quotes, headings and list items. A blank must follow each
// mark except that of a quote. openFence matches an opening fence; a fence of backticks has no other backtick in its
// line. openBox matches an open box that is not a link.
var (
	markers   = pattern.Lazy(`^[ \t\x{a0}]*(?:(?:>|(?:[-*+]|#+|[0-9]{1,9}[.)])(?:[ \t]|$))[ \t\x{a0}]*)*`)
	openFence = pattern.Lazy("^(?:(`{3,})[^`]*|(~{3,}).*)$")
	openBox   = pattern.Lazy(`^\[(?:[ \t\x{a0}]*\](?:[ \t]|$)|[ \t\x{a0}]+\][^(\[:])`)
)

// uncheckedItems finds the open boxes of a Markdown text: "[ ]" (or "[]" before a blank) at the start of a list item,
// of a quoted or plain line, of a heading or of a table cell. A box in the middle of a sentence does not count.
//
// A box between ``` or ~~~ fences is part of an example and does not count. A fence that is never closed does not hide
// the boxes after it, because otherwise one stray line would mark all items after it as done.
func uncheckedItems(text string) []Item {
	var open, fenced []Item
	var fence string // the opening fence, while the line is inside a fence
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		content := line[markers().FindStringIndex(line)[1]:]
		if fence == "" {
			if m := openFence().FindStringSubmatch(content); m != nil {
				fence, fenced = m[1]+m[2], nil
				continue
			}
		} else if rest := strings.TrimLeft(content, fence[:1]); len(content)-len(rest) >= len(fence) && strings.TrimSpace(rest) == "" {
			fence, fenced = "", nil
			continue
		}
		if !hasOpenBox(content) {
			continue
		}
		it := Item{Line: n, Text: oneLine(strings.ReplaceAll(line, "\t", "  "), maxItem)}
		if fence == "" {
			open = append(open, it)
		} else {
			fenced = append(fenced, it)
		}
	}
	return append(open, fenced...)
}

func hasOpenBox(content string) bool {
	if openBox().MatchString(content) {
		return true
	}
	for _, cell := range strings.Split(content, "|")[1:] {
		if openBox().MatchString(strings.TrimLeft(cell, " \t")) {
			return true
		}
	}
	return false
}
