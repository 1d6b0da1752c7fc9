package classify

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, tc := range [][2]string{
		{"Error: listen EADDRINUSE: address already in use :::3000", "Error: listen EADDRINUSE: address already in use :::4123"},
		{"/home/dev/a/src/x.ts(12,5): error TS2322", "/srv/b/src/x.ts(13,7): error TS2322"},
		{"2026-01-02T03:04:05.678Z fatal: pid 4711", "2025-12-31T23:59:59Z fatal: pid 9"},
		{"\x1b[31mfailed\x1b[0m at 0xdeadbeef", "failed at 0xcafe"},
		{"job 123e4567-e89b-12d3-a456-426614174000 died", "job 00000000-0000-0000-0000-000000000000 died"},
		{"GET https://registry.npmjs.org/a/-/a-1.tgz", "GET https://registry.yarnpkg.com/b"},
		{"commit 1a2b3c4d5e", "commit 9f8e7d6c5b"},
	} {
		if a, b := Normalise(tc[0]), Normalise(tc[1]); a != b {
			t.Errorf("%q and %q differ: %q, %q", tc[0], tc[1], a, b)
		}
	}
	for _, tc := range [][2]string{
		{"Cannot find module 'express'", "Cannot find module 'lodash'"},
		{"src/a.ts: error", "src/b.ts: error"},
	} {
		if a, b := Normalise(tc[0]), Normalise(tc[1]); a == b {
			t.Errorf("%q and %q are the same: %q", tc[0], tc[1], a)
		}
	}
}

func TestSignatureProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.String()).Draw(t, "parts")
		a := Signature("dependency", "x", parts...)
		shuffled := rapid.Permutation(parts).Draw(t, "shuffled")
		if b := Signature("dependency", "x", shuffled...); a != b {
			t.Fatalf("the order changed %s to %s", a, b)
		}
		for _, p := range parts {
			if once, twice := Normalise(p), Normalise(Normalise(p)); len(once) < maxNormalised/2 && once != twice {
				t.Fatalf("%q becomes %q, then %q", p, once, twice)
			}
		}
	})
}

// The same failed tests have the same signature, whatever else was printed and
// in whatever order; another failed test has another one.
func TestSignatureOfTests(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	run := func(names ...string) string {
		var b strings.Builder
		for _, n := range names {
			b.WriteString("FAILED tests/test_a.py::" + n + " - assert 1 == 2\n")
		}
		b.WriteString("========================= 2 failed, 1 passed in 0.06s ==========================\n")
		return verdictOf(t, c, "pytest", 1, b.String(), "").Signature
	}
	a := run("test_x", "test_y")
	if b := run("test_y", "test_x"); a != b {
		t.Errorf("the order of the tests changed %s to %s", a, b)
	}
	if b := run("test_x", "test_z"); a == b {
		t.Errorf("another test has the same signature %s", a)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	in := strings.Join([]string{
		`{"id":1,"command":"npx jest","exit_code":1,"stderr":` + quoted(t, jestAssertion) + `}`,
		`{"id":"two","command":"npm ci","exit_code":"one"}`,
		`not json`,
		``,
		`{"id":4,"command":"true","exit_code":0}`,
		`{"id":5,"command":"psql","exit_code":1,"signal":"","stdout":"","stderr":""}`,
	}, "\n")
	var out bytes.Buffer
	err := c.Batch(strings.NewReader(in), &out, func(f Failure) (any, string) {
		if f.Code {
			return nil, "none"
		}
		return []string{"x"}, "human"
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, m)
	}
	if len(got) != 5 {
		t.Fatalf("%d lines, want 5:\n%s", len(got), out.String())
	}
	if got[0]["category"] != "code_bug" || got[0]["code"] != true || got[0]["gate"] != "none" || got[0]["id"] != float64(1) {
		t.Errorf("an assertion: %v", got[0])
	}
	for i, id := range map[int]any{1: "two", 2: nil, 3: float64(4)} {
		if got[i]["id"] != id || got[i]["error"] == nil {
			t.Errorf("line %d: %v, want an error with id %v", i, got[i], id)
		}
	}
	if got[4]["category"] != "unknown" || got[4]["confidence"] != float64(0) || got[4]["gate"] != "human" {
		t.Errorf("no output: %v", got[4])
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
