package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
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
