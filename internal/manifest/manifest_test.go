package manifest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestYAMLList(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"packages:\n  - a/*\n  - 'b' # c\n\n  - \"!d\"\ncatalog:\n  x: 1\n": "[a/* b !d]",
		"packages:\n- a\n- b\nother:\n- c":                                  "[a b]",
		"packages: [a, 'b/*']":                                              "[a b/*]",
		"\"packages\":\n  - a":                                              "[a]",
		"packages: # c\n  - a":                                              "[a]",
		"packages: &x\n  - a":                                               "[&x ** a]",
		"packages:\n  ? a":                                                  "[**]",
		"other: 1":                                                          "[]",
	} {
		if got := fmt.Sprint(YAMLList([]byte(in), "packages")); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestPackageJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\xef\xbb\xbf{\"name\": \"a\", \"Name\": \"b\"}":                                         "a    map[] [] false",
		`{"version": "1", "main": "m.js", "packageManager": "yarn@4", "scripts": {"t": "x"}}`:    " 1 m.js yarn@4 map[t:x] [] false",
		`{"name": 5, "scripts": {"a": {}, "b": "c"}, "dependencies": {"d": 1}}`:                  "    map[a: b:c] [] true",
		`{"workspaces": ["a/*"], "devDependencies": {"d": "1"}}`:                                 "    map[] [a/*] true",
		`{"workspaces": {"packages": ["b"], "Packages": ["c"]}, "peerDependencies": {"d": "1"}}`: "    map[] [b] true",
		`{"optionalDependencies": {"d": "1"}, "dependencies": null}`:                             "    map[] [] true",
		`null`: "no", `[]`: "no", `{"a":`: "no", ``: "no",
	} {
		p, ok := PackageJSON([]byte(in))
		got := fmt.Sprint(p.Name, " ", p.Version, " ", p.Main, " ", p.Manager, " ", p.Scripts, " ", p.Workspaces, " ", p.Declares("d"))
		if !ok {
			got = "no"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestGoMod(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"module a // b\n\ngo 1.26\n":                             "[{module [a]} {go [1.26]}]",
		"require (\n\tx.y/z v1 // indirect\n\n)\nreplace a => b": "[{require [x.y/z v1]} {replace [a => b]}]",
		"use(\n./a\n)\ntool x":                                   "[{use [./a]} {tool [x]}]",
		"replace ( // why\n(\n":                                  "[{replace [(]}]",
		")\n//go:x":                                              "[{) []}]",
	} {
		if got := fmt.Sprint(GoMod([]byte(in))); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	const in = "a==1 \\\n  --hash=x # why\n# no\n\n-r b.txt\r\nc # d\n e#f\n"
	if got := fmt.Sprintf("%q", Requirements([]byte(in))); got != `["a==1    --hash=x" "-r b.txt" "c" "e#f"]` {
		t.Errorf("got %s", got)
	}
	for in, want := range map[string]string{"A_b": "a-b", "a.-_b": "a-b", "Flask": "flask", "": ""} {
		if got := PythonName(in); got != want {
			t.Errorf("%s: got %s", in, got)
		}
	}
}

func TestCargo(t *testing.T) {
	t.Parallel()
	const in = "[package]\nname = 'x'\n[dependencies]\na = '1'\n\"b\" = {version = '1', package = 'real'}\nc.workspace = true\n" +
		"[dev-dependencies.d]\nversion = '1'\npackage = 'other'\n[target.'cfg(unix)'.build-dependencies]\ne = '1'\n[workspace.dependencies]\nf = '1'\n"
	got, ok := Cargo([]byte(in))
	if s := fmt.Sprint(got, ok); s != "[{a a false} {b real false} {c c false} {d other false} {e e false} {f f true}] true" {
		t.Errorf("got %s", s)
	}
	if got := fmt.Sprint(CargoLock([]byte("version = 4\n[[package]]\nname = 'a'\n[[package]]\nname = \"b\"\ndependencies = ['c']\n"))); got != "map[a:true b:true]" {
		t.Errorf("got %s", got)
	}
}

// No text makes a reader fail.
func TestReadersTakeAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"'", "\"", "replace (", ")", "\n", "\r\n", "\\\n", "-", "  ",
			"packages:", "[", "]", "{", "}", ":", "#", " #", "dependencies.", "=", "name", "package"}), rapid.StringN(0, 3, -1)))
		text := ""
		for _, w := range words.Draw(t, "words") {
			text += w
		}
		PackageJSON([]byte(text))
		YAMLList([]byte(text), "packages")
		GoMod([]byte(text))
		for _, line := range Requirements([]byte(text)) {
			if line == "" {
				t.Fatal("an empty line")
			}
		}
		Cargo([]byte(text))
		CargoLock([]byte(text))
	})
}
