package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/schemas"
)

// graph draws options that need and remedy each other, with circles. Its keys mean
// the same option wherever they turn up.
func graph(rt *rapid.T) map[string][]Choice {
	const n = 9
	ready := make([]Choice, n)
	for i := range n {
		id := fmt.Sprintf("o%d", i)
		c := option(id)
		switch rapid.IntRange(0, 11).Draw(rt, "what "+id) {
		case 0:
			c = human(id)
		case 1:
			c.Availability, c.Reason = impossible, "no"
		case 2, 3:
			c = waiting(id, []int64{1000, 2000, 3000}[:rapid.IntRange(1, 3).Draw(rt, "waits")]...)
		}
		ready[i] = c
	}
	pick := func(name string, from []Choice, most int) []Choice {
		var out []Choice
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(from)-1), 0, most, rapid.ID[int]).Draw(rt, name) {
			out = append(out, from[i])
		}
		return out
	}
	all := slices.Clone(ready)
	for range 2 { // needs of needs
		for i := range all {
			if all[i].Command == "" || !rapid.Bool().Draw(rt, "locked") {
				continue
			}
			c := all[i]
			c.Availability, c.Needs = locked, nil
			for _, tool := range rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 1, 2, rapid.ID[int]).Draw(rt, "needs") {
				c.Needs = append(c.Needs, need(fmt.Sprint(tool), pick("for a need", all, 3)...))
			}
			all[i] = c
		}
	}
	out := map[string][]Choice{}
	for _, s := range []string{"first", "second", "third"} {
		out[s] = pick("remedies "+s, all, 6)
	}
	return out
}

// times is how often an option may be begun: waiting ones as often as they say,
// others once, and once more when what they failed of was fixed.
func times(o Choice) int {
	if len(o.WaitsMS) > 0 {
		return len(o.WaitsMS)
	}
	return 2
}

// Whatever comes of each step over whatever options: it ends, within its bounds,
// nothing is repeated but what may be, and every error is kept.
// Conforms: 002-rule-2
func TestChainsEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		remedies := graph(rt)
		limit := rapid.IntRange(1, 12).Draw(rt, "limit")
		now := start
		c := New("c", Goal{Command: "make", Key: "cmd/goal"}, failure("first"), remedies["first"], limit, 0, now)
		begun, failed, errors := map[string]int{}, 0, 0
		for step := 0; ; step++ {
			if step > 200 {
				rt.Fatalf("200 steps: %+v", c)
			}
			other := decode(t, encode(t, c)) // a walker that was killed and goes on
			frozen := c.Clone()
			before := encode(t, frozen)
			m, _ := c.Advance(now)
			if n, _ := other.Advance(now); n != m || encode(t, other) != encode(t, c) {
				rt.Fatalf("read back it says %+v, not %+v", n, m)
			}
			if n, turns := c.Advance(now.Add(time.Duration(m.WaitMS) * time.Millisecond)); len(turns) > 0 || n.Option != m.Option || n.Kind != m.Kind {
				rt.Fatalf("asked twice: %+v, then %+v", m, n)
			}
			invariants(rt, c)
			if len(c.Errors) < errors {
				rt.Fatal("an error is gone")
			}
			errors = len(c.Errors)
			if m.Kind == Stop {
				break
			}
			now = now.Add(time.Duration(m.WaitMS)*time.Millisecond + time.Duration(rapid.IntRange(0, 90).Draw(rt, "takes"))*time.Second)
			outcome := rapid.SampledFrom([]string{"ok", "ok", "fail", "fail", "fail", "skip", "lost"}).Draw(rt, "outcome")
			f := failure(rapid.SampledFrom([]string{"first", "second", "third"}).Draw(rt, "failure"))
			if m.Kind == Verify {
				outcome = rapid.SampledFrom([]string{"ok", "fail", "fail", "fail", "lost"}).Draw(rt, "verified")
			}
			if outcome == "skip" {
				c.Skipped("no", now)
				failed++
				continue
			}
			o, _ := c.level().Option(c.level().Chosen)
			c.Begin(m, now)
			if m.Kind != Verify {
				if begun[m.Option]++; begun[m.Option] > times(o) {
					rt.Fatalf("%s was begun %d times", m.Option, begun[m.Option])
				}
			}
			switch {
			case outcome == "lost":
				c.Lost("lost", now)
				if m.Kind == Verify {
					continue
				}
				failed++
			case m.Kind == Run && outcome == "ok":
				c.Succeeded(now)
			case m.Kind == Run:
				c.Failed("exit", f, remedies[f.Signature], now)
				failed++
			default:
				c.Verified(outcome == "ok", f, remedies[f.Signature], now)
				if outcome != "ok" {
					failed++
				}
			}
			if encode(t, frozen) != before {
				rt.Fatal("a clone has changed with its original")
			}
		}
		total := 0
		for _, n := range begun {
			total += n
		}
		if total != c.Attempts || total > limit {
			rt.Fatalf("%d were begun, %d counted, %d is the bound", total, c.Attempts, limit)
		}
		if failed > len(c.Errors) {
			rt.Fatalf("%d failures, %d errors", failed, len(c.Errors))
		}
		data, err := Response(c)
		if err != nil {
			rt.Fatal(err)
		}
		for _, p := range schemas.Validate(schemas.Chain, data) {
			rt.Fatal(p)
		}
		if c.Why == "" && c.Status != Done {
			rt.Fatal("nobody says why it ended")
		}
		for _, k := range c.Crumbs {
			if k.Status == "executing" {
				rt.Fatalf("it has ended, and %s goes on", k.Label)
			}
		}
	})
}

