package classify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func look(t *testing.T, dir, name string, captures map[string]string) Finding {
	t.Helper()
	return System{}.Probe(context.Background(), name, captures, &Input{Dir: dir})
}

func TestDeclared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, ".git/HEAD", "ref: refs/heads/main\n")
	write(t, dir, "package.json", `{"dependencies":{"express":"^4","@acme/core":"1","broken":"1"},"workspaces":["packages/*"]}`)
	write(t, dir, "packages/web/package.json", `{"name":"@acme/web","devDependencies":{"vite":"5"}}`)
	write(t, dir, "node_modules/express/package.json", `{"name":"express","main":"index.js"}`)
	write(t, dir, "node_modules/express/index.js", "")
	write(t, dir, "node_modules/broken/package.json", `{"name":"broken","main":"dist/index.js"}`)
	write(t, dir, "requirements-dev.txt", "PyYAML>=6 # for config\nscikit_learn==1.4\n-r base.txt\n")
	write(t, dir, "pyproject.toml", "[project]\nname = \"m\"\ndependencies = [\"requests[socks]>=2\", 'Pillow']\n[tool.poetry.dependencies]\npython-dateutil = \"^2\"\n")
	write(t, dir, "go.mod", "module example.com/m\n\nrequire (\n\tgolang.org/x/text v0.21.0\n)\nrequire github.com/a/b v1.0.0 // indirect\n")
	write(t, dir, "Cargo.toml", "[package]\nname = \"m\"\n[dependencies]\nserde_json = \"1\"\n[dev-dependencies.tokio]\nversion = \"1\"\n")
	write(t, dir, "Gemfile", "gem 'sinatra', '~> 3'\n")
	write(t, dir, "composer.json", `{"require":{"ext-intl":"*","monolog/monolog":"^3"}}`)
	deep := filepath.Join(dir, "packages", "web", "src")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		dir, pkg string
		holds    Answer
		value    string
	}{
		{dir, "express", Yes, "installed"},
		{dir, "express/lib/router", Yes, "installed"},
		{dir, "@acme/core/utils", Yes, "missing"},
		{dir, "broken", Yes, "broken"},
		{dir, "vite", Yes, "missing"},
		{dir, "@acme/web", Yes, "missing"},
		{deep, "express", Yes, "installed"},
		{dir, "lodash", No, "undeclared"},
		{dir, "./lib/x", No, "relative"},
		{dir, "yaml", Yes, "missing"},
		{dir, "sklearn.linear_model", Yes, "missing"},
		{dir, "requests", Yes, "missing"},
		{dir, "PIL", Yes, "missing"},
		{dir, "dateutil", Yes, "missing"},
		{dir, "flask", No, "undeclared"},
		{dir, "golang.org/x/text/language", Yes, "missing"},
		{dir, "github.com/a/b", Yes, "missing"},
		{dir, "github.com/a/bc", No, "undeclared"},
		{dir, "serde_json", Yes, "missing"},
		{dir, "tokio", Yes, "missing"},
		{dir, "sinatra", Yes, "missing"},
		{dir, "intl", Yes, "missing"},
		{"", "express", Unknown, ""},
	} {
		f := look(t, tc.dir, ProbeDeclared, map[string]string{"pkg": tc.pkg})
		if f.Holds != tc.holds || f.Value != tc.value {
			t.Errorf("declared(%s) is %s (%s), want %s (%s)", tc.pkg, f.Holds, f.Value, tc.holds, tc.value)
		}
	}
	if f := look(t, t.TempDir(), ProbeDeclared, map[string]string{"pkg": "x"}); f.Holds != Unknown {
		t.Errorf("without a manifest declared is %s, want unknown", f.Holds)
	}
}

