package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/durable"
)

const root = "../.."

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// namedTests checks that the tests and scripts that a text names exist, and counts them.
func namedTests(t *testing.T, text string) int {
	t.Helper()
	tests := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(text, -1)
	for _, n := range tests {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(n[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(source), "\nfunc "+n[2]+"(")
		}
		if !found {
			t.Errorf("%s has no %s", n[1], n[2])
		}
	}
	scripts := regexp.MustCompile("`([a-z0-9_-]+\\.txtar)`").FindAllStringSubmatch(text, -1)
	for _, n := range scripts {
		if found, err := filepath.Glob(filepath.Join("testdata", "*", n[1])); err != nil || len(found) != 1 {
			t.Errorf("%s is there %d times", n[1], len(found))
		}
	}
	return len(tests) + len(scripts)
}

// TestThreatModelNamesTestsThatExist: a defence whose test was renamed or removed
// must not go on being claimed.
func TestThreatModelNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	if n := namedTests(t, readDoc(t, "docs/THREAT_MODEL.md")); n < 40 {
		t.Fatalf("only %d tests are named", n)
	}
}

// TestReadmeSurvives: each row of the table "What it survives" names a test that
// exists, and its numbers are those of the code.
func TestReadmeSurvives(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(readDoc(t, "README.md"), "\n## What it survives\n")
	table, _, ok := strings.Cut(after, "\n\nWhere a loop stands")
	if !ok {
		t.Fatal("README.md has no such table")
	}
	rows := strings.Split(strings.TrimSpace(table), "\n")[2:]
	if len(rows) < 25 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 3 || namedTests(t, cells[2]) == 0 {
			t.Errorf("no test shows: %s", row)
		}
	}
	for says, n := range map[string]int{
		"SIGKILL %d s after its deadline": constant(t, "loop/effects/turn.go", "turnGrace = (\\d+) \\* time.Second"),
		"(%d s after Ctrl-C)":             constant(t, "loop/local/wait.go", "leaveGrace = (\\d+) \\* time.Second"),
		"the log stops at %d MiB":         constant(t, "loop/effects/turn.go", "logLimit = (\\d+) << 20"),
		"ended after %d s":                constant(t, "roles/agent/run.go", "leaveTime = (\\d+) \\* time.Second"),
		"exit code %d; raise it":          exitLimit,
		"exit code %d or":                 exitInterrupted,
		"or %d, state kept":               exitTerminated,
	} {
		if want := fmt.Sprintf(says, n); !strings.Contains(table, want) {
			t.Errorf("the table does not say %q", want)
		}
	}
}

// TestReferenceHoldsTheVerbs: the table of docs/reference.md has each verb of verbs.txt with all its flags, and names no
// flag that no verb has.
func TestReferenceHoldsTheVerbs(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readDoc(t, "docs/reference.md"), "\n| verb | does |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	known := map[string]bool{"--repo": true}
	flag := regexp.MustCompile("--[a-z][a-z-]*")
	check := func(name string, verb *cli.Command) {
		var text string
		for _, row := range rows {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
			if regexp.MustCompile("`" + name + "[` ]").MatchString(first) {
				text += row
			}
		}
		if text == "" {
			t.Errorf("docs/reference.md has no row of %q", name)
		}
		for _, f := range verb.Flags {
			long := "--" + f.Names()[0]
			known[long] = true
			elsewhere := strings.Contains(text, "| the same |") || strings.Contains(text, "the flags of `classify`")
			if long != "--repo" && !strings.Contains(text, long) && !elsewhere {
				t.Errorf("docs/reference.md does not say that %s has %s", name, long)
			}
		}
	}
	for _, verb := range newApp(durable.OS(), nil, io.Discard, io.Discard).commands() {
		if verb.Hidden {
			continue
		}
		if len(verb.Subcommands) == 0 || len(verb.Flags) > 0 {
			check(verb.Name, verb)
		}
		for _, sub := range verb.Subcommands {
			check(verb.Name+" "+sub.Name, sub)
		}
	}
	for _, found := range flag.FindAllString(table, -1) {
		if !known[found] && found != "--version" {
			t.Errorf("docs/reference.md names %s, which no verb has", found)
		}
	}
}

// constant returns the number that the only match of an expression in a source file holds.
func constant(t *testing.T, file, expr string) int {
	t.Helper()
	found := regexp.MustCompile(`\b`+expr).FindAllStringSubmatch(readDoc(t, file), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d times %s", file, len(found), expr)
	}
	n, err := strconv.Atoi(found[0][1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The recording that README names can be played, is small, and shows no path of the machine that made it.
func TestRecordingCanBePlayed(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/first-loop.cast")
	if err != nil || len(data) > 60<<10 {
		t.Fatal(len(data), err)
	}
	head, events, _ := strings.Cut(string(data), "\n")
	var form struct{ Version, Width, Height int }
	if err := json.Unmarshal([]byte(head), &form); err != nil || form.Version != 2 || form.Width == 0 || form.Height == 0 {
		t.Errorf("%s: %v", head, err)
	}
	var shown strings.Builder
	last := -1.0
	for line := range strings.Lines(events) {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 || event[1] != "o" {
			t.Fatalf("%s: %v", line, err)
		}
		at, _ := event[0].(float64)
		if at < last {
			t.Errorf("%s stands behind second %v", line, last)
		}
		last = at
		text, _ := event[2].(string)
		shown.WriteString(text)
	}
	for _, want := range []string{"superloop init", "superloop run", "loop completed", "superloop status", "+echo \"Hello, ${1:-world}!\""} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("it does not show %q", want)
		}
	}
	showsNoMachine(t, shown.String())
}

// The pictures that README and docs/reference.md show are small, show watch, and no path of the machine that made them.
func TestPicturesOfWatch(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{"watch.svg": {"checkout", "Edit: src/discount.js"}, "watch-all.svg": {"3 loops", "awaiting_human", "Edit: src/discount.js"}} {
		data, err := os.ReadFile("../../docs/" + file)
		if err != nil || len(data) > 100<<10 {
			t.Fatal(file, len(data), err)
		}
		for _, text := range want {
			if !strings.Contains(string(data), text) {
				t.Errorf("%s does not show %q", file, text)
			}
		}
		showsNoMachine(t, string(data))
	}
}

func showsNoMachine(t *testing.T, shown string) {
	t.Helper()
	for _, path := range []string{"/tmp", "/root", "/home", "/work", "/Users"} {
		if strings.Contains(shown, path) {
			t.Errorf("it shows %s", path)
		}
	}
}
