package watch

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

// inForce is a configuration and its trusted part.
type inForce struct {
	config  *config.Config
	section trust.Section
	// whole: it is all that its file says; nothing is held.
	whole bool
}

// changes are those of what is in force. While something is held the file says
// more than is in force, so what is pinned is compared as it is in force, and
// only the rest as it is written.
func changes(was, is inForce) []config.Change {
	written := config.Diff(was.config, is.config)
	if was.whole && is.whole {
		return written
	}
	out := slices.DeleteFunc(written, func(c config.Change) bool { return pinned(c.Path, was.section, is.section) })
	d := trust.Compare(was.section, is.section)
	for _, c := range slices.Concat(d.Tightening, d.Loosening) {
		if !who(c.Path) {
			out = append(out, config.Change{Path: c.Path, From: c.From, To: c.To})
		}
	}
	out = append(out, agents(was.config, is.config)...)
	slices.SortStableFunc(out, func(a, b config.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// pinned reports whether a path of a file is a matter of trust, or belongs to a
// loop that is not in force.
func pinned(path string, was, is trust.Section) bool {
	p := strings.Split(strings.TrimPrefix(path, "/"), "/")
	at := func(i int) string {
		if i < len(p) {
			return p[i]
		}
		return ""
	}
	oneOf := func(s string, list ...string) bool { return slices.Contains(list, s) }
	switch p[0] {
	case "runners", "runner", "webhooks":
		return true
	case "recovery":
		return at(1) != "tests"
	case "escalation":
		return oneOf(at(1), "channels", "slack")
	case "role_defaults":
		return pinnedOfRole(p[min(2, len(p)):])
	case "respond":
		return at(1) == "diagnostician"
	case "loops":
		if len(p) == 1 {
			return false // their order
		}
	default:
		return false
	}
	id := strings.NewReplacer("~1", "/", "~0", "~").Replace(p[1])
	_, before := was.Loops[id]
	_, after := is.Loops[id]
	if !before && !after {
		return true
	}
	switch at(2) {
	case "roles":
		return len(p) < 5 || pinnedOfRole(p[4:])
	case "respond":
		return at(3) == "diagnostician"
	case "tests":
		return oneOf(at(3), "", "mode", "commands")
	case "validation":
		return oneOf(at(3), "", "enabled", "mode", "require_on_completion", "commands")
	case "approval":
		return true
	case "recovery":
		return at(3) != "tests"
	case "git":
		return at(3) == "pre_commit_commands"
	}
	return false
}

// pinnedOfRole reports whether a key of a role's settings is a matter of trust,
// or told by agents.
func pinnedOfRole(key []string) bool {
	return len(key) > 0 && slices.Contains([]string{"runner", "runners", "permissions"}, key[0])
}
