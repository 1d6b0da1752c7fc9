package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// alone fills in the list of runners of roles that have only one, without
// rights of its own.
func alone(roles ...Role) []Role {
	for i, r := range roles {
		roles[i].Runners = []Choice{{Runner: r.Runner, Model: r.Model}}
	}
	return roles
}

// usualRespond is what holds without a respond section.
func usualRespond() Respond {
	return Respond{Enabled: true, SameFailure: 3, SameTests: 3, MaxRuns: 6, MaxTime: 6 * time.Hour, AnalysisTime: 10 * time.Minute, MaxWait: 192 * time.Hour,
		Breaker:   Breaker{3, time.Minute, 30 * time.Minute},
		Systemic:  Systemic{Window: time.Hour, MinRuns: 5, WarnRate: 0.2, CriticalRate: 0.5, SameCategory: 5, SilentRuns: 3},
		Preflight: Environment{Enabled: true}}
}

// heldRespond is what every loop of an accepted configuration promises.
func heldRespond(t interface{ Fatalf(string, ...any) }, c *Config, l Loop) {
	r := l.Respond
	for _, d := range []time.Duration{r.MaxTime, r.AnalysisTime, r.MaxWait, r.Breaker.First, r.Breaker.Most, r.Systemic.Window} {
		if d <= 0 {
			t.Fatalf("a time is not above 0: %+v", r)
		}
	}
	if r.SameFailure < 2 || r.SameTests < 0 || r.SameTests == 1 || r.MaxRuns < 1 || r.Breaker.Failures < 1 || r.Systemic.MinRuns < 1 {
		t.Fatalf("respond: %+v", r)
	}
	if d := r.Diagnostician; d != nil {
		if _, ok := c.Runners[d.Runner]; !ok || d.Timeout <= 0 {
			t.Fatalf("diagnostician: %+v of %v", d, c.Runners)
		}
	}
	for _, check := range r.Preflight.Checks {
		if checkKinds()[check.Kind] == nil {
			t.Fatalf("check: %+v", check)
		}
	}
	for _, role := range l.Roles {
		if len(role.Runners) == 0 || role.Runners[0] != (Choice{role.Runner, role.Model, role.Runners[0].Tier, role.Permissions}) {
			t.Fatalf("the first is not who does it: %+v", role)
		}
		seen := map[Choice]bool{}
		for _, choice := range role.Runners {
			choice.Tier, choice.Permissions = 0, ""
			if _, ok := c.Runners[choice.Runner]; !ok || seen[choice] {
				t.Fatalf("runners: %+v of %v", role.Runners, c.Runners)
			}
			seen[choice] = true
		}
	}
}

// respondOf loads a configuration with a top-level section and one of a loop;
// "" leaves one out.
func respondOf(t *testing.T, top, own string) Respond {
	t.Helper()
	section := func(raw string) string {
		if raw == "" {
			return ""
		}
		return `, "respond": ` + raw
	}
	c := loaded(t, `{"runners": {"a": {"command": "a"}, "b": {"command": "b", "permissions": "read-only"}}, "role_defaults": {"planner": {"runner": "a"}},
	 "loops": [{"id": "x", "spec_file": "s.md", "max_iterations": 1, "completion_promise": "D", "roles": ["planner"]`+section(own)+`}]`+section(top)+`}`)
	for _, w := range c.Warnings {
		t.Errorf("warning: %v", w)
	}
	return c.Loops[0].Respond
}

