package edit

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"github.com/superloop/superloop/schemas"
)

// A new value takes the layout of its neighbours, and no comment changes the value that it is about.
func TestInsertKeepsCommentsAndLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, data, pointer string
		where               Place
		text, want          string
	}{
		{"an empty array", `{"a": []}`, "/a", Last, "1", `{"a": [1]}`},
		{"an empty array with a comment", "{\"a\": [ // none\n]}", "/a", First, "1", "{\"a\": [1 // none\n]}"},
		{"an empty object", `{"a": {}}`, "/a", First, `"b": 1`, `{"a": {"b": 1}}`},
		{"first on one line", `{"a": [2, 3]}`, "/a", First, "1", `{"a": [1, 2, 3]}`},
		{"last on one line", `{"a": [2, 3 ]}`, "/a", Last, "4", `{"a": [2, 3, 4 ]}`},
		{"last behind a comma", `{"a": [2, 3,]}`, "/a", Last, "4", `{"a": [2, 3, 4,]}`},
		{"first on lines", "{\"a\": [\n  // two\n  2,\n  3\n]}", "/a", First, "1", "{\"a\": [\n  // two\n  1,\n  2,\n  3\n]}"},
		{"last on lines", "{\"a\": [\n\t2,\n\t3\n]}", "/a", Last, "4", "{\"a\": [\n\t2,\n\t3,\n\t4\n]}"},
		{"last behind a comment", "{\"a\": [\n  2 // two\n  // end\n]}", "/a", Last, "4", "{\"a\": [\n  2, // two\n  // end\n  4\n]}"},
		{"last behind a comma and a comment", "{\"a\": [\n  2, /* two */ // 2\n]}", "/a", Last, "4", "{\"a\": [\n  2, /* two */ // 2\n  4,\n]}"},
		{"last behind a comment on one line", "{\"a\": [2 // two\n]}", "/a", Last, "4", "{\"a\": [2, // two\n4\n]}"},
		{"the whole file", "{\n  \"b\": 1 } // end", "", Last, `"c": 2`, "{\n  \"b\": 1,\n  \"c\": 2 } // end"},
	} {
		got, err := Insert([]byte(c.data), c.pointer, c.where, c.text)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", c.name, err, got, c.want)
		}
	}
}

// Insert refuses what is not there, and what would be no configuration.
func TestInsertRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{{`{"a": 1`, "/a", "1"}, {`{"a": 1}`, "/a", "1"}, {`{"a": []}`, "/b", "1"}, {`{"a": []}`, "/a", "1, /* no end"}, {`{"a": {}}`, "/a", "1"}} {
		if got, err := Insert([]byte(c[0]), c[1], Last, c[2]); err == nil {
			t.Errorf("%v gave %s", c, got)
		}
	}
}

// Set replaces a value and nothing around it, or adds the member.
func TestSet(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]string{
		{`{"a": /* c */ 1, "b": 2}`, "", "a", `{"a": /* c */ 9, "b": 2}`}, {`{"a": {"b~/": [1]}}`, "/a", "b~/", `{"a": {"b~/": 9}}`},
		{`{"a": {}}`, "/a", "ä\"", `{"a": {"ä\"": 9}}`}, {"{\n \"a\": 1 // one\n}", "", "b", "{\n \"a\": 1, // one\n \"b\": 9\n}"},
	} {
		if got, err := Set([]byte(c[0]), c[1], c[2], "9"); err != nil || string(got) != c[3] {
			t.Errorf("%s: %v\n%s\nwant:\n%s", c[0], err, got, c[3])
		}
	}
}

func TestIndent(t *testing.T) {
	t.Parallel()
	for data, want := range map[string][2]string{
		`{"loops": [{"id": "a"}]}`:                   {"", ""},
		"{\n  \"loops\": [\n    {\"id\": 1}\n  ]\n}": {"    ", "  "},
		"{\n\t\"loops\": [\n\t\t{\"id\": 1}\n\t]\n}": {"\t\t", "\t"},
		"{\n  \"loops\": [{\n    \"id\": 1\n  }]\n}": {"", ""},
	} {
		if before, level := Indent([]byte(data), "/loops"); before != want[0] || level != want[1] {
			t.Errorf("%q: %q, %q", data, before, level)
		}
	}
}

// Whatever the layout, nothing but the new value is in the result, and every comment is.
func TestInsertAddsOneValue(t *testing.T) {
	t.Parallel()
	extra := rapid.SampledFrom([]string{"", " ", "\n  ", "/* c */", " // d\n", "\n // e\n\n  // f\n "})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("[" + extra.Draw(t, "open"))
		n := rapid.IntRange(0, 3).Draw(t, "n")
		for i := range n {
			if i > 0 {
				b.WriteString("," + extra.Draw(t, "comma"))
			}
			b.WriteString("1" + extra.Draw(t, "behind"))
		}
		if n > 0 && rapid.Bool().Draw(t, "trailing") {
			b.WriteString("," + extra.Draw(t, "end"))
		}
		b.WriteString("]")
		where := Place(rapid.Bool().Draw(t, "where"))
		got, err := Insert([]byte(b.String()), "", where, "2")
		if err != nil {
			t.Fatal(err)
		}
		plain, err := hujson.Minimize(append(got, '\n'))
		if err != nil {
			t.Fatal(err)
		}
		var list []int
		if err := json.Unmarshal(plain, &list); err != nil {
			t.Fatal(err)
		}
		at := 0
		if where == Last {
			at = n
		}
		if len(list) != n+1 || list[at] != 2 {
			t.Fatalf("%q became %q", b.String(), got)
		}
		for _, c := range []string{"/* c */", "// d\n", "// e\n", "// f\n"} {
			if strings.Count(b.String(), c) != strings.Count(string(got), c) {
				t.Fatalf("%q became %q", b.String(), got)
			}
		}
		if _, problems := schemas.Parse(schemas.Config, got); len(problems) > 0 {
			t.Fatal(problems)
		}
	})
}

// FuzzInsert: whatever the file, the result can be read and holds one value more, or there is an error.
func FuzzInsert(f *testing.F) {
	f.Add([]byte("{\"loops\": [ // c\n {\"id\": 1}, /* d */ ] }"), true)
	f.Add([]byte("{\"loops\": [\n]}//"), false)
	f.Fuzz(func(t *testing.T, data []byte, last bool) {
		was := count(data)
		got, err := Insert(data, "/loops", Place(last), `{"id": "new"}`)
		if err != nil {
			return
		}
		if now := count(got); now != was+1 {
			t.Fatalf("%d values became %d: %q", was, now, got)
		}
	})
}

func count(data []byte) (n int) {
	doc, _ := schemas.Parse(schemas.Config, data)
	for doc != nil {
		if doc.Raw("/loops/"+strconv.Itoa(n), nil) == nil {
			return n
		}
		n++
	}
	return -1
}
