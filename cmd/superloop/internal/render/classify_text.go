package render

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/verify"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const (
	maxText   = 300 // characters of a line of what tools have printed
	maxOutput = 6   // lines of a tool's output that an operator is shown
)

// inert is foreign text that a terminal does nothing with, in one line.
func inert(s string) string { return Cut(text.Display(s), maxText) }

// reportsText has what classify, fix and verify print.
//
//go:embed reports.tmpl
var reportsText string

// numberedOption is an option with its place in the list, from 1.
type numberedOption struct {
	OptionView
	N int
}

var reports = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("reports").Funcs(template.FuncMap{
		"inert": inert, "clean": Clean, "show": text.Display, "word": remedy.Word, "waits": waits, "chosen": chosen, "output": output,
		"spaced":   func(name string) string { return strings.ReplaceAll(name, "_", " ") },
		"yaml":     func(s string) string { return "'" + strings.ReplaceAll(inert(s), "'", "''") + "'" },
		"about":    func(c Classification) string { return strings.TrimSuffix(c.About+": "+c.Description, ": ") },
		"numbered": func(i int, o OptionView) numberedOption { return numberedOption{o, i + 1} },
		"row": func(i int, name string) string {
			if i > 0 {
				name = ""
			}
			return fmt.Sprintf("%-11s ", name)
		},
		"category": func(c Classification) string {
			name := strings.ReplaceAll(c.Category, "_", " ")
			if c.Label != "" && !strings.EqualFold(c.Label, name) {
				name += ": " + c.Label
			}
			return name
		},
		"known": func(all []classify.Finding) []classify.Finding {
			return slices.DeleteFunc(slices.Clone(all), func(f classify.Finding) bool { return f.Holds == classify.Unknown && f.Value == "" })
		},
		"bestFirst": func(all []OptionView) []OptionView { // the impossible ones are only there to say why
			impossible := func(o OptionView) bool { return o.Availability == string(remedy.Impossible) }
			last := slices.DeleteFunc(slices.Clone(all), func(o OptionView) bool { return !impossible(o) })
			return append(slices.DeleteFunc(slices.Clone(all), impossible), last...)
		},
		"system": func(p remedy.Profile) string {
			return Clean(cmp.Or(p.Name, strings.TrimSpace(p.Distro+" "+p.Version), p.OS))
		},
	}).Parse(reportsText))
})

func report(w io.Writer, name string, data any) {
	if err := reports().ExecuteTemplate(w, name, data); err != nil {
		fmt.Fprintln(w, err)
	}
}

// Text writes a classification for an operator. What tools have printed is inert in it.
func (c Classification) Text(w io.Writer) { report(w, "classification", c) }

// CheckRun is one command of a verification.
type CheckRun struct {
	Command string
	Exit    Exit
	Output  string
}

// Verification writes for an operator what a verification has found. What the tool has printed is inert in it.
func Verification(w io.Writer, tool, label string, out verify.Outcome, runs []CheckRun) {
	name := Clean(tool)
	if label != "" {
		name += " (" + Clean(label) + ")"
	}
	report(w, "verification", map[string]any{"Name": name, "Out": out, "Runs": runs, "Repaired": out.Repair != nil && out.Repair.Succeeded})
}

func output(printed string) []string {
	var out []string
	for line := range strings.Lines(printed) {
		if len(out) == maxOutput {
			return append(out, "...")
		}
		out = append(out, inert(strings.TrimRight(line, "\r\n")))
	}
	return out
}

func waits(all []int64) string {
	var out []string
	for _, ms := range all {
		if ms > 0 {
			out = append(out, "after "+Duration(time.Duration(ms)*time.Millisecond))
		} else {
			out = append(out, "at once")
		}
	}
	return strings.Join(out, ", ")
}

// chosen is the option that would be carried out: its command, or its label.
func chosen(c Classification) string {
	for _, o := range c.Options {
		switch {
		case o.ID == c.GateOption && o.Command != "":
			return inert(o.Command)
		case o.ID == c.GateOption:
			return o.Label
		}
	}
	return ""
}

// String is how a command ended, in a few words.
func (e Exit) String() string {
	switch {
	case e.TimedOut:
		return "ended by its time limit"
	case e.OOM:
		return "ended by the kernel, for memory"
	case e.NotStarted:
		return "could not be started"
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// String says which policy it is.
func (p PolicyFrom) String() string {
	if n := p.Held; n > 0 {
		p.Held = 0
		return fmt.Sprintf("%s, without what nobody has trusted yet (%d; superloop config diff)", p.String(), n)
	}
	switch {
	case p.Source == "default":
		return "the default one: " + p.File + " is not there, so nothing is listed"
	case !p.Enabled:
		return p.File + ", whose recovery section is missing or not enabled: an operator is asked about everything"
	case p.Loop != "":
		return p.File + ", of loop " + Clean(p.Loop)
	}
	return p.File
}
