package gate

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

const (
	maxMarkdown = 8 << 20 // bytes of a checklist; a larger one is not read and counts as one open item
	maxListed   = 2000    // open items that a report lists; all are counted
	maxItem     = 300     // characters of one item in a report
)

// Item is an unchecked item of a checklist. Line counts from 1.
type Item struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Unread is a checklist that could not be looked at: a pattern that matches nothing, or a file that cannot be read.
type Unread struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// ChecklistResult is what is left to do in the checklists. Items holds at most the first 2,000; Remaining counts all,
// and each Unread as one.
type ChecklistResult struct {
	OK        bool
	Remaining int
	Files     int // checklists that were read
	Items     []Item
	Missing   []Unread
}

// Status is "ok" or "remaining".
func (r ChecklistResult) Status() string { return okOr(r.OK, StatusRemaining) }

// Look adds every file below root that the patterns name (see expand for their syntax), with its unchecked items. A
// pattern that matches nothing, a directory, and a file that is outside the repository or cannot be read count one
// each: what could not be looked at is not done. A file that two patterns name counts once. The error is for a
// repository that cannot be opened.
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

// StatusJSON is checklist-status.json.
func (r ChecklistResult) StatusJSON(at time.Time) []byte {
	m := members{{"ok", r.OK}, {"remaining", r.Remaining}, {"generated_at", stamp(at)}, {"files", r.Files}}
	if len(r.Missing) > 0 {
		m = append(m, member{"missing", r.Missing})
	}
	return pretty(m)
}

// RemainingMarkdown is checklist-remaining.md: one line "file:line:text" for each open item; empty when there is none.
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

// MissingMarkdown is checklist-missing.md: one line for each pattern that matched nothing and each file that could not
// be read. The line gives the reason when it is not that there is no such file.
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

// What a line of markdown may begin with: marks of quotes, headings and list items, each before a blank but the
// quote's. A fence; the opening one of backticks has no other backtick in its line. A box that is open, and no link.
var (
	markers   = pattern.Lazy(`^[ \t\x{a0}]*(?:(?:>|(?:[-*+]|#+|[0-9]{1,9}[.)])(?:[ \t]|$))[ \t\x{a0}]*)*`)
	openFence = pattern.Lazy("^(?:(`{3,})[^`]*|(~{3,}).*)$")
	openBox   = pattern.Lazy(`^\[(?:[ \t\x{a0}]*\](?:[ \t]|$)|[ \t\x{a0}]+\][^(\[:])`)
)

// uncheckedItems finds the open boxes of a markdown text: "[ ]" (or "[]" before a blank) at the start of a list item,
// of a quoted or plain line, of a heading or of a table cell. A box in the middle of a sentence is prose about boxes.
//
// What stands between ``` or ~~~ fences is an example and does not count. A fence that is never closed hides nothing:
// else one stray line would make all that follows it done.
func uncheckedItems(text string) []Item {
	var open, fenced []Item
	var fence string // the opening fence while inside of one
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
