package mockapi

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// toolCall is a call of an offered tool. input is a JSON object, or for a tool
// that takes text, that text.
type toolCall struct {
	offer
	id, input string
}

// choose makes a Tool a call of something that is offered.
func choose(t Tool, offers []offer) (toolCall, error) {
	switch {
	case t.Name != "":
		return named(t, offers)
	case t.Write != nil:
		return write(*t.Write, offers)
	case t.Shell != "":
		if c, ok := shell(t.Shell, offers); ok {
			return c, nil
		}
		return toolCall{}, fmt.Errorf("no tool that runs a command is offered, only %s", listed(offers))
	}
	return toolCall{}, fmt.Errorf("the script's tool says neither what to write nor what to run nor a name")
}

func listed(offers []offer) string {
	if len(offers) == 0 {
		return "none at all"
	}
	return strings.Join(titles(offers), ", ")
}

func named(t Tool, offers []offer) (toolCall, error) {
	for _, o := range offers {
		if o.name != t.Name || o.kind == nested || o.kind == provider {
			continue
		}
		if o.kind != takesText {
			return toolCall{offer: o, input: string(t.Input)}, nil
		}
		var text string
		if err := json.Unmarshal(t.Input, &text); err != nil {
			return toolCall{}, fmt.Errorf("the tool %s takes text, so its input must be a JSON string: %w", t.Name, err)
		}
		return toolCall{offer: o, input: text}, nil
	}
	return toolCall{}, fmt.Errorf("no tool %q is offered, only %s", t.Name, listed(offers))
}

// Names under which CLIs offer what is wanted, the best first.
func writers() []string { return []string{"Write", "write", "write_file", "create_file"} }
func shells() []string {
	return []string{"Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "local_shell"}
}

// write prefers a tool that takes a path and a content, then a patch, then a
// command.
func write(f File, offers []offer) (toolCall, error) {
	for _, o := range byName(offers, writers()...) {
		p, c := o.schema.first("file_path", "filePath", "absolute_path", "path"), o.schema.first("content", "contents", "text")
		if p != "" && c != "" {
			return o.call(map[string]any{p: f.Path, c: f.Content}), nil
		}
	}
	if patch, ok := addFile(f); ok {
		for _, o := range byName(offers, "apply_patch") {
			switch arg := o.schema.first("input", "patch"); {
			case o.kind == takesText:
				return toolCall{offer: o, input: patch}, nil
			case o.kind == nested:
				return o.program("text(await tools." + o.name + "(" + inJSON(patch) + "));"), nil
			case arg != "":
				return o.call(map[string]any{arg: patch}), nil
			}
		}
	}
	if c, ok := shell("mkdir -p "+text.Word(path.Dir(f.Path))+" && printf %s "+text.Word(f.Content)+" > "+text.Word(f.Path), offers); ok {
		return c, nil
	}
	return toolCall{}, fmt.Errorf("no tool that writes a file is offered, only %s", listed(offers))
}

// addFile is the patch that makes the file; there is none for a text whose last
// line does not end.
func addFile(f File) (string, bool) {
	if !strings.HasSuffix(f.Content, "\n") || strings.ContainsAny(f.Path, "\r\n") || strings.Contains(f.Content, "\r") {
		return "", false
	}
	lines := strings.ReplaceAll(strings.TrimSuffix(f.Content, "\n"), "\n", "\n+")
	return "*** Begin Patch\n*** Add File: " + f.Path + "\n+" + lines + "\n*** End Patch", true
}

func shell(line string, offers []offer) (toolCall, bool) {
	for _, o := range byName(offers, shells()...) {
		words := []string{"bash", "-lc", line}
		switch arg := o.schema.first("command", "cmd", "script"); {
		case o.kind == localShell:
			return o.call(map[string]any{"type": "exec", "command": words, "env": map[string]string{}}), true
		case o.kind == nested:
			return o.program("const r = await tools." + o.name + "({cmd: " + inJSON(line) + "});\ntext(r.output);"), true
		case arg != "" && o.schema.Properties[arg].is("array"):
			return o.call(map[string]any{arg: words}), true
		case arg != "":
			return o.call(map[string]any{arg: line}), true
		}
	}
	return toolCall{}, false
}

// byName are the offers with these names, in the order of the names.
func byName(offers []offer, names ...string) []offer {
	var list []offer
	for _, n := range names {
		for _, o := range offers {
			if o.name == n && o.kind != provider {
				list = append(list, o)
			}
		}
	}
	return list
}

// call fills what the schema requires besides args.
func (o offer) call(args map[string]any) toolCall {
	for _, r := range o.schema.Required {
		if _, ok := args[r]; !ok {
			args[r] = o.schema.Properties[r].any()
		}
	}
	return toolCall{offer: o, input: inJSON(args)}
}

// program calls the nested tool in a program for its parent.
func (o offer) program(js string) toolCall { return toolCall{offer: *o.parent, input: js} }

func inJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, and maps and lists of them, always marshal
	}
	return string(raw)
}

// called are the names for the Record.
func called(calls []toolCall) []string {
	var list []string
	for _, c := range calls {
		list = append(list, c.name)
	}
	return slices.Clip(list)
}
