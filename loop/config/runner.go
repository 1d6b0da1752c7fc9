package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/superloop/superloop/schemas"
)

// fileRunner is a runner whose command is a list, or one string that has yet to be split.
type fileRunner struct {
	Runner
	Command any `json:"command"`
}

// runnersOf makes the registry of runners, the legacy one included.
func (b *builder) runnersOf() map[string]Runner {
	f := &b.file
	b.runners = map[string]Runner{}
	for _, name := range slices.Sorted(maps.Keys(f.Runners)) {
		b.runners[name] = b.runner(name, f.Runners[name], pointer("runners", name))
	}
	if f.Runner != nil {
		if _, taken := b.runners[legacyRunner]; taken {
			b.wrong("/runner", Problem{Code: CodeDuplicate, Found: `"runner"`, Allowed: `"runner", or a runner named "default"`,
				Message: `"runner" is the runner named "default", and runners has one of that name; remove one of them`})
		} else {
			b.runners[legacyRunner] = b.runner(legacyRunner, *f.Runner, "/runner")
		}
	}
	if len(b.runners) == 0 {
		b.wrong("/runners", Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: `"runners"`,
			Message: `there is no runner; name one, such as "runners": {"claude": {"command": ["claude", "-p"]}}`})
	}
	return b.runners
}

func (b *builder) runner(name string, r fileRunner, at string) Runner {
	out := r.Runner
	out.Name, out.PromptMode = name, cmp.Or(r.PromptMode, "stdin")
	text, isText := r.Command.(string)
	if isText {
		out.Command = b.words(at+"/command", text)
	} else {
		b.into(r.Command, &out.Command)
	}
	texts := map[string][]string{"/args": r.Args, "/fast_args": r.FastArgs, "/command": out.Command}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		for i, s := range texts[key] {
			ptr := at + key
			if key != "/command" || !isText {
				ptr += pointer(i)
			}
			b.placeholders(ptr, s, argumentNames())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Env)) {
		b.placeholders(at+"/env"+pointer(key), r.Env[key], argumentNames())
	}
	gets := func(list []string) bool {
		return slices.ContainsFunc(slices.Concat(out.Command, list), func(s string) bool {
			return strings.Contains(s, "{prompt_file}") || strings.Contains(s, "{prompt}")
		}) || slices.ContainsFunc(slices.Collect(maps.Values(r.Env)), func(s string) bool { return strings.Contains(s, "{prompt") })
	}
	if out.PromptMode == "file" && (!gets(r.Args) || r.FastArgs != nil && !gets(r.FastArgs)) {
		b.warn(at+"/prompt_mode", CodeNoEffect, "prompt_mode is file, but no argument holds {prompt_file}: the agent never learns its prompt")
	}
	return out
}

// words splits a command string as a shell splits words. Operators of a shell are refused: no shell runs a runner, so
// they would silently do nothing.
func (b *builder) words(ptr, text string) []string {
	refuse := func(what string) []string {
		b.wrong(ptr, Problem{Code: CodeUnsplit, Found: quoted(text), Allowed: "words, or a list of words",
			Message: fmt.Sprintf(`the command %s %s; no shell runs it, so give its words as a list, or ["bash", "-c", "..."]`, quoted(text), what)})
		return nil
	}
	// NewParser copies two package variables that would make it run commands and expand variables; they are not ours to
	// trust.
	p := shellwords.NewParser()
	p.ParseBacktick, p.ParseEnv = false, false
	list, err := p.Parse(text)
	switch {
	case err != nil:
		return refuse("does not end its quotes or brackets")
	case p.Position >= 0:
		return refuse(fmt.Sprintf("has a shell operator at character %d", p.Position+1))
	case len(list) == 0 && text != "":
		return refuse("is blank")
	}
	for _, word := range list {
		if strings.ContainsAny(word, "`\n") || strings.Contains(word, "$(") {
			return refuse("holds a substitution or a line break")
		}
	}
	if len(list) > 0 {
		if name, _, ok := strings.Cut(list[0], "="); ok && !strings.ContainsAny(name, "/.") {
			return refuse("starts with a variable (put it into env)")
		}
	}
	for _, word := range list {
		if i := strings.IndexByte(word, '$'); i >= 0 || strings.HasPrefix(word, "~/") {
			b.warn(ptr, CodeNoEffect, fmt.Sprintf("%s stays as it is: no shell expands variables or ~ in a runner's command", quoted(word)))
			break
		}
	}
	return list
}
