package classify

import (
	"strings"
	"testing"
)

// What a check wanted and what it got, and what a difference shows, quotes
// something; what a tool says of itself does not.
func TestQuoted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string // the line that begins with > is the one in question
		want       voice
	}{
		{"what was wanted", "FAIL: report\n>   expected: No space left on device\n  got: disk full", voiceName},
		{"what was wanted, of a TAP producer", "#   Failed test 'errno'\n>#     expected: 'No space left on device'", voiceName},
		{"a message of a Go test that names both", ">    a_test.go:8: explain(\"no space left on device\")\n         got \"unknown\"\n        want \"free space\"", voiceName},
		{"a message of a Go test", ">    a_test.go:8: write /tmp/x: no space left on device\n--- FAIL: TestA (0.00s)", voiceBlock},
		{"what a test printed, as JSON", `>{"Time":"2026-11-21T15:36:55Z","Action":"output","Package":"a","Test":"TestA","Output":"    a_test.go:3: bind: address already in use\\n"}`, voiceName},
		{"what a build printed, as JSON", `>{"ImportPath":"a","Action":"build-output","Output":"no space left on device\\n"}`, voiceTool},
		{"a line of a difference", "--- want\n+++ got\n@@ -1,3 +1,3 @@\n a: ok\n>-b: Permission denied", voiceName},
		{"a line behind a difference", "@@ -1,3 +1,3 @@\n a: ok\n-b\ndone\n> cp: b: Permission denied", voiceTool},
		{"a file of tests that does not load", "TAP version 13\n># Error: Cannot find module 'lodash'\n# Require stack:\n# - /repo/a.test.js\nnot ok 1 - /repo/a.test.js", voiceSuite},
		{"a comment of a test", "TAP version 13\n># Error: Cannot find module 'lodash'\nnot ok 1 - names the package", voiceLog},
		{"a value that Test::More shows", "#   Failed test 'names the method'\n#   at t/e.t line 4.\n>#                   'Permission denied (publickey).'\n#     doesn't match '(?^:keyboard)'", voiceName},
		{"what a test of Perl printed", "># ssh: connect to host build port 22: Connection timed out\n\n#   Failed test 'parts of a timeout'", voiceLog},
		{"what a test of AVA logged", "  ✘ [fail]: reports a lost connection\n>    ℹ socket: read ECONNRESET\n  ─", voiceLog},
		{"a checksum", ">tool.tgz: checksum mismatch: expected 0a1b, got 99ff", voiceTool},
	} {
		lines := strings.Split(tc.text, "\n")
		for i, l := range lines {
			line, ok := strings.CutPrefix(l, ">")
			if !ok {
				continue
			}
			if got, _ := speaker(lines[:i], line, lines[i+1:]); got != tc.want {
				t.Errorf("%s: voice is %d, want %d", tc.name, got, tc.want)
			}
		}
	}
}

// A test that prints npm's words is not npm: npm speaks when the tests are over.
// Conforms: 000-4.3-output
func TestQuotedTool(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	report := "\n  0 passing (9ms)\n  1 failing\n\n  1) parses the log:\n     Error: no\n      at Context.<anonymous> (a.spec.js:6:10)\n"
	said := "npm error code ENOSPC\nnpm error nospc ENOSPC: no space left on device, write\n"
	if f := verdictOf(t, c, "npm test", 1, said+report, ""); !f.Code {
		t.Errorf("printed before the report: %s by %q: %s", f.Category, f.Handler, f.Why)
	}
	if f := verdictOf(t, c, "npm install && npm test", 1, "", said); f.Category != "disk_full" {
		t.Errorf("npm's own: %s by %q: %s", f.Category, f.Handler, f.Why)
	}
}
