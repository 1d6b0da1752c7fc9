package gate

import (
	"bytes"
	"fmt"
	"time"
)

const (
	// maxMarkdown bounds a checklist file, in bytes; a larger one is not read
	// and counts as one open item.
	maxMarkdown = 8 << 20
	// maxListed bounds how many open items a report lists; all are counted.
	maxListed = 2000
	maxItem   = 300 // characters of one item in a report
)

// Item is an unchecked item of a checklist. Line counts from 1.
type Item struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Unread is a checklist that could not be looked at: a pattern that matches
// nothing, or a file that cannot be read.
type Unread struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// ChecklistResult is what is left to do in the checklists. Items holds at most
// the first 2,000; Remaining counts all, and each Unread as one.
type ChecklistResult struct {
	OK        bool
	Remaining int
	Files     int // checklists that were read
	Items     []Item
	Missing   []Unread
}

// Status is "ok" or "remaining".
func (r ChecklistResult) Status() string {
	if r.OK {
		return StatusOK
	}
	return StatusRemaining
}

// Checklists reads every file that the patterns name (see expand for their
// syntax) and counts the unchecked items. A pattern that matches nothing, a
// directory, and a file that is outside the repository or cannot be read count
// one each: what could not be looked at is not done. A file that two patterns
// name counts once. The error is for a repository that cannot be opened.
func Checklists(root string, patterns []string) (ChecklistResult, error) {
	var res ChecklistResult
	if len(patterns) == 0 {
		res.OK = true
		return res, nil
	}
	t, err := openTree(root)
	if err != nil {
		return res, err
	}
	defer t.close()
	seen := map[string]bool{}
	for _, pattern := range patterns {
		if pattern == "" {
			continue
		}
		files, err := t.expand(pattern)
		if err != nil {
			res.miss(pattern, faultOf(err))
			continue
		}
		if len(files) == 0 {
			res.miss(pattern, &fault{reason: ReasonNotFound})
		}
		for _, file := range files {
			if seen[file] {
				continue
			}
			seen[file] = true
			data, err := t.read(file, maxMarkdown)
			if err != nil {
				res.miss(file, faultOf(err))
				continue
			}
			res.Files++
			open := uncheckedItems(data)
			res.Remaining += len(open)
			for _, it := range open {
				if len(res.Items) == maxListed {
					break
				}
				it.File = file
				res.Items = append(res.Items, it)
			}
		}
	}
	res.OK = res.Remaining == 0
	return res, nil
}

func (r *ChecklistResult) miss(p string, f *fault) {
	u := Unread{Path: p, Reason: f.reason}
	if f.err != nil {
		u.Detail = f.err.Error()
	}
	r.Missing = append(r.Missing, u)
	r.Remaining++
}

// StatusJSON is checklist-status.json.
func (r ChecklistResult) StatusJSON(at time.Time) []byte {
	return pretty(struct {
		OK          bool     `json:"ok"`
		Remaining   int      `json:"remaining"`
		GeneratedAt string   `json:"generated_at"`
		Files       int      `json:"files"`
		Missing     []Unread `json:"missing,omitempty"`
	}{r.OK, r.Remaining, stamp(at), r.Files, r.Missing})
}

// RemainingMarkdown is checklist-remaining.md: one line "file:line:text" for
// each open item; empty when there is none.
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

// MissingMarkdown is checklist-missing.md: one line for each pattern that
// matched nothing and each file that could not be read, the reason behind it
// when it is another one.
func (r ChecklistResult) MissingMarkdown() []byte {
	var b bytes.Buffer
	for _, m := range r.Missing {
		b.WriteString(pathText(m.Path))
		if m.Reason != ReasonNotFound {
			b.WriteString(" (" + m.Reason)
			if m.Detail != "" {
				b.WriteString(": " + oneLine(m.Detail, maxItem))
			}
			b.WriteByte(')')
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}
