package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAppendLineExactly(t *testing.T) {
	prev := strings.Repeat("0a", 32)
	for _, tt := range []struct {
		name, want string
		ev         Event
	}{
		{"no fields", `{"seq":1,"timestamp":"2026-11-21T04:05:06.789Z","event":"loop_start","loop_id":"","run_id":"","iteration":0,"prev":""`,
			Event{Seq: 1, Timestamp: day, Event: "loop_start"}},
		{"empty fields", `{"seq":1,"timestamp":"2026-11-21T04:05:06.789Z","event":"loop_start","loop_id":"","run_id":"","iteration":0,"prev":""`,
			Event{Seq: 1, Timestamp: day, Event: "loop_start", Fields: json.RawMessage(" { } ")}},
		{"time zone and nanoseconds", `{"seq":12,"timestamp":"2026-11-21T02:05:06.789Z","event":"e","loop_id":"l","run_id":"r","iteration":7,"a":1,"prev":"` + prev + `"`,
			Event{Seq: 12, Timestamp: time.Date(2026, 11, 21, 4, 5, 6, 789_999_999, time.FixedZone("x", 7200)), Event: "e", LoopID: "l", RunID: "r", Iteration: 7, Fields: json.RawMessage(`{"a":1}`), Prev: prev, Hash: "ignored"}},
		{"escapes", `{"seq":1,"timestamp":"2026-11-21T04:05:06.789Z","event":"a\"b\\c\n\r\t\u0000\u001f` + "\x7f" + `<&>é","loop_id":"` + "\uFFFD\uFFFDx\u2028" + `","run_id":"","iteration":0,"prev":""`,
			Event{Seq: 1, Timestamp: day, Event: "a\"b\\c\n\r\t\x00\x1f\x7f<&>é", LoopID: "\xff\xc3x\u2028"}},
		{"spread fields", `{"seq":1,"timestamp":"2026-11-21T04:05:06.789Z","event":"e","loop_id":"","run_id":"","iteration":0,"a":[1,{"seq":" } \" ,"}],"b":"` + "\uFFFD" + `","prev":""`,
			Event{Seq: 1, Timestamp: day, Event: "e", Fields: json.RawMessage("{\n \"a\" : [ 1, {\"seq\":\" } \\\" ,\"} ],\r\n\t\"b\":\"\xff\"\n}\n")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendLine([]byte("before\n"), tt.ev)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(tt.want))
			if want := "before\n" + tt.want + `,"hash":"` + hex.EncodeToString(sum[:]) + "\"}\n"; string(got) != want {
				t.Errorf("line is\n%s, want\n%s", got, want)
			}
			if !json.Valid(bytes.TrimPrefix(got, []byte("before\n"))) || !utf8.Valid(got) {
				t.Error("the line is not JSON in UTF-8")
			}
		})
	}
}

func TestAppendLineRefuses(t *testing.T) {
	good := Event{Seq: 1, Timestamp: day, Event: "e"}
	with := func(change func(ev *Event)) Event { ev := good; change(&ev); return ev }
	cases := map[string]Event{
		"no name":            with(func(ev *Event) { ev.Event = "" }),
		"no time":            with(func(ev *Event) { ev.Timestamp = time.Time{} }),
		"year 10000":         with(func(ev *Event) { ev.Timestamp = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"seq 0":              with(func(ev *Event) { ev.Seq = 0 }),
		"negative iteration": with(func(ev *Event) { ev.Iteration = -1 }),
		"bad prev":           with(func(ev *Event) { ev.Prev = "abc" }),
		"too long":           with(func(ev *Event) { ev.LoopID = strings.Repeat("x", MaxLine) }),
	}
	for _, f := range []string{`null`, `1`, `[]`, `"x"`, `{`, `{}{}`, `{"a":1,}`, `{"a":01}`, ` `, "{\"a\":\"\n\"}",
		`{"seq":1}`, `{"a":{},"hash":"x"}`, `{"Prev":1}`, `{"LOOP_ID":1}`, `{"\u0073eq":1}`, `{"ha\u0073h":1}`, `{"ſeq":1}`,
		`{"timestamp":1}`, `{"event":1}`, `{"run_id":1}`, `{"iteration":1}`} {
		cases["fields "+f] = with(func(ev *Event) { ev.Fields = json.RawMessage(f) })
	}
	for name, ev := range cases {
		if got, err := AppendLine([]byte("dst"), ev); err == nil || string(got) != "dst" {
			t.Errorf("%s: taken, or dst changed: %.80q, %v", name, got, err)
		}
	}
	for _, f := range []string{`{"seqq":1}`, `{"a":{"seq":1}}`, `{"a":"seq"}`, `{"":1}`, `{"a":[{"hash":1}]}`, `{"prev ":1}`} {
		if _, err := AppendLine(nil, with(func(ev *Event) { ev.Fields = json.RawMessage(f) })); err != nil {
			t.Errorf("fields %s: %v", f, err)
		}
	}
}

func TestAppendLineDoesNotAllocate(t *testing.T) {
	ev := event(3)
	ev.Seq, ev.Prev = 3, strings.Repeat("0", 64)
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := AppendLine(buf, ev); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
}

// anyText has what text must survive: quotes, escapes, control characters, bytes
// that are not UTF-8, text that looks like the format.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{`","event":"`, `,"hash":"`, `"}`, "\\", "\n", "\u2028", `,"prev":"","hash":"`, "\xed\xa0\x80"}),
	)
}

