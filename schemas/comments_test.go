package schemas

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailscale/hujson"
	"pgregory.net/rapid"
)

// A configuration with comments and trailing commas says what it says without them, each value stands where it stood, and
// what one reader refuses the other refuses. The other one is a library that blanks out what is not JSON.
func FuzzComments(f *testing.F) {
	for _, src := range []string{
		"{}", "// only this", "/* ü */ {\"a\": [1, /* two */ 2,], } // end", "{\"a\" /*x*/ : /*y*/ 1 /*z*/ , // w\r\n}", "[,]", "[1,,]", "{,}", "/* /* */ */ 1",
		"{\"//\": \"// a key\", \"u\": \"http://x/*\"}", "[1 / 2]", "[1 /* no end ]", "// a\rb\n1", "// a\u2028 b\n1", "/**/1", "/*/1", "{\"a\":1/**/,/**/}", "1 //\xff\n",
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameWithoutComments(t, data) })
}

func sameWithoutComments(t interface{ Fatalf(string, ...any) }, data []byte) {
	if strings.Count(string(data), "[")+strings.Count(string(data), "{") > MaxDepth {
		return // the library has no bound
	}
	d, notes := syntax(Config, data)
	plain, err := hujson.Standardize(append(bytes.Clone(data), '\n')) // the library wants a new line behind a comment
	if err != nil {
		if d != nil && len(notes) == 0 {
			t.Fatalf("%q is taken, and is none for the library: %v", data, err)
		}
		return
	}
	want, wantNotes, ok := scan(plain, TestStatus)
	if d == nil {
		if ok && notes[0].p.Code != CodeEncoding { // the bytes of a comment must be text, too
			t.Fatalf("%q is refused: %v", data, notes)
		}
		return
	}
	if !ok {
		t.Fatalf("%q is taken, and without comments refused: %v", data, wantNotes)
	}
	if !equalJSON(d.root.value(), want.value()) {
		t.Fatalf("%q: got %v, want %v", data, d.root.value(), want.value())
	}
	samePlaces(t, &d.root, &want)
}

func samePlaces(t interface{ Fatalf(string, ...any) }, a, b *node) {
	if a.off != b.off || a.keyOff != b.keyOff || len(a.kids) != len(b.kids) {
		t.Fatalf("%d/%d with %d kids, and %d/%d with %d", a.off, a.keyOff, len(a.kids), b.off, b.keyOff, len(b.kids))
	}
	for i := range a.kids {
		samePlaces(t, &a.kids[i], &b.kids[i])
	}
}

// Comments may stand wherever white space may.
func TestCommentsMayStandBetweenAnyTwoTokens(t *testing.T) {
	t.Parallel()
	extra := rapid.SampledFrom([]string{"", "/**/", "/* \" */", "// [{\n", "\n//\r\n", "/*\n * ü\n */"})
	rapid.Check(t, func(t *rapid.T) {
		src := genJSON(3).Draw(t, "json")
		if !json.Valid([]byte(src)) {
			return
		}
		var b strings.Builder
		b.WriteString(extra.Draw(t, "before"))
		inside, escaped := false, false
		for i, c := range src {
			b.WriteRune(c)
			switch {
			case inside && escaped:
				escaped = false
			case inside && c == '\\':
				escaped = true
			case c == '"':
				inside = !inside
			}
			if next := i + utf8.RuneLen(c); !inside && (strings.ContainsRune("[]{},:", c) || next < len(src) && strings.ContainsRune("]},:", rune(src[next]))) {
				b.WriteString(extra.Draw(t, "extra"))
			}
		}
		d, notes := syntax(Config, []byte(b.String()))
		want, wantNotes, _ := scan([]byte(src), TestStatus)
		if d == nil || len(notes) != len(wantNotes) || !equalJSON(d.root.value(), want.value()) {
			t.Fatalf("%q: %v", b.String(), notes)
		}
		sameWithoutComments(t, []byte(b.String()))
	})
}

// Only the configuration may have comments: agents write the other files, and other programs read them.
func TestOtherKindsHaveNoComments(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		for _, src := range []string{"/**/ {}", "{} // end", "[1,]"} {
			if d, _ := Parse(kind, []byte(src)); (d != nil) != (kind == Config) {
				t.Errorf("%s: %q is read: %v", kind, src, d != nil)
			}
		}
	}
}

// A comment must end where every editor shows that it ends.
func TestACommentEndsWhereItIsSeenToEnd(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"// a\rb\n{}", "// a\u2028b\n{}", "{} // a\u2029"} {
		if _, problems := Parse(Config, []byte(src)); len(problems) != 1 || problems[0].Code != CodeEncoding {
			t.Errorf("%q: %v", src, problems)
		}
	}
	if _, problems := Parse(Config, []byte("// a\r\n{}\r\n")); len(problems) != 0 {
		t.Error(problems)
	}
}
