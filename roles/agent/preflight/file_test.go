package preflight

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/superloop/superloop/roles/agent"
)

func TestFind(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	elf, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, command, text string
		perm                os.FileMode
		kind, interpreter   string
		want                string // in the finding
		starts              bool
	}{
		{"found on PATH", "cli", "#!/bin/sh\n", 0o755, "script", "/bin/sh", "", true},
		{"a path relative to the work tree", "../bin/cli", "#! /bin/sh -e\n", 0o755, "script", "/bin/sh", "", true},
		{"env", "cli", "#!/usr/bin/env sh\n", 0o755, "script", "sh", "", true},
		{"env with options", "cli", "#!/usr/bin/env -S A=b sh -x\n", 0o755, "script", "sh", "", true},
		{"nowhere", "other", "#!/bin/sh\n", 0o755, "", "", `program "other" not found`, false},
		{"nowhere by path", "./cli", "#!/bin/sh\n", 0o755, "", "", `/work/cli does not exist`, false},
		{"not executable", "cli", "#!/bin/sh\n", 0o644, "", "", "is not executable", false},
		{"no interpreter", "cli", "#!/no/such/sh\n", 0o755, "script", "/no/such/sh", "install sh", false},
		{"no interpreter for env", "cli", "#!/usr/bin/env no-such-node\n", 0o755, "script", "no-such-node", "install no-such-node", false},
		{"Windows line ends", "cli", "#!/bin/sh\r\ntrue\r\n", 0o755, "script", "/bin/sh", "Windows line ends", false},
		{"nothing after #!", "cli", "#!\n", 0o755, "script", "", "empty #! line", false},
		{"text", "cli", "exec claude\n", 0o755, "text", "", "without a #! line", false},
		{"empty", "cli", "", 0o755, "empty", "", "is an empty file", false},
		{"data", "cli", "MZ\x00\x01\x02", 0o755, "unknown", "", "no program of a kind that is known here", true},
		{"broken ELF", "cli", "\x7fELF\x02", 0o755, "elf", "", "is a broken program", false},
		{"ELF", "cli", string(elf), 0o755, "elf", "?", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, d := range []string{"bin", "work"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "bin", "cli"), []byte(c.text), c.perm); err != nil {
				t.Fatal(err)
			}
			if c.kind == "elf" && runtime.GOOS != "linux" {
				t.Skip("this system has no ELF programs")
			}
			l := line{Command: agent.Command{Argv: []string{c.command}, Dir: dir + "/work", Env: []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH")}}, at: "runners.x"}
			rep := &Report{}
			p, ok := find(l, rep)
			if ok != c.starts || p.Kind != c.kind || p.Interpreter != c.interpreter && c.interpreter != "?" {
				t.Errorf("%v %+v", ok, p.File)
			}
			if got := all(*rep); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || got != "" && !strings.HasSuffix(got, "(runners.x.command)") {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(rep.Findings) > 0 && (rep.Findings[0].Severity == Error) == ok {
				t.Errorf("it starts: %v, and %s", ok, all(*rep))
			}
		})
	}
}

// A program of another C library or another machine is what a wrong package
// leaves behind.
func TestForeignELF(t *testing.T) {
	t.Parallel()
	path, err := filepath.EvalSymlinks("/bin/ls")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no /bin/ls")
	}
	elf, err := os.ReadFile(path)
	at := bytes.Index(elf, []byte("/ld-"))
	if err != nil || at < 0 {
		t.Skip("/bin/ls names no loader")
	}
	for name, c := range map[string]struct {
		patch func([]byte)
		want  string
		ok    bool
	}{
		"no loader":       {func(b []byte) { copy(b[at:], "/no-") }, "which is not there; install the build for this system", false},
		"another machine": {func(b []byte) { b[18], b[19] = 22, 0 }, "is for another machine (EM_S390)", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "cli")
			patched := bytes.Clone(elf)
			c.patch(patched)
			if err := os.WriteFile(file, patched, 0o755); err != nil {
				t.Fatal(err)
			}
			rep := &Report{}
			_, ok := find(line{Command: agent.Command{Argv: []string{file}}}, rep)
			if got := all(*rep); ok != c.ok || !strings.Contains(got, c.want) {
				t.Errorf("%v %s", ok, got)
			}
		})
	}
}

func TestWrapped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, interpreter, text string
		wrapped, deaf           bool
	}{
		{"elf", "/lib64/ld.so", "", false, false},
		{"script", "node", "#!/usr/bin/env node\nstart()", false, false},
		{"script", "/bin/sh", "#!/bin/sh\nexec claude \"$@\"", true, false},
		{"script", "/bin/bash", "#!/bin/bash\nexec claude -p <x", true, true},
		{"script", "python3", "#!/usr/bin/env python3\nimport sys; sys.argv", true, false},
		{"script", "python3", "#!/usr/bin/env python3\nprint(1)", true, true},
		{"script", "/bin/sh", "#!/bin/sh\n" + strings.Repeat("#", headSize), true, false},
	} {
		p := program{File: File{Kind: c.kind, Interpreter: c.interpreter}, head: []byte(c.text)[:min(len(c.text), headSize)]}
		if wrapped, deaf := p.wrapped(); wrapped != c.wrapped || deaf != c.deaf {
			t.Errorf("%.40q: %v %v", c.text, wrapped, deaf)
		}
	}
}
