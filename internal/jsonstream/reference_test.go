package jsonstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// step is a key or an element's index on the way to a value.
type step struct {
	key     string
	element bool
}

// reference finds the wanted values of a valid line by encoding/json, as show
// shows them. Only those count that are complete in the line's first upto bytes.
type reference struct {
	wants []Want
	line  []byte
	dec   *json.Decoder
	found []expected
	upto  int
}

type expected struct {
	begin int
	text  string
}

func expect(wants []Want, line []byte, upto int) string {
	ref := &reference{wants: wants, line: line, dec: json.NewDecoder(bytes.NewReader(line)), upto: upto}
	ref.dec.UseNumber()
	ref.walk(nil)
	slices.SortStableFunc(ref.found, func(a, b expected) int { return cmp.Compare(a.begin, b.begin) })
	var b strings.Builder
	for _, f := range ref.found {
		b.WriteString(f.text)
	}
	return b.String()
}

func (ref *reference) walk(path []step) {
	begin := int(ref.dec.InputOffset())
	for strings.IndexByte(" \t\r\n,:", ref.line[begin]) >= 0 {
		begin++
	}
	t, err := ref.dec.Token()
	if err != nil {
		panic(err)
	}
	kind, text := byte(0), ""
	must := 0 // bytes that must follow a value to make it complete
	switch t := t.(type) {
	case json.Delim:
		kind = 'o'
		if t == '[' {
			kind = 'a'
		}
		for n := 0; ref.dec.More(); n++ {
			next := step{strconv.Itoa(n), true}
			if kind == 'o' {
				key, err := ref.dec.Token()
				if err != nil {
					panic(err)
				}
				next = step{key.(string), false}
			}
			ref.walk(append(slices.Clip(path), next))
		}
		if _, err := ref.dec.Token(); err != nil {
			panic(err)
		}
	case string:
		kind, text = 's', t
	case json.Number:
		kind, must = 'n', 1
	case bool:
		kind, must = 'b', 1
	case nil:
		kind, must = '0', 1
	}
	end := int(ref.dec.InputOffset())
	if len(path) == 0 {
		must = 0
	}
	if end+must > ref.upto {
		return
	}
	for i, w := range ref.wants {
		keys, ok := agree(w.Path, path)
		if !ok {
			continue
		}
		limit := cmp.Or(w.Max, 4096)
		raw, cut := string(ref.line[begin:end]), 0
		switch {
		case kind == 's':
			raw, cut = shorten(text, limit)
		case len(raw) > limit:
			raw, cut = "", len(raw)
		}
		f := fmt.Sprintf(" %d", i)
		if keys != nil {
			f += fmt.Sprintf("%q", keys)
		}
		f += fmt.Sprintf("=%c:%s", kind, raw)
		if cut > 0 {
			f += fmt.Sprintf("(-%d)", cut)
		}
		ref.found = append(ref.found, expected{begin, f})
	}
}

func agree(want string, path []step) (keys []string, ok bool) {
	var parts []string
	if want != "" {
		parts = strings.Split(want, ".")
	}
	if len(parts) != len(path) {
		return nil, false
	}
	for i, p := range path {
		if parts[i] == "*" {
			keys = append(keys, p.key)
		} else if p.element || parts[i] != p.key {
			return nil, false
		}
	}
	return keys, true
}

func shorten(text string, limit int) (string, int) {
	if len(text) <= limit {
		return text, 0
	}
	head, tail := limit/2, len(text)-limit/2
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + text[tail:], tail - head
}

var (
	keys   = []string{"a", "b", "type", "d.e", "", "*", "0", `\u0061`, `k\"`, "caf\u00e9", "b\xff", `\ud83d\ude00`, "a2345678901234567"}
	pieces = []string{"x", "hello world, a long piece of plain text", `\"`, `\\`, `\n`, `\/`, `\b\f\r\t`, `\u00e9`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `\uDBFF\udfff`, `\uDBFF`, `\ud800`, `\udfff`, `\u0000`, `\uFFFD`, "\u00e9", "\u4e16\u754c", "\U0001f600", "\xff", "\xe2\x82", "\xf0\x9f\x98", "\xc3", "\xed\xa0\x80", "\x7f", " ", "{[,:]}", "//"}
	nums   = []string{"0", "-0", "1", "-12", "3.25", "0.0", "1e5", "1E+5", "-1.5e-300", "12345678901234567890", "0e0"}
	spaces = []string{"", "", "", "", " ", "\t", "\r", "  \t "}
	paths  = []string{"", "a", "b", "type", "*", "*.*", "a.b", "a.*", "*.a", "*.b", "a.b.a", "*.*.*", "a.*.b", "*.type.*", "caf\u00e9", "a2345678901234567", "a.a2345678901234567.*", "0", "*.0"}
)

