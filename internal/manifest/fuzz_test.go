package manifest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzManifests: of any bytes, each reader of this package says the same twice, in memory that its input bounds, and
// names no more than stands there.
func FuzzManifests(f *testing.F) {
	testkit.Seed(f, []byte(`{"name":"a","scripts":{"x":"y"},"workspaces":{"packages":["p/*"]},"dependencies":{"b":"1"}}`),
		[]byte("[package]\nname = \"a\"\n[dependencies]\nb = { package = \"c\", version = \"1\" }\n[[package]]\nname = 'd'\n[target.'cfg(unix)'.dependencies.e]\npackage = \"f\"\n"),
		[]byte("module a\ngo 1.26\nrequire (\n\tb v1 // indirect\n)\nreplace c => ../c\n"), []byte("packages:\n  - 'a/*'\n- b\nonly: [c, \"d\"]\n"), []byte("a==1 \\\n  --hash=x # c\n\n-r b.txt\n"))
	f.Add([]byte("a = " + strings.Repeat("[", 60) + strings.Repeat("]", 60)))
	f.Add([]byte("name = 1\n[[package]]\nname = \"\"\n[[package]]\nname = '''\nx'''\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func() (all []any) {
			pkg, ok := PackageJSON(text)
			crates, fine := Cargo(text)
			settings, good := TOML(text)
			return append(all, pkg, ok, crates, fine, settings, good, CargoLock(text), GoMod(text), YAMLList(text, "packages"), Requirements(text))
		}
		var all []any
		testkit.Memory(t, 10*len(text), func() { all = read() })
		if again := read(); !reflect.DeepEqual(all, again) {
			t.Fatalf("%v\n%v", all, again)
		}
		for _, line := range Requirements(text) {
			if line == "" || strings.Contains(line, "\n") {
				t.Fatalf("%q", line)
			}
		}
		settings, _ := TOML(text)
		for _, s := range settings {
			s.Plain()
		}
	})
}