func anyEvent(rt *rapid.T) Event {
	ev := Event{
		Timestamp: time.Unix(rapid.Int64Range(-60_000_000_000, 250_000_000_000).Draw(rt, "sec"), rapid.Int64Range(0, 999_999_999).Draw(rt, "nsec")),
		Event:     anyText().Filter(func(s string) bool { return s != "" }).Draw(rt, "event"),
		LoopID:    anyText().Draw(rt, "loop"),
		RunID:     anyText().Draw(rt, "run"),
		Iteration: rapid.IntRange(0, 1<<31-1).Draw(rt, "iteration"),
	}
	own := rapid.MapOfN(anyText().Filter(func(s string) bool { return checkName([]byte(`"`+string(appendText(nil, s))+`"`)) == nil }),
		rapid.OneOf(
			rapid.Map(anyText(), func(s string) any { return s }),
			rapid.Map(rapid.Int64(), func(i int64) any { return i }),
			rapid.Map(rapid.SliceOfN(anyText(), 0, 3), func(s []string) any { return s }),
			rapid.Map(rapid.MapOfN(anyText(), rapid.Bool(), 0, 3), func(m map[string]bool) any { return m }),
		), 0, 4).Draw(rt, "own")
	if rapid.Bool().Draw(rt, "has own") {
		var err error
		if rapid.Bool().Draw(rt, "indented") {
			ev.Fields, err = json.MarshalIndent(own, " ", "\t")
		} else {
			ev.Fields, err = json.Marshal(own)
		}
		if err != nil {
			rt.Fatal(err)
		}
	}
	return ev
}

// TestRoundTrip: what is appended is read back, by this package and by any JSON
// decoder, and a line that is read is written again as the same bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ev := anyEvent(rt)
		ev.Seq = rapid.Int64Range(1, 1<<62).Draw(rt, "seq")
		if rapid.Bool().Draw(rt, "has prev") {
			ev.Prev = fmt.Sprintf("%x", sha256.Sum256([]byte(ev.Event)))
		}
		line, err := AppendLine(nil, ev)
		if err != nil {
			rt.Fatal(err)
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 || !json.Valid(line) || !utf8.Valid(line) {
			rt.Fatalf("not one line of JSON: %q", line)
		}
		var h header
		if why := h.parse(line[:len(line)-1]); why != "" {
			rt.Fatalf("%s: %s", why, line)
		}
		if !h.hashMatches() {
			rt.Fatalf("hash of %s", line)
		}
		got := h.decode()
		want := ev
		want.settle(place{seq: ev.Seq, hash: lineHash(line)}, ev.Prev)
		want.Fields, got.Fields = sameObject(rt, want.Fields), sameObject(rt, got.Fields)
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("read %+v, wrote %+v", got, want)
		}
		again, err := AppendLine(nil, h.decode())
		if err != nil || !bytes.Equal(again, line) {
			rt.Fatalf("written again it is\n%s, was\n%s (%v)", again, line, err)
		}
		var flat map[string]any
		if err := json.Unmarshal(line, &flat); err != nil || flat["event"] != want.Event || flat["loop_id"] != want.LoopID ||
			flat["hash"] != want.Hash || flat["timestamp"] != want.Timestamp.Format(timeLayout) {
			rt.Fatalf("a JSON decoder gets %v (%v)", flat, err)
		}
	})
}

// sameObject normalises an object, so that two can be compared.
func sameObject(rt *rapid.T, raw json.RawMessage) json.RawMessage {
	m := map[string]any{}
	if raw != nil {
		if err := json.Unmarshal(raw, &m); err != nil {
			rt.Fatalf("%s: %v", raw, err)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		rt.Fatal(err)
	}
	return b
}

// TestOwnFieldsAreOnTop is what `jq 'select(.event=="recovery_executed")|.exit_code'`
// rests on; the order of the keys is what a fast reader rests on.
// Conforms: 004-5-proposed
func TestOwnFieldsAreOnTop(t *testing.T) {
	line, err := AppendLine(nil, Event{Seq: 1, Timestamp: day, Event: "recovery_executed", LoopID: "l",
		Fields: json.RawMessage(`{"z":true,"exit_code":3,"a":{"b":[1]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	var row struct {
		Event    string
		ExitCode int `json:"exit_code"`
	}
	if err := json.Unmarshal(line, &row); err != nil || row.Event != "recovery_executed" || row.ExitCode != 3 {
		t.Errorf("%+v, %v", row, err)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	var keys []string
	depth, isKey := 0, false
	for {
		tok, err := dec.Token()
		if err != nil {
			break
		}
		switch tok := tok.(type) {
		case json.Delim:
			if tok == '{' || tok == '[' {
				depth++
			} else {
				depth--
			}
			isKey = depth == 1
		default:
			if isKey {
				keys = append(keys, tok.(string))
			}
			isKey = depth == 1 && !isKey
		}
	}
	want := []string{"seq", "timestamp", "event", "loop_id", "run_id", "iteration", "z", "exit_code", "a", "prev", "hash"}
	if !slices.Equal(keys, want) {
		t.Errorf("keys are %v, want %v", keys, want)
	}
}

func TestIsHash(t *testing.T) {
	for c := range 256 {
		want := strings.IndexByte("0123456789abcdef", byte(c)) >= 0
		for _, at := range []int{0, 31, 63} {
			b := bytes.Repeat([]byte("7"), 64)
			b[at] = byte(c)
			if isHash(b) != want {
				t.Errorf("%q at %d: %v", byte(c), at, !want)
			}
		}
	}
	for _, s := range []string{"", strings.Repeat("0", 63), strings.Repeat("0", 65)} {
		if isHash(s) {
			t.Errorf("%d digits are a hash", len(s))
		}
	}
}
