package jsonstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const good = `{"a":{"b":[1,"x"]},"type":"good"}`

func garbageShape() *Shape {
	return MustShape(Want{Path: "type"}, Want{Path: "*.*"}, Want{Path: ""}, Want{Path: "a.*", Max: 5}, Want{Path: "*.b"})
}

// check reads any bytes, once whole and once cut, and then a good line.
// Lines are reported for what is not blank, as encoding/json judges them.
func check(stream []byte, cut func(rest int) int) error {
	read := func(cut func(int) int) (lines []string, sum int64) {
		r := garbageShape().NewReader(func(l *Line) {
			lines = append(lines, fmt.Sprintf("%s %q", show(l), l.Head))
			sum += l.Bytes
		})
		for rest := append(bytes.Clone(stream), '\n'); len(rest) > 0; {
			n := cut(len(rest))
			r.Write(rest[:n])
			rest = rest[n:]
		}
		r.each = func(l *Line) {
			if l.Kind != Object || l.String(0) != "good" || l.Bytes != int64(len(good)) || string(l.Head) != good || l.Dropped != 0 {
				lines = append(lines, "good line: "+show(l))
			}
			sum++ // the good lines that were reported
		}
		r.Write([]byte(good + "\n"))
		r.Write([]byte(good))
		r.Close()
		return lines, sum
	}
	var want []string // kind, length and head of each line
	sum := int64(2)
	for line := range bytes.SplitSeq(bytes.TrimPrefix(stream, []byte(bom)), []byte{'\n'}) {
		value := bytes.Trim(line, " \t\r")
		if len(value) == 0 {
			continue
		}
		kind := Broken
		if json.Valid(line) {
			kind = Other
			if value[0] == '{' {
				kind = Object
			}
		}
		head := line[:min(len(line), maxHead)]
		if len(line) <= maxHead {
			head = bytes.TrimSuffix(head, []byte{'\r'})
		}
		want = append(want, fmt.Sprintf("%s %d|%q", kind, len(line), head))
		sum += int64(len(line))
	}
	whole, total := read(func(rest int) int { return rest })
	if len(whole) != len(want) || total != sum {
		return fmt.Errorf("%d lines of %d bytes, want %d of %d: %q", len(whole), total, len(want), sum, whole)
	}
	for i, w := range want {
		begin, end, _ := strings.Cut(w, "|")
		if !strings.HasPrefix(whole[i]+" ", begin+" ") || !strings.HasSuffix(whole[i], " "+end) {
			return fmt.Errorf("line %d is %q, want %q", i, whole[i], w)
		}
	}
	if parts, total := read(cut); !slices.Equal(parts, whole) || total != sum {
		return fmt.Errorf("cut: %q, whole: %q", parts, whole)
	}
	return nil
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	words := []string{"{", "}", "[", "]", ",", ":", `"`, `"a"`, `"b":`, `{"a":{"b":`, `{"a":[`, "\\", `\u`, `\u12`, `\ud800`, "\n", "\n", "\r\n", " ", "\t", "1", "-", "0", "1.", "e", "E+", "true", "tru", "null", "false", "nul", "\x00", "\x01", "\x0b", "\x1f", "\x7f", "\x80", "\xef", bom, "\xe2\x82", "\u2028", "x", strings.Repeat("[", 70), strings.Repeat("long ", 1000)}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 30).Draw(t, "words") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				b.Write(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
			case 1:
				drawJSON(t, &b, 2)
			default:
				b.WriteString(rapid.SampledFrom(words).Draw(t, "word"))
			}
		}
		most := rapid.SampledFrom([]int{1, 3, 20, 5000}).Draw(t, "chunk")
		if err := check([]byte(b.String()), func(rest int) int { return min(rest, rapid.IntRange(0, most).Draw(t, "n")) }); err != nil {
			t.Fatalf("stream %q: %v", b.String(), err)
		}
	})
}

// TestDamaged: one byte of a good line is changed, left out or doubled.
func TestDamaged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		drawJSON(t, &b, 3)
		line := []byte(b.String())
		i := rapid.IntRange(0, len(line)-1).Draw(t, "at")
		line = slices.Replace(line, i, i+1, rapid.SliceOfN(rapid.SampledFrom([]byte("\"\\{}[],:0-.eEtu \n\x00\x1f\x80x")), 0, 2).Draw(t, "by")...)
		if err := check(line, func(rest int) int { return min(rest, rapid.IntRange(1, 9).Draw(t, "n")) }); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
	})
}

// FuzzReader: the first byte says how the stream is cut.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		`{"type":"assistant","message":{"content":[{"type":"text","text":"a \"b\"\n\u00e9\ud83d\ude00"}],"usage":{"input_tokens":3}}}`,
		"\xef\xbb\xbf" + good + "\r\n" + good,
		"{\"a\":\"x\n" + good + "\n\n\x00\n[1,2.5e-3,true,null,\"\\uD800\"]",
		`{"a":{"b":"\q"}}`, `[[[[]]]`, `{"a":1,}`, `01`, `-`, "\"\\u12\n", "Error: no key", strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		for _, cut := range []byte{1, 2, 7, 255} {
			f.Add(append([]byte{cut}, seed...))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		n := 1 + int(in[0])
		if err := check(in[1:], func(rest int) int { return min(rest, n) }); err != nil {
			t.Error(err)
		}
	})
}
