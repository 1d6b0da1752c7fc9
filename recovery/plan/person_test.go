package plan

import (
	"strings"
	"testing"
	"time"
)

func (w *walk) pick(depth int, name, refusal string) *walk {
	w.t.Helper()
	before := encode(w.t, w.c)
	err := w.c.Pick(depth, name, w.now)
	w.judge(err, refusal, before)
	return w
}

func (w *walk) retry(depth int, refusal string) *walk {
	w.t.Helper()
	before := encode(w.t, w.c)
	w.judge(w.c.Retry(depth, w.now), refusal, before)
	return w
}

func (w *walk) judge(err error, refusal, before string) {
	w.t.Helper()
	switch {
	case refusal == "" && err != nil:
		w.t.Fatal(err)
	case refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)):
		w.t.Fatalf("%v, want %q", err, refusal)
	case err != nil && encode(w.t, w.c) != before:
		w.t.Fatal("a refused word has changed the chain")
	}
}

// Conforms: 000-3.1-locked, 000-3.1-notpossible, 000-6-execute, 000-6-escalate
func TestPick(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"what needs an operator": func(t *testing.T) {
			w := newWalk(t, human("h")).do("stop exhausted").pick(0, "h", "").do("run run-h")
			if m := w.move(); !m.Picked {
				t.Error("the walker does not see that an operator chose it")
			}
			w.do("run run-h -> ok", "verify -> ok", "stop done").crumbs("make test done")
		},
		"by its key, and once more": func(t *testing.T) {
			newWalk(t, option("a")).do("run run-a -> ok", "verify -> fail:first", "stop exhausted").
				pick(1, "h/a", "").do("run run-a -> ok", "verify -> ok", "stop done")
		},
		"what is refused": func(t *testing.T) {
			no := option("i").with(func(c *Choice) { c.Availability, c.Reason = impossible, "no such system" })
			empty := option("e").with(func(c *Choice) { c.Command, c.Instructions = "", "do it by hand" })
			w := newWalk(t, option("a"), no, empty).
				pick(0, "i", "i is impossible here: no such system").pick(1, "e", "do it by hand").pick(1, "nix", `level 1 has no option "nix"`).
				pick(0, "nix", `no level has an option "nix"`).pick(2, "a", "there is no level 2, the deepest is 1").do("run run-a -> begin").pick(0, "a", "run-a is running")
			w.c.Succeeded(w.now)
			w.do("verify -> ok").pick(0, "a", "the chain is done")
		},
		"above the deepest": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"))
			w.remedies["deep"] = []Choice{option("c")}
			w.do("run run-a -> fail:deep", "run run-c").pick(1, "b", "").do("run run-b -> ok", "verify -> ok", "stop done").
				crumbs("make test done > run-a skipped")
		},
		"a locked one, with what it needs, though that was tried and needs an operator": func(t *testing.T) {
			x := need("x", option("x").with(func(c *Choice) { c.ByItself = false }))
			w := newWalk(t, needing("a", x).with(func(c *Choice) { c.ByItself = false })).do("stop exhausted")
			w.pick(1, "a", "").do("run run-x -> fail:none", "stop exhausted").pick(1, "a", "").do("run run-x -> ok")
			if m := w.move(); !m.Picked || m.Depth != 1 {
				t.Errorf("%+v", m)
			}
			w.do("run run-a -> ok", "verify -> ok", "stop done")
		},
		"on a level that was left": func(t *testing.T) {
			w := newWalk(t, option("a"))
			w.remedies["2"], w.remedies["3"] = []Choice{human("b")}, []Choice{human("c")}
			w.do("run run-a -> fail:2", "stop exhausted").pick(0, "b", "").do("run run-b -> fail:3", "stop exhausted")
			if len(w.c.Levels) != 1 || len(w.c.Left) != 2 {
				t.Fatalf("%d levels, %d left", len(w.c.Levels), len(w.c.Left))
			}
			w.pick(3, "c", "").do("run run-c -> ok", "run run-b -> ok", "run run-a -> ok", "verify -> ok", "stop done").
				crumbs("make test done > run-a done > run-b done")
			if len(w.c.Left) != 0 {
				t.Errorf("%+v", w.c.Left)
			}
		},
		"on the level of a need that was left": func(t *testing.T) {
			w := newWalk(t, needing("a", need("x", option("x"), human("y"))))
			w.do("run run-x -> fail:none", "stop exhausted").pick(2, "y", "").do("run run-y -> ok", "run run-a -> ok", "verify -> ok", "stop done")
		},
		"on a level that was left, of an option that is gone": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"))
			w.remedies["2"], w.remedies["second"] = []Choice{human("c")}, []Choice{human("d")}
			w.do("run run-a -> fail:2", "run run-b -> ok", "verify -> fail:second", "stop exhausted").
				pick(0, "c", `no level has an option "c"`).pick(0, "d", "").do("run run-d -> ok", "verify -> ok")
		},
		"what a level waits for": func(t *testing.T) {
			w := newWalk(t, needing("a", need("x", option("x"), option("a")))).do("run run-x").pick(2, "a", "a is what level 1 waits for: a circle")
			w.do("run run-x -> ok", "run run-a -> ok", "verify -> ok", "stop done")
		},
		"with room and time of its own": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"))
			w.c.Limit = 1
			w.do("run run-a -> fail:none", "stop exhausted")
			w.now = w.now.Add(time.Hour)
			w.pick(0, "b", "").do("run run-b -> ok", "verify -> ok", "stop done")
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t) })
	}
}

