package gate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/markdown"
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

// Kept adds the open boxes of a spec that are neither ticked nor open in a checklist, which began as a copy of the spec:
// whoever takes a box out has not done what it says. An item may have got more words at its end. Both are files below root.
// If the spec cannot be read, that counts as one open item. Kept returns an error only if it cannot open the repository.
func (r *ChecklistResult) Kept(root, list, spec string) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	data, err := t.read(list, maxMarkdown)
	if err != nil {
		return nil //nolint:nilerr // Look has counted it
	}
	wanted, err := t.read(spec, maxMarkdown)
	if err != nil {
		f := faultOf(err)
		r.Missing = append(r.Missing, Unread{spec, f.reason, f.detail()})
		r.Remaining++
		r.OK = false
		return nil
	}
	there := map[string]int{}
	for l := range markdown.Lines(string(data)) {
		if l.Open() || l.Done() {
			there[l.Item()]++
		}
	}
	var lost []Item
	var items []string
	for l := range markdown.Lines(string(wanted)) {
		if !l.Open() {
			continue
		}
		if item := l.Item(); there[item] > 0 {
			there[item]--
		} else {
			lost = append(lost, Item{spec, l.N, oneLine(strings.ReplaceAll(l.Text, "\t", "  "), maxItem)})
			items = append(items, item)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	longer := slices.Sorted(maps.Keys(there))
	for i, item := range items {
		at, _ := slices.BinarySearch(longer, item)
		for ; at < len(longer) && strings.HasPrefix(longer[at], item) && there[longer[at]] == 0; at++ {
		}
		if at < len(longer) && strings.HasPrefix(longer[at], item) {
			there[longer[at]]--
			continue
		}
		r.Remaining++
		r.OK = false
		if len(r.Items) < maxListed {
			lost[i].Text += "   (not in " + pathText(list) + ")"
			r.Items = append(r.Items, lost[i])
		}
	}
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

// uncheckedItems finds the open boxes of a Markdown text (markdown.Line.Open).
func uncheckedItems(text string) (open []Item) {
	for l := range markdown.Lines(text) {
		if l.Open() {
			open = append(open, Item{Line: l.N, Text: oneLine(strings.ReplaceAll(l.Text, "\t", "  "), maxItem)})
		}
	}
	return open
}
