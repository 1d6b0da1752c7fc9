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
		"empty file":                   {"", "the file is empty"},
		"cut":                          {`{"version":1,`, "ends in the middle"},
		"syntax":                       {"{\n\"version\": 1,\n}", "3:1: there is a comma"},
		"more after it":                {`{"version":1}{}`, "1:14: there is something after the end"},
		"not an object":                {`[]`, "found an array; allowed: an object"},
		"no version":                   {`{"turns":[]}`, `/version: the key "version" is missing`},
		"version 2":                    {`{"version":2}`, "/version: found 2; allowed: 1"},
		"unknown key":                  {`{"version":1,"turn":[]}`, `/turn: unknown key "turn"`},
		"unknown turn key":             {`{"version":1,"turns":[{"rolle":"planner","steps":[]}]}`, `/turns/0/rolle: unknown key "rolle"`},
		"no steps":                     {`{"version":1,"turns":[{"role":"planner"}]}`, `/turns/0/steps: the key "steps" is missing`},
		"iteration zero":               {`{"version":1,"turns":[{"iteration":0,"steps":[]}]}`, `/turns/0/iteration: found 0; allowed: 1 or more`},
		"unknown step":                 {turn(`{"say":"a"},{"sing":"a"}`), `/turns/1/steps/1/sing: unknown key "sing"`},
		"/turns/1/steps/0: found null": {turn(`{}`), "/turns/1/steps/0: found an empty object; allowed: one action in each step"},
		"null":                         {turn(`null`), "/turns/1/steps/0: found null"},
		"two actions":                  {turn(`{"say":"a","exit":1}`), `/turns/1/steps/0: found "say", "exit"; allowed: one action in each step`},
		"wrong type":                   {turn(`{"say":1}`), "/turns/1/steps/0/say: found 1; allowed: a string"},
		"detach alone":                 {turn(`{"say":"a","detach":true}`), `/turns/1/steps/0: found "say", "detach"; allowed: one action`},
		"run nothing":                  {turn(`{"run":[]}`), "/turns/1/steps/0/run: found an empty array"},
		"spawn nothing":                {turn(`{"spawn":[]}`), "/turns/1/steps/0/spawn: found an empty array"},
		"run no name":                  {turn(`{"run":[""]}`), "/turns/1/steps/0: run needs a program"},
		"write no content":             {turn(`{"write":{"path":"a"}}`), `/turns/1/steps/0/write/content: the key "content" is missing`},
		"write no path":                {turn(`{"write":{"content":"a"}}`), `/turns/1/steps/0/write/path: the key "path" is missing`},
		"write above":                  {turn(`{"write":{"path":"../a","content":""}}`), "leaves the working directory"},
		"write key":                    {turn(`{"write":{"path":"a","content":"","mode":1}}`), `/turns/1/steps/0/write/mode: unknown key "mode"`},
		"append no path":               {turn(`{"append":{"path":"","content":"a"}}`), "/turns/1/steps/0/append/path: must not be empty"},
		"delete no path":               {turn(`{"delete":{}}`), `/turns/1/steps/0/delete/path: the key "path" is missing`},
		"exit 256":                     {turn(`{"exit":256}`), "/turns/1/steps/0/exit: found 256; allowed: 255 or less"},
		"sleep back":                   {turn(`{"sleep_ms":-1}`), "/turns/1/steps/0/sleep_ms: found -1; allowed: 0 or more"},
		"flood for ever":               {turn(`{"flood_bytes":9000000000000}`), "/turns/1/steps/0/flood_bytes: found 9000000000000; allowed: 17179869184 or less"},
		"mistake in default":           {`{"version":1,"default":[{"exit":-1}]}`, "/default/0/exit: found -1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The schema that users check their files with must refuse it too;
			// only it cannot see where a path leads, nor that a name is empty.
			if c.want != "leaves the working directory" && !strings.Contains(c.want, "needs a program") && len(schemas.Validate(schemas.Scenario, []byte(c.in))) == 0 {
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
	sc.Default = nil
	if steps, _ := sc.choose(&player{role: "reviewer"}); steps != nil {
		t.Errorf("steps %v without a default", steps)
	}
}
