package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/loop/config"
)

// runnersOf is a configuration with one role and a diagnostician; "" is none.
func runnersOf(t *testing.T, runners, rights, diagnostician string) *config.Config {
	t.Helper()
	list := []any{}
	for r := range strings.FieldsSeq(runners) {
		name, model, _ := strings.Cut(r, "/")
		list = append(list, obj{"runner": name, "model": model})
	}
	role := obj{"runners": list}
	if rights != "" {
		role["permissions"] = rights
	}
	l := obj{"id": "x", "spec_file": "s.md", "roles": obj{"tester": role}}
	if diagnostician != "" {
		name, model, _ := strings.Cut(diagnostician, "/")
		l["respond"] = obj{"diagnostician": obj{"runner": name, "model": model, "timeout": "3m"}}
	}
	return loaded(t, obj{"runners": obj{"a": obj{"command": "a", "permissions": "workspace"}, "b": obj{"command": "b", "permissions": "full"}, "c": obj{"command": "c"}}, "loops": []any{l}})
}

// Who may play a role and who looks for causes: what is said of a change, and
// what is in force while it is held.
func TestRunnersOfRoles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pinned, now, says, force string }{
		"one more":           {"a", "a b", "+ roles/tester/runners >b", "a:workspace"},
		"one less":           {"a b c", "a c", "- roles/tester/runners b>", "a:workspace c:"},
		"in another order":   {"a b c", "a c/m b", "", "a:workspace c/m: b:full"},
		"other models":       {"a/m a/n b", "a/o b/p", "", "a/o:workspace b/p:full"},
		"another first":      {"a b", "b/x a/y", "+ roles/tester/runner a>b", "a/y:workspace b/x:full"},
		"another for one":    {"a", "c/x", "+ roles/tester/permissions workspace> | + roles/tester/runner a>c", "a/x:workspace"},
		"another for two":    {"a b", "c", "- roles/tester/runners b> | + roles/tester/permissions workspace> | + roles/tester/runner a>c", "a:workspace"},
		"one for another":    {"a b", "a c", "- roles/tester/runners b> | + roles/tester/runners >c", "a:workspace"},
		"only the second":    {"a b", "b/x", "+ roles/tester/permissions workspace>full | + roles/tester/runner a>b", "a/x:workspace b/x:full"},
		"between two models": {"a c", "a/m c b a/n", "+ roles/tester/runners >b", "a/m:workspace c: a/n:workspace"},
		"rights less":        {"a b", "a b|read-only", "- roles/tester/permissions workspace>read-only | - roles/tester/runners/b/permissions full>read-only", "a:read-only b:read-only"},
		"rights more":        {"a b|read-only", "a b", "+ roles/tester/permissions read-only>workspace | + roles/tester/runners/b/permissions read-only>full", "a:read-only b:read-only"},
		"causes":             {"a", "a||b", "+ respond/diagnostician >b", "a:workspace"},
		"no causes":          {"a||b/m", "a", "- respond/diagnostician b>", "a:workspace"},
		"causes by another":  {"a||b/m", "a||c/n", "+ respond/diagnostician b>c", "a:workspace b?3m0s"},
		"causes with more":   {"a||b/m", "a||b/n", "", "a:workspace b/n?3m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			load := func(s string) *config.Config {
				parts := append(strings.Split(s, "|"), "", "")
				return runnersOf(t, parts[0], parts[1], parts[2])
			}
			file := load(c.now)
			p, n := section(t, load(c.pinned)), section(t, file)
			if got := strings.ReplaceAll(said(Compare(p, n), "/loops/x/"), "/loops/x/", ""); !sameParts(got, c.says) {
				t.Errorf("said %q, want %q", got, c.says)
			}
			cfg, err := Apply(file, Effective(p, n))
			if err != nil {
				t.Fatal(err)
			}
			role, out := cfg.Loops[0].Roles[0], []string{}
			show := func(runner, model string) string { return strings.TrimSuffix(runner+"/"+model, "/") }
			for _, c := range role.Runners {
				out = append(out, show(c.Runner, c.Model)+":"+c.Permissions)
			}
			if d := cfg.Loops[0].Respond.Diagnostician; d != nil {
				out = append(out, fmt.Sprintf("%s?%s", show(d.Runner, d.Model), d.Timeout))
			}
			if got := strings.Join(out, " "); got != c.force {
				t.Errorf("in force is %q, want %q", got, c.force)
			}
			if f := role.Runners[0]; role.Runner != f.Runner || role.Model != f.Model || role.Permissions != f.Permissions {
				t.Errorf("the role is %+v", role)
			}
		})
	}
}

func sameParts(a, b string) bool {
	x, y := strings.Split(a, " | "), strings.Split(b, " | ")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// A role that is taken out of the file runs as it did, with all its runners.
func TestRoleOfThePinKeepsItsRunners(t *testing.T) {
	t.Parallel()
	with := func(roles obj) *config.Config {
		return loaded(t, obj{"runners": obj{"a": obj{"command": "a"}, "b": obj{"command": "b"}}, "loops": []any{obj{"id": "x", "spec_file": "s.md", "roles": roles}}})
	}
	planner := obj{"runner": "a"}
	pinned := with(obj{"planner": planner, "tester": obj{"runners": []any{"a", obj{"runner": "b", "model": "m", "tier": 3}}}})
	now := with(obj{"planner": planner})
	cfg, err := Apply(now, Effective(section(t, pinned), section(t, now)))
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Loops[0].Roles[1].Runners; !slices.Equal(got, pinned.Loops[0].Roles[1].Runners) {
		t.Errorf("got %+v", got)
	}
}

// What is new in a Section leaves no trace where it says nothing: pins of before
// it keep their digests.
func TestSingleRunnersAreAsTheyWere(t *testing.T) {
	t.Parallel()
	s := section(t, loaded(t, base()))
	text := string(canonical(s))
	for _, key := range []string{"others", "choices", "diagnostician", "respond"} {
		if strings.Contains(text, `"`+key+`"`) {
			t.Errorf("%s is in %s", key, text)
		}
	}
}

// Runners that only a list or the diagnostician names must be there.
func TestApplyRefusesMissingRunners(t *testing.T) {
	t.Parallel()
	c := runnersOf(t, "a b", "", "c")
	for _, name := range []string{"b", "c"} {
		s := section(t, c)
		delete(s.Runners, name)
		if _, err := Apply(c, s); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no runner %q", name)) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A runner that goes from the file stays while something that is in force needs it.
func TestRunnersInUseStay(t *testing.T) {
	t.Parallel()
	pinned := runnersOf(t, "a", "", "b")
	now := loaded(t, obj{"runners": obj{"a": obj{"command": "a", "permissions": "workspace"}, "c": obj{"command": "c"}},
		"loops": []any{obj{"id": "x", "spec_file": "s.md", "roles": obj{"tester": obj{"runner": "a"}}, "respond": obj{"diagnostician": "c"}}}})
	in := Effective(section(t, pinned), section(t, now))
	if _, stays := in.Runners["b"]; !stays || in.Loops["x"].Diagnostician != "b" {
		t.Errorf("in force: %+v", in)
	}
}
