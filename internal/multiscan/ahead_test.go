package multiscan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fataler is a test, or a check of one.
type fataler interface{ Fatalf(string, ...any) }

// scanAhead runs a set over a stream whose blocks are looked through by several
// goroutines ahead of their turn.
func scanAhead(t fataler, s *Set, stream string, o AheadOptions) ([]found, Stats) {
	const prefix = "not of the stream" // an input may begin anywhere
	var out []found
	sc := s.NewScanner(func(h Hit) {
		out = append(out, found{h.Pattern, h.Line, h.Offset, string(h.Text), ints(h.Loc)})
	})
	a := s.NewAhead(strings.NewReader(prefix+stream), int64(len(prefix)), int64(len(prefix)+len(stream)), o)
	defer a.Close()
	done := 0
	for b := a.Next(context.Background()); b != nil; b = a.Next(context.Background()) {
		size := len(b.Window) - b.Back
		if want := stream[max(0, done-max(1, o.Back)) : done+size]; string(b.Window) != want || size != o.Block {
			t.Fatalf("the block at %d is %q, not %q", done, b.Window, want)
		}
		sc.WriteBlock(b)
		done += size
	}
	if len(stream)-done >= o.Block {
		t.Fatalf("%d bytes of %d were given, in blocks of %d", done, len(stream), o.Block)
	}
	_, _ = sc.Write([]byte(stream[done:]))
	_ = sc.Close()
	return out, sc.Stats()
}

func genAhead(block *rapid.Generator[int]) *rapid.Generator[AheadOptions] {
	return rapid.Custom(func(t *rapid.T) AheadOptions {
		return AheadOptions{Block: block.Draw(t, "block"), Back: rapid.IntRange(0, 40).Draw(t, "back"), Workers: rapid.IntRange(1, 4).Draw(t, "workers")}
	})
}

// sameAhead compares a scan ahead with the scan of the same blocks from the beginning to
// the end, one after the other: hits, their order and place, and all counts.
func sameAhead(t fataler, s *Set, text string, o AheadOptions) []found {
	var want []found
	sc := s.NewScanner(func(h Hit) {
		want = append(want, found{h.Pattern, h.Line, h.Offset, string(h.Text), ints(h.Loc)})
	})
	for rest := text; len(rest) > 0; {
		n := min(len(rest), o.Block)
		_, _ = sc.Write([]byte(rest[:n]))
		rest = rest[n:]
	}
	_ = sc.Close()
	got, stats := scanAhead(t, s, text, o)
	if !slices.Equal(got, want) {
		t.Fatalf("%+v: %d hits, not %d:\n got %.3000v\nwant %.3000v", o, len(got), len(want), got, want)
	}
	if stats != sc.Stats() {
		t.Fatalf("%+v: %+v, not %+v", o, stats, sc.Stats())
	}
	return got
}

// TestAheadLikeStream: for any patterns, any text and any cuts, on one core or on several, what
// is found is the same; without budgets, and with budgets that are soon spent.
func TestAheadLikeStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		exprs := rapid.SliceOfN(genExpr(), 1, 12).Draw(rt, "exprs")
		text := genText().Draw(rt, "text")
		o := genAhead(rapid.OneOf(rapid.IntRange(1, 30), rapid.IntRange(1, 400))).Draw(rt, "ahead")
		s, err := compileFreely(exprs)
		if err != nil {
			rt.Fatal(err)
		}
		sameAhead(rt, s, text, o)
		if got, _ := scanAhead(rt, s, text, o); !slices.Equal(got, naive(exprs, text)) {
			rt.Fatalf("%q: not what the expressions find: %v", exprs, got)
		}
		s.limits = limits{
			pattern: budget{base: rapid.Int64Range(0, 5000).Draw(rt, "each"), rate: 1, most: 1 << 40},
			total:   budget{base: rapid.Int64Range(0, 20_000).Draw(rt, "all"), rate: 2, most: 1 << 40},
			atEnd:   rapid.Int64Range(0, 20_000).Draw(rt, "at the end"), eachEnd: rapid.Int64Range(0, 5000).Draw(rt, "each at the end"),
		}
		sameAhead(rt, s, text, o)
	})
}

// TestAheadLongLines does the same with lines of many windows and of many blocks.
func TestAheadLongLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		exprs := rapid.SliceOfN(genExpr(), 1, 6).Draw(rt, "exprs")
		var b strings.Builder
		for range rapid.IntRange(1, 5).Draw(rt, "pieces") {
			b.WriteString(genText().Draw(rt, "text"))
			fill := rapid.SampledFrom([]string{"-", "ab", "\x1b[31m", "~\b", "progress\r", "aaaaaaaa \x00\r\n", "short\n"}).Draw(rt, "fill")
			b.WriteString(strings.Repeat(fill, rapid.IntRange(0, 100_000).Draw(rt, "times")/len(fill)))
		}
		o := genAhead(rapid.OneOf(rapid.IntRange(1000, 20_000), rapid.IntRange(20_000, 300_000))).Draw(rt, "ahead")
		s, err := compileFreely(exprs)
		if err != nil {
			rt.Fatal(err)
		}
		if !raceEnabled {
			sameAhead(rt, s, b.String(), o)
		}
		s.limits = defaultLimits
		sameAhead(rt, s, b.String(), o)
	})
}

