// Package render turns events and other facts of a loop into output for the operator: lines for a pipe, a live line for
// a terminal, JSON for scripts.
package render

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

const (
	// maxCommand is the largest part of a command that a line shows, in characters as displayed. The event holds the
	// whole command.
	maxCommand = 160
	// maxPaths is the largest number of changed settings that a line names.
	maxPaths = 4
)

// sentencesText holds a template for the sentence of each event. The head of the file describes its syntax.
//
//go:embed sentences.txt
var sentencesText string

// A value is a field of an event: its text, or the texts of an array. It is nil if the field is missing, null or false.
// An empty text, or a time that is not set, has no element.
type value []string

func (v value) String() string { return strings.Join(v, ", ") }

func (v value) int() int64 {
	n, _ := strconv.ParseInt(v.String(), 10, 64) // 0 if v is no number
	return n
}

func (v value) float() float64 {
	f, _ := strconv.ParseFloat(v.String(), 64) // 0 if v is no number
	return f
}

func (v value) time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, v.String()) // the zero time if v is no time
	return t.Local()
}

// above returns v if it is a number above n, and otherwise nil.
func (v value) above(n int64) value {
	if v.int() > n {
		return v
	}
	return nil
}

var templates = sync.OnceValue(func() *template.Template {
	return Sentences(sentencesText, template.FuncMap{
		"command": func(v value) string { return Cut(text.Display(v.String()), maxCommand) },
		"show":    func(v value) string { return text.Shown(v.String()) },
		"cut":     func(v value) string { return Cut(text.Shown(v.String()), maxCommand) },
		"inert":   func(v value) string { return Cut(text.Shown(v.String()), 2*maxCommand) },
		"words":   words,
		"topic":   func(v value) string { return strings.TrimPrefix(words(v), "escalation ") },
		"is":      func(v value, texts ...string) bool { return slices.Contains(texts, v.String()) },
		"given":   func(v value) bool { return v != nil },
		"quote":   func(v value) string { return strconv.Quote(v.String()) },
		"join":    func(by string, v value) string { return strings.Join(v, by) },
		"pos":     func(v value) value { return v.above(0) },
		"many":    func(v value) value { return v.above(1) },
		"num":     func(v value) int64 { return v.int() },
		"float":   func(format string, v value) string { return fmt.Sprintf(format, v.float()) },
		"count":   func(v value) string { return Count(int64(v.float())) },
		"bytes":   func(v value) string { return Bytes(v.int()) },
		"ms":      func(v value) string { return Duration(time.Duration(v.int()) * time.Millisecond) },
		"clock":   func(v value) string { return v.time().Format(time.TimeOnly) },
		"date":    func(v value) string { return v.time().Format(time.DateTime) },
		"digest": func(v value) string {
			if s := v.String(); len(s) >= 8 {
				return text.Display(s[:8])
			}
			return ""
		},
		"place": place, "protection": protection, "containment": containment, "problems": firstOf, "paths": paths, "warnings": warnings,
	})
})

// Sentences parses a file of templates. Each entry is one name, or several names with commas between them, then a colon
// and the text. A line that begins with a tab continues the text above. A line that begins with # is a comment.
// Sentences panics if a text is no valid template.
func Sentences(file string, funcs template.FuncMap) *template.Template {
	all := template.New("").Option("missingkey=zero").Funcs(funcs)
	for line := range strings.Lines(strings.ReplaceAll(file, "\n\t", "")) {
		if names, sentence, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok && line[0] != '#' {
			for name := range strings.SplitSeq(names, ", ") {
				template.Must(all.New(name).Parse(sentence))
			}
		}
	}
	return all
}

// Describe returns a sentence for an event, without control characters. For an unknown event it returns the name and
// the fields.
func Describe(ev journal.Event) string {
	sentence := templates().Lookup(ev.Event)
	if sentence == nil || strings.HasPrefix(ev.Event, "_") {
		return Clean(ev.Event + " " + string(ev.Fields))
	}
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(ev.Fields))
	d.UseNumber()
	_ = d.Decode(&fields) // invalid fields count as none
	flat := map[string]value{}
	flatten(flat, "", fields)
	flat["event"], flat["loop_id"], flat["iteration"] = value{ev.Event}, value{ev.LoopID}, value{strconv.Itoa(ev.Iteration)}
	var f struct {
		Usage *loop.Usage `json:"usage"`
	}
	_ = json.Unmarshal(ev.Fields, &f) // an invalid usage counts as none
	if n, ok := f.Usage.Total(); ok {
		flat["tokens"] = value{strconv.FormatInt(n, 10)}
	}
	var b strings.Builder
	if err := sentence.Execute(&b, flat); err != nil {
		return Clean(ev.Event + " " + string(ev.Fields))
	}
	return Clean(b.String())
}

// flatten puts the fields of an object into flat. Field b of field a gets the name a_b.
func flatten(flat map[string]value, prefix string, object map[string]any) {
	for key, v := range object {
		switch v := v.(type) {
		case map[string]any:
			flatten(flat, prefix+key+"_", v)
		case []any:
			for _, e := range v {
				flat[prefix+key] = append(flat[prefix+key], element(e))
			}
		case string:
			flat[prefix+key] = value{}
			if v != "" && v != "0001-01-01T00:00:00Z" {
				flat[prefix+key] = value{v}
			}
		case json.Number:
			flat[prefix+key] = value{v.String()}
		case bool:
			if v {
				flat[prefix+key] = value{"true"}
			}
		}
	}
}

