package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// The pages say everything that verbs.txt says, and nothing of it is taken as a macro.
func TestManualIsComplete(t *testing.T) {
	t.Parallel()
	verbs := newApp(durable.OS(), strings.NewReader(""), io.Discard, io.Discard).commands()
	all := manOverview(verbs)
	macro := regexp.MustCompile(`^\.(?:TH|SH|SS|PP|TP|PD|RS|RE|RI|BR|B|I|br|nf|fi|nh|ad)\b`)
	wants := func(name, page string, texts ...string) {
		for _, text := range texts {
			if !strings.Contains(page, escaped(text)) {
				t.Errorf("%s does not say %q", name, text)
			}
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s: man takes this line as a macro: %s", name, line)
			}
		}
	}
	for _, v := range verbs {
		page := manVerb(v)
		if !v.Hidden {
			wants("superloop.1", all, "\n.B "+v.Name+"\n", v.Usage)
		}
		wants(v.Name, page, v.Usage)
		for _, f := range v.Flags {
			wants(v.Name, page, "--"+f.Names()[0])
		}
		for _, line := range strings.Split(v.Description, "\n") {
			wants(v.Name, page, strings.TrimSpace(strings.TrimPrefix(line, "EXIT STATUS: ")))
		}
		for _, sub := range v.Subcommands {
			wants(v.Name, page, "superloop "+v.Name+" "+sub.Name)
			for _, f := range sub.Flags {
				wants(v.Name, page, "--"+f.Names()[0])
			}
		}
	}
}

// The exit codes of superloop(1) are those of docs/reference.md.
func TestManualExitCodes(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readDoc(t, "docs/reference.md"), "\n## Exit codes\n")
	table, _, _ = strings.Cut(table, "\nAny other code")
	_, list, _ := strings.Cut(manText, "\n== EXIT STATUS\n")
	list, _, _ = strings.Cut(list, "\n\n")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(table, -1)
	lines := strings.Split(list, "\n")
	if len(rows) < 10 || len(rows) != len(lines) {
		t.Fatalf("docs/reference.md has %d codes, man.txt %d", len(rows), len(lines))
	}
	for i, line := range lines {
		code, text, _ := strings.Cut(line, "\t")
		if code != rows[i][1] || !strings.HasPrefix(rows[i][2], text) {
			t.Errorf("man.txt says %q, docs/reference.md %q", line, rows[i][0])
		}
	}
}
