package jsonstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// read gives what a reader reports for the chunks, a line each: the kind, the
// length, and the values as want[keys]=type:raw(-cut).
func read(s *Shape, chunks ...string) []string {
	var lines []string
	r := s.NewReader(func(l *Line) { lines = append(lines, show(l)) })
	for _, c := range chunks {
		r.Write([]byte(c))
	}
	r.Close()
	return lines
}

func show(l *Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", l.Kind, l.Bytes)
	if l.Dropped > 0 {
		fmt.Fprintf(&b, " dropped %d", l.Dropped)
	}
	for _, v := range l.Values {
		fmt.Fprintf(&b, " %d", v.Want)
		if v.Keys != nil {
			fmt.Fprintf(&b, "%q", v.Keys)
		}
		fmt.Fprintf(&b, "=%c:%s", v.Type, v.Raw)
		if v.Cut != 0 {
			fmt.Fprintf(&b, "(-%d)", v.Cut)
		}
	}
	return b.String()
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wants []string
		in    string
		out   []string
	}{
		"leaf":              {[]string{"a"}, `{"a":"x","b":1}`, []string{`object 15 0=s:x`}},
		"types":             {[]string{"*"}, `{"a":"x","b":-1.5e+3,"c":true,"d":false,"e":null,"f":{"g":[]},"h":[1, 2]}`, []string{`object 73 0["a"]=s:x 0["b"]=n:-1.5e+3 0["c"]=b:true 0["d"]=b:false 0["e"]=0:null 0["f"]=o:{"g":[]} 0["h"]=a:[1, 2]`}},
		"nested":            {[]string{"a.b.c"}, `{"a":{"x":{"b":{"c":1}},"b":{"c":2},"b":3}}`, []string{`object 43 0=n:2`}},
		"stars":             {[]string{"m.*.t", "m.*.*"}, `{"m":[{"t":"p","u":0},[7,{"t":1}],"q"],"n":[{"t":2}]}`, []string{`object 53 0["0"]=s:p 1["0" "t"]=s:p 1["0" "u"]=n:0 1["1" "0"]=n:7 1["1" "1"]=o:{"t":1}`}},
		"keys with dots":    {[]string{"modelUsage.*.costUSD"}, `{"modelUsage":{"gpt-5.2":{"costUSD":0.5},"a\u002eb\"":{"costUSD":1}}}`, []string{`object 69 0["gpt-5.2"]=n:0.5 0["a.b\""]=n:1`}},
		"overlap":           {[]string{"a.b", "a", "", "*.b"}, `{"a":{"b":1}}`, []string{`object 13 2=o:{"a":{"b":1}} 1=o:{"b":1} 0=n:1 3["a"]=n:1`}},
		"two arrays":        {[]string{"*.*"}, `{"a":[1,2],"b":[3],"c":{"d":4}}`, []string{`object 31 0["a" "0"]=n:1 0["a" "1"]=n:2 0["b" "0"]=n:3 0["c" "d"]=n:4`}},
		"duplicates":        {[]string{"a"}, `{"a":1,"a":"2"}`, []string{`object 15 0=n:1 0=s:2`}},
		"escaped key":       {[]string{"tpe", "b.c"}, `{"t\u0070e":1,"b":{"\u0063":2}}`, []string{`object 31 0=n:1 1=n:2`}},
		"escapes":           {[]string{"a"}, `{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83d\ud83dx\ude00\u0000"}`, []string{"object 67 0=s:\"\\/\b\f\n\r\t\u00e9\U0001f600\ufffd\ufffdx\ufffd\x00"}},
		"bad UTF-8":         {[]string{"a", "*"}, "{\"a\":\"\xff\xe2\x82\",\"\xc3\":\"\xe2\x82\\n\"}", []string{"object 22 0=s:\ufffd\ufffd\ufffd 1[\"a\"]=s:\ufffd\ufffd\ufffd 1[\"\ufffd\"]=s:\ufffd\ufffd\n"}},
		"whole line":        {[]string{""}, ` "x" `, []string{`other 5 0=s:x`}},
		"top-level scalars": {[]string{""}, "1\n-0.1E1\r\ntrue\nnull \nfalse", []string{`other 1 0=n:1`, `other 7 0=n:-0.1E1`, `other 4 0=b:true`, `other 5 0=0:null`, `other 5 0=b:false`}},
		"top-level array":   {[]string{"*.a"}, `[{"a":1},{"a":2}]`, []string{`other 17 0["0"]=n:1 0["1"]=n:2`}},
		"blank lines":       {[]string{"a"}, "\n\r\n \t\n{}\n\n", []string{`object 2`}},
		"byte order mark":   {[]string{"a"}, "\xef\xbb\xbf{\"a\":1}\n\xef\xbb\xbf{\"a\":1}", []string{`object 7 0=n:1`, `broken 10`}},
		"half a mark":       {[]string{"a"}, "\xef\xbb", []string{`broken 2`}},
		"mark alone":        {[]string{"a"}, "\xef\xbb\xbf", nil},
		"NUL bytes":         {[]string{"a"}, "\x00\n{\"a\":\"\x00\"}\n{\"a\":1}\x00\n{\"a\":2}", []string{`broken 1`, `broken 9`, `broken 8 0=n:1`, `object 7 0=n:2`}},
		"CRLF":              {[]string{"a"}, "{\"a\":1}\r\n{\"a\":\"x\r\n{\"a\":3}\r\n", []string{`object 8 0=n:1`, `broken 8`, `object 8 0=n:3`}},
		"broken off":        {[]string{"a", "b"}, `{"a":"x","b":12`, []string{`broken 15 0=s:x`}},
		"number then space": {[]string{"a", "b"}, `{"a":"x","b":12 `, []string{`broken 16 0=s:x 1=n:12`}},
		"no wants":          {nil, `{"a":[{}]}`, []string{`object 10`}},
		"text":              {[]string{"a"}, "Error: {\"a\":1}\nnull!\n", []string{`broken 14`, `broken 5`}},
		"empty":             {[]string{"*"}, `{"":"","a":{}}`, []string{`object 14 0[""]=s: 0["a"]=o:{}`}},
	} {
		wants := make([]Want, len(c.wants))
		for i, path := range c.wants {
			wants[i].Path = path
		}
		s := MustShape(wants...)
		if got := read(s, c.in); !slices.Equal(got, c.out) {
			t.Errorf("%s: got\n%q, want\n%q", name, got, c.out)
		}
		if got := read(s, strings.Split(c.in, "")...); !slices.Equal(got, c.out) {
			t.Errorf("%s, by runes: got\n%q, want\n%q", name, got, c.out)
		}
	}
}

