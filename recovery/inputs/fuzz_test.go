package inputs

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// FuzzBaseline: bytes with the right digest are a baseline that is written again as it was read, or none.
func FuzzBaseline(f *testing.F) {
	b := newBox(f, project).take(query("npm ci"))
	b.Accepted = []accepted{{"a", "p", "s"}}
	for _, of := range []*Baseline{b, {header: header{Taken: time.Unix(1, 0).UTC()}}} {
		data := of.encode()
		testkit.Seed(f, data[:len(data)-sha256.Size])
	}
	f.Add([]byte(magic + "{\"taken\":\"2026-01-02T03:04:05Z\",\"files\":2}\nfs 9223372036854775807 - a\x00fs 1 - b\x00x"))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		b, ok := testkit.Decoder[*Baseline]{Decode: decode, Encode: func(b *Baseline) ([]byte, error) { return b.encode(), nil }}.Check(t, append(slices.Clone(body), sum[:]...))
		if !ok {
			return
		}
		if !slices.IsSortedFunc(b.files, byPath) || b.Files != len(b.files) {
			t.Fatalf("%d files, not sorted", len(b.files))
		}
		if again := advanced(b, b, b, &doubts{}, true); len(again.files) != len(b.files) {
			t.Fatalf("nothing has changed, and %d files became %d", len(b.files), len(again.files))
		}
		_, _ = b.list(".")
		for _, k := range b.files {
			partsOf(k.path, &k)
		}
	})
}

// FuzzLedger: whatever stands in open.json and doubts.json, damage trusts nothing that was not trusted.
func FuzzLedger(f *testing.F) {
	testkit.Seed(f, []byte(`{"runs":["a/lock"],"trees":[".","loops/x"]}`), []byte(`{"items":{"+0123456789abcdef":true}}`))
	l := Ledger{Disk: durable.OS(), Dir: f.TempDir(), Repo: "/repo"}
	if err := os.Mkdir(l.file(""), 0o700); err != nil {
		f.Fatal(err)
	}
	put := func(t *testing.T, name string, data []byte) {
		if err := os.WriteFile(l.file(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(t *testing.T) (was open) {
		if err := l.with(t.Context(), func(o *open) error { was = *o; return nil }); err != nil {
			t.Fatal(err)
		}
		return was
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		put(t, "open.json", data)
		o := read(t)
		if valid := json.Unmarshal(data, &open{}) == nil; !valid && (len(o.Runs) == 0 || len(o.Trees) == 0) {
			t.Fatalf("damage became %+v", o)
		}
		if err := l.write("open", "open.json", o); err != nil {
			t.Fatal(err)
		}
		if again := read(t); !slices.Equal(again.Runs, o.Runs) || !slices.Equal(again.Trees, o.Trees) {
			t.Fatalf("%+v became %+v", o, again)
		}
		put(t, "doubts.json", data)
		d := l.doubts()
		if d.Items == nil {
			t.Fatalf("%+v", d)
		}
		if !json.Valid(data) && !d.All {
			t.Fatal("damaged doubts are none")
		}
		if err := l.write("doubts", "doubts.json", d); err != nil {
			t.Fatal(err)
		}
		if again := l.doubts(); again.All != d.All || !maps.Equal(again.Items, d.Items) {
			t.Fatalf("%+v became %+v", d, again)
		}
	})
}

// FuzzParts: of any file that steers a program, the parts are the same twice, and their memory is bounded.
func FuzzParts(f *testing.F) {
	var names []string
	for _, program := range table() {
		for _, s := range program.sources {
			if s.parts != nil && !slices.Contains(names, s.pattern) {
				names = append(names, s.pattern)
			}
		}
	}
	slices.Sort(names)
	for i := range names {
		for _, text := range []string{`{"scripts":{"a":"b"},"workspaces":["x"],"packages":{"":{"resolved":"git+ssh://x/y"}}}`, "[tool.x]\na = [\"b\"]\n", "a: &b [c]\nregistry=https://x/y\n",
			"<project><a>b</a><!-- c --></project>", "module x\nreplace a => ./b\n", "[filter \"x\"]\n\tclean = y \\\n z\n"} {
			f.Add(byte(i), []byte(text))
		}
	}
	f.Add(byte(slices.Index(names, "package.json")), []byte(`{"scripts":{"a":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}}`))
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		k := &known{path: names[int(which)%len(names)], kind: regular, content: content{text: text, size: int64(len(text))}, stored: true}
		var parts map[string]string
		var ok bool
		testkit.Memory(t, len(text), func() { parts, ok = partsOf(k.path, k) })
		again, same := partsOf(k.path, k)
		if ok != same || !maps.Equal(parts, again) {
			t.Fatalf("%s: %v, then %v", k.path, parts, again)
		}
		linesOf(k)
	})
}