// TestAheadEveryCut: a text in which all that is special stands, cut at each byte.
func TestAheadEveryCut(t *testing.T) {
	t.Parallel()
	s := compile(t, `(?i)ENOSPC`, `(?i)connection refused`, `(?i)disk quota exceeded (\d+)$`, `^x`, `(?i)\bOOM\b`)
	text := "ok\r\nENOSPC\n\n\x1b[31mconnection \x1b[0mrefused\r\n10%\renospc 20%\r30% disk quota exceeded 7\r\n\x00OOM\x00\xff\nEE\bNOSPC\n\x1b]0;t\x07x ENOSPC\nconnection refused"
	want, _ := scan(t, s, text)
	if len(want) < 8 {
		t.Fatalf("only %v is found: this shows little", want)
	}
	for size := 1; size <= len(text)+1; size++ {
		got, stats := scanAhead(t, s, text, AheadOptions{Block: size, Back: 1, Workers: 1 + size%3})
		if !slices.Equal(got, want) || stats.Bytes != int64(len(text)) || stats.Lines != int64(strings.Count(text, "\n"))+1 {
			t.Errorf("in blocks of %d: %+v\n got %v\nwant %v", size, stats, got, want)
		}
	}
}

// TestAheadOfHostileText: a block with more to be tried than is kept is scanned when it is its
// turn, with the same outcome, and the memory stays bounded.
func TestAheadOfHostileText(t *testing.T) {
	t.Parallel()
	var exprs []string
	budgets, lines := []int64{3000, 60_000, defaultLimits.pattern.base}, 22_000
	if raceEnabled {
		budgets, lines = budgets[1:], 5000
	}
	for i := range 300 {
		exprs = append(exprs, fmt.Sprintf("(?i)aaaaaaaa.*b{%d}", i%50+1))
	}
	s := compile(t, exprs...)
	text := strings.Repeat("aaaaaaaa\n", lines) + strings.Repeat("quiet\n", lines) + strings.Repeat("aaaaaaaa "+strings.Repeat("b", 60)+"\n", lines/20)
	// Budgets that are spent within the first lines of a block show what is tried twice.
	for _, each := range budgets {
		s.limits.pattern.base = each
		got := sameAhead(t, s, text, AheadOptions{Block: 90_000, Back: 100, Workers: 3})
		if each > 60_000 && len(got) == 0 {
			t.Errorf("nothing is found: this shows little")
		}
	}
	sc := s.NewScanner(func(Hit) {})
	var l looked
	sc.look([]byte(text), true, &l)
	if !l.full || l.size() > maxLooked {
		t.Errorf("%d bytes were kept, full: %v", l.size(), l.full)
	}
}

// TestAheadMemory: the memory for an input of any size is that of a few blocks.
func TestAheadMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("measures memory")
	}
	s := compile(t, benchPatterns()...)
	log := bytes.Repeat(logOf(passingLog, 1<<20, 5)[:1<<20], 48)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a := s.NewAhead(bytes.NewReader(log), 0, int64(len(log)), AheadOptions{Block: 256 << 10, Back: 32 << 10, Workers: 4})
	sc := s.NewScanner(func(Hit) {})
	for b := a.Next(context.Background()); b != nil; b = a.Next(context.Background()) {
		block := b.Window[b.Back:]
		from := 0
		if b.Back > 0 && b.Window[b.Back-1] != '\n' {
			from = bytes.IndexByte(block, '\n') + 1
		}
		if b.looked.from != from || b.looked.to != bytes.LastIndexByte(block, '\n')+1 {
			t.Fatalf("only %d to %d was looked through ahead", b.looked.from, b.looked.to)
		}
		sc.WriteBlock(b)
	}
	a.Close()
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 16 {
		t.Errorf("%d MiB were allocated for %d MiB of a log", got, len(log)>>20)
	}
	if n := sc.Stats().Bytes; n != int64(len(log)) {
		t.Errorf("%d bytes of %d were scanned", n, len(log))
	}
}

// brokenAt gives an error from a place on, or nothing more.
type brokenAt struct {
	r    io.ReaderAt
	from int64
	err  error
}

func (b brokenAt) ReadAt(p []byte, at int64) (int, error) {
	if n := b.from - at; n < int64(len(p)) {
		read, _ := b.r.ReadAt(p[:max(0, n)], at)
		return read, b.err
	}
	return b.r.ReadAt(p, at)
}

// TestAheadEnds: whatever ends it, Next gives nil, the blocks before are given, in
// order, and Close comes back.
func TestAheadEnds(t *testing.T) {
	t.Parallel()
	s := compile(t, `(?i)ENOSPC`)
	log := []byte(strings.Repeat("a line without anything\n", 4000))
	const block = 1000
	for _, err := range []error{io.EOF, errors.New("input/output error")} {
		a := s.NewAhead(brokenAt{bytes.NewReader(log), 10_500, err}, 0, int64(len(log)), AheadOptions{Block: block, Workers: 4})
		n := 0
		for b := a.Next(t.Context()); b != nil; b = a.Next(t.Context()) {
			if !bytes.Equal(b.Window[b.Back:], log[n*block:(n+1)*block]) {
				t.Errorf("block %d is another", n)
			}
			n++
		}
		if n != 10 || a.Next(t.Context()) != nil {
			t.Errorf("%v: %d blocks, not 10", err, n)
		}
		a.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := s.NewAhead(bytes.NewReader(log), 0, int64(len(log)), AheadOptions{Block: block, Workers: 4})
	for range 3 {
		if a.Next(ctx) == nil {
			t.Error("no block")
		}
	}
	cancel()
	if a.Next(ctx) != nil {
		t.Error("a block after the context was done")
	}
	a.Close()
	a = s.NewAhead(bytes.NewReader(log), 0, block-1, AheadOptions{Block: block})
	if a.Next(t.Context()) != nil {
		t.Error("a block that is not whole")
	}
	a.Close()
}
