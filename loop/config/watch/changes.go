package watch

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/schemas"
)

// inForce is a configuration with its Section.
type inForce struct {
	config  *config.Config
	section trust.Section
	whole   bool // whether the file is in force as a whole, with no change held
}

// changes returns the changes between two configurations in force. While a change is held, the file differs from the
// configuration in force. So changes compares the pinned part as it is in force, and the rest as the files have it.
func changes(was, is inForce) []config.Change {
	written := config.Diff(was.config, is.config)
	if was.whole && is.whole {
		return written
	}
	out := slices.DeleteFunc(written, func(c config.Change) bool { return pinned(c.Path, was.section, is.section) })
	d := trust.Compare(was.section, is.section)
	for _, c := range slices.Concat(d.Tightening, d.Loosening) {
		// agents returns these two paths as a whole
		if !strings.HasPrefix(c.Path, "/loops/") || !strings.HasSuffix(c.Path, "/runners") && !strings.HasSuffix(c.Path, "/respond/diagnostician") {
			out = append(out, c.Change)
		}
	}
	out = append(out, agents(was.config, is.config)...)
	slices.SortStableFunc(out, func(a, b config.Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// pinned reports whether a path of the file belongs to the pinned part, or to a loop that is not in force.
func pinned(path string, was, is trust.Section) bool {
	p := append(strings.Split(strings.TrimPrefix(path, "/"), "/"), "", "", "", "") // so that p[4] is there
	ofRole := func(key string) bool { return slices.Contains([]string{"runner", "runners", "permissions"}, key) }
	switch p[0] {
	case "runners", "runner", "webhooks", "protect":
		return true
	case "recovery":
		return p[1] != "tests"
	case "escalation":
		return p[1] == "channels" || p[1] == "slack"
	case "role_defaults":
		return ofRole(p[2])
	case "respond":
		return p[1] == "diagnostician"
	}
	if p[0] != "loops" || p[1] == "" { // the path "/loops" is the order of the loops
		return false
	}
	id := strings.NewReplacer("~1", "/", "~0", "~").Replace(p[1])
	_, before := was.Loops[id]
	_, after := is.Loops[id]
	if !before && !after {
		return true
	}
	switch p[2] {
	case "roles":
		return p[4] == "" || ofRole(p[4])
	case "respond":
		return p[3] == "diagnostician"
	case "tests":
		return slices.Contains([]string{"", "mode", "commands"}, p[3])
	case "validation":
		return slices.Contains([]string{"", "enabled", "mode", "require_on_completion", "commands"}, p[3])
	case "approval":
		return true
	case "recovery":
		return p[3] != "tests"
	case "git":
		return p[3] == "pre_commit_commands"
	}
	return false
}

// agents returns the changes of the runners of each role and of the diagnostician, as they are in force. The runners
// are pinned, but their models and their order are not, so neither the files nor the Sections show the whole change.
// For a role with one runner before and after, the other comparisons show it.
func agents(was, is *config.Config) (out []config.Change) {
	differ := func(path string, from, to any) {
		if !reflect.DeepEqual(from, to) {
			out = append(out, config.Change{Path: path, From: from, To: to})
		}
	}
	for _, l := range is.Loops {
		before, ok := was.Loop(l.ID)
		if !ok {
			continue
		}
		at := "/loops/" + l.ID // an id needs no escaping
		differ(at+"/respond/diagnostician", diagnostician(before), diagnostician(l))
		for _, r := range l.Roles {
			for _, old := range before.Roles {
				if old.Name == r.Name && len(old.Runners)+len(r.Runners) > 2 {
					differ(at+"/roles/"+r.Name+"/runners", choices(old), choices(r))
				}
			}
		}
	}
	return out
}

func choices(r config.Role) any {
	out := []any{}
	for _, c := range r.Runners {
		item := map[string]any{"runner": c.Runner}
		if c.Model != "" {
			item["model"] = c.Model
		}
		if c.Tier != 0 {
			item["tier"] = c.Tier
		}
		out = append(out, item)
	}
	return out
}

func diagnostician(l config.Loop) any {
	d := l.Respond.Diagnostician
	if d == nil {
		return nil
	}
	out := map[string]any{"runner": d.Runner, "timeout": d.Timeout.String()}
	if d.Model != "" {
		out["model"] = d.Model
	}
	return out
}

// frozen returns a problem for each change that a file must not make while a loop runs on it: the loop is gone, or its
// spec or its work tree is another one.
func frozen(live, next *config.Config, running []string) []config.Problem {
	var problems []config.Problem
	wrong := func(pointer, format string, args ...any) {
		problems = append(problems, next.Placed(pointer, config.Problem{Code: CodeRunning, Message: fmt.Sprintf(format, args...)}))
	}
	where := map[bool]string{true: "a work tree of its own", false: "the repository itself"}
	for _, id := range running {
		was, ok := live.Loop(id)
		if !ok {
			continue
		}
		i := slices.IndexFunc(next.Loops, func(l config.Loop) bool { return l.ID == id })
		if i < 0 {
			wrong("/loops", "the loop %q runs, so it cannot go or get another id; to end it type: superloop cancel --loop %s", id, id)
			continue
		}
		is, at := next.Loops[i], fmt.Sprintf("/loops/%d", i)
		if is.SpecFile != was.SpecFile {
			wrong(at+"/spec_file", "the loop %q runs on %s, so its spec cannot become %s before it ends; to end it type: superloop cancel --loop %s",
				id, was.SpecFile, is.SpecFile, id)
		}
		if is.Git.Worktree != was.Git.Worktree {
			wrong(at+"/git/worktree", "the loop %q runs in %s, so it cannot move to %s before it ends; to end it type: superloop cancel --loop %s",
				id, where[was.Git.Worktree], where[is.Git.Worktree], id)
		}
	}
	return schemas.Sort(problems)
}
