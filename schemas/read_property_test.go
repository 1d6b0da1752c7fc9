package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// genJSON draws a JSON text whose objects have no key twice.
func genJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"true", "false", "null", "0", "-0", "300.0", "3e2", "-1.5E-3", "12345678901234567890", "\"\\u00e9\\ud83d\\ude00\\n\\/\""}),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Int32().Draw(t, "n")) }),
		rapid.Custom(func(t *rapid.T) string {
			b, err := json.Marshal(strings.ReplaceAll(rapid.String().Draw(t, "s"), "\x00", ""))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}),
	)
	if depth == 0 {
		return scalar
	}
	space := rapid.SampledFrom([]string{"", " ", "\n", "\t\r\n "})
	return rapid.OneOf(scalar,
		rapid.Custom(func(t *rapid.T) string {
			items := rapid.SliceOfN(genJSON(depth-1), 0, 4).Draw(t, "items")
			return "[" + space.Draw(t, "sp") + strings.Join(items, space.Draw(t, "sp")+","+space.Draw(t, "sp")) + "]"
		}),
		rapid.Custom(func(t *rapid.T) string {
			keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z~/% ä"\\]{1,6}`), 0, 40, rapid.ID[string]).Draw(t, "keys")
			var parts []string
			for _, k := range keys {
				b, err := json.Marshal(k)
				if err != nil {
					t.Fatal(err)
				}
				parts = append(parts, string(b)+space.Draw(t, "sp")+":"+space.Draw(t, "sp")+scalar.Draw(t, "v"))
			}
			if len(parts) > 0 {
				parts[0] = parts[0][:strings.LastIndexByte(parts[0], ':')+1] + genJSON(depth-1).Draw(t, "deep")
			}
			return "{" + strings.Join(parts, ",") + space.Draw(t, "sp") + "}"
		}))
}

// What the strict reader reads is what encoding/json reads, and every value
// stands where it says.
func TestReadAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(genJSON(4).Draw(t, "json"))
		if !json.Valid(src) {
			return // the cut of the first part may fall into a key
		}
		root, notes, ok := scan(src, RootCause)
		if !ok || len(notes) > 0 {
			t.Fatalf("refused %q: %v", src, notes)
		}
		var want any
		dec := json.NewDecoder(bytes.NewReader(src))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if !equalJSON(root.value(), want) {
			t.Fatalf("%q: got %v, want %v", src, root.value(), want)
		}
		var again bytes.Buffer
		root.write(&again, src, nil)
		var got any
		dec = json.NewDecoder(&again)
		dec.UseNumber()
		if err := dec.Decode(&got); err != nil || !equalJSON(got, want) {
			t.Fatalf("%q written again: %v, %v", src, got, err)
		}
		d := &Document{kind: RootCause, src: src, root: root}
		checkPlaces(t, d, &d.root, "")
	})
}

func checkPlaces(t *rapid.T, d *Document, n *node, ptr string) {
	if d.find(ptr) != n {
		t.Fatalf("%q leads elsewhere", ptr)
	}
	line, col, ok := d.Position(ptr)
	lines := strings.SplitAfter(string(d.src), "\n")
	if !ok || line > len(lines) {
		t.Fatalf("%q has no place", ptr)
	}
	off := len(strings.Join(lines[:line-1], ""))
	for range col - 1 {
		_, size := utf8.DecodeRuneInString(string(d.src[off:]))
		off += size
	}
	if off != n.off {
		t.Fatalf("%q stands at %d, not at %d (%d:%d)", ptr, n.off, off, line, col)
	}
	for i := range n.kids {
		token := fmt.Sprint(i)
		if n.kind == '{' {
			token = n.kids[i].key
		}
		checkPlaces(t, d, &n.kids[i], ptr+"/"+escapeToken(token))
	}
}

func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		bn, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := new(big.Rat).SetString(string(a))
		y, _ := new(big.Rat).SetString(string(bn))
		return x != nil && y != nil && x.Cmp(y) == 0
	case []any:
		bs, ok := b.([]any)
		if !ok || len(a) != len(bs) {
			return false
		}
		for i := range a {
			if !equalJSON(a[i], bs[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		bm, ok := b.(map[string]any)
		if !ok || len(a) != len(bm) {
			return false
		}
		for k := range a {
			if v, ok := bm[k]; !ok || !equalJSON(a[k], v) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// An integer in any spelling becomes the plain one, and nothing else changes.
func TestPlainInteger(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,8})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		root, notes, ok := scan([]byte(text), RootCause)
		if !ok || len(notes) > 0 {
			t.Fatalf("refused %s: %v", text, notes)
		}
		want, _ := new(big.Rat).SetString(text)
		got, _ := new(big.Rat).SetString(root.text)
		if got == nil || want.Cmp(got) != 0 {
			t.Fatalf("%s became %s", text, root.text)
		}
		if want.IsInt() && want.Num().IsInt64() && len(want.Num().String()) <= 18 {
			if root.text != want.Num().String() {
				t.Fatalf("%s became %s, not %s", text, root.text, want.Num())
			}
		}
	})
}

// FuzzRead: whatever the bytes, the reader neither panics nor contradicts
// itself, and what it takes is JSON.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"testdata/valid/*.json", "testdata/bad/*.json"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(kindOfFuzz(path)), data)
		}
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		d, ps := Read(Kind(kind), data)
		_, again := Read(Kind(kind), data)
		if !reflect.DeepEqual(ps, again) {
			t.Fatalf("two readings differ:\n%v\n%v", ps, again)
		}
		if !Kind(kind).Known() {
			return
		}
		for _, p := range ps {
			checkProblem(t, p, data)
		}
		if d == nil {
			if len(ps) == 0 {
				t.Fatal("no document and no problem")
			}
			return
		}
		if Kind(kind) == Config {
			sameWithoutComments(t, data)
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("taken, but not JSON: %v", err)
		}
		if _, err := dec.Token(); err != io.EOF {
			t.Fatalf("taken, but data follows: %v", err)
		}
		d.Ignored()
	})
}

func kindOfFuzz(path string) Kind {
	return Kind(strings.SplitN(filepath.Base(path), ".", 2)[0])
}
