package mockapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// offer is a tool that a request offers to the model.
type offer struct {
	name, namespace string // the names by which a reply calls the tool; only OpenAI has namespaces, "" means none
	kind            offerKind
	parent          *offer // the tool whose program calls this one; only for a nested tool
	schema          node   // the JSON Schema of the input; an invalid one counts as empty
}

type offerKind string

const (
	takesJSON  offerKind = "json"
	takesText  offerKind = "text"
	localShell offerKind = "local_shell" // OpenAI's built-in shell
	nested     offerKind = "nested"      // called from a program for the parent
	provider   offerKind = "provider"    // run by the provider itself (web search)
)

func titles(offers []offer) []string {
	list := make([]string, len(offers))
	for i, o := range offers {
		list[i] = o.name
		if o.parent != nil {
			list[i] = o.parent.name + "." + o.name
		}
	}
	return list
}

// nestedOffers returns the tools that a program for parent can call. In codex's code mode the description of parent
// declares them.
func nestedOffers(parent offer, description string) []offer {
	var list []offer
	declared := regexp.MustCompile(`declare const tools: \{ ([A-Za-z_][A-Za-z0-9_]*)\(\w+: `)
	for _, m := range declared.FindAllStringSubmatch(description, -1) {
		list = append(list, offer{name: m[1], kind: nested, parent: &parent})
	}
	return list
}

// toolCall is a call of an offered tool. input is a JSON object, or plain text for a tool that takes text.
type toolCall struct {
	offer
	id, input string
}

// choose turns a Tool into a call of a tool that is offered.
func choose(t Tool, offers []offer) (toolCall, error) {
	c, ok, want := toolCall{}, false, ""
	switch {
	case t.Name != "":
		want = fmt.Sprintf("%q", t.Name)
		for _, o := range byName(offers, t.Name) {
			if o.kind == takesText {
				if err := json.Unmarshal(t.Input, &c.input); err != nil {
					return c, fmt.Errorf("the tool %s takes text, so its input must be a JSON string: %w", t.Name, err)
				}
				c.offer = o
				return c, nil
			}
			if o.kind != nested {
				return toolCall{offer: o, input: string(t.Input)}, nil
			}
		}
	case t.Write != nil:
		want = "that writes a file"
		c, ok = write(*t.Write, offers)
	case t.Shell != "":
		want = "that runs a command"
		c, ok = shell(t.Shell, offers)
	default:
		return c, errors.New("the script's tool says neither what to write nor what to run nor a name")
	}
	if !ok {
		return c, fmt.Errorf("no tool %s is offered, only %s", want, cmp.Or(strings.Join(titles(offers), ", "), "none at all"))
	}
	return c, nil
}

// write makes a call that writes a file. It prefers a tool that takes a path and a content, then a patch tool, then a
// command. Among the names of a tool, the preferred ones come first.
func write(f File, offers []offer) (toolCall, bool) {
	for _, o := range byName(offers, "Write", "write", "write_file", "create_file", "create") {
		p, c := o.schema.at("properties").first("file_path", "filePath", "absolute_path", "path"), o.schema.at("properties").first("content", "contents", "text", "file_text")
		if p != "" && c != "" {
			return o.call(object{p: f.Path, c: f.Content}), true
		}
	}
	if patch, ok := addFile(f); ok {
		for _, o := range byName(offers, "apply_patch") {
			switch arg := o.schema.at("properties").first("input", "patch"); {
			case o.kind == takesText:
				return toolCall{offer: o, input: patch}, true
			case o.kind == nested:
				return o.program("text(await tools." + o.name + "(" + inJSON(patch) + "));"), true
			case arg != "":
				return o.call(object{arg: patch}), true
			}
		}
	}
	return shell("mkdir -p "+text.Word(path.Dir(f.Path))+" && printf %s "+text.Word(f.Content)+" > "+text.Word(f.Path), offers)
}

// addFile returns the patch that makes the file. ok is false if a patch cannot express the file, for example because
// its last line has no line end.
func addFile(f File) (string, bool) {
	if !strings.HasSuffix(f.Content, "\n") || strings.ContainsAny(f.Path, "\r\n") || strings.Contains(f.Content, "\r") {
		return "", false
	}
	lines := strings.ReplaceAll(strings.TrimSuffix(f.Content, "\n"), "\n", "\n+")
	return "*** Begin Patch\n*** Add File: " + f.Path + "\n+" + lines + "\n*** End Patch", true
}

func shell(line string, offers []offer) (toolCall, bool) {
	for _, o := range byName(offers, "Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "local_shell") {
		words := []string{"bash", "-lc", line}
		switch arg := o.schema.at("properties").first("command", "cmd", "script"); {
		case o.kind == localShell:
			return o.call(object{"type": "exec", "command": words, "env": map[string]string{}}), true
		case o.kind == nested:
			return o.program("const r = await tools." + o.name + "({cmd: " + inJSON(line) + "});\ntext(r.output);"), true
		case arg != "" && o.schema.at("properties", arg).is("array"):
			return o.call(object{arg: words}), true
		case arg != "":
			return o.call(object{arg: line}), true
		}
	}
	return toolCall{}, false
}

// byName returns the offers with these names, in the order of the names.
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

// call makes a call of the tool with args. It adds example values for the other arguments that the schema requires.
func (o offer) call(args object) toolCall {
	for _, r := range o.schema.at("required").list() {
		if _, ok := args[r.str()]; !ok {
			args[r.str()] = o.schema.at("properties", r.str()).example()
		}
	}
	return toolCall{offer: o, input: inJSON(args)}
}

// program makes a call of the parent with a program that calls the nested tool.
func (o offer) program(js string) toolCall { return toolCall{offer: *o.parent, input: js} }

func inJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, and maps and lists of them, always marshal
	}
	return string(raw)
}
