package verify

import (
	"context"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRepairedSectionSaysWhy: the copy that passes tells that it is one, and why.
// Conforms: 001-d2.1-reason
func TestRepairedSectionSaysWhy(t *testing.T) {
	t.Parallel()
	p := newProcesses(t)
	tool := p.tool(t, "shy", "#!/bin/sh\necho 'usage: shy FILE' >&2; exit 2\n")
	out, err := Repair(context.Background(), tool, p)
	if err != nil || !out.Works || !strings.Contains(out.Verify.Reason, "repaired") || !strings.Contains(out.Verify.Reason, "--version") || tool.Verify.Reason != "" {
		t.Errorf("%+v %v", out, err)
	}
}

// TestRepairAsksNoMoreThanItMust: what the first output proves is not asked again with --help, and besides the check
// itself nothing but --help and -h is asked.
// Conforms: 001-d2.2-saves, 001-sec-risk
func TestRepairAsksNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"shy":     {"#!/bin/sh\necho 'usage: shy FILE' >&2; exit 2\n", []string{"shy --version"}},
		"helpful": {"#!/bin/sh\n[ \"$1\" = --help ] || exit 1\necho 'Usage: helpful FILE'\n", []string{"helpful --version", "helpful --help"}},
		"mute":    {"#!/bin/sh\nexit 1\n", []string{"mute --version", "mute --help", "mute -h"}},
		"broken":  {"#!/bin/sh\nkill -SEGV $$\n", []string{"broken --version"}},
	} {
		p := newProcesses(t)
		if _, err := Repair(context.Background(), p.tool(t, name, c.text), p); err != nil {
			t.Fatal(err)
		}
		if got := slices.Compact(slices.Clone(p.ran)); !slices.Equal(got, c.want) { // each is asked twice before it counts
			t.Errorf("%s: asked %q, want %q", name, p.ran, c.want)
		}
	}
}

// TestAnalysisNamesTheTool: the analysis tells whether the output has the tool's name, in which spelling, and whether
// it has a line of usage.
// Conforms: 001-d2.1-name, 001-api-toolname, 001-api-usage, 001-api-hasname
func TestAnalysisNamesTheTool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out, spelling string
		usage         bool
	}{
		"both":        {"Usage: MyTool [flags]\n", "MyTool", true},
		"the name":    {"mytool: cannot do that\n", "mytool", false},
		"the usage":   {"usage: [flags] FILE\n", "", true},
		"another's":   {"usage: other [flags]\n", "", false},
		"neither":     {"no\n", "", false},
		"within more": {"usage: mytools [flags]\n", "", true},
	} {
		a := AnalyzeVerifyFailure("", c.out, ExitInfo{Code: 1}, "mytool")
		if a.HasToolName != (c.spelling != "") || a.ToolName != c.spelling || a.HasUsageText != c.usage {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestRepairOnlyAsks: the package reaches neither a network nor a disk, so that all it does to a tool is to have it run
// by its caller.
// Conforms: 001-driver-offline, 001-sec-download, 001-sec-source
func TestRepairOnlyAsks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, im := range f.Imports {
			path := strings.Trim(im.Path.Value, `"`)
			if path == "os" || path == "syscall" || path == "net" || strings.HasPrefix(path, "net/") || strings.HasPrefix(path, "os/") || strings.HasSuffix(path, "/internal/durable") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
	if read == 0 {
		t.Error("no file was read")
	}
}
