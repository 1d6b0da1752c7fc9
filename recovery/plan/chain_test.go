package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// option is one that is ready and may run by itself.
func option(id string) Choice {
	return Choice{Key: "h/" + id, ID: id, Label: "do " + id, Strategy: "env_fix", Availability: "ready", Executor: "wrapper", Risk: "low",
		Draft: action.Draft{Command: "run-" + id, WorkingDir: ".", Confidence: "high"}, ByItself: true}
}

func (c Choice) with(change func(*Choice)) Choice { change(&c); return c }

func waiting(id string, ms ...int64) Choice {
	return option(id).with(func(c *Choice) { c.Command, c.WaitsMS = "", ms })
}

func needing(id string, needs ...Need) Choice {
	return option(id).with(func(c *Choice) { c.Availability, c.Reason, c.Needs = locked, "something is missing", needs })
}

func need(tool string, options ...Choice) Need {
	return Need{Goal: "tool/" + tool, Label: "install " + tool, Options: options}
}

func human(id string) Choice {
	return option(id).with(func(c *Choice) { c.ByItself, c.Withheld = false, "an operator decides" })
}

func failure(signature string) Failure {
	return Failure{Category: "dependency", Handler: "h", Signature: signature, Why: "why " + signature}
}

// walk is a chain under test. Script lines are "<expected move>[ -> <what comes
// of it>]".
type walk struct {
	t   *testing.T
	c   Chain
	now time.Time
	// fixes are the options for what a command fails of, by the signature.
	remedies map[string][]Choice
}

func newWalk(t *testing.T, options ...Choice) *walk {
	return &walk{t: t, now: start, remedies: map[string][]Choice{"first": options},
		c: New("c-1", Goal{Command: "make test", Dir: ".", Key: "cmd/goal", Source: "command"}, failure("first"), options, 20, 0, start)}
}

func (w *walk) move() Move {
	w.t.Helper()
	m, _ := w.c.Advance(w.now)
	before := encode(w.t, w.c)
	again, turns := w.c.Advance(w.now)
	if again != m || len(turns) > 0 || encode(w.t, w.c) != before {
		w.t.Fatalf("asked twice it says %+v, then %+v %v", m, again, turns)
	}
	if err := w.c.Check(); err != nil {
		w.t.Fatal(err)
	}
	return m
}

func say(c Chain, m Move) string {
	switch m.Kind {
	case Stop:
		return "stop " + string(c.Status)
	case Verify:
		return "verify"
	}
	s := string(m.Kind) + " " + m.Command
	if m.WaitMS > 0 {
		s += " after " + (time.Duration(m.WaitMS) * time.Millisecond).String()
	}
	return s
}

// do expects the moves and gives their outcomes: "ok", "fail:<signature>", "skip",
// "lose", "begin".
func (w *walk) do(script ...string) *walk {
	w.t.Helper()
	for i, line := range script {
		want, outcome, _ := strings.Cut(line, " -> ")
		m := w.move()
		if got := say(w.c, m); got != want {
			w.t.Fatalf("step %d: %s, want %s; errors: %+v", i+1, got, want, w.c.Errors)
		}
		w.now = w.now.Add(time.Duration(m.WaitMS) * time.Millisecond)
		w.give(m, outcome)
		w.c = decode(w.t, encode(w.t, w.c))
	}
	return w
}

func (w *walk) give(m Move, outcome string) {
	what, signature, _ := strings.Cut(outcome, ":")
	switch {
	case what == "":
		return
	case what == "skip":
		w.c.Skipped("human: no rule allows it", w.now)
		return
	case what == "lose":
		w.c.Begin(m, w.now)
		w.c.Lost("nobody knows", w.now)
		return
	case m.Kind != Verify || what == "begin":
		w.c.Begin(m, w.now)
	}
	f := failure(signature)
	switch {
	case what == "begin":
	case m.Kind == Run && what == "ok":
		w.c.Succeeded(w.now)
	case m.Kind == Run:
		w.c.Failed("exit code 1", f, w.remedies[signature], w.now)
	default:
		w.c.Verified(what == "ok", f, w.remedies[signature], w.now)
	}
}

