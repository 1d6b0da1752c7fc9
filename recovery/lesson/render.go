package lesson

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// The file of a draft. The types of package catalog would write every field that a handler can have.
type (
	fileText struct {
		Family   string        `yaml:"family,omitempty"`
		Layer    string        `yaml:"layer,omitempty"`
		Handlers []handlerText `yaml:"handlers"`
	}
	handlerText struct {
		ID          string              `yaml:"id"`
		Label       string              `yaml:"label"`
		Description string              `yaml:"description"`
		Category    string              `yaml:"category"`
		Priority    int                 `yaml:"priority,omitempty"`
		Match       map[string][]string `yaml:"match"`
		Options     []optionText        `yaml:"options"`
		Examples    []exampleText       `yaml:"examples"`
		Counters    []exampleText       `yaml:"counter_examples"`
	}
	optionText struct {
		ID          string     `yaml:"id"`
		Label       string     `yaml:"label"`
		Strategy    string     `yaml:"strategy"`
		Recommended bool       `yaml:"recommended"`
		Risk        string     `yaml:"risk"`
		Confidence  float64    `yaml:"confidence"`
		Sudo        bool       `yaml:"sudo,omitempty"`
		Commands    [][]string `yaml:"commands,omitempty,flow"`
	}
	exampleText struct {
		Tool     string `yaml:"tool"`
		Command  string `yaml:"command"`
		ExitCode int    `yaml:"exit_code"`
		Signal   string `yaml:"signal,omitempty"`
		TimedOut bool   `yaml:"timed_out,omitempty"`
		Stdout   string `yaml:"stdout,omitempty"`
		Stderr   string `yaml:"stderr,omitempty"`
	}
)

// handler makes the handler of a line.
func (m *maker) handler(l line, p recognised) handlerText {
	h := handlerText{ID: m.newID(p), Label: text.Cut(p.label, 80), Category: m.category, Priority: m.priority, Match: map[string][]string{"any": {p.expr}}}
	h.Description = "The output has this line. An operator says that the command below helps."
	if m.cure.Shown != "" {
		h.Description = "The output has this line. The command below helped once: after it this failure was gone."
	}
	o := optionText{ID: "learned", Label: text.Cut("Run "+m.cure.Command, 100), Strategy: string(catalog.EnvFix), Recommended: true, Risk: string(catalog.RiskMedium), Confidence: 0.8}
	if strings.TrimSpace(m.cure.Command) == strings.TrimSpace(m.f.Command) {
		o.Label, o.Strategy = "Run it once more", string(catalog.Retry)
	} else {
		for _, s := range p.commands {
			o.Sudo = o.Sudo || s.sudo
			o.Commands = append(o.Commands, s.argv)
		}
	}
	h.Options = []optionText{o}
	command := redact.Text(m.Redact.String(m.f.Command))
	e := exampleText{Tool: m.tool(), Command: command, ExitCode: m.f.Exit.Code, Signal: m.f.Exit.Signal, TimedOut: m.f.Exit.TimedOut}
	if e.Signal != "" {
		e.ExitCode = 0
	}
	around := l.around(m.f, m.Redact)
	if l.stderr {
		e.Stderr = around
	} else {
		e.Stdout = around
	}
	h.Examples = []exampleText{e}
	said := strings.TrimSpace(l.text)
	quote := "'"
	if strings.Contains(said, quote) {
		quote = `"`
	}
	h.Counters = []exampleText{
		{Tool: "a test that quotes it", Command: command, ExitCode: 1, Stdout: "AssertionError: expected " + quote + said + quote + " to equal " + quote + quote},
		{Tool: "another program", Command: command, ExitCode: 1, Stderr: "other-program: while it said: " + said},
	}
	return h
}

// tool returns the name of the program that failed, for an example.
func (m *maker) tool() string {
	if words := m.f.programs(); len(words) > 0 && words[0] != "" {
		return text.Cut(redact.Text(m.Redact.String(words[0])), 40)
	}
	return "unknown"
}

// newID returns an id for the handler, of the words that tell the most, which no handler has.
func (m *maker) newID(p recognised) string {
	words := []string{"learned"}
	for _, s := range p.literals {
		for _, w := range word().FindAllString(s, -1) {
			if telling(w) > 1 && len(words) < 5 {
				words = append(words, strings.ToLower(text.Head(w, 20)))
			}
		}
	}
	id := strings.Join(words, "_")
	for n, base := 2, id; ; n++ {
		if _, taken := m.cat.Handler(id); !taken {
			return id
		}
		id = fmt.Sprintf("%s_%d", base, n)
	}
}

// render returns the text of the file.
func (m *maker) render(h handlerText, l line) ([]byte, error) {
	f := fileText{Handlers: []handlerText{h}}
	if m.layer == catalog.LayerMethod {
		f.Family = m.family
	} else {
		f.Layer = string(m.layer)
	}
	var b bytes.Buffer
	for _, s := range m.preface(h) {
		fmt.Fprintln(&b, strings.TrimRight("# "+text.Line(s, 400), " "))
	}
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("writing the draft of a handler: %w", err)
	}
	return b.Bytes(), e.Close()
}

// preface returns the lines of the comment at the top of the file.
func (m *maker) preface(h handlerText) []string {
	from := "The cure is what an operator said (--cure). Nothing recorded shows that it helps."
	if m.cure.Shown != "" {
		from = "That the cure helps was seen: " + m.cure.Shown + "."
	}
	before := "No rule knew this failure before."
	if m.before.Handler != "" {
		before = "It comes before " + m.before.Handler + ", which took this failure until now."
	}
	return []string{
		"Drafted by superloop learn. Read it before you keep it: is the pattern what names the cause, is the cure what you would do?", from, before,
		"Keep it as " + path.Join("~/.config/superloop/recovery", h.ID+".yaml") + ", or in .superloop/recovery of a repository.",
		"Nothing is approved by being learned. The policy decides about these commands like about all others:",
		"listed in auto_approve byte for byte they run, else on_unknown decides, and by default an operator is asked.",
		"From .superloop/recovery of a repository they never run without an operator.",
	}
}
