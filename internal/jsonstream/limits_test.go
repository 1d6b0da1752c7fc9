package jsonstream

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// repeated writes begin, n bytes of unit over and over, and end, in pieces.
func repeated(r *Reader, begin, unit string, n int, end string) {
	piece := []byte(strings.Repeat(unit, 1+(64<<10)/len(unit)))
	r.Write([]byte(begin))
	for ; n > 0; n -= len(piece) {
		r.Write(piece[:len(piece)/2+1]) // within a token
		r.Write(piece[len(piece)/2+1:])
	}
	r.Write([]byte(end))
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory: a line of 64 MB (4 MB where that is enough) costs less than 1 MB,
// wherever its length is. Not parallel: it measures the whole process.
func TestMemory(t *testing.T) {
	shape := MustShape(Want{Path: ""}, Want{Path: "a"}, Want{Path: "a.*"}, Want{Path: "a.*.*.b"}, Want{Path: "*"}, Want{Path: "*.b.c"}, Want{Path: "z"})
	piece := strings.Repeat("0123456789abcde ", 64)
	for name, c := range map[string]struct{ begin, unit, end string }{
		"wanted string":     {`{"a":"`, piece, `","z":1}`},
		"with escapes":      {`{"a":"`, `\n\t\"\u00e9\ud83d\ude00 x`, `","z":1}`},
		"lone surrogates":   {`{"a":"`, `\ud800`, `","z":1}`},
		"not valid UTF-8":   {`{"a":"`, "\xe2\x82\xff", `","z":1}`},
		"unwanted string":   {`{"x":{"y":"`, piece, `"},"z":1}`},
		"key":               {`{"`, piece, `":0,"z":1}`},
		"unwanted key":      {`{"x":{"y":{"`, piece, `":0}},"z":1}`},
		"many keys":         {`{"x":0`, `,"a":{"b":"c"},"k":1.5,"x":{"b":{"c":[1]}}`, `,"z":1}`},
		"many elements":     {`{"a":[0`, `,{"b":"c"},[{"b":"text"}],"e"`, `],"z":1}`},
		"number":            {`{"a":`, "1234567890", `,"z":1}`},
		"white space":       {`{"a":`, "\t ", `0,"z":1}`},
		"blank":             {``, "\t ", `{"z":1}`},
		"no JSON":           {`error: `, piece, `end`},
		"NUL bytes":         {``, "\x00", ``},
		"brackets":          {``, "[", ``},
		"nested subtrees":   {`{"a":[`, `[{"b":[1]}],`, `[]],"z":1}`},
		"quotes":            {``, `"`, ``},
		"unfinished string": {`{"a":"`, piece, ``},
	} {
		lines, grown, size := 0, uint64(0), 4<<20
		if strings.HasSuffix(name, "wanted string") {
			size = 64 << 20
		}
		var before uint64
		r := shape.NewReader(func(l *Line) {
			now := heap()
			grown = max(now, before) - before
			lines++
			if n, ok := l.Int(6); ok != strings.HasSuffix(c.end, `"z":1}`) || ok && (n != 1 || l.Kind != Object) {
				t.Errorf("%s: %s, z is %d, %t; head %.40q", name, l.Kind, n, ok, l.Head)
			}
			if l.Bytes < int64(size) || len(l.Head) != maxHead {
				t.Errorf("%s: %d bytes, head of %d", name, l.Bytes, len(l.Head))
			}
		})
		before = heap()
		repeated(r, c.begin, c.unit, size, c.end+"\n")
		if lines != 1 {
			t.Errorf("%s: %d lines", name, lines)
		}
		if grown > 1<<20 {
			t.Errorf("%s: %d bytes more in use at the line's end", name, grown)
		}
		r.each = func(l *Line) {
			if got, want := show(l), "object 18 0=o:{\"a\":1,\"z\":\"next\"} 1=n:1 4[\"a\"]=n:1 4[\"z\"]=s:next 6=s:next"; got != want {
				t.Errorf("%s: then %q, want %q", name, got, want)
			}
		}
		r.Write([]byte(`{"a":1,"z":"next"}`))
		r.Close()
	}
}

// TestNoAllocations: nothing is allocated for a line once lines like it were
// seen. Not parallel: it counts for the whole process.
func TestNoAllocations(t *testing.T) {
	shape := MustShape(append(slices.Clone(agentWants()), Want{Path: "message.usage"}, Want{Path: "message.*"}, Want{Path: "modelUsage.*"}, Want{Path: ""})...)
	result := []byte(`{"type":"result","num_turns":3,"total_cost_usd":1.25,"is_error":false,"modelUsage":{"claude-opus-4.1":{"costUSD":0.5},"x":{"costUSD":1}}}` + "\n")
	for name, stream := range map[string][]byte{
		"claude": claudeStream(300_000), "codex": codexStream(300_000), "tiny": tinyStream(10_000), "result": result,
		"long": longStream("text", 300_000), "nested": nestedStream(100_000), "broken": []byte("Error: none\n{\"type\":\"x\n\x00\n"),
	} {
		cost, kinds := 0.0, 0
		r := shape.NewReader(func(l *Line) {
			switch l.String(0) {
			case "result", "assistant", "user", "item.completed":
				kinds++
			}
			if f, ok := l.Float(5); ok {
				cost += f
			}
			if n, ok := l.Int(9); ok {
				kinds += int(n)
			}
			for v := range l.All(26) {
				kinds += len(v.Keys[0])
			}
		})
		write := func() {
			for p := stream; len(p) > 0; {
				n := min(len(p), 30_000)
				r.Write(p[:n])
				p = p[n:]
			}
		}
		write()
		if n := testing.AllocsPerRun(5, write); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestTooMany(t *testing.T) {
	t.Parallel()
	var got *Line
	shape := MustShape(Want{Path: "*.n"}, Want{Path: "type"}, Want{Path: "*"}, Want{Path: "big.*", Max: 10_000})
	r := shape.NewReader(func(l *Line) {
		got = &Line{Kind: l.Kind, Values: slices.Clone(l.Values), Dropped: l.Dropped}
		for i := range got.Values {
			got.Values[i].Keys = slices.Clone(got.Values[i].Keys)
			got.Values[i].Raw = slices.Clone(got.Values[i].Raw)
		}
	})
	var b strings.Builder
	b.WriteString(`{"k0":{"n":0}`)
	for n := 1; n < 3000; n++ {
		fmt.Fprintf(&b, `,"k%d":{"n":%d}`, n, n)
	}
	b.WriteString(`,"type":"last"}`)
	r.Write([]byte(b.String()))
	r.Close()
	var numbers []int
	for v := range got.All(0) {
		var n int
		if err := json.Unmarshal(v.Raw, &n); err != nil || v.Keys[0] != fmt.Sprint("k", n) {
			t.Fatal(v, err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) != maxValues || numbers[maxValues-2] != maxValues-2 || numbers[maxValues-1] != 2999 {
		t.Errorf("%d values, the last ones are %v", len(numbers), numbers[maxValues-2:])
	}
	if got.Dropped != 3000-maxValues+3001-maxValues || got.String(1) != "last" {
		t.Errorf("%d dropped, type %q", got.Dropped, got.String(1))
	}
	if v, _ := got.Last(2); string(v.Raw) != "last" || v.Keys[0] != "type" {
		t.Errorf("the last of all is %s", v.Raw)
	}
	if at := slices.IndexFunc(got.Values, func(v Value) bool { return v.Want == 2 && v.Keys[0] == "type" }); at != len(got.Values)-1 {
		t.Errorf("it is value %d of %d", at, len(got.Values))
	}

	// Nothing else is out of order.
	r.Write([]byte(`{"k":0` + strings.Repeat(`,"k":1`, maxValues) + `,"type":"end"}` + "\n"))
	if at := slices.IndexFunc(got.Values, func(v Value) bool { return v.Want == 1 }); at != maxValues-1 || got.Values[at+1].Keys[0] != "type" {
		t.Errorf("the type is value %d of %d", at, len(got.Values))
	}

	// The bound of bytes.
	text := strings.Repeat("x", 10_000)
	r.Write([]byte(`{"big":[`))
	for n := range 2000 {
		r.Write(fmt.Appendf(nil, `"%04d%s",`, n, text[4:]))
	}
	r.Write([]byte("0]}\n"))
	total := 0
	for _, v := range got.Values {
		total += len(v.Raw)
	}
	if v, _ := got.Last(3); string(v.Raw) != "0" || v.Keys[0] != "2000" || total > maxKept+len(text) || total < maxKept-len(text) || got.Dropped < 1500 {
		t.Errorf("last %s %q, %d bytes, %d dropped", v.Raw, v.Keys, total, got.Dropped)
	}
}

// TestDepth: 10,000 containers are possible, as in encoding/json.
func TestDepth(t *testing.T) {
	t.Parallel()
	s := MustShape(Want{Path: "*.*"}, Want{Path: "z"})
	for depth := maxDepth - 1; depth <= maxDepth+1; depth++ {
		for _, pair := range []string{"[]", `{"a":}`, `[{"a":}]`} {
			open, end, n := pair[:1], pair[1:], depth
			switch pair {
			case `{"a":}`:
				open, end = `{"a":`, "}"
			case `[{"a":}]`:
				open, end, n = `[{"a":`, "}]", depth/2
			}
			line := strings.Repeat(open, n) + "0" + strings.Repeat(end, n)
			want := "broken"
			if json.Valid([]byte(line)) {
				want = "o" // object or other
			}
			got := read(s, line, "\n{\"z\":1}")
			if len(got) != 2 || !strings.HasPrefix(got[0], want) || got[1] != "object 7 1=n:1" {
				t.Errorf("%d of %s: %.60q, want %s", n, pair, got, want)
			}
		}
	}
}
