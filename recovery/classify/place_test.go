package classify

import (
	"fmt"
	"strings"
	"testing"
)

// A line of evidence has the place that it speaks of itself, or that its trace names: never that of another message.
func TestCodePlace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, place string // the line in question begins with "=>"
	}{
		{"its own", "src/a.ts(1,2): error TS1\n=>src/b.ts(3,4): error TS2\nsrc/c.ts(5,6): error TS3", "src/b.ts:3"},
		{"behind another message", "src/a.go:3:1: undefined: x\n=>npm error code ENOSPC\nnpm error errno -28", ""},
		{"before another message", "=>npm error code ENOSPC\nsrc/a.go:3:1: undefined: x", ""},
		{"a trace of Node.js below", "=>Error: boom\n    at run (/repo/src/a.js:7:9)", "/repo/src/a.js:7"},
		{"a trace of Python above", "  File \"/repo/a.py\", line 3, in f\n    x()\n=>NameError: x", "/repo/a.py:3"},
		{"rustc", "=>error[E0425]: cannot find value `x`\n --> src/main.rs:4:5", "src/main.rs:4"},
		{"pytest", ">       assert 1 == 2\n=>E       assert 1 == 2\n\ntest_a.py:3: AssertionError", "test_a.py:3"},
		{"pytest, short", "test_a.py:5: in test_a\n    f()\n=>E   OSError: x", "test_a.py:5"},
		{"a panic of Go", "=>panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/repo/main.go:12 +0x1", "/repo/main.go:12"},
		{"an installed package", "=>Error: boom\n    at x (/repo/node_modules/a/b.js:1:1)\n    at y (/repo/src/c.js:2:2)", "/repo/src/c.js:2"},
	} {
		lines := strings.Split(tc.text, "\n")
		for i, l := range lines {
			line, found := strings.CutPrefix(l, "=>")
			if !found {
				continue
			}
			file, n := codePlace(line, lines[:i], lines[i+1:])
			got := ""
			if file != "" {
				got = fmt.Sprintf("%s:%d", file, n)
			}
			if got != tc.place {
				t.Errorf("%s: %q, want %q", tc.name, got, tc.place)
			}
		}
	}
}

// Evidence out of a report has the place that its line speaks of, unless the project has no such file.
func TestPlaceOfEvidence(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const out = "*\n0 successes / 0 failures / 1 error / 0 pending : 0.002 seconds\n\nError -> spec/redis_spec.lua @ 3\nredis answers\nsrc/redis.lua:5: redis: connection refused\n"
	for file, want := range map[string]string{"": "src/redis.lua:5", "src/redis.lua": "src/redis.lua:5", "lib/other.lua": ":0"} {
		dir := ""
		if file != "" {
			dir = t.TempDir()
			write(t, dir, file, "\n")
		}
		f := classified(t, c, dir, "busted", out)
		if got := fmt.Sprintf("%s:%d", f.Evidence[0].File, f.Evidence[0].FileLine); got != want {
			t.Errorf("with %q: %s, want %s: %s", file, got, want, f.Evidence[0].Text)
		}
	}
}
