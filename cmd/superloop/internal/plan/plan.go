// Package plan takes a plan in Markdown apart: its sections become specs of a backlog, in an order. It is pure.
package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/markdown"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/backlog"
)

const (
	// MaxPlan bounds a plan, in bytes.
	MaxPlan = 8 << 20
	// MaxPrefix bounds Options.Prefix, in characters.
	MaxPrefix = 16
	// maxSpecs bounds the specs of a plan.
	maxSpecs = 500
	// maxContext bounds what each spec has of the rest of the plan, in bytes.
	maxContext = 16 << 10
)

// Options are the flags of superloop plan split. File names the plan in errors and in the specs. Prefix, of a-z, 0-9 and
// dashes, begins the names of all specs. Independent says that a plan without dependencies has none.
type Options struct {
	File        string
	Prefix      string
	Independent bool
}

// Spec is a section that becomes a spec.
type Spec struct {
	File  string   `json:"file"` // its name in the backlog
	Loop  string   `json:"loop"`
	Title string   `json:"title"`
	Line  int      `json:"line"`  // of its heading in the plan, from 1
	Open  int      `json:"open"`  // boxes that are not ticked
	Done  int      `json:"done"`  // boxes that are
	After []string `json:"after"` // the loops on which it depends
	Text  []byte   `json:"-"`
}

// Split is a plan that was taken apart. Done are the titles of the sections whose boxes are all ticked, and Context those of
// the sections that are no spec; all specs have these, shortened to 16 KiB if Cut is set.
type Split struct {
	Specs   []Spec   `json:"specs"`
	Done    []string `json:"done"`
	Context []string `json:"context"`
	Cut     bool     `json:"context_cut"`
}

// Error says what is wrong with a plan, and where. Line is 0 if it is no line.
type Error struct {
	File string
	Line int
	Why  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Why
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Why)
}

// section is a heading and what stands below it: the lines from Line to before end.
type section struct {
	markdown.Heading
	end        int
	open, done int
	number     string // that of its title: "2", "1.3"
	bare       string // its title without that
	loop       string // "" if it becomes no spec
	names      []name // on what it depends, as it says
	says       bool   // it has a line that says so
}

type name struct {
	text string
	line int
}

// part is a piece of the plan that is no spec.
type part struct{ from, end int }

// document is a plan as it is read.
type document struct {
	Options
	lines    []markdown.Line
	sections []*section   // of one level, in their order
	rest     []part       // what stands outside of these
	boxes    bool         // only sections with boxes are specs
	heads    map[int]bool // the lines of all headings
}

// Make takes a plan apart. An error is an *Error.
func Make(data []byte, o Options) (Split, error) {
	d := document{Options: o}
	if !utf8.Valid(data) {
		return Split{}, d.wrong(0, "it is not UTF-8 text")
	}
	if err := d.read(string(data)); err != nil {
		return Split{}, err
	}
	specs, err := d.number()
	if err != nil {
		return Split{}, err
	}
	after, err := d.order(specs)
	if err != nil {
		return Split{}, err
	}
	var out Split
	context := d.context(&out)
	for _, s := range specs {
		if s.finished() {
			out.Done = append(out.Done, s.bare)
			continue
		}
		one := Spec{File: s.loop + ".md", Loop: s.loop, Title: s.bare, Line: s.Line, Open: s.open, Done: s.done, After: after[s]}
		one.Text = d.spec(s, one.After, context)
		if len(one.Text) > backlog.MaxSpec {
			return Split{}, d.wrong(s.Line, "this section makes a spec of more than %d MiB", backlog.MaxSpec>>20)
		}
		out.Specs = append(out.Specs, one)
	}
	if len(out.Specs) == 0 {
		return Split{}, d.wrong(0, "all of its boxes are ticked, so there is nothing to do")
	}
	return out, nil
}

func (d *document) wrong(line int, format string, args ...any) error {
	return &Error{d.File, line, fmt.Sprintf(format, args...)}
}

