package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/superloop/superloop/schemas"
)

// roleOrder returns the roles in the order in which they run when the configuration gives no other order.
func roleOrder() []string { return []string{"planner", "implementer", "tester", "reviewer"} }

// fileRole is a role in the form in which the file holds it: the key session stands for Role.Resume.
type fileRole struct {
	Role
	Session string `json:"session"`
}

// timeouts holds the time bounds of a loop's roles. A bound of 0 means that there is no bound.
type timeouts struct {
	Enabled     *bool         `json:"enabled"`
	Default     time.Duration `json:"default"`
	Planner     time.Duration `json:"planner"`
	Implementer time.Duration `json:"implementer"`
	Tester      time.Duration `json:"tester"`
	Reviewer    time.Duration `json:"reviewer"`
	Inactivity  time.Duration `json:"inactivity"`
}

func (t timeouts) on() bool { return t.Enabled != nil && *t.Enabled }

// of returns the bound of one role.
func (t timeouts) of(role string) time.Duration {
	return map[string]time.Duration{"planner": t.Planner, "implementer": t.Implementer, "tester": t.Tester, "reviewer": t.Reviewer}[role]
}

// defaultRoles checks role_defaults once, so that superloop reports a mistake in it once and not again for each loop.
func (b *builder) defaultRoles() {
	for _, role := range roleOrder() {
		if d, ok := b.file.RoleDefaults[role]; ok {
			b.choices(Pointer("role_defaults", role), d)
		}
	}
}

// reference reports whether a runner with the given name exists. If there is none, it notes a problem at ptr.
func (b *builder) reference(ptr, name string) bool {
	if _, ok := b.runners[name]; ok {
		return true
	}
	names := b.runnerNames()
	p := Problem{Code: CodeReference, Found: quoted(name), Allowed: listed(names), Near: schemas.Nearest(name, names)}
	if p.Message = fmt.Sprintf("there is no runner %s; known: %s", quoted(name), p.Allowed) + didYouMean(p.Near); len(names) == 0 {
		p.Message = fmt.Sprintf("there is no runner %s, nor any other", quoted(name))
	}
	b.wrong(ptr, p)
	return false
}

// roles builds the roles of a loop. A role's own settings come first, then role_defaults. If neither names a runner,
// the role gets the only runner of the file.
func (b *builder) roles(l *fileLoop, at string) []Role {
	var names []string
	settings := map[string]fileRole{}
	if _, isObject := l.Roles.(map[string]any); isObject {
		b.into(l.Roles, &settings)
		names = slices.DeleteFunc(roleOrder(), func(name string) bool { _, ok := settings[name]; return !ok })
	} else {
		b.into(l.Roles, &names)
	}
	if len(names) == 0 && !b.named(at+"/roles") {
		names = roleOrder()
	}
	var out []Role
	var without []string
	for _, name := range names {
		own, def, ownAt := settings[name], b.file.RoleDefaults[name], at+Pointer("roles", name)
		r := Role{Name: name, Thinking: cmp.Or(own.Thinking, def.Thinking), Resume: cmp.Or(own.Session, def.Session) == "resume",
			Permissions: cmp.Or(own.Permissions, def.Permissions)}
		b.choices(ownAt, own)
		r.Runners = slices.Clone(b.whoMay(ownAt, name, own, def))
		if len(r.Runners) == 0 {
			choice := Choice{Runner: b.onlyRunner(), Model: cmp.Or(own.Model, def.Model)}
			if choice.Runner == "" && len(b.runners) > 1 {
				without = append(without, name)
			}
			r.Runners = []Choice{choice}
		}
		for i, c := range r.Runners {
			r.Runners[i].Permissions = cmp.Or(r.Permissions, b.runners[c.Runner].Permissions)
		}
		r.Runner, r.Model, r.Permissions = r.Runners[0].Runner, r.Runners[0].Model, r.Runners[0].Permissions
		r.Timeout, r.Inactivity = def.Timeout, def.Inactivity
		if l.Timeouts.on() {
			r.Timeout = cmp.Or(l.Timeouts.of(name), l.Timeouts.Default, r.Timeout)
			r.Inactivity = cmp.Or(l.Timeouts.Inactivity, r.Inactivity)
		}
		if b.present(ownAt + "/timeout") {
			r.Timeout = own.Timeout
		}
		if b.present(ownAt + "/inactivity") {
			r.Inactivity = own.Inactivity
		}
		out = append(out, r)
	}
	if len(without) > 0 {
		runners := b.runnerNames()
		b.wrong(at+"/roles", Problem{Code: CodeReference, Found: "no runner for " + strings.Join(without, ", "), Allowed: listed(runners),
			Message: fmt.Sprintf(`no runner is chosen for %s, and there are several (%s); set role_defaults.%s.runner, or roles.%s.runner in the loop`,
				strings.Join(without, ", "), strings.Join(runners, ", "), without[0], without[0])})
	}
	b.timeouts(l.Timeouts, at+"/timeouts")
	return out
}