func drawJSON(t *rapid.T, b *strings.Builder, depth int) {
	one := func(list []string, what string) string { return rapid.SampledFrom(list).Draw(t, what) }
	space := func() { b.WriteString(one(spaces, "space")) }
	str := func(list []string, least, most int) {
		b.WriteByte('"')
		for n := rapid.IntRange(least, most).Draw(t, "pieces"); n > 0; n-- {
			b.WriteString(one(list, "piece"))
		}
		b.WriteByte('"')
	}
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth <= 0 {
		kind %= 4
	}
	space()
	switch {
	case kind < 2:
		str(pieces, 0, rapid.SampledFrom([]int{3, 3, 40}).Draw(t, "long"))
	case kind == 2:
		b.WriteString(one(nums, "number"))
	case kind == 3:
		b.WriteString(one([]string{"true", "false", "null"}, "word"))
	case kind < 8:
		b.WriteByte('{')
		for n := rapid.IntRange(0, 5).Draw(t, "members"); n > 0; n-- {
			space()
			str(keys, 1, rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "keys"))
			space()
			b.WriteByte(':')
			drawJSON(t, b, depth-1)
			if n > 1 {
				b.WriteByte(',')
			}
		}
		space()
		b.WriteByte('}')
	default:
		b.WriteByte('[')
		for n := rapid.IntRange(0, 4).Draw(t, "elements"); n > 0; n-- {
			drawJSON(t, b, depth-1)
			if n > 1 {
				b.WriteByte(',')
			}
		}
		space()
		b.WriteByte(']')
	}
	space()
}

func drawWants(t *rapid.T) []Want {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Want {
		return Want{
			Path: rapid.SampledFrom(paths).Draw(t, "path"),
			Max:  rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 7, 20, 21, 5000}).Draw(t, "max"),
		}
	}), 0, 8).Draw(t, "wants")
}

// feed writes the stream in pieces and gives what was reported.
func feed(t *rapid.T, wants []Want, stream []byte) (lines []string) {
	r := MustShape(wants...).NewReader(func(l *Line) { lines = append(lines, show(l)) })
	most := rapid.SampledFrom([]int{1, 3, 20, 100_000}).Draw(t, "chunk")
	for len(stream) > 0 {
		n := min(len(stream), rapid.IntRange(0, most).Draw(t, "n"))
		chunk := bytes.Clone(stream[:n])
		r.Write(chunk)
		for i := range chunk {
			chunk[i] = '"' // whoever kept a reference sees it
		}
		stream = stream[n:]
	}
	r.Close()
	return lines
}

func TestSameAsEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wants := drawWants(t)
		var stream strings.Builder
		var want []string
		for range rapid.IntRange(1, 12).Draw(t, "lines") {
			var b strings.Builder
			drawJSON(t, &b, rapid.IntRange(0, 5).Draw(t, "depth"))
			line := b.String()
			kind := "other"
			if strings.HasPrefix(strings.TrimLeft(line, " \t\r"), "{") {
				kind = "object"
			}
			want = append(want, fmt.Sprintf("%s %d%s", kind, len(line), expect(wants, []byte(line), len(line))))
			stream.WriteString(line + "\n" + rapid.SampledFrom([]string{"", "\n", " \t\r\n"}).Draw(t, "between"))
		}
		if got := feed(t, wants, []byte(stream.String())); !slices.Equal(got, want) {
			t.Fatalf("stream %q, wants %+v: got\n%q, want\n%q", stream.String(), wants, got, want)
		}
	})
}

// TestBrokenOff: what was complete when a line broke off is reported.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wants := drawWants(t)
		var b strings.Builder
		drawJSON(t, &b, 4)
		line := []byte(b.String())
		n := rapid.IntRange(0, len(line)).Draw(t, "cut")
		part := line[:n]
		if len(bytes.Trim(part, " \t\r")) == 0 || json.Valid(part) {
			return
		}
		rest := rapid.SampledFrom([]string{"", "\n", "\n\n"}).Draw(t, "rest")
		want := fmt.Sprintf("broken %d%s", n, expect(wants, line, n))
		if got := feed(t, wants, []byte(string(part)+rest)); !slices.Equal(got, []string{want}) {
			t.Fatalf("line %q, wants %+v: got\n%q, want\n%q", part, wants, got, want)
		}
	})
}

// TestLongText: a text is cut as if it had been decoded whole.
func TestLongText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 50).Draw(t, "unit")
		line := `{"a":"` + strings.Repeat(strings.Join(unit, ""), rapid.IntRange(1, 500).Draw(t, "times")) + `"}`
		var wants []Want
		for _, limit := range rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 7, 100, 101, 4096, 5000, 20_000, 100_000}), 1, 4).Draw(t, "max") {
			wants = append(wants, Want{Path: "a", Max: limit})
		}
		want := fmt.Sprintf("object %d%s", len(line), expect(wants, []byte(line), len(line)))
		size := rapid.SampledFrom([]int{7, 100, 4096, 1 << 20}).Draw(t, "chunk")
		var got []string
		r := MustShape(wants...).NewReader(func(l *Line) { got = append(got, show(l)) })
		for chunk := range slices.Chunk([]byte(line), size) {
			r.Write(chunk)
		}
		if r.Close(); !slices.Equal(got, []string{want}) {
			t.Fatalf("%q times %d, wants %v, by %d: got\n%.300q, want\n%.300q", unit, len(line), wants, size, got, want)
		}
	})
}
