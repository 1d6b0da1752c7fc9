package script

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/schemas"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	turn := func(steps string) string {
		return `{"version":1,"turns":[{"steps":[{"say":"a"}]},{"steps":[` + steps + `]}]}`
	}
	cases := map[string]struct{ in, want string }{
		"empty file":         {"", "the file is empty"},
		"cut":                {`{"version":1,`, "ends in the middle"},
		"syntax":             {"{\n\"version\": 1,\n}", "line 3"},
		"more after it":      {`{"version":1}{}`, "more after the end"},
		"not an object":      {`[]`, "an object is expected, not a array"},
		"no version":         {`{"turns":[]}`, `"version" must be 1`},
		"version 2":          {`{"version":2}`, `"version" must be 1`},
		"unknown key":        {`{"version":1,"turn":[]}`, `unknown field "turn"`},
		"unknown turn key":   {`{"version":1,"turns":[{"rolle":"planner","steps":[]}]}`, `turn 1 (/turns/0): unknown field "rolle"`},
		"no steps":           {`{"version":1,"turns":[{"role":"planner"}]}`, `turn 1 (/turns/0): "steps" is missing`},
		"iteration zero":     {`{"version":1,"turns":[{"iteration":0,"steps":[]}]}`, `"iteration" counts from 1`},
		"unknown step":       {turn(`{"say":"a"},{"sing":"a"}`), `turn 2, step 2 (/turns/1/steps/1): unknown field "sing"`},
		"no action":          {turn(`{}`), "turn 2, step 1 (/turns/1/steps/0): no action"},
		"null":               {turn(`null`), "no action"},
		"two actions":        {turn(`{"say":"a","exit":1}`), "one action a step, not say and exit"},
		"wrong type":         {turn(`{"say":1}`), `"say" cannot be a number`},
		"detach alone":       {turn(`{"say":"a","detach":true}`), `"detach" goes with "spawn" only`},
		"run nothing":        {turn(`{"run":[]}`), "run needs a program"},
		"spawn nothing":      {turn(`{"spawn":[]}`), "spawn needs a program"},
		"write no content":   {turn(`{"write":{"path":"a"}}`), `write needs "content"`},
		"write no path":      {turn(`{"write":{"content":"a"}}`), `write needs "path"`},
		"write above":        {turn(`{"write":{"path":"../a","content":""}}`), "leaves the working directory"},
		"write key":          {turn(`{"write":{"path":"a","content":"","mode":1}}`), `unknown field "mode"`},
		"append no path":     {turn(`{"append":{"path":"","content":"a"}}`), `append needs "path"`},
		"delete no path":     {turn(`{"delete":{}}`), `delete needs "path"`},
		"exit 256":           {turn(`{"exit":256}`), "between 0 and 255"},
		"sleep back":         {turn(`{"sleep_ms":-1}`), "sleep_ms must be between"},
		"flood for ever":     {turn(`{"flood_bytes":9000000000000}`), "flood_bytes must be between"},
		"mistake in default": {`{"version":1,"default":[{"exit":-1}]}`, "default, step 1 (/default/0): exit"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The schema that users check their files with must refuse it too;
			// only it cannot see where a path leads.
			if c.want != "leaves the working directory" && len(schemas.Validate(schemas.Scenario, []byte(c.in))) == 0 {
				t.Error("the schema takes it")
			}
			if _, err := parse([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	const text = `{"version":1,"$schema":"x","description":"d","turns":[
		{"role":"planner","iteration":1,"attempt":1,"steps":[{"say":"p11"}]},
		{"role":"planner","iteration":1,"description":"later attempts","steps":[{"say":"p1x"}]},
		{"role":"tester","steps":[]},
		{"iteration":3,"steps":[{"say":"any3"}]},
		{"role":"planner","steps":[{"say":"p"}]}],
		"default":[{"say":"default"}]}`
	for _, p := range schemas.Validate(schemas.Scenario, []byte(text)) {
		t.Errorf("the schema refuses it: %v", p)
	}
	sc, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][5]string{
		{"planner", "1", "1", "p11", "turn 1"},
		{"planner", "1", "2", "p1x", "turn 2"},
		{"planner", "2", "1", "p", "turn 5"},
		{"planner", "3", "1", "any3", "turn 4"},
		{"tester", "3", "1", "", "turn 3"},
		{"reviewer", "4", "1", "default", "default"},
		{"", "", "", "default", "default"},
	} {
		steps, where := sc.choose(&player{role: c[0], iteration: c[1], attempt: c[2]})
		say := ""
		if len(steps) > 0 {
			say = *steps[0].Say
		}
		if say != c[3] || where != c[4] || steps == nil {
			t.Errorf("%q: %q of %s", c[:3], say, where)
		}
	}
	sc.fallback = nil
	if steps, _ := sc.choose(&player{role: "reviewer"}); steps != nil {
		t.Errorf("steps %v without a default", steps)
	}
}
