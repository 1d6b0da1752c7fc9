package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTOML(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a = 1 # x\n[b.\"c-d\"]\ne='f' \n":                         `a=1; b.c-d.e='f'`,
		"[[x]]\ny = 1\n[[x]]\ny = 2\n":                             `x.y=1; x.y=2`,
		"a = [ 1,\n 2, # z\n ]\nb = { c = \"d\", e.f = [ ] }":      `a=[1, 2]; b={c = "d", e.f = []}`,
		"a = \"\"\"\n[build-system]\nx = 1\n\"\"\"\n[t]\nb = true": "a=\"\"\"\n[build-system]\nx = 1\n\"\"\"; t.b=true",
		"a = '''x'''\nb.c.d = 1979-05-27T07:32:00Z":                `a='''x'''; b.c.d=1979-05-27T07:32:00Z`,
		"a = 1 b = 2":            "no",
		"[a\nb = 1":              "no",
		"a = \"x":                "no",
		"\"b\\u0075ild\" = 1":    "no",
		"a = {\"b\\u0041\" = 1}": "no",
		"[\"b\\u0041\"]\na = 1":  "no",
		"\xef\xbb\xbfa = 1":      "a=1",
		"a = [1 2]":              "no",
		"a =":                    "no",
		" [ build-system ] \n \"build-backend\" = 'x'":               `build-system.build-backend='x'`,
		"build-system = {requires = ['a'], 'build-backend' = \"b\"}": `build-system={requires = ['a'], build-backend = "b"}`,
	} {
		var got []string
		all, ok := TOML([]byte(in))
		for _, s := range all {
			got = append(got, s.Path+"="+s.Value)
		}
		s := strings.Join(got, "; ")
		if !ok {
			s = "no"
		}
		if s != want {
			t.Errorf("%q: got %s, want %s", in, s, want)
		}
	}
}

func TestTOMLStrings(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`a = "x\u0040y"`:                         `[x@y] x@y `,
		`a = 'x\y'`:                              `[x\y] x\y `,
		"a = \"\"\"\nx\ny\"\"\"":                 "[x\ny] x\ny ",
		`a = 5`:                                  `[] 5 `,
		`a = ["x", {package = 'y'}]`:             `[x y] ["x", {package = 'y'}] `,
		`a = {version = "1", package = "real"}`:  `[1 real] {version = "1", package = "real"} real`,
		`a = {b = {package = "x"}, package = 1}`: `[x] {b = {package = "x"}, package = 1} `,
	} {
		all, ok := TOML([]byte(in))
		if !ok || len(all) != 1 {
			t.Errorf("%s: %v, %v", in, all, ok)
			continue
		}
		if got := fmt.Sprint(all[0].Strings, " ", all[0].Plain(), " ", all[0].Field("package")); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// What an agent can write costs no more than its length says.
func TestTOMLIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return "a = " + strings.Repeat("[", n) + strings.Repeat("]", n) }
	keys := &strings.Builder{}
	for n := range 100_000 {
		fmt.Fprintf(keys, "k%d = 1\n", n)
	}
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"deep":                 {nested(maxDepth), true},
		"too deep":             {nested(maxDepth + 1), false},
		"far too deep":         {nested(maxTOML / 2), false},
		"too long":             {"# " + strings.Repeat("x", maxTOML), false},
		"many keys":            {keys.String(), true},
		"many keys, long name": {"[" + strings.Repeat("x", 1000) + "]\n" + keys.String(), false},
		"a key of many names":  {strings.Repeat("a.", maxTOML/2-10) + "a = 1", true},
		"many tables":          {strings.Repeat("[[a]]\n[a.b]\nc = 1\n", maxTOML/20), true},
		"a long array":         {"a = [" + strings.Repeat("1,", maxTOML/2-10) + "]", true},
	} {
		if _, ok := TOML([]byte(c.text)); ok != c.ok {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// No text makes the reader fail, and a value is read as it was written.
func TestTOMLProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		soup := rapid.SliceOf(rapid.SampledFrom([]string{"a", ".", "=", " ", "\n", "[", "]", "{", "}", ",", `"`, "'", "\\", "#", "1", "true", "\r", "\xff", `"""`, "\ufeff"}))
		TOML([]byte(strings.Join(soup.Draw(t, "soup"), "")))
		value := rapid.StringMatching(`[a-z :/@.-]{0,20}`).Draw(t, "value")
		all, ok := TOML(bytes.Join([][]byte{[]byte("[t]\nk ="), []byte(`"` + value + `"`), []byte("# c")}, []byte(" ")))
		if !ok || len(all) != 1 || all[0].Path != "t.k" || all[0].Plain() != value {
			t.Fatalf("%q: %+v, %v", value, all, ok)
		}
	})
}