func TestMax(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		max      int
		in, want string
	}{
		{1, `"x"`, "s:x"}, {1, `"xy"`, "s:(-2)"}, {2, `"xy"`, "s:xy"}, {2, `"xyz"`, "s:xz(-1)"}, {3, `"wxyz"`, "s:wz(-2)"},
		{3, "\"\u00e9\u00e9\"", "s:(-4)"}, {4, "\"a\u00e9\u00e9b\"", "s:ab(-4)"}, {5, "\"a\u00e9\u00e9b\"", "s:ab(-4)"},
		{6, "\"a\u00e9\u00e9b\"", "s:a\u00e9\u00e9b"}, {6, `"a\u00e9\u00e9b"`, "s:a\u00e9\u00e9b"},
		{3, `123`, "n:123"}, {3, `1234`, "n:(-4)"}, {4, `true`, "b:true"}, {4, `false`, "b:(-5)"}, {4, `[[]]`, "a:[[]]"}, {4, `{ "a":1}`, "o:(-8)"},
		{0, `"` + strings.Repeat("x", 4096) + `"`, "s:" + strings.Repeat("x", 4096)},
		{0, `"` + strings.Repeat("x", 4096) + `y"`, "s:" + strings.Repeat("x", 4095) + "y(-1)"},
		{0, `[` + strings.Repeat(" ", 4095) + `]`, "a:(-4097)"},
	} {
		s := MustShape(Want{Path: "*", Max: c.max}, Want{Path: "a"})
		in := `{"a":` + c.in + `}`
		for _, chunks := range [][]string{{in}, strings.Split(in, "")} {
			got := read(s, chunks...)
			if want := fmt.Sprintf(`object %d 0["a"]=%s 1=`, len(in), c.want); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("max %d, %.30s: got %.60q, want %.60q", c.max, c.in, got, want)
			}
		}
	}
}

// TestEverySequence reads each line of a few tokens that there is.
func TestEverySequence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tokens []string
		length int
	}{
		{[]string{"{", "}", "[", "]", ",", ":", `"a"`, "1", " "}, 5},
		{[]string{`"`, `\`, "u", "n", "0", "a", "D", "\x1f", "\x80", "/"}, 4},
		{[]string{"-", "+", ".", "e", "E", "0", "12", "]"}, 5},
		{[]string{"[", "]", ",", "true", "false", "nul", "l", "e", "-0", "t"}, 4},
		{[]string{`{"a":`, `{"b":1`, "}", "[", "]", ",", `"`, `\"`, "\r", ":"}, 5},
	} {
		var lines [][]byte
		at := make([]int, c.length)
		for {
			var line []byte
			for _, n := range at {
				line = append(line, c.tokens[n]...)
			}
			if len(bytes.TrimLeft(line, " \r")) > 0 {
				lines = append(lines, line)
			}
			i := 0
			for ; i < len(at) && at[i] == len(c.tokens)-1; i++ {
				at[i] = 0
			}
			if i == len(at) {
				break
			}
			at[i]++
		}
		stream := bytes.Join(lines, []byte{'\n'})
		shape := MustShape(Want{Path: "a"}, Want{Path: "*.b"})
		for _, size := range []int{1, 1 << 16} {
			n := 0
			r := shape.NewReader(func(l *Line) {
				if valid := json.Valid(lines[n]); valid != (l.Kind != Broken) || l.Bytes != int64(len(lines[n])) {
					t.Fatalf("%q by %d: %s", lines[n], size, show(l))
				}
				n++
			})
			for chunk := range slices.Chunk(stream, size) {
				r.Write(chunk)
			}
			r.Close()
			if n != len(lines) {
				t.Errorf("%d of %d lines of %q", n, len(lines), c.tokens)
			}
		}
	}
}