// finished reports whether all boxes of a section are ticked.
func (s *section) finished() bool { return s.open == 0 && s.done > 0 }

// read finds the sections: those of the shallowest level of which there are two. If only one of these has boxes, and that one
// has all of its boxes in sections of its own, these are the sections.
func (d *document) read(text string) error {
	if line := markdown.Stray(text); line > 0 {
		return d.wrong(line, "this fence is never closed")
	}
	for l := range markdown.Lines(text) {
		d.lines = append(d.lines, l)
	}
	all := markdown.Headings(text)
	d.heads = map[int]bool{}
	for _, h := range all {
		for line := h.Line; line <= h.Last; line++ {
			d.heads[line] = true
		}
	}
	d.cut(all, part{1, len(d.lines) + 1})
	if len(d.sections) == 0 {
		return d.wrong(0, "it has no two headings of one level, so it is one spec")
	}
	for {
		var boxed []*section
		for _, s := range d.sections {
			if s.open+s.done > 0 {
				boxed = append(boxed, s)
			}
		}
		d.boxes = len(boxed) > 0
		if len(boxed) != 1 {
			return nil
		}
		only, was := boxed[0], *d
		d.cut(all, part{only.Last + 1, only.end})
		sum := 0
		for _, s := range d.sections {
			sum += s.open + s.done
		}
		if len(d.sections) == 0 || sum < only.open+only.done {
			*d = was
			return nil
		}
		d.rest = append([]part{{1, only.Last + 1}}, d.rest...)
		if only.end <= len(d.lines) {
			d.rest = append(d.rest, part{only.end, len(d.lines) + 1})
		}
	}
}

// cut finds the sections within a part of the plan, none if no level has two headings, and what stands outside of them.
func (d *document) cut(all []markdown.Heading, within part) {
	d.sections, d.rest = nil, nil
	var heads []markdown.Heading
	count := map[int]int{}
	for _, h := range all {
		if h.Line >= within.from && h.Line < within.end {
			heads = append(heads, h)
			count[h.Level]++
		}
	}
	level := 1
	for ; level <= 6 && count[level] < 2; level++ {
	}
	at := within.from
	for i, h := range heads {
		if h.Level > level {
			continue
		}
		end := within.end
		for _, next := range heads[i+1:] {
			if next.Level <= level {
				end = next.Line
				break
			}
		}
		if h.Level < level {
			continue // it belongs to what stands outside
		}
		if at < h.Line {
			d.rest = append(d.rest, part{at, h.Line})
		}
		s := &section{Heading: h, end: end}
		s.number, s.bare = titleOf(h.Title)
		s.open, s.done = markdown.Boxes(heading(s))
		for _, l := range d.lines[h.Last : end-1] {
			if l.Open() {
				s.open++
			} else if l.Done() {
				s.done++
			}
		}
		d.sections = append(d.sections, s)
		at = end
	}
	if at < within.end {
		d.rest = append(d.rest, part{at, within.end})
	}
}

// numbered matches a title with a number: "2. API", "Phase 3: API", "1.3 API". box is a box before a title, and marks are those
// of Markdown in it.
var (
	numbered = pattern.Lazy(`^(?i:(?:phase|step|part|milestone|task|section|stage|epic|story|sprint|week|iteration|chapter|feature)\s+)?#?([0-9]{1,4}(?:\.[0-9]{1,4})*)(?:(?:[.):]|\s*[-–—:])\s+|$)(.*)$`)
	dotted   = pattern.Lazy(`^([0-9]{1,4}(?:\.[0-9]{1,4})+)\s+(.*)$`)
	box      = pattern.Lazy(`^\[[ xX]?\]\s*`)
	link     = pattern.Lazy(`\[([^\]]*)\]\([^)]*\)`)
	marks    = strings.NewReplacer("*", "", "`", "", "__", "")
)

