package multiscan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scan runs a set over a stream that comes in writes of the given sizes, in
// turn.
func scan(t testing.TB, s *Set, stream string, sizes ...int) ([]found, Stats) {
	t.Helper()
	var out []found
	sc := s.NewScanner(func(h Hit) {
		out = append(out, found{h.Pattern, h.Line, h.Offset, string(h.Text), ints(h.Loc)})
	})
	rest := []byte(stream)
	for n := 0; len(rest) > 0; n++ {
		k := len(rest)
		if len(sizes) > 0 {
			k = min(k, max(1, sizes[n%len(sizes)]))
		}
		p := slices.Clone(rest[:k]) // the scanner must not keep it
		if n, err := sc.Write(p); n != k || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		for i := range p {
			p[i] = '?'
		}
		rest = rest[k:]
	}
	_ = sc.Close()
	return out, sc.Stats()
}

func compile(t testing.TB, exprs ...string) *Set {
	t.Helper()
	s, problems, err := Compile(exprs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Reject {
			t.Fatalf("%q is rejected: %s", exprs[p.Pattern], p.Text)
		}
	}
	return s
}

var chunkings = [][]int{nil, {1}, {3, 1, 7}, {64}, {4096, 5}, {100_000}}

func TestLines(t *testing.T) {
	t.Parallel()
	exprs := []string{
		`(?i)npm (?:ERR!|error) code (?P<code>E[A-Z]+)`,
		`(?i)^error: could not compile (?P<crate>\S+)$`,
		`(?i)ENOSPC`,
		`(?i)\bOOM\b`,
		`^$`,
		`(?i)cannot find module '(?P<pkg>[^']+)'`,
		`größe überschritten`,
		`(?i)SEGMENTATION fault$`,
	}
	s := compile(t, exprs...)
	for name, stream := range map[string]string{
		"plain":           "ok\nnpm ERR! code ERESOLVE\nnpm error code ENOENT and ENOSPC\n\nlast cannot find module 'x'",
		"crlf":            "a\r\n\r\nerror: could not compile foo\r\nsegmentation FAULT\r\n",
		"progress":        "10% npm err\r20% npm error code EA\r100% npm error code EB\r\nx\r\r\r\ny ENOSPC\r",
		"coloured":        "\x1b[31mnpm\x1b[0m \x1b[1;31merror\x1b[m code \x1b]8;;http://x\x1b\\E404\x1b]8;;\x07ENOSPC\x1b(B\nplain ENOSPC\n",
		"open string":     "ENOSPC \x1b]0;title ENOSPC\nENOSPC\n",
		"string ends":     "\x1b]0;a\x1b[31mENOSPC\x1bPx\r ENOSPC\n",
		"broken sequence": "\x1b\x1b[3\x01ENOSPC \x1b\xffENOSPC\x1b",
		"backspace":       "EE\bNOSPC\n\bENOSPX\bC\nmodulé\b\be ENOS\r\bPC\n",
		"binary":          "\x00\x00ENOSPC\x00\n\xff\xfe\xc3ENOSPC\xc3\n",
		"utf-8":           "die größe überschritten\n",
		"empty":           "",
		"one newline":     "\n",
		"short words":     "an oom here\nroom\nOOM",
	} {
		want := naive(exprs, stream)
		for _, sizes := range chunkings {
			got, stats := scan(t, s, stream, sizes...)
			if !slices.Equal(got, want) {
				t.Errorf("%s in writes of %v:\n got %v\nwant %v", name, sizes, got, want)
			}
			if n := int64(strings.Count(strings.TrimSuffix(stream, "\n"), "\n")); len(stream) > 0 && stats.Lines != n+1 || stats.Bytes != int64(len(stream)) || stats.Skipped != 0 {
				t.Errorf("%s: %+v", name, stats)
			}
		}
	}
}

func TestMaxHits(t *testing.T) {
	t.Parallel()
	s := compile(t, `disk quota exceeded (\d+)`, `quota exceeded 70$`)
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "disk quota exceeded %d\n", i)
	}
	got, stats := scan(t, s, b.String())
	// The second pattern matches once; the first is found the last times too.
	if n := len(got); n != MaxHits+1+LastHits || stats.Skipped != 0 {
		t.Fatalf("%d hits, %+v", n, stats)
	}
	if got[MaxHits-1].line != MaxHits || got[MaxHits].pattern != 1 {
		t.Errorf("%v, %v", got[MaxHits-1], got[MaxHits])
	}
	for i, h := range got[MaxHits+1:] {
		if h.pattern != 0 || h.line != int64(100-LastHits+1+i) || h.text != fmt.Sprintf("disk quota exceeded %d", h.line-1) {
			t.Errorf("at the end: %v", h)
		}
	}
}