func (w *walk) errorsLike(want ...string) *walk {
	w.t.Helper()
	if len(want) != len(w.c.Errors) {
		w.t.Fatalf("%d errors, want %d: %+v", len(w.c.Errors), len(want), w.c.Errors)
	}
	for i, e := range w.c.Errors {
		if got := string(rune('0'+e.Depth)) + " " + e.Option + ": " + e.Text; !strings.Contains(got, want[i]) {
			w.t.Errorf("error %d is %q, want %q", i+1, got, want[i])
		}
	}
	return w
}

func (w *walk) crumbs(want string) *walk {
	w.t.Helper()
	var got []string
	for _, c := range w.c.Crumbs {
		got = append(got, c.Label+" "+c.Status)
	}
	if s := strings.Join(got, " > "); s != want {
		w.t.Errorf("crumbs: %s\nwant    %s", s, want)
	}
	return w
}

func encode(t testing.TB, c Chain) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decode(t testing.TB, s string) Chain {
	t.Helper()
	var c Chain
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Conforms: 000-1-layered, 000-3.1-ready, 000-5.4-pop, 000-5.4-unlock, 000-5.4-execute, 000-5.4-on, 000-5.4-retry
// Conforms: 000-5.4-done, 000-5.4-crumbs, 000-5.5-depth, 000-5.5-errors, 000-5.5-cycle, 000-5.6-cancel, 000-12-cycle
// Conforms: 000-12-depth, 002-tree-nextone, 002-tree-ask, 002-rule-5, 003-pipe-fix
func TestPaths(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"the first remedy helps": func(t *testing.T) {
			newWalk(t, option("a"), option("b")).do("run run-a -> ok", "verify -> ok", "stop done").errorsLike().crumbs("make test done")
		},
		"it does not help": func(t *testing.T) {
			newWalk(t, option("a"), option("b")).do("run run-a -> ok", "verify -> fail:first", "run run-b -> ok", "verify -> ok", "stop done").
				errorsLike("1 a: it did not help")
		},
		"another failure is a step forward": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"))
			w.remedies["second"] = []Choice{option("a"), option("c")}
			w.do("run run-a -> ok", "verify -> fail:second", "run run-c -> ok", "verify -> ok", "stop done").
				errorsLike("1 a: the command fails of something else now: why second")
		},
		"another failure without a remedy": func(t *testing.T) {
			newWalk(t, option("a"), option("b")).do("run run-a -> ok", "verify -> fail:code", "stop exhausted")
		},
		"a failed remedy is fixed, then due once more": func(t *testing.T) {
			w := newWalk(t, option("a"))
			w.remedies["deep"] = []Choice{option("b")}
			w.do("run run-a -> fail:deep", "run run-b -> ok", "run run-a -> ok", "verify -> ok", "stop done").
				errorsLike("1 a: exit code 1").crumbs("make test done > run-a done")
		},
		"once more, not twice": func(t *testing.T) {
			w := newWalk(t, option("a"), option("z"))
			w.remedies["deep"], w.remedies["other"] = []Choice{option("b")}, []Choice{option("c")}
			w.do("run run-a -> fail:deep", "run run-b -> ok", "run run-a -> fail:other", "run run-z -> fail:none", "stop exhausted").
				errorsLike("1 a: exit", "1 a: exit", "1 z: exit")
		},
		"what it failed of cannot be fixed": func(t *testing.T) {
			w := newWalk(t, option("a"), option("z"))
			w.remedies["deep"] = []Choice{option("b")}
			w.do("run run-a -> fail:deep", "run run-b -> fail:none", "run run-z -> ok", "verify -> ok", "stop done").
				errorsLike("1 a: exit", "2 b: exit", "1 a: what it failed of could not be fixed").crumbs("make test done > run-a failed")
		},
		"three levels, not four": func(t *testing.T) {
			w := newWalk(t, option("a"))
			w.remedies["2"], w.remedies["3"], w.remedies["4"] = []Choice{option("b")}, []Choice{option("c")}, []Choice{option("d")}
			w.do("run run-a -> fail:2", "run run-b -> fail:3", "run run-c -> fail:4", "stop exhausted").
				errorsLike("1 a: exit", "2 b: exit", "3 c: exit code 1 (what may fix that is not tried: that would be level 4: 3 is the most)",
					"2 b: what it failed of", "1 a: what it failed of")
		},
		"needs first, each of them": func(t *testing.T) {
			newWalk(t, needing("a", need("x", option("x")), need("y", option("y")))).
				do("run run-x -> ok", "run run-y -> ok", "run run-a -> ok", "verify -> ok", "stop done").
				crumbs("make test done > install x done > install y done")
		},
		"a need of a need (S6)": func(t *testing.T) {
			apt := need("pip", option("apt"))
			newWalk(t, needing("tool", need("pipx", needing("pip-pipx", apt)))).
				do("run run-apt -> ok", "run run-pip-pipx -> ok", "run run-tool -> ok", "verify -> ok", "stop done")
		},
		"a fourth need is refused (S6)": func(t *testing.T) {
			newWalk(t, needing("a", need("1", needing("b", need("2", needing("c", need("3", option("d")))))))).
				do("stop exhausted").errorsLike("3 c: it needs install 3, and that would be level 4", "2 b: what it needs is not to be had: install 2", "1 a: what it needs")
		},
		"a circle is refused (S6)": func(t *testing.T) {
			newWalk(t, needing("a", need("1", needing("b", need("2", needing("c", need("1", option("d")))))))).
				do("stop exhausted").errorsLike("3 c: it needs install 1, and that is what level 2 is already about (install 1): a circle", "2 b", "1 a")
		},
		"its own remedy is a circle": func(t *testing.T) {
			newWalk(t, needing("a", need("1", option("a"), option("b")))).do("run run-b -> ok", "run run-a -> ok", "verify -> ok", "stop done")
		},
		"what a sibling got is there (S6)": func(t *testing.T) {
			x := need("x", option("x"))
			newWalk(t, needing("a", x), needing("b", x)).
				do("run run-x -> ok", "run run-a -> fail:none", "run run-b -> ok", "verify -> ok", "stop done")
		},
		"what a need's need got is there": func(t *testing.T) {
			x := need("x", option("x"))
			newWalk(t, needing("a", need("y", needing("y", x)), x)).
				do("run run-x -> ok", "run run-y -> ok", "run run-a -> ok", "verify -> ok", "stop done")
		},
		"a need that cannot be had": func(t *testing.T) {
			newWalk(t, needing("a", need("x", option("x"))), option("b")).
				do("run run-x -> fail:none", "run run-b -> ok", "verify -> ok", "stop done").errorsLike("2 x: exit", "1 a: what it needs is not to be had: install x")
		},
		"waits, longer each time": func(t *testing.T) {
			newWalk(t, waiting("w", 5000, 10000), option("b")).
				do("retry make test after 5s -> fail:first", "retry make test after 10s -> fail:first", "run run-b -> ok", "verify -> ok", "stop done").
				errorsLike("1 w: it did not help", "1 w: it did not help")
		},
		"waiting helps": func(t *testing.T) {
			newWalk(t, waiting("w", 5000)).do("retry make test after 5s -> ok", "stop done")
		},
		"waiting brings another failure": func(t *testing.T) {
			w := newWalk(t, waiting("w", 5000, 6000))
			w.remedies["second"] = []Choice{option("b")}
			w.do("retry make test after 5s -> fail:second", "run run-b -> ok", "verify -> ok", "stop done")
		},
		"a remedy failed for a moment": func(t *testing.T) {
			w := newWalk(t, option("a"))
			w.remedies["net"] = []Choice{waiting("w", 1000, 2000)}
			w.do("run run-a -> fail:net", "run run-a after 1s -> fail:net", "run run-a after 2s -> ok", "verify -> ok", "stop done").
				errorsLike("1 a: exit", "2 w: exit").crumbs("make test done > run-a done")
		},
		"a remedy failed for too long": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"))
			w.remedies["net"] = []Choice{waiting("w", 1000)}
			w.do("run run-a -> fail:net", "run run-a after 1s -> fail:net", "run run-b -> ok", "verify -> ok", "stop done")
		},
		"after a wait it fails of something else": func(t *testing.T) {
			w := newWalk(t, option("a"))
			w.remedies["net"], w.remedies["cache"] = []Choice{waiting("w", 1000, 2000)}, []Choice{option("clean")}
			w.do("run run-a -> fail:net", "run run-a after 1s -> fail:cache", "run run-clean -> ok", "run run-a -> ok", "verify -> ok", "stop done")
		},
		"waiting does not bring what was never there": func(t *testing.T) {
			newWalk(t, needing("a", need("x", waiting("w", 1000)))).do("stop exhausted")
		},
		"a wait that ends too late": func(t *testing.T) {
			newWalk(t, waiting("w", (11*time.Minute).Milliseconds()), option("b")).do("run run-b -> ok", "verify -> ok", "stop done").
				errorsLike("1 w: waiting 11m0s is longer")
		},
		"not by itself, not impossible, nothing to run": func(t *testing.T) {
			no := option("i").with(func(c *Choice) { c.Availability, c.Reason = impossible, "no such system" })
			empty := option("e").with(func(c *Choice) { c.Command = "" })
			newWalk(t, human("h"), no, empty).do("stop exhausted").errorsLike()
		},
		"skipped by the gate": func(t *testing.T) {
			newWalk(t, option("a"), option("b")).do("run run-a -> skip", "run run-b -> skip", "stop exhausted").
				errorsLike("1 a: not run: human", "1 b: not run: human")
		},
		"lost": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b")).do("run run-a -> begin", "held run-a", "held run-a")
			w.c.Lost("nobody knows", w.now)
			w.do("run run-b -> ok", "verify -> begin", "held make test")
			w.c.Lost("nobody knows", w.now)
			w.do("verify -> ok", "stop done").errorsLike("1 a: nobody knows")
		},
		"lost, and once more by an operator's word": func(t *testing.T) {
			w := newWalk(t, option("a"), waiting("w", 1000))
			w.remedies["deep"] = []Choice{option("b")}
			again := func() {
				t.Helper()
				if err := w.c.Again(w.now); err != nil {
					t.Fatal(err)
				}
				w.c = decode(t, encode(t, w.c))
			}
			w.do("run run-a -> begin", "held run-a")
			again()
			if m := w.move(); !m.Picked {
				t.Error("the gate does not see that an operator wants it")
			}
			w.do("run run-a -> fail:deep", "run run-b -> ok", "run run-a -> begin", "held run-a")
			again()
			w.do("run run-a -> fail:deep", "retry make test after 1s")
			w.c.Begin(w.move(), w.now)
			again()
			w.do("retry make test after 1s -> fail:first", "stop exhausted").pick(0, "a", "").do("run run-a -> ok", "verify -> begin", "held make test")
			again()
			w.do("verify -> ok", "stop done")
			if err := w.c.Again(w.now); err == nil {
				t.Error("there was no question")
			}
		},
		"the bound of attempts": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"), option("c"))
			w.c.Limit = 2
			w.do("run run-a -> fail:none", "run run-b -> ok", "verify -> fail:first", "stop exhausted")
			if !strings.Contains(w.c.Why, "2 commands were tried") {
				t.Error(w.c.Why)
			}
		},
		"the bound of time": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b")).do("run run-a")
			w.now = w.now.Add(DefaultTime + time.Second) // it was due in time
			w.do("run run-a -> ok", "verify -> fail:first", "stop exhausted")
			if !strings.Contains(w.c.Why, "2026-11-21T12:10:00Z") {
				t.Error(w.c.Why)
			}
		},
		"cancelled": func(t *testing.T) {
			w := newWalk(t, option("a")).do("run run-a")
			w.c.Cancel("ann", w.now)
			w.do("stop cancelled").crumbs("make test failed")
			if err := w.c.Pick(1, "a", w.now); err == nil || !strings.Contains(err.Error(), "cancelled") {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t) })
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	w := newWalk(t, option("a"))
	m := w.move()
	w.c.Begin(m, w.now)
	w.c.Failed(strings.Repeat("\u00e4", 9000)+"the end", failure("x"), nil, w.now)
	if got := w.c.Errors[0].Text; len(got) > maxText || !strings.HasSuffix(got, "the end") || !slices.Contains([]rune(got), '\u00e4') || strings.ContainsRune(got, '\ufffd') {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}