// element returns the text of an array's element. Of an object, which is a problem or a changed setting, it joins
// pointer, message and path.
func element(e any) string {
	object, ok := e.(map[string]any)
	if !ok {
		return fmt.Sprint(e)
	}
	var s []string
	for _, key := range []string{"pointer", "message", "path"} {
		if v, _ := object[key].(string); v != "" {
			s = append(s, v)
		}
	}
	return strings.Join(s, ": ")
}

func words(v value) string { return strings.ReplaceAll(v.String(), "_", " ") }

// place returns the step in the id of an effect: <run>/<iteration>/<step>[/...].
func place(id value) string {
	if parts := strings.Split(id.String(), "/"); len(parts) >= 3 {
		return strings.TrimPrefix(parts[2], "role:")
	}
	return id.String()
}

// protection says what keeps the agents from the configuration, if the event tells it.
func protection(what string, level value) string {
	switch level.String() {
	case "":
		return ""
	case "none":
		return "; enforcement L0, nothing keeps the agents from " + what + " (superloop doctor says why)"
	}
	return "; " + what + " is kept from the agents by " + level.String()
}

// containment says what agents can do to the processes of superloop, if they can do anything.
func containment(level value) string {
	switch level.String() {
	case "", string(proc.PIDNamespace):
		return ""
	}
	return "; containment " + text.Display(level.String()) + ", an agent can end or stop superloop (superloop doctor says why)"
}

// firstOf returns the first problem behind a colon, and the number of the others.
func firstOf(problems value) string {
	if len(problems) == 0 {
		return ""
	}
	return ": " + Cut(text.Display(problems[0]), 2*maxCommand) + More(len(problems)-1)
}

// warnings returns the number of warnings. superloop validate and policy lint print the warnings themselves.
func warnings(list value) string {
	if len(list) == 0 {
		return ""
	}
	return "; " + Number(len(list), "warning")
}

func paths(changed value) string {
	if len(changed) == 0 {
		return ""
	}
	var names []string
	for _, path := range changed[:min(len(changed), maxPaths)] {
		names = append(names, Cut(text.Display(path), maxCommand))
	}
	s := ": " + strings.Join(names, ", ")
	if over := len(changed) - maxPaths; over > 0 {
		s += fmt.Sprintf(" and %d more", over)
	}
	return s
}

// DescribeFor returns the sentence of Describe. The superloop command at the end of a sentence passes through here,
// which makes it work where the operator is.
func DescribeFor(ev journal.Event, here func(string) string) string {
	sentence := Describe(ev)
	if i := strings.LastIndex(sentence, "superloop "); i >= 0 && slices.Contains([]string{"approval_requested", "recovery_escalated", "config_change_held"}, ev.Event) {
		return sentence[:i] + here(sentence[i:])
	}
	return sentence
}

// Quiet reports whether an event is a detail that the progress lines leave out.
func Quiet(event string) bool {
	return slices.Contains([]string{"checklist_start", "validation_start", "prerequisites_start", "evidence_start",
		"iteration_reported", "wait_over", "iteration_end"}, event)
}

// ToneOf returns the tone of an event's line: of a failure, of a question to an operator, of an end, of an iteration.
// All other events are Normal, so that these can be seen.
func ToneOf(ev journal.Event) screen.Tone {
	var f struct {
		Status string `json:"status"`
		Result string `json:"result"`
		// Of permission_asked.
		Verdict  string `json:"verdict"`
		Observed bool   `json:"observed"`
	}
	_ = json.Unmarshal(ev.Fields, &f) // invalid fields count as none
	switch ev.Event {
	case "role_failed", "role_timeout", "failure_detected", "recovery_failed", "recovery_invalid", "recovery_denied", "config_rejected", "auto_commit_failed",
		"effect_lost", "submodule_damaged", "systemic_alert", "preflight_failed", "verify_self_repair_failed", "budget_reached":
		return screen.Bad
	case "loop_stop":
		if s := loop.Status(f.Status); s != loop.Paused && s != loop.Cancelled { // these two an operator wanted
			return screen.Bad
		}
	case "approval_requested", "recovery_escalated", "config_change_held", "escalation_damaged":
		return screen.Ask
	case "permission_asked":
		if !f.Observed && f.Verdict == "human" {
			return screen.Ask
		}
	case "loop_complete":
		return screen.Good
	case "iteration_start":
		return screen.Strong
	case "recovery_verified":
		if f.Result == "verified" {
			return screen.Good
		}
		return screen.Bad
	}
	switch {
	case f.Status == "failed" && strings.HasSuffix(ev.Event, "_end"):
		return screen.Bad
	case f.Status == "ok" && strings.HasPrefix(ev.Event, "tests_"):
		return screen.Good
	}
	return screen.Normal
}

// Role returns the role that an event is about, "" if it is about none.
func Role(ev journal.Event) string {
	var f struct {
		Role string `json:"role"`
	}
	_ = json.Unmarshal(ev.Fields, &f) // invalid fields count as no role
	return f.Role
}
