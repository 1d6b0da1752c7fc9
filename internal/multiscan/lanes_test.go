package multiscan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slow gives a filter that does not look at several places at once.
func slow(f *filter) *filter {
	c := *f
	c.lanes = lanes{}
	return &c
}

// TestLanesLikeLoops: the loops that look at several places at once find the places that the
// others find, for every stride, from every place on and for any number of places.
func TestLanesLikeLoops(t *testing.T) {
	t.Parallel()
	rare := newRarity([]byte("abc abd xyz and more of that"))
	rapid.Check(t, func(rt *rapid.T) {
		shortest := rapid.IntRange(minLiteral, 14).Draw(rt, "shortest")
		letters := rapid.SampledFrom([]rune("abcX*@\n\u00e9 "))
		lits := rapid.SliceOfN(rapid.StringOfN(letters, shortest, 20, -1), 1, 40).Draw(rt, "literals")
		var want []wanted
		for i, l := range lits {
			want = append(want, wanted{lower(l), int32(i)})
		}
		fast, _ := filterFor(want, nil, rare)
		loops := slow(fast)
		text := []byte(strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(lits), rapid.StringOfN(letters, 0, 30, -1)), 20, 60).Draw(rt, "text"), ""))
		if len(text) < 100 {
			return
		}
		from := rapid.IntRange(before+wordLen, len(text)-after-wordLen).Draw(rt, "from")
		end := rapid.IntRange(from, min(from+batch*fast.stride, len(text)-after-wordLen+1)).Draw(rt, "end")
		var probed, slowly, left, slower places
		n, next := fast.probe(text, from, end, &probed)
		m, stop := loops.probe(text, from, end, &slowly)
		if next != stop || !slices.Equal(probed[:n], slowly[:m]) {
			rt.Fatalf("stride %d from %d to %d: %v until %d, not %v until %d", fast.stride, from, end, probed[:n], next, slowly[:m], stop)
		}
		k, l := fast.sift(text, &probed, &left, n), loops.sift(text, &probed, &slower, n)
		if !slices.Equal(left[:k], slower[:l]) {
			rt.Fatalf("stride %d: of %v are left %v, not %v", fast.stride, probed[:n], left[:k], slower[:l])
		}
	})
}

// BenchmarkLoops are the loops with several places at once and without: how often they find
// anything does not matter to them.
func BenchmarkLoops(b *testing.B) {
	r := newRarity(builtinSample())
	rnd := rand.New(rand.NewPCG(1, 2))
	var want []wanted
	for i := range 4000 {
		lit := make([]byte, goodLiteral+rnd.IntN(12))
		for n := range lit {
			lit[n] = byte('a' + rnd.IntN(26))
		}
		want = append(want, wanted{string(lit), int32(i)})
	}
	fast, _ := filterFor(want, nil, r)
	text := builtinSample()[:maxPiece]
	for _, try := range []struct {
		name string
		f    *filter
	}{{"vectors", fast}, {"loops", slow(fast)}} {
		b.Run(try.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var probed, left places
			for b.Loop() {
				for i := before + wordLen; i < len(text)-batch*maxStride; {
					var n int
					n, i = try.f.probe(text, i, i+batch*try.f.stride, &probed)
					try.f.sift(text, &probed, &left, n)
				}
			}
		})
	}
}