// timeouts warns of time bounds that have no effect.
func (b *builder) timeouts(t timeouts, at string) {
	longest := max(t.Default, t.Planner, t.Implementer, t.Tester, t.Reviewer)
	if max(longest, t.Inactivity) > 0 && t.Enabled == nil {
		b.warn(at, CodeNoEffect, "timeouts are not enabled, so no bound holds; set enabled to true")
	}
	if t.on() && longest > 0 && t.Inactivity >= longest {
		b.warn(at+"/inactivity", CodeSuspicious, "inactivity is not shorter than any role's bound, so it never ends a role")
	}
}

// choices checks the runners in the settings of a role: each runner exists, no pair of runner and model is listed
// twice, and the settings do not have runners together with runner or model.
func (b *builder) choices(at string, in fileRole) {
	if in.Runner != "" {
		b.reference(at+"/runner", in.Runner)
	}
	if len(in.Runners) == 0 {
		return
	}
	for key, value := range map[string]string{"runner": in.Runner, "model": in.Model} {
		if value == "" && !b.present(at+"/"+key) {
			continue
		}
		b.wrong(at+"/"+key, Problem{Code: schemas.CodeCombination, Found: quoted(key), Allowed: "runners, without runner and model",
			Message: fmt.Sprintf(`%s stands beside runners, which says the same; take it away, and write who comes first as the first of runners, such as {"runner": %s, "model": "..."}`,
				quoted(key), quoted(cmp.Or(in.Runner, in.Runners[0].Runner)))})
	}
	seen := map[Choice]int{}
	for i, c := range in.Runners {
		ptr := at + Pointer("runners", i)
		if c.Runner == "" || !b.reference(b.nameAt(ptr), c.Runner) {
			continue // the schema has already reported that the name is missing
		}
		c.Tier = 0
		if j, dup := seen[c]; dup {
			what := quoted(c.Runner) + " with its own model"
			if c.Model != "" {
				what = fmt.Sprintf("%s with the model %s", quoted(c.Runner), quoted(c.Model))
			}
			b.wrong(ptr, Problem{Code: CodeDuplicate, Found: what, Allowed: "each runner and model once",
				Message: fmt.Sprintf("%s is runners[%d] already; take one of the two away, or give it another model", what, j)})
			continue
		}
		seen[c] = i
	}
}

// nameAt returns the pointer to a runner's name. The value at ptr is either the name or an object with the key runner.
func (b *builder) nameAt(ptr string) string {
	if b.present(ptr + "/runner") {
		return ptr + "/runner"
	}
	return ptr
}

// whoMay returns the runners that may do a role, from the role's own settings (at the given pointer) and from
// role_defaults. Own settings win: an own runner replaces a default list, too. The result is nil when neither names a
// runner.
func (b *builder) whoMay(at, role string, own, def fileRole) []Choice {
	switch {
	case len(own.Runners) > 0:
		return own.Runners
	case own.Runner == "" && len(def.Runners) > 0:
		if own.Model != "" {
			b.wrong(at+"/model", Problem{Code: schemas.CodeCombination, Found: quoted("model"), Allowed: "runners, or runner and model",
				Message: fmt.Sprintf(`role_defaults.%s has several runners, and each says its own model; write runners here too, or runner beside model`, role)})
		}
		return def.Runners
	case own.Runner != "" || def.Runner != "":
		return []Choice{{Runner: cmp.Or(own.Runner, def.Runner), Model: cmp.Or(own.Model, def.Model)}}
	}
	return nil
}

// onlyRunner returns the runner that does a role whose settings name none. It returns "" when there are several
// runners.
func (b *builder) onlyRunner() string {
	switch {
	case b.file.Runner != nil:
		return legacyRunner
	case len(b.runners) == 1:
		return b.runnerNames()[0]
	}
	return ""
}

// fileRunner is a runner in the form in which the file holds it: its command is a list, or a string that the builder
// splits.
type fileRunner struct {
	Runner
	Command any `json:"command"`
}

// runnersOf builds the map of runners. It includes the runner of the legacy key "runner".
func (b *builder) runnersOf() map[string]Runner {
	f := &b.file
	b.runners = map[string]Runner{}
	for _, name := range slices.Sorted(maps.Keys(f.Runners)) {
		b.runners[name] = b.runner(name, f.Runners[name], Pointer("runners", name))
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
				ptr += Pointer(i)
			}
			b.placeholders(ptr, s, argumentNames())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Env)) {
		b.placeholders(at+"/env"+Pointer(key), r.Env[key], argumentNames())
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

// words splits a command into words as a shell does. It refuses shell operators: superloop starts a runner without a
// shell, so they would have no effect.
func (b *builder) words(ptr, text string) []string {
	refuse := func(what string) []string {
		b.wrong(ptr, Problem{Code: CodeUnsplit, Found: quoted(text), Allowed: "words, or a list of words",
			Message: fmt.Sprintf(`the command %s %s; no shell runs it, so give its words as a list, or ["bash", "-c", "..."]`, quoted(text), what)})
		return nil
	}
	// NewParser copies two package variables that would make the parser run commands and expand variables. Another
	// package could have set them.
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
