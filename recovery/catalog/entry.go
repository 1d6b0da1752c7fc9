package catalog

import (
	"fmt"
	"strings"

	"github.com/superloop/superloop/schemas"
	"go.yaml.in/yaml/v3"
)

// entry is what a mapping says about itself before its fields are read: which
// one it is, and what is to become of the one that is there already.
type entry struct {
	id       string
	extends  bool
	replace  bool
	disabled bool
	read     []string // the keys that are read with this, besides the fields
}

// entry reads the id and the verbs of n. Its id is "" if they are wrong, which
// is then a problem.
func (d *decoder) entry(n *yaml.Node, ptr string) entry { return d.entryBy(n, ptr, "id") }

func (d *decoder) entryBy(n *yaml.Node, ptr, key string) entry {
	if n.Kind != yaml.MappingNode {
		d.fail(n, ptr, "must be a mapping (key: value), not %s", kindName(n))
		return entry{}
	}
	if !d.verbs {
		id := scalarOf(n, key)
		if id == "" {
			d.fail(n, ptr, "has no %s", key)
		}
		return entry{id: id}
	}
	e := entry{id: scalarOf(n, key), read: []string{verbExtends, verbReplace, verbDisabled}}
	before := len(d.problems)
	e.replace = d.flag(n, ptr, verbReplace)
	e.disabled = d.flag(n, ptr, verbDisabled)
	if base := scalarOf(n, verbExtends); base != "" {
		if e.id != "" && e.id != base {
			d.fail(n, ptr, "has the %s %q and extends %q: an entry keeps its %s; leave %s out, or write a new entry without extends",
				key, e.id, base, key, key)
		}
		e.id, e.extends = base, true
	} else if child(n, verbExtends) != nil {
		d.fail(n, join(ptr, verbExtends), "must be the %s of the entry to change", key)
	}
	switch {
	case e.id == "":
		d.fail(n, ptr, "has no %s (a new entry), and no extends (an entry to change)", key)
	case e.replace && (e.extends || e.disabled), e.extends && e.disabled:
		d.fail(n, ptr, "says two of extends, replace and disabled: choose one")
	}
	if len(d.problems) > before {
		return entry{}
	}
	return e
}

func (d *decoder) flag(n *yaml.Node, ptr, key string) bool {
	c := child(n, key)
	if c == nil {
		return false
	}
	if c.ShortTag() != "!!bool" {
		d.fail(c, join(ptr, key), "must be true or false, not %s", kindName(c))
		return false
	}
	return strings.EqualFold(c.Value, "true")
}

// moved are keys of older shapes and of other designs, by type, and what is
// written instead.
func moved(typ, key string) string {
	switch typ + "." + key {
	case "Handler.strategy":
		return "give it as options: [{id: ..., label: ..., strategy: ..., recommended: true}]"
	case "Handler.dep", "Handler.packages", "Handler.commands", "Handler.modifier", "Handler.instructions", "Handler.switch_to", "Handler.method":
		return "it belongs to an option: options: [{id: ..., strategy: ..., " + key + ": ...}]"
	case "Handler.failure_id":
		return "write id"
	case "Handler.pattern", "Handler.patterns":
		return "write match: {any: [...]}"
	case "Handler.not_pattern":
		return "write match: {not: [...]}"
	case "Handler.exit_code", "Handler.exit_codes":
		return "write match: {exit_codes: [...]}"
	case "Handler.streams", "Handler.signals", "Handler.commands_like":
		return "write match: {" + key + ": [...]}"
	case "Handler.detect_fn":
		return "write probes: [...]"
	case "Handler.example_stderr":
		return "write examples: [{command: ..., exit_code: ..., stderr: ...}]"
	case "Handler.methods", "Handler.family":
		return "write family: once, at the top of the file"
	case "Handler.layer":
		return "write layer: once, at the top of the file"
	case "Option.risk_level":
		return "write risk"
	case "Option.retry", "Option.wait_seconds", "Option.args", "Option.env":
		return "write modifier: {wait_seconds: [...], args: [...], env: {...}}"
	case "Option.command":
		return "write commands: [[program, argument], ...]"
	case "Recipe.cli_verify_args", "Recipe.verify_command":
		return "write verify: {command: ...}"
	case "Recipe.method_families":
		return "write install_via"
	case "Recipe.requires_binaries":
		return "write requires: {binaries: {\"*\": [...]}}"
	case "Approach.strategy", "Approach.name":
		return "write id"
	case "Approach.estimatedIterations":
		return "write est_iterations"
	case "Approach.steps":
		return "write option: {strategy: ..., commands: [...]}"
	}
	return ""
}

func (d *decoder) unknown(key *yaml.Node, ptr, typ string, known []string) {
	if d.full() {
		return
	}
	if hint := moved(typ, key.Value); hint != "" {
		d.fail(key, ptr, "%q does not stand here any more: %s", clip(key.Value), hint)
		return
	}
	near := schemas.Nearest(key.Value, known)
	message := fmt.Sprintf("unknown key %q%s", clip(key.Value), meant(near))
	if near == "" {
		message += fmt.Sprintf("; known are %s", listed(known))
	}
	d.fail(key, ptr, "%s", message)
	d.problems[len(d.problems)-1].Near = near
}

func listed(names []string) string {
	return strings.Join(names, ", ")
}