func TestRespond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		top, own string
		want     func(r *Respond)
	}{
		"absent":   {"", "", func(*Respond) {}},
		"empty":    {"{}", `{"//": "x", "breaker": {}, "systemic": {}, "preflight": {}}`, func(*Respond) {}},
		"switched": {`{"enabled": false, "fall_over": true}`, "", func(r *Respond) { r.Enabled, r.FallOver = false, true }},
		"back":     {`{"enabled": false, "fall_over": true}`, `{"enabled": true}`, func(r *Respond) { r.FallOver = true }},
		"numbers":  {`{"same_failure": 2, "same_tests": 0, "max_runs": 1}`, `{"max_runs": 100.0}`, func(r *Respond) { r.SameFailure, r.SameTests, r.MaxRuns = 2, 0, 100 }},
		"never":    {`{"same_tests": 4}`, `{"same_tests": 0}`, func(r *Respond) { r.SameTests = 0 }},
		"times": {`{"max_time": 90, "analysis_time": "1m"}`, `{"max_wait": "1h", "analysis_time": 1.5}`, func(r *Respond) {
			r.MaxTime, r.AnalysisTime, r.MaxWait = 90*time.Second, 1500*time.Millisecond, time.Hour
		}},
		"insist":   {`{"insist": ["report", "change"]}`, "", func(r *Respond) { r.Insist = []string{InsistReport, InsistChange} }},
		"other":    {`{"insist": ["report", "change"]}`, `{"insist": ["difference"]}`, func(r *Respond) { r.Insist = []string{InsistDifference} }},
		"on none":  {`{"insist": ["report"]}`, `{"insist": []}`, func(r *Respond) { r.Insist = []string{} }},
		"breaker":  {`{"breaker": {"failures": 5, "most": "2h"}}`, `{"breaker": {"first": "1h"}}`, func(r *Respond) { r.Breaker = Breaker{5, time.Hour, 2 * time.Hour} }},
		"systemic": {`{"systemic": {"window": "2h", "warn_rate": 0, "silent_runs": 0}}`, `{"systemic": {"min_runs": 7, "critical_rate": 1, "same_category": 9}}`, func(r *Respond) { r.Systemic = Systemic{2 * time.Hour, 7, 0, 1, 9, 0} }},
		"by name":  {`{"diagnostician": "b"}`, "", func(r *Respond) { r.Diagnostician = &Diagnostician{"b", "", 10 * time.Minute} }},
		"its time": {`{"diagnostician": "b"}`, `{"analysis_time": "3m"}`, func(r *Respond) {
			r.AnalysisTime, r.Diagnostician = 3*time.Minute, &Diagnostician{"b", "", 3 * time.Minute}
		}},
		"part":      {`{"diagnostician": {"runner": "b", "model": "m"}}`, `{"diagnostician": {"timeout": "3m"}}`, func(r *Respond) { r.Diagnostician = &Diagnostician{"b", "m", 3 * time.Minute} }},
		"model":     {`{"diagnostician": {"runner": "b", "model": "m"}}`, `{"diagnostician": {"model": ""}}`, func(r *Respond) { r.Diagnostician = &Diagnostician{"b", "", 10 * time.Minute} }},
		"same":      {`{"diagnostician": {"runner": "b", "model": "m", "timeout": "1m"}}`, `{"diagnostician": "b"}`, func(r *Respond) { r.Diagnostician = &Diagnostician{"b", "m", time.Minute} }},
		"another":   {`{"diagnostician": {"runner": "b", "model": "m", "timeout": "1m"}}`, `{"diagnostician": "a"}`, func(r *Respond) { r.Diagnostician = &Diagnostician{"a", "", time.Minute} }},
		"nobody":    {`{"diagnostician": "b"}`, `{"diagnostician": false}`, func(*Respond) {}},
		"somebody":  {`{"diagnostician": false}`, `{"diagnostician": "b"}`, func(r *Respond) { r.Diagnostician = &Diagnostician{"b", "", 10 * time.Minute} }},
		"no look":   {`{"preflight": false}`, "", func(r *Respond) { r.Preflight.Enabled = false }},
		"look":      {`{"preflight": {"enabled": false, "checks": [{"kind": "tool", "name": "git"}]}}`, `{"preflight": true}`, func(r *Respond) { r.Preflight.Checks = []EnvironmentCheck{{Kind: "tool", Name: "git"}} }},
		"no checks": {`{"preflight": {"checks": [{"kind": "tool", "name": "git"}]}}`, `{"preflight": {"checks": []}}`, func(*Respond) {}},
		"checks": {"", `{"preflight": {"checks": [{"kind": "path", "path": "p"}, {"kind": "permission", "path": "/p", "want": "execute"}, {"kind": "dependency_sync", "manager": "go"},
			{"kind": "disk", "free_mb": 5}, {"kind": "port", "port": 65535, "want": "open"}, {"kind": "service", "address": "[::1]:80"}, {"kind": "service", "address": "/run/x.sock"},
			{"kind": "auth", "name": "a"}, {"kind": "limit", "name": "anthropic"}, {"kind": "service", "address": "localhost:1"}]}}`, func(r *Respond) {
			r.Preflight.Checks = []EnvironmentCheck{{Kind: "path", Path: "p"}, {Kind: "permission", Path: "/p", Want: "execute"}, {Kind: "dependency_sync", Manager: "go"},
				{Kind: "disk", FreeMB: 5}, {Kind: "port", Port: 65535, Want: "open"}, {Kind: "service", Address: "[::1]:80"}, {Kind: "service", Address: "/run/x.sock"},
				{Kind: "auth", Name: "a"}, {Kind: "limit", Name: "anthropic"}, {Kind: "service", Address: "localhost:1"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := usualRespond()
			c.want(&want)
			if got := respondOf(t, c.top, c.own); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Who may do a role: its own settings, the defaults, and with which rights.
func TestRunnersOfRoles(t *testing.T) {
	t.Parallel()
	a, b, c := Choice{Runner: "a", Permissions: "workspace"}, Choice{Runner: "b", Permissions: "full"}, Choice{Runner: "c"}
	with := func(c Choice, model string, tier int) Choice { c.Model, c.Tier = model, tier; return c }
	right := func(c Choice, rights string) Choice { c.Permissions = rights; return c }
	for name, tc := range map[string]struct {
		def, own string
		want     []Choice
	}{
		"one":               {`{"runner": "a", "model": "m"}`, `{}`, []Choice{with(a, "m", 0)}},
		"names":             {`{}`, `{"runners": ["b", "a", "c"]}`, []Choice{b, a, c}},
		"objects":           {`{}`, `{"runners": [{"runner": "a", "model": "m", "tier": 3}, {"runner": "a", "model": "n"}, {"runner": "a"}, "b"]}`, []Choice{with(a, "m", 3), with(a, "n", 0), a, b}},
		"default list":      {`{"runners": ["b", "a"]}`, `{"thinking": "low"}`, []Choice{b, a}},
		"own list wins":     {`{"runners": ["b", "a"]}`, `{"runners": ["c"]}`, []Choice{c}},
		"own runner wins":   {`{"runners": ["b", "a"]}`, `{"runner": "c", "model": "m"}`, []Choice{with(c, "m", 0)}},
		"own list, no list": {`{"runner": "b", "model": "m"}`, `{"runners": ["a", "b"]}`, []Choice{a, b}},
		"rights of role":    {`{"permissions": "read-only"}`, `{"runners": ["a", "b", "c"]}`, []Choice{right(a, "read-only"), right(b, "read-only"), right(c, "read-only")}},
		"as the runner's":   {`{}`, `{"runners": ["a", "b"], "permissions": "workspace"}`, []Choice{a, right(b, "workspace")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := loaded(t, `{"runners": {"a": {"command": "a", "permissions": "workspace"}, "b": {"command": "b", "permissions": "full"}, "c": {"command": "c"}},
			 "role_defaults": {"tester": `+tc.def+`}, "loops": [{"id": "x", "spec_file": "s.md", "roles": {"tester": `+tc.own+`}}]}`)
			r := cfg.Loops[0].Roles[0]
			if !slices.Equal(r.Runners, tc.want) || r.Runner != tc.want[0].Runner || r.Model != tc.want[0].Model || r.Permissions != tc.want[0].Permissions {
				t.Errorf("got %+v, want %+v", r, tc.want)
			}
		})
	}
}

// A runner that a role falls back on, and the diagnostician, must be installed
// too; a diagnostician that is never asked need not.
func TestEveryRunnerIsLookedFor(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"s.md": "x"})
	for enabled, want := range map[bool]string{true: "/runners/b/command /runners/c/command", false: "/runners/b/command"} {
		c := loaded(t, fmt.Sprintf(`{"runners": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}, "d": {"command": "d"}}, "respond": {"enabled": %v, "diagnostician": "c"},
		 "loops": [{"id": "x", "spec_file": "s.md", "roles": {"tester": {"runners": ["a", "b"]}}}]}`, enabled))
		var got []string
		for _, p := range c.Check(root, onPath("a")) {
			got = append(got, p.Pointer)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("enabled %v: got %q", enabled, got)
		}
	}
}

// What changed is named where it is written, so that a reload can say it.
func TestDiffOfRespond(t *testing.T) {
	t.Parallel()
	load := func(role, top, own string) *Config {
		return loaded(t, `{"runners": {"a": {"command": "a"}, "b": {"command": "b"}}, "loops": [{"id": "x", "spec_file": "s.md", "roles": {"tester": {"runners": `+role+`}}, "respond": `+own+`}], "respond": `+top+`}`)
	}
	was := load(`["a", {"runner": "b", "model": "m"}]`, `{"max_runs": 5, "breaker": {"first": "1m"}, "preflight": true}`, `{}`)
	is := load(`["a", {"runner": "b", "model": "n"}]`, `{"max_runs": 6, "breaker": {"first": "2m"}, "preflight": {"checks": [{"kind": "tool", "name": "git"}]}}`, `{"insist": ["change"], "diagnostician": {"runner": "b"}}`)
	var got []string
	for _, c := range Diff(was, is) {
		got = append(got, c.Path)
	}
	want := []string{"/loops/x/respond/diagnostician/runner", "/loops/x/respond/insist", "/loops/x/roles/tester/runners/1/model",
		"/respond/breaker/first", "/respond/max_runs", "/respond/preflight"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// This package may not import recovery/failures, which makes the checks: the kinds
// and managers here are those that stand there.
func TestChecksAreThoseOfRespond(t *testing.T) {
	t.Parallel()
	kinds, managers := []string{}, failures.Managers()
	read := func(file string, f func(n ast.Node)) {
		tree, err := parser.ParseFile(token.NewFileSet(), "../../recovery/failures/"+file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool { f(n); return true })
	}
	texts := func(n ast.Node) (out []string) {
		ast.Inspect(n, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
			}
			return true
		})
		return out
	}
	read("prevent.go", func(n ast.Node) {
		if v, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "CheckKind" {
				kinds = append(kinds, texts(v)...)
			}
		}
	})
	if len(kinds) < 9 || !slices.Equal(managers, lockManagers()) {
		t.Errorf("kinds %q, managers %q", kinds, managers)
	}
	ours := slices.Sorted(maps.Keys(checkKinds()))
	if slices.Sort(kinds); !slices.Equal(ours, kinds) {
		t.Errorf("known here: %q, there: %q", ours, kinds)
	}
}
