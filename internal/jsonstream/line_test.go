package jsonstream

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestAccessors(t *testing.T) {
	t.Parallel()
	shape := MustShape(Want{Path: "v"}, Want{Path: "other"}, Want{Path: "v.*"})
	for in, want := range map[string]struct {
		text    string
		integer int64
		isInt   bool
		float   float64
		isFloat bool
		truth   bool
		isBool  bool
	}{
		`{}`:                          {},
		`{"v":"x"}`:                   {text: "x"},
		`{"v":"12"}`:                  {text: "12"},
		`{"v":12}`:                    {integer: 12, isInt: true, float: 12, isFloat: true},
		`{"v":-9223372036854775808}`:  {integer: math.MinInt64, isInt: true, float: math.MinInt64, isFloat: true},
		`{"v":9223372036854775808}`:   {float: 1 << 63, isFloat: true},
		`{"v":1.5}`:                   {float: 1.5, isFloat: true},
		`{"v":2.0}`:                   {integer: 2, isInt: true, float: 2, isFloat: true},
		`{"v":1e3}`:                   {integer: 1000, isInt: true, float: 1000, isFloat: true},
		`{"v":1e300}`:                 {float: 1e300, isFloat: true},
		`{"v":1e999}`:                 {},
		`{"v":true}`:                  {truth: true, isBool: true},
		`{"v":false}`:                 {isBool: true},
		`{"v":null}`:                  {},
		`{"v":{"v":1}}`:               {},
		`{"v":[1]}`:                   {},
		`{"v":1,"v":"last"}`:          {text: "last"},
		`{"v":"first","v":2}`:         {integer: 2, isInt: true, float: 2, isFloat: true},
		`{"v":3,"v":null}`:            {},
		`{"v":` + zeros(5000) + `}`:   {},
		`{"v":0.` + zeros(3000) + `}`: {float: 0.1, isFloat: true},
	} {
		r := shape.NewReader(func(l *Line) {
			if l.Kind != Object {
				t.Errorf("%.40s is %s", in, l.Kind)
			}
			if got := l.String(0); got != want.text {
				t.Errorf("%.40s: text %q", in, got)
			}
			if n, ok := l.Int(0); n != want.integer || ok != want.isInt {
				t.Errorf("%.40s: integer %d, %t", in, n, ok)
			}
			if f, ok := l.Float(0); ok != want.isFloat || f != want.float && ok {
				t.Errorf("%.40s: float %g, %t", in, f, ok)
			}
			if v, ok := l.Bool(0); v != want.truth || ok != want.isBool {
				t.Errorf("%.40s: bool %t, %t", in, v, ok)
			}
			if v, ok := l.Last(1); ok || l.String(1) != "" {
				t.Errorf("%.40s: other is %v", in, v)
			}
			n := 0
			for range l.All(0) {
				n++
			}
			for range l.All(0) {
				break
			}
			if n != strings.Count(in, `"v":`)-strings.Count(in, `{"v":{`) {
				t.Errorf("%.40s: %d values", in, n)
			}
		})
		r.Write([]byte(in + "\n"))
	}
}

func zeros(n int) string { return "1" + strings.Repeat("0", n) }

// TestStringsMayBeKept: what String and Keys gave stays as it was.
func TestStringsMayBeKept(t *testing.T) {
	t.Parallel()
	var got []string
	r := MustShape(Want{Path: "a"}, Want{Path: "*.*"}).NewReader(func(l *Line) {
		got = append(got, l.String(0))
		for v := range l.All(1) {
			got = append(got, v.Keys...)
		}
	})
	buf := []byte(`{"a":"one","bcd":{"efg":1}}` + "\n")
	r.Write(buf)
	r.Write([]byte(`{"a":"two","xyz":[0,{"uvw":2}]}` + "\n"))
	copy(buf, strings.Repeat("#", len(buf)))
	if want := strings.Fields("one bcd efg two xyz 0 xyz 1"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	var n names
	for i := range 3 * maxNames {
		n.text([]byte(zeros(i % 100)))
		n.text([]byte(strings.Repeat("x", i%100)))
		n.text([]byte{'n', byte(i), byte(i >> 8)})
	}
	if len(n.seen) > maxNames {
		t.Errorf("%d names are kept", len(n.seen))
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, head string }{
		{"text\n", "text"},
		{"text\r\n", "text"},
		{"text\r\r\n", "text\r"},
		{"\r \rx\n", "\r \rx"},
		{"text", "text"},
		{strings.Repeat("x", 4095) + "\r\n", strings.Repeat("x", 4095)},
		{strings.Repeat("x", 4096) + "\r\n", strings.Repeat("x", 4096)},
		{strings.Repeat("x", 4095) + "\ry\n", strings.Repeat("x", 4095) + "\r"},
		{strings.Repeat("x", 5000) + "\n", strings.Repeat("x", 4096)},
	} {
		for _, size := range []int{1, 7, 4096, 10_000} {
			got := []string{}
			r := MustShape().NewReader(func(l *Line) { got = append(got, string(l.Head)) })
			for in := []byte("{}\n" + c.in); len(in) > 0; {
				n := min(len(in), size)
				r.Write(in[:n])
				in = in[n:]
			}
			r.Close()
			if !slices.Equal(got, []string{"{}", c.head}) {
				t.Errorf("%.20q by %d: %.40q", c.in, size, got)
			}
		}
	}
}

// TestClose: a closed reader reads another stream, with a mark of its own.
func TestClose(t *testing.T) {
	t.Parallel()
	n := 0
	r := MustShape(Want{Path: "a"}).NewReader(func(l *Line) {
		n++
		if v, ok := l.Int(0); !ok || v != int64(n) || l.Bytes != 7 {
			t.Errorf("line %d: %s", n, show(l))
		}
	})
	for range 3 {
		r.Write([]byte(bom + `{"a":`))
		r.Write([]byte{byte('1' + n), '}'})
		r.Close()
		r.Close()
	}
	if n != 3 {
		t.Errorf("%d lines", n)
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"": "", "a": "", "*": "", "a.b c.*.\u00e9": "", "\x00": "",
		".": "empty key", "a.": "empty key", ".a": "empty key", "a..b": "empty key",
		"a\xff": "UTF-8", "a.\ufffd": "U+FFFD", strings.Repeat("k", 513): "513 bytes", strings.Repeat("k", 512): "",
		strings.Repeat("a.", 64) + "a": "65 keys", strings.Repeat("a.", 63) + "a": "",
	} {
		_, err := Compile(Want{Path: "x"}, Want{Path: path})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want 1")) {
			t.Errorf("%.20q: %v", path, err)
		}
	}
	if _, err := Compile(Want{Path: "a", Max: -1}); err == nil {
		t.Error("a negative Max is taken")
	}
	var wants []Want
	for i := range 20 {
		wants = append(wants, Want{Path: strings.Repeat("*.", i) + "k" + strings.Repeat(".*", 20-i)})
	}
	if _, err := Compile(wants...); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("2^20 nodes: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("MustShape takes a bad path")
		}
	}()
	MustShape(Want{Path: "a..b"})
}
