package trust

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/loop/config"
)

const home = "/repo/.superloop/config.json"

// secretText stands in every value that must never be shown.
const secretText = "hunter2"

type obj = map[string]any

// commands and patterns that meet each other in every way.
var (
	commands = []string{"npm ci", "npm  ci", "npm ci && rm -rf x", "rm -rf x", "sudo make", "make", "curl h | sh", "cat .superloop/config.json"}
	patterns = []string{"*", "npm *", "npm ci", "rm -rf *", "curl", "make *", "*.superloop*"}
)

func loaded(t testing.TB, v any) *config.Config {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadBytes(home, data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func section(t interface{ Fatal(...any) }, c *config.Config) Section {
	s, err := Of(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// some draws a subset.
func some[T any](t *rapid.T, from []T, label string) []T {
	out := []T{}
	for _, v := range from {
		if rapid.Bool().Draw(t, label) {
			out = append(out, v)
		}
	}
	return out
}

// put sets a key, or leaves it out.
func put[T any](t *rapid.T, into obj, key string, values ...T) {
	if rapid.Bool().Draw(t, key+"?") {
		into[key] = rapid.SampledFrom(values).Draw(t, key)
	}
}

func putList(t *rapid.T, into obj, key string, from []string) {
	if rapid.Bool().Draw(t, key+"?") {
		into[key] = some(t, from, key)
	}
}

func drawRecovery(t *rapid.T) obj {
	r := obj{}
	put(t, r, "enabled", true, true, false)
	putList(t, r, "auto_approve", commands)
	putList(t, r, "require_human", patterns)
	put(t, r, "on_unknown", "escalate", "deny", "allow", "allow")
	put(t, r, "strict_require_human", true, false)
	put(t, r, "max_auto_recoveries_per_run", 0, 3, 7)
	put(t, r, "cooldown_seconds", 0, 60, 90)
	put(t, r, "on_cooldown", "escalate", "wait")
	put(t, r, "ask_below_confidence", "low", "medium", "high")
	put(t, r, "max_timeout_seconds", 1, 900, 1000)
	put(t, r, "allow_privileged", true, false)
	put(t, r, "guard", "scripts", "strict", "off")
	put(t, r, "network", "full", "none")
	putList(t, r, "env_passthrough", []string{"A", "B"})
	put(t, r, "sandbox", obj{"required": true}, obj{"required": false}, obj{})
	return r
}

func drawRunner(t *rapid.T) obj {
	r := obj{"command": rapid.SampledFrom([]any{"agent", []string{"agent"}, "agent --yes", "other"}).Draw(t, "command")}
	put(t, r, "args", []string{}, []string{"-p"})
	put(t, r, "fast_args", []string{}, []string{"-q"})
	put(t, r, "prompt_mode", "stdin", "arg")
	put(t, r, "env", map[string]string{}, map[string]string{"K": secretText}, map[string]string{"K": secretText + "x", "L": ""})
	put(t, r, "adapter", "claude", "generic")
	put(t, r, "permissions", "read-only", "workspace", "full")
	putList(t, r, "pass_env", []string{"X", "Y"})
	return r
}

func drawLoop(t *rapid.T, id string, runners []string) obj {
	l := obj{"id": id, "spec_file": "s.md", "max_iterations": rapid.IntRange(1, 2).Draw(t, "max")}
	names := some(t, []string{"planner", "implementer", "tester", "reviewer"}, "roles")
	if len(names) == 0 {
		names = []string{"reviewer"}
	}
	roles := obj{}
	for _, name := range names {
		r := obj{"runners": drawRunners(t, runners)}
		put(t, r, "permissions", "read-only", "workspace", "full")
		put(t, r, "timeout", 5, 9)
		roles[name] = r
	}
	l["roles"] = roles
	cmds := some(t, []string{"t1", "t2"}, "tests")
	tests := obj{"commands": cmds, "mode": "disabled"}
	if len(cmds) > 0 {
		put(t, tests, "mode", "every", "on_promise", "disabled")
	}
	l["tests"] = tests
	v := obj{"commands": some(t, []string{"v1"}, "validation")}
	put(t, v, "enabled", true, false)
	put(t, v, "mode", "every", "on_promise", "disabled")
	put(t, v, "require_on_completion", true, false)
	l["validation"] = v
	a := obj{}
	put(t, a, "enabled", true, false)
	put(t, a, "require_on_completion", true, false)
	l["approval"] = a
	c := obj{}
	for _, key := range []string{"require_change", "allow_ungated", "tests_baseline", "require_test_change"} {
		put(t, c, key, true, false)
	}
	put[any](t, c, "require_reports", "all", []string{}, []string{"plan"}, []string{"review", "plan"})
	l["completion"] = c
	g := obj{}
	put[any](t, g, "pre_commit_commands", "f", []string{"f", "g"}, []string{})
	l["git"] = g
	if rapid.Bool().Draw(t, "diagnosed") {
		l["respond"] = obj{"diagnostician": rapid.SampledFrom(runners).Draw(t, "diagnostician")}
	}
	if rapid.IntRange(0, 2).Draw(t, "override") == 0 {
		l["recovery"] = drawRecovery(t)
	}
	return l
}

// drawRunners draws who may play a role: names, some of them with models.
func drawRunners(t *rapid.T, runners []string) []any {
	out := []any{}
	for _, n := range rapid.Permutation(runners).Draw(t, "order")[:rapid.IntRange(1, len(runners)).Draw(t, "how many")] {
		switch rapid.IntRange(0, 3).Draw(t, "with a model") {
		case 0:
			out = append(out, obj{"runner": n, "model": "m", "tier": rapid.IntRange(0, 1).Draw(t, "tier")})
		case 1:
			out = append(out, n, obj{"runner": n, "model": "n"})
		default:
			out = append(out, n)
		}
	}
	return out
}

// drawEscalation draws channels and people who may answer.
func drawEscalation(t *rapid.T) obj {
	e, channels := obj{}, obj{}
	put(t, e, "remind_after", "0s", "5m")
	for _, name := range some(t, []string{"m", "n"}, "channels") {
		ch := obj{"type": "command", "command": rapid.SampledFrom([]string{"tell " + secretText, "mail x"}).Draw(t, "command")}
		if rapid.Bool().Draw(t, "posts") {
			ch = obj{"type": rapid.SampledFrom([]string{"slack", "webhook"}).Draw(t, "type"), "url": rapid.SampledFrom([]string{"https://h/" + secretText, "https://i/" + secretText}).Draw(t, "url")}
		}
		if rapid.Bool().Draw(t, "mails") {
			ch = obj{"type": "smtp", "url": "smtps://u@" + rapid.SampledFrom([]string{"h", "i"}).Draw(t, "host"), "from": "a@x", "to": []any{"b@x"}}
			put(t, ch, "token_env", "A", "B")
			put(t, ch, "to", []any{"c@x"}, []any{"b@x", "c@x"})
		}
		put(t, ch, "second", true, false)
		put(t, ch, "timeout", "5s", "9s")
		put(t, ch, "tell", []string{"config", "escalation"}, []string{"escalation", "config"}, []string{"resolution"}, []string{"alert", "escalation"})
		channels[name] = ch
	}
	put(t, e, "channels", channels)
	if rapid.Bool().Draw(t, "slack") {
		s := obj{"users": append([]string{"U1"}, some(t, []string{"U2", "U3"}, "users")...)}
		putList(t, s, "teams", []string{"T1", "T2"})
		put(t, s, "app_token_env", "A", "B")
		if rapid.Bool().Draw(t, "listen") {
			s["listen"], s["signing_secret_env"] = "127.0.0.1:1", "S"
		}
		e["slack"] = s
	}
	return e
}

func drawConfig(t *rapid.T) obj {
	names := append([]string{"a"}, some(t, []string{"b", "c"}, "runners")...)
	runners := obj{}
	for _, n := range names {
		runners[n] = drawRunner(t)
	}
	c := obj{"runners": runners}
	loops := []any{}
	for _, id := range some(t, []string{"x", "y"}, "loops") {
		loops = append(loops, drawLoop(t, id, names))
	}
	c["loops"] = loops
	if rapid.IntRange(0, 3).Draw(t, "recovery") > 0 {
		c["recovery"] = drawRecovery(t)
	}
	if rapid.Bool().Draw(t, "escalation") {
		c["escalation"] = drawEscalation(t)
	}
	if rapid.Bool().Draw(t, "protect") {
		p := obj{}
		putList(t, p, "paths", []string{"~/.a", "/b"})
		putList(t, p, "allow", []string{"docker", "~/.c"})
		c["protect"] = p
	}
	if rapid.Bool().Draw(t, "permissions") {
		p, paths := obj{}, obj{}
		put(t, p, "mode", "off", "observe", "enforce")
		put(t, p, "on_unknown", "escalate", "deny")
		put(t, p, "wait", "1s", "0")
		for _, list := range []string{"auto_approve", "auto_approve_programs", "deny", "require_human", "tools"} {
			putList(t, p, list, []string{"one", "two"})
		}
		putList(t, p, "hosts", []string{"a.b", "*.c"})
		putList(t, paths, "deny", []string{"d", "/e"})
		putList(t, paths, "secret", []string{"*.k"})
		p["paths"] = paths
		c["permissions"] = p
	}
	put(t, c, "webhooks", obj{}, obj{"on_escalation": "https://h/" + secretText}, obj{"on_escalation": "https://h/" + secretText + "2"})
	return c
}

// mix takes each value from one of two, so that what comes out differs from a in
// a few places only.
func mix(t *rapid.T, a, b any) any {
	x, isX := a.(obj)
	y, isY := b.(obj)
	if !isX || !isY {
		if l, ok := a.([]any); ok && objects(l) && objects(b.([]any)) {
			return mixLoops(t, l, b.([]any))
		}
		return rapid.SampledFrom([]any{a, a, b}).Draw(t, "side")
	}
	out := obj{}
	for _, k := range sortedKeys(x, y) {
		v, inX := x[k]
		w, inY := y[k]
		switch {
		case inX && inY:
			out[k] = mix(t, v, w)
		case inX && rapid.IntRange(0, 3).Draw(t, "keep") > 0:
			out[k] = v
		case inY && rapid.IntRange(0, 3).Draw(t, "add") == 0:
			out[k] = w
		}
	}
	return out
}

// objects reports whether all elements are loops.
func objects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { o, ok := v.(obj); return !ok || o["id"] == nil })
}

func mixLoops(t *rapid.T, a, b []any) []any {
	out := []any{}
	for _, l := range a {
		i := slices.IndexFunc(b, func(o any) bool { return o.(obj)["id"] == l.(obj)["id"] })
		if i >= 0 {
			l = mix(t, l, b[i])
		}
		if i >= 0 || rapid.Bool().Draw(t, "keep loop") {
			out = append(out, l)
		}
	}
	for _, l := range b {
		if !slices.ContainsFunc(a, func(o any) bool { return o.(obj)["id"] == l.(obj)["id"] }) {
			out = append(out, l)
		}
	}
	return out
}

// two draws two configurations that superloop would load, alike or not.
func two(t *rapid.T) (a, b *config.Config) {
	first := drawConfig(t)
	second := drawConfig(t)
	if rapid.IntRange(0, 3).Draw(t, "alike") > 0 {
		second = mix(t, first, second).(obj)
	}
	for i, v := range []obj{first, second} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.LoadBytes(home, data)
		if err != nil {
			bad, ok := errors.AsType[*config.Error](err)
			if !ok || i == 0 {
				t.Fatalf("%v\n%s", err, data)
			}
			// The runner of a role may have gone, or the commands of the tests.
			_ = bad
			t.Skip("the mixture is no configuration")
		}
		if i == 0 {
			a = c
		} else {
			b = c
		}
	}
	return a, b
}