// A missing package is the environment's if the project declares it, the code's
// if not, and only a proposal if nobody can look.
// Conforms: 000-3.1-detect, 003-c2.4-fix
func TestDeclaredDecides(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	dir := t.TempDir()
	write(t, dir, "package.json", `{"dependencies":{"express":"^4"}}`)
	text := func(pkg string) string {
		return "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '" + pkg + "'\nRequire stack:\n- /repo/a.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)\n"
	}
	for _, tc := range []struct {
		pkg        string
		probes     Prober
		code, weak bool
	}{
		{"express", System{}, false, false},
		{"lodash", System{}, true, false},
		{"express", nil, false, true},
	} {
		f, err := c.Classify(context.Background(), Input{Command: "node a.js", Dir: dir, Exit: Exit{Code: 1}, Stderr: strings.NewReader(text(tc.pkg)), Probes: tc.probes})
		if err != nil {
			t.Fatal(err)
		}
		if f.Code != tc.code || f.Weak != tc.weak {
			t.Errorf("%s: code %v, weak %v, want %v, %v: %s by %s: %s", tc.pkg, f.Code, f.Weak, tc.code, tc.weak, f.Category, f.Handler, f.Why)
		}
	}
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		text  string
		holds Answer
		value string
	}{
		"crlf.sh":    {"#!/bin/sh\r\necho a\r\n", No, "crlf"},
		"gone.sh":    {"#!/repo/.venv/bin/python3\n", No, "/repo/.venv/bin/python3"},
		"env.sh":     {"#!/usr/bin/env no-such-interpreter\n", No, "no-such-interpreter"},
		"fine.sh":    {"#!/bin/sh\necho a\n", Yes, "/bin/sh"},
		"nothing.sh": {"echo a\n", Unknown, ""},
	} {
		write(t, dir, name, tc.text)
		if f := look(t, dir, ProbeFirstLine, map[string]string{"script": "./" + name}); f.Holds != tc.holds || f.Value != tc.value {
			t.Errorf("%s: %s (%s), want %s (%s)", name, f.Holds, f.Value, tc.holds, tc.value)
		}
	}
}

// Conforms: 000-3.1-detect
func TestSimpleProbes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "bin/tool", "#!/bin/sh\n")
	write(t, dir, "plain", "")
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	s := System{Path: filepath.Join(dir, "bin")}
	in := &Input{Dir: dir}
	for _, tc := range []struct {
		probe, capture, value string
		holds                 Answer
	}{
		{ProbeWhich, "tool", "tool", Yes},
		{ProbeWhich, "tool", "missing-tool", No},
		{ProbeExists, "path", "plain", Yes},
		{ProbeExists, "path", "absent", No},
		{ProbeExists, "path", "dangling", No},
		{ProbeExists, "path", "", Unknown},
		{"no_such_probe", "path", "x", Unknown},
	} {
		if f := s.Probe(context.Background(), tc.probe, map[string]string{tc.capture: tc.value}, in); f.Holds != tc.holds || f.Name != tc.probe {
			t.Errorf("%s(%s) is %s, want %s", tc.probe, tc.value, f.Holds, tc.holds)
		}
	}
}

// Every probe is quick and survives captures that a hostile output made up.
func TestProbesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hostile := []string{"", "\x00", strings.Repeat("../", 500), strings.Repeat("a", 10000), "/dev/zero", "/proc/self/mem", "*[", "99999999999999999999", "-1"}
	for _, name := range []string{ProbeDeclared, ProbeFirstLine, ProbeWritable, ProbeFreeSpace, ProbeLockHolder, ProbePortOwner, ProbeWhich, ProbeService, ProbeExists, ProbeOOM} {
		for _, v := range hostile {
			captures := map[string]string{"pkg": v, "script": v, "path": v, "lock": v, "port": v, "tool": v}
			f := look(t, dir, name, captures)
			if f.Holds != Yes && f.Holds != No && f.Holds != Unknown {
				t.Errorf("%s(%.20q) answers %q", name, v, f.Holds)
			}
		}
	}
}
