package watch

import (
	"reflect"
	"strings"

	"github.com/superloop/superloop/loop/config"
)

// who reports whether a path of a Section is who may play a role, or who looks
// for causes: agents tells that as a whole.
func who(path string) bool {
	return strings.HasPrefix(path, "/loops/") && (strings.HasSuffix(path, "/runners") || strings.HasSuffix(path, "/respond/diagnostician"))
}

// agents are the changes of who may play each role, and of who looks for causes,
// as they are in force. Who that is, is pinned, while models and the order are
// not; so neither the two files nor the two Sections say it all. A role that has
// one runner before and after is left to them.
func agents(was, is *config.Config) []config.Change {
	var out []config.Change
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
		at := "/loops/" + l.ID // an id has nothing to escape
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