// Conforms: 000-5.6-retry
func TestRetry(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"all but what succeeded": func(t *testing.T) {
			w := newWalk(t, option("a"), option("b"), option("c"))
			w.remedies["deep"] = []Choice{option("d")}
			w.do("run run-a -> ok", "verify -> fail:first", "run run-b -> fail:deep", "run run-d -> fail:none", "run run-c -> skip", "stop exhausted").
				retry(1, "").do("run run-b -> fail:deep", "run run-d -> ok", "run run-b -> fail:none", "run run-c -> ok", "verify -> ok", "stop done")
		},
		"a deeper level": func(t *testing.T) {
			w := newWalk(t, option("a"))
			w.c.Limit = 3
			w.remedies["2"], w.remedies["3"] = []Choice{option("b"), option("c")}, []Choice{option("d")}
			w.do("run run-a -> fail:2", "run run-b -> fail:3", "run run-d -> fail:none", "stop exhausted")
			if len(w.c.Levels) != 2 {
				t.Fatal(w.c.Levels)
			}
			w.retry(3, "there is no level 3, the deepest is 2").retry(2, "").
				do("run run-b -> fail:3", "run run-d -> ok", "run run-b -> ok", "run run-a -> ok", "verify -> ok", "stop done")
		},
		"in the middle, levels below are left": func(t *testing.T) {
			w := newWalk(t, option("z"), option("a"))
			w.remedies["2"] = []Choice{option("b")}
			w.do("run run-z -> fail:none", "run run-a -> fail:2", "run run-b").retry(1, "").do("run run-z -> ok", "verify -> ok", "stop done").
				crumbs("make test done > run-a skipped")
		},
		"waiting": func(t *testing.T) {
			newWalk(t, waiting("w", 1000)).do("retry make test after 1s -> fail:first", "stop exhausted").retry(0, "").do("retry make test after 1s -> ok", "stop done")
		},
		"nothing is left": func(t *testing.T) {
			w := newWalk(t, option("a"), human("h")).do("run run-a -> ok", "verify -> fail:first", "stop exhausted").retry(1, "choose one of its options")
			w.pick(0, "h", "").do("run run-h -> begin").retry(1, "run-h is running")
			w.c.Succeeded(w.now)
			w.do("verify -> ok", "stop done").retry(1, "the chain is done")
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t) })
	}
}
