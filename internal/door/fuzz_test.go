package door

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzShallow: JSON is shallow exactly if no value of it is nested deeper than MaxDepth, and ReadJSON lets nothing else
// through.
func FuzzShallow(f *testing.F) {
	testkit.Seed(f, []byte(`{"a":["\"[[[\\",{"b":1}]}`), []byte(strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth)), []byte(strings.Repeat(`{"a":[`, MaxDepth)))
	f.Add([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)))
	write := testkit.File(f, "x.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) {
			depth, deepest := 0, 0
			d := json.NewDecoder(bytes.NewReader(data))
			for d.UseNumber(); ; {
				token, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				switch token {
				case json.Delim('{'), json.Delim('['):
					depth++
				case json.Delim('}'), json.Delim(']'):
					depth--
				}
				deepest = max(deepest, depth)
			}
			if Shallow(data) != (deepest <= MaxDepth) {
				t.Fatalf("nested %d deep, and shallow: %v", deepest, Shallow(data))
			}
		}
		got, err := ReadJSON(write(data), 4<<10)
		if ok := len(data) <= 4<<10 && Shallow(data); ok != (err == nil) || ok && !bytes.Equal(got, data) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
	})
}

// FuzzEnds: whatever a file holds, its ends are in the text, and the text is bounded.
func FuzzEnds(f *testing.F) {
	testkit.Seed(f, []byte("first\nsecond\nthird\n"), bytes.Repeat([]byte("\xff\u00e9"), 500))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "x")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		text, size, err := Ends(path, 10, 20)
		if err != nil || size != int64(len(data)) || len(text) > 10+20+60 || len(data) <= 30 && text != string(data) ||
			!strings.HasPrefix(text, string(data[:min(len(data), 10)])) || !strings.HasSuffix(text, string(data[max(0, len(data)-20):])) {
			t.Fatalf("%q of %q: %v", text, data, err)
		}
	})
}