func invariants(rt *rapid.T, c Chain) {
	if err := c.Check(); err != nil {
		rt.Fatal(err)
	}
	if len(c.Left) > maxLeft {
		rt.Fatalf("%d levels are kept", len(c.Left))
	}
	for i, l := range c.Levels {
		for _, up := range c.Levels[:i] {
			if l.Chosen != "" && l.Chosen == up.Chosen {
				rt.Fatalf("%s is its own remedy", l.Chosen)
			}
		}
	}
	if _, err := Response(c); err != nil {
		rt.Fatal(err)
	}
	Describe(c, 80)
}

// Persons may choose and retry whatever and whenever; the chain stays sound, and
// ends once they stop.
// Conforms: 000-5.6-life
func TestPersonsMeddle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		remedies := graph(rt)
		now := start
		c := New("c", Goal{Command: "make", Key: "cmd/goal"}, failure("first"), remedies["first"], 0, 0, now)
		words := rapid.IntRange(1, 8).Draw(rt, "words")
		for step := 0; ; step++ {
			if step > 400 {
				rt.Fatalf("400 steps: %+v", c)
			}
			if words > 0 && rapid.IntRange(0, 2).Draw(rt, "a word") == 0 {
				words--
				before := encode(t, c)
				frozen := c.Clone()
				depth := rapid.IntRange(0, 4).Draw(rt, "depth")
				var err error
				switch rapid.IntRange(0, 4).Draw(rt, "which") {
				case 0:
					err = c.Retry(depth, now)
				default:
					err = c.Pick(depth, fmt.Sprintf("o%d", rapid.IntRange(0, 9).Draw(rt, "option")), now)
				}
				if encode(t, frozen) != before {
					rt.Fatal("a clone has changed with its original")
				}
				if err != nil && encode(t, c) != before {
					rt.Fatal("a refused word has changed the chain")
				}
				invariants(rt, c)
			}
			m, _ := c.Advance(now)
			invariants(rt, c)
			if m.Kind == Stop {
				if words == 0 || c.Status == Done {
					return
				}
				continue
			}
			now = now.Add(time.Duration(m.WaitMS) * time.Millisecond)
			ok := rapid.IntRange(0, 3).Draw(rt, "ok") == 0
			f := failure(rapid.SampledFrom([]string{"first", "second", "third"}).Draw(rt, "failure"))
			c.Begin(m, now)
			invariants(rt, c)
			if words > 0 && rapid.IntRange(0, 5).Draw(rt, "killed") == 0 {
				words--
				if held, _ := c.Advance(now); held.Kind != Held || held.Command != m.Command {
					rt.Fatalf("%+v", held)
				}
				if rapid.Bool().Draw(rt, "leave it out") {
					c.Lost("lost", now)
				} else if err := c.Again(now); err != nil {
					rt.Fatal(err)
				} else if next, _ := c.Advance(now); next.Command != m.Command || next.Kind != m.Kind || next.Option != m.Option {
					rt.Fatalf("%+v is not %+v once more", next, m)
				}
				continue
			}
			switch {
			case m.Kind == Run && ok:
				c.Succeeded(now)
			case m.Kind == Run:
				c.Failed("exit", f, remedies[f.Signature], now)
			default:
				c.Verified(ok, f, remedies[f.Signature], now)
			}
		}
	})
}