// titleOf returns the number of a title, "" if it has none, and the title without it.
func titleOf(title string) (number, bare string) {
	title = box().ReplaceAllString(link().ReplaceAllString(title, "$1"), "")
	title = strings.Join(strings.Fields(marks.Replace(title)), " ")
	for _, m := range [][]string{numbered().FindStringSubmatch(title), dotted().FindStringSubmatch(title)} {
		if m != nil {
			number, bare = m[1], strings.TrimSpace(m[2])
			break
		}
	}
	if bare == "" {
		bare = title
	}
	return number, bare
}

// number gives each section that is a spec the name of its loop: its number in the plan, and its title. The number is that of
// the titles if all have one and they rise.
func (d *document) number() (specs []*section, err error) {
	last, titles := -1, true
	for _, s := range d.sections {
		if d.boxes && s.open+s.done == 0 {
			continue
		}
		if s.bare == "" {
			return nil, d.wrong(s.Line, "this heading has no title")
		}
		specs = append(specs, s)
		n, err := strconv.Atoi(s.number)
		titles = titles && err == nil && n > last
		last = n
	}
	if len(specs) > maxSpecs {
		return nil, d.wrong(specs[maxSpecs].Line, "this is the section %d; at most %d become specs", maxSpecs+1, maxSpecs)
	}
	width := max(2, len(strconv.Itoa(max(last, len(specs)))))
	for i, s := range specs {
		n := i + 1
		if titles {
			n, _ = strconv.Atoi(s.number)
		}
		id := fmt.Sprintf("%0*d", width, n)
		if d.Prefix != "" {
			id = d.Prefix + "-" + id
		}
		s.loop = text.Slug(id+" "+s.bare, backlog.MaxID)
	}
	return specs, nil
}

// heading returns the first line of the spec of a section.
func heading(s *section) string { return "# " + s.Title }

// spec returns the text of a spec.
func (d *document) spec(s *section, after []string, context string) []byte {
	var b bytes.Buffer
	b.WriteString(heading(s) + "\n")
	if len(after) > 0 {
		fmt.Fprintf(&b, "\nDepends on: %s\n", strings.Join(after, ", "))
	}
	if body := d.body(s); body != "" {
		b.WriteString("\n" + body + "\n")
	}
	b.WriteString(context)
	return b.Bytes()
}

// names returns what a line names on which its section depends, and whether it is such a line.
func (d *document) names(l markdown.Line) (names []string, is bool) {
	if d.heads[l.N] {
		return nil, false
	}
	return backlog.Names(l, true)
}

// body returns what stands below the heading of a section, without the lines that say on what it depends, and without the
// empty lines around it.
func (d *document) body(s *section) string {
	var lines []string
	for _, l := range d.lines[s.Last : s.end-1] {
		if _, is := d.names(l); !is {
			lines = append(lines, l.Text)
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// context returns what each spec has of the parts of the plan that are no spec, "" if there is nothing. It stands between
// fences: a box, a heading or a dependency in it is none of the spec.
func (d *document) context(out *Split) string {
	parts := d.rest
	for _, s := range d.sections {
		if s.loop == "" {
			parts = append(parts, part{s.Line, s.end})
			out.Context = append(out.Context, s.bare)
		}
	}
	sortParts(parts)
	var all []string
	for _, p := range parts {
		for _, l := range d.lines[p.from-1 : p.end-1] {
			all = append(all, l.Text)
		}
	}
	rest := strings.Trim(strings.Join(all, "\n"), "\n")
	if strings.TrimSpace(rest) == "" {
		return ""
	}
	if len(rest) > maxContext {
		rest = strings.ToValidUTF8(rest[:maxContext], "")
		if at := strings.LastIndexByte(rest, '\n'); at > 0 {
			rest = rest[:at]
		}
		out.Cut = true
		rest += "\n\n(this is not all of it)"
	}
	fence := "~~~"
	for strings.Contains(rest, fence) {
		fence += "~"
	}
	return fmt.Sprintf("\n## Context\n\nFrom %s, for which this is one part. What follows is not to be built here.\n\n%s\n%s\n%s\n", text.Display(d.File), fence, rest, fence)
}
