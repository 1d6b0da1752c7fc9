package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/superloop/superloop/schemas"
)

// deep is a chain at its third level, with something of everything.
func deep(t *testing.T) *walk {
	gone := option("brew").with(func(c *Choice) {
		c.Availability, c.Reason, c.ByItself = impossible, "there is no brew on this system", false
	})
	ci := option("clean_install").with(func(c *Choice) { c.Label, c.Command, c.WorkingDir = "Install from the lock file", "npm ci", "web" })
	w := newWalk(t, option("env"), ci, needing("pipx", need("pipx", option("apt"))), human("sudo"), gone)
	w.remedies["cache"] = []Choice{needing("verify", need("cacache", option("get"))).with(func(c *Choice) { c.Command = "npm cache verify" }), waiting("wait", 5000, 30000)}
	w.do("run run-env -> ok", "verify -> fail:first")
	m := w.move()
	w.c.Begin(m, w.now)
	w.c.Failed("line 1\nline 2\nline 3\nline 4\n\x1b[2Jnpm error \u202eevil\x00\nnpm error code EINTEGRITY\n", failure("cache"), w.remedies["cache"], w.now)
	return w.do("run run-get -> begin")
}

const described = `Goal: make test
      this was begun, and how it ended is not known: run-get
make test > npm ci > install cacache > run-get

Level 1, make test: why first
  [tried] env: do env
      run-env
      (it ran, and did not help)
> [tried] clean_install: Install from the lock file
      npm ci (in web)
      (npm error code EINTEGRITY)
  [locked] pipx: do pipx
      run-pipx
      (something is missing)
      first: install pipx, by run-apt
  [ready] sudo: do sudo
      run-sudo
      (an operator decides)
  [impossible] brew: do brew
      run-brew
      (there is no brew on this system)

Level 2, npm ci: why cache
> [locked] verify: do verify
      npm cache verify
      (something is missing)
      first: install cacache, by run-get
  [ready] wait: do wait
      wait 5s, then 30s, and run it again

Level 3, install cacache: install cacache is missing
> [begun] get: do get
      run-get

Errors:
  level 1, env: run-env
    | it did not help: the same failure
  level 1, clean_install: npm ci
    | line 3
    | line 4
    | <U+001B>[2Jnpm error <U+202E>evil<U+0000>
    | npm error code EINTEGRITY

Next:
  superloop chain retry c-1
  superloop chain cancel c-1
`

// Conforms: 000-3.1-optlabel, 000-3.1-locked, 000-3.1-notpossible, 000-5.3-where, 000-5.4-done, 000-5.5-errors
// Conforms: 000-5.5-options, 000-6-shown-cli
func TestDescribe(t *testing.T) {
	t.Parallel()
	w := deep(t)
	if got := Describe(w.c, 80); got != described {
		t.Errorf("%s", got)
	}
	w.c.Lost("nobody knows", w.now)
	got := Describe(w.c, 0)
	for _, want := range []string{"\n  superloop chain choose c-1 wait\n", "\n  superloop chain choose c-1 sudo\n", "\n  superloop chain retry c-1\n", "nobody knows"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, never := range []string{"choose c-1 brew", "choose c-1 verify\n  superloop chain choose c-1 verify"} {
		if strings.Contains(got, never) {
			t.Errorf("%q in\n%s", never, got)
		}
	}
	done := newWalk(t, option("a")).do("run run-a -> ok", "verify -> ok", "stop done")
	if got := Describe(done.c, 80); !strings.Contains(got, "it passes now") || strings.Contains(got, "Next:") {
		t.Error(got)
	}
}

// Whatever an operator is told to type is taken.
// Conforms: 000-5.5-options
func TestWhatCanBeTypedIsTaken(t *testing.T) {
	t.Parallel()
	w := newWalk(t, option("a"), human("same"), option("same").with(func(c *Choice) { c.Key = "other/same" }))
	w.remedies["2"] = []Choice{human("same").with(func(c *Choice) { c.Key = "deep/same" }), human("a").with(func(c *Choice) { c.Key = "deep/a" })}
	w.do("run run-a -> fail:2", "run run-same -> fail:none", "stop exhausted")
	typed := 0
	for _, line := range w.c.next() {
		words := strings.Fields(line)
		c := w.c.Clone()
		var err error
		switch words[2] {
		case "choose":
			err = c.Pick(0, words[4], w.now)
		case "retry":
			err = c.Retry(0, w.now)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		typed++
	}
	if typed < 5 {
		t.Errorf("only %q", w.c.next())
	}
}

func TestDescribeFolds(t *testing.T) {
	t.Parallel()
	w := newWalk(t, option("a").with(func(c *Choice) {
		c.Label = strings.Repeat("some words ", 30)
		c.Command = "one two three " + strings.Repeat("x", 100) + " four 'five'"
	}))
	got := Describe(w.c, 50)
	for _, line := range strings.Split(got, "\n") {
		if len(line) > 50 && !strings.Contains(line, strings.Repeat("x", 100)) {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if !strings.Contains(got, strings.Repeat("x", 100)) {
		t.Error("a word was cut")
	}
}

// Conforms: 000-5.3-stack, 000-6-one, 000-11-availability
func TestResponse(t *testing.T) {
	t.Parallel()
	w := deep(t)
	data, err := Response(w.c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range schemas.Validate(schemas.Chain, data) {
		t.Error(p)
	}
	for i, b := range data {
		if b < ' ' || b > '~' {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	var r struct {
		Stack []struct {
			Depth  int
			Status string
			Chosen string `json:"chosen_option"`
			Plan   *struct{ Command string }
		} `json:"escalation_stack"`
		Options []struct {
			ID, Availability string
			Recommended      bool
		}
		Chain struct {
			Depth       int
			Breadcrumbs []Crumb
		}
		Fallback []struct{ ID string } `json:"fallback_actions"`
		Errors   []Error
		MaxDepth int `json:"max_depth"`
		State    any
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Stack) != 3 || r.Stack[0].Depth != 3 || r.Stack[0].Status != "executing" || r.Stack[0].Plan == nil || r.Stack[0].Plan.Command != "run-get" ||
		r.Stack[2].Depth != 1 || r.Stack[2].Status != "pending" || r.Stack[2].Plan != nil || r.Stack[2].Chosen != "clean_install" {
		t.Errorf("the deepest first, the others waiting: %+v", r.Stack)
	}
	if len(r.Options) != 1 || r.Options[0].ID != "get" || !r.Options[0].Recommended || r.Chain.Depth != 2 || len(r.Chain.Breadcrumbs) != 2 || r.MaxDepth != 3 || r.State != nil {
		t.Errorf("%+v", r)
	}
	if len(r.Fallback) != 3 || r.Fallback[0].ID != "retry" || r.Fallback[1].ID != "skip" || r.Fallback[2].ID != "cancel" {
		t.Errorf("%+v", r.Fallback)
	}
	if len(r.Errors) != 2 || !strings.Contains(r.Errors[1].Text, "\u202eevil\ufffd") {
		t.Errorf("what a tool wrote is not what it was: %q", r.Errors[1].Text)
	}
}

func TestASCII(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", `a\b`, "\x00", `\u0000`, "\\\x00\\", "\u00e4\u20ac\U0001f3af\u009b", "\"\n\t", string(utf16.Decode([]uint16{0xd83d, 0xde00}))} {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal(ascii(data), &got); err != nil || got != strings.ReplaceAll(text, "\x00", "\ufffd") {
			t.Errorf("%q: %q, %v (%s)", text, got, err, ascii(data))
		}
	}
}
