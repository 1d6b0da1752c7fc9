package learn

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPast: what is known of an option, in words and as a change of its confidence.
//
// Conforms: 002-future-1-move, 002-future-5
func TestPast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		results    []string
		signature  string // of the failure that is asked about; the outcomes are of "s"
		said       string
		from, to   float64
		preference int
		byPerson   bool
	}{
		{results: nil, signature: "s", from: 0.6, to: 0.6},
		{results: []string{Verified, Verified, Failed, Verified}, signature: "s", said: "worked 3 of 4 times here", from: 0.6, to: 0.6 + 0.2*2/6},
		{results: []string{Verified, Verified, Failed, Verified}, signature: "t", said: "worked 3 of 4 times here against other failures", from: 0.6, to: 0.6 + 0.2*2/6/2},
		{results: []string{Ineffective}, signature: "s", said: "worked 0 of 1 times here", from: 0.6, to: 0.6 - 0.2/3},
		{results: []string{Harmful}, signature: "s", said: "worked 0 of 1 times here, did harm once", from: 0.6, to: 0.5},
		{results: []string{Verified}, signature: "s", said: "worked 1 of 1 times here", from: 0.94, to: 0.95},
		{results: []string{Verified}, signature: "s", said: "worked 1 of 1 times here", from: 1, to: 1},
		{results: []string{Failed}, signature: "s", said: "worked 0 of 1 times here", from: 0.06, to: 0.05},
		{results: []string{Failed}, signature: "s", said: "worked 0 of 1 times here", from: 0, to: 0},
		{results: []string{Verified, Verified}, signature: "s", byPerson: true, said: "worked 2 of 2 times here, an operator chose it 2 times", from: 0.5, to: 0.6, preference: 2},
		{results: []string{Unknown}, signature: "s", byPerson: true, said: "an operator chose it once", from: 0.5, to: 0.5, preference: 1},
		{results: []string{Failed}, signature: "s", byPerson: true, said: "worked 0 of 1 times here, an operator chose it once", from: 0.5, to: 0.5 - 0.2/3},
		{results: []string{Verified, Verified, Harmful}, signature: "s", byPerson: true, said: "worked 2 of 3 times here, did harm once, an operator chose it 3 times", from: 0.5, to: 0.5},
		{results: []string{Refused, Refused}, signature: "s", byPerson: true, said: "an operator refused it 2 times", from: 0.5, to: 0.5, preference: -2},
	} {
		var m Memory
		m.Add(Outcome{Signature: "s", Option: "another", Command: "x", Result: Verified, ByPerson: true, At: start})
		for i, r := range tt.results {
			m.Add(Outcome{Signature: "s", Option: "a", Command: "npm ci", Result: r, ByPerson: tt.byPerson, At: start.Add(time.Duration(i) * time.Hour)})
		}
		p := m.Past(tt.signature, "a")
		if got := p.String(); got != tt.said {
			t.Errorf("%v: %q, want %q", tt.results, got, tt.said)
		}
		if got := p.Adapt(tt.from); math.Abs(got-tt.to) > 1e-9 {
			t.Errorf("%v: %v became %v, want %v", tt.results, tt.from, got, tt.to)
		}
		if got := p.Preference(); got != tt.preference {
			t.Errorf("%v: preference %d, want %d", tt.results, got, tt.preference)
		}
		if m.Past(tt.signature, "") != (Past{}) {
			t.Error("a command that is no option has a past")
		}
	}
}

// A confidence stays from 0 to 1, moves by 0.2 at most, in the direction of the last outcome, and no answer of an
// operator moves it.
func TestAdaptProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string) int { return rapid.IntRange(0, 50).Draw(t, name) }
		p := Past{Helped: count("helped"), Failed: count("failed"), Chosen: count("chosen"), Refused: count("refused"), Elsewhere: rapid.Bool().Draw(t, "elsewhere")}
		p.Harmful = rapid.IntRange(0, p.Failed).Draw(t, "harmful")
		from := rapid.Float64Range(0, 1).Draw(t, "confidence")
		got := p.Adapt(from)
		better, worse, asked := p, p, p
		better.Helped++
		worse.Failed++
		asked.Chosen, asked.Refused = asked.Chosen+1, asked.Refused+2
		if got < 0 || got > 1 || math.Abs(got-from) > adapts+1e-9 || better.Adapt(from) < got || worse.Adapt(from) > got || asked.Adapt(from) != got {
			t.Fatalf("%+v: %v became %v; after a success %v, after a failure %v", p, from, got, better.Adapt(from), worse.Adapt(from))
		}
	})
}
