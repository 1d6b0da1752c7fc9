package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// box gives a sandbox, or skips the test where there is none.
func box(t *testing.T) sandbox {
	t.Helper()
	s, err := newSandbox(t.Context())
	if err != nil {
		t.Skipf("mutants cannot be isolated here: %v", err)
	}
	return s
}

// TestWholeRun: the faults of the tested function are noticed, those of the other one are
// not; one that ends every process it sees, and one that never ends, end nothing else.
func TestWholeRun(t *testing.T) {
	box(t)
	dir := module(t, map[string]string{
		"tested/a.go": `package tested

func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}
`,
		"tested/a_test.go": `package tested

import "testing"

func TestMax(t *testing.T) {
	for _, c := range [][3]int{{1, 2, 2}, {2, 1, 2}, {-1, -2, -1}} {
		if Max(c[0], c[1]) != c[2] {
			t.Fatal(c)
		}
	}
}
`,
		"untested/a.go": `package untested

func Sign(a int) int {
	if a < 0 {
		return -1
	}
	return 1
}
`,
		"untested/a_test.go": "package untested\n\nimport \"testing\"\n\nfunc TestNothing(t *testing.T) { Sign(1) }\n",
		"failing/a.go":       "package failing\n\nvar X = 1\n",
		"failing/a_test.go":  "package failing\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { t.Fatal(\"as ever\") }\n",
	})
	t.Chdir(dir)
	for _, c := range []struct {
		pkg    string
		status int
		want   []string // in what is said
	}{
		{"./tested", 0, []string{"killed (8"}}, // a > b and a >= b are the same
		{"./untested", 1, []string{"untested/a.go:4: < becomes <=", "- if a < 0 {", "+ if a <= 0 {", "0 killed (0 %)", "-min wants 75"}},
		{"./failing", 2, []string{"they fail without any fault", "as ever"}},
	} {
		var out, errs strings.Builder
		status := run([]string{"-n", "50", "-min", "75", c.pkg}, &out, &errs)
		said := out.String() + errs.String()
		if status != c.status {
			t.Errorf("%s: exit status %d, want %d\n%s", c.pkg, status, c.status, said)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is missing in\n%s", c.pkg, want, said)
			}
		}
	}
}

// TestNothingGetsOut: a program that kills, writes and hangs does so inside only.
func TestNothingGetsOut(t *testing.T) {
	s := box(t)
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("whole"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script string
		ok     bool
		want   string
	}{
		"ends well":         {"exit 0", true, ""},
		"fails":             {"echo why; exit 3", false, "why"},
		"a temporary file":  {`echo x >"$TMPDIR/x" && cat "$TMPDIR/x"`, true, "x"},
		"writes":            {fmt.Sprintf("echo broken >%s", victim), false, "ead-only"},
		"sees itself only":  {"set -- /proc/[0-9]*; echo $# seen; [ $# -eq 2 ]; exit $?", true, "2 seen"},
		"kills all it sees": {"kill -9 -1; echo on", true, "on"},
		"kills PID 1":       {"kill -9 1; kill -TERM 1; echo on", true, "on"},
		"an orphan":         {"(while :; do :; done) & exit 0", true, ""},
	} {
		tmp := t.TempDir()
		ok, output, err := s(t.Context(), dir, tmp, "/bin/sh", "-c", c.script)
		if err != nil || ok != c.ok || !strings.Contains(string(output), c.want) {
			t.Errorf("%s: %v, %v, %q", name, ok, err, output)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%s: the temporary directory holds %v, %v", name, left, err)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "whole" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// TestTimeLimit: what hangs is ended and counts as noticed.
func TestTimeLimit(t *testing.T) {
	s := box(t)
	dir := module(t, map[string]string{
		"a/a.go":      "package a\n\nfunc Yes() bool { return true }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestYes(t *testing.T) {\n\tfor !Yes() {\n\t}\n}\n",
	})
	targets, err := load(t.Context(), dir, []string{"./a"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := &runner{options: options{n: 5, parallel: 2, timeout: time.Second}, sandbox: s, work: t.TempDir(), out: &out}
	sum, err := r.all(t.Context(), newDraw(targets, 1))
	if err != nil || sum != (summary{total: 1, killed: 1, timeouts: 1}) {
		t.Errorf("%+v, %v\n%s", sum, err, out.String())
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-n", "0", "./a"}, {"-p", "0", "./a"}, {"-timeout", "0s", "./a"}, {"-unknown", "./a"}} {
		var out, errs strings.Builder
		if status := run(args, &out, &errs); status != 2 || !strings.Contains(errs.String(), "usage:") {
			t.Errorf("%v: %d, %s", args, status, errs.String())
		}
	}
}
