package classify

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
)

// verdictOf classifies with the embedded catalog and no probes.
func verdictOf(t testing.TB, c *Classifier, command string, code int, stdout, stderr string) Failure {
	t.Helper()
	f, err := c.Classify(context.Background(), Input{Command: command, Exit: Exit{Code: code}, Stdout: strings.NewReader(stdout), Stderr: strings.NewReader(stderr)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// embeddedOnce is shared: making a classifier takes longer than most tests, and it
// is safe for concurrent use.
var embeddedOnce = sync.OnceValues(func() (*Classifier, error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, err
	}
	return New(cat, Options{})
})

func embeddedClassifier(t testing.TB) *Classifier {
	t.Helper()
	c, err := embeddedOnce()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const jestAssertion = `FAIL ./math.test.js
  ● math › adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: -1

      at Object.toBe (math.test.js:3:38)

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 4 passed, 5 total
`

// What a test prints on purpose must not beat the assertion that failed; what
// the tool itself dies of must.
func TestStructure(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, tc := range []struct {
		name, command  string
		code           int
		stdout, stderr string
		category       string // "code" for code_bug, "env" for anything of the environment
		weak           bool
	}{
		{name: "a mock logs a full disk, an assertion fails", command: "npx jest", code: 1, category: "code",
			stderr: "  ● Console\n\n    console.error\n      Error: ENOSPC: no space left on device, write\n\n      at Object.error (a.test.js:4:57)\n\n" + jestAssertion},
		{name: "the disk is really full under jest", command: "npx jest", code: 1, category: "disk_full",
			stderr: "Error: ENOSPC: no space left on device, write\n    at writeSync (node:fs:900:3)\n    at Object.<anonymous> (/repo/node_modules/jest-haste-map/build/index.js:1:1) {\n  errno: -28,\n  syscall: 'write',\n  code: 'ENOSPC'\n}\n"},
		{name: "npm dies of a full disk after an assertion", command: "npm test", code: 1, category: "disk_full",
			stderr: jestAssertion + "npm error code ENOSPC\nnpm error syscall write\nnpm error errno -28\nnpm error ENOSPC: no space left on device, write\n"},
		{name: "a Go test prints a full disk", command: "go test ./...", code: 1, category: "code",
			stdout: "--- FAIL: TestAdd (0.00s)\n    x_test.go:3: Add() = 1, want 2\nwrite /tmp/x: no space left on device\n--- FAIL: TestErr (0.00s)\n    x_test.go:5: unexpected value, want 1\nFAIL\nFAIL\texample.com/m\t0.012s\nFAIL\n"},
		{name: "go itself has no room", command: "go test ./...", code: 1, category: "disk_full",
			stdout: "FAIL\texample.com/m [build failed]\n", stderr: "# example.com/m\n/usr/local/go/pkg/tool/linux_amd64/link: mapping output file failed: no space left on device\n"},
		{name: "pytest: captured log of a failed test", command: "pytest", code: 1, category: "code",
			stdout: "=================================== FAILURES ===================================\n__________________________________ test_logs ___________________________________\n\n>       assert [1, 2] == [1, 3]\nE       assert [1, 2] == [1, 3]\n\ntest_math.py:10: AssertionError\n------------------------------ Captured log call -------------------------------\nERROR    root:test_math.py:9 OSError: [Errno 28] No space left on device\n=========================== short test summary info ============================\nFAILED test_math.py::test_logs - assert [1, 2] == [1, 3]\n========================= 1 failed, 1 passed in 0.06s ==========================\n"},
		{name: "a test expects a refused connection and gets another", command: "npx vitest run", code: 1, category: "code",
			stderr: " FAIL  db.test.ts > connects > is refused\nAssertionError: expected 'connect ETIMEDOUT 10.0.0.1:5432' to contain 'ECONNREFUSED'\n\nExpected: \"connect ECONNREFUSED 127.0.0.1:5432\"\n", stdout: "      Tests  1 failed | 3 passed (4)\n"},
		{name: "tests fail because the database is down", command: "go test ./...", code: 1, category: "env", weak: true,
			stdout: "--- FAIL: TestDB (0.00s)\n    x_test.go:5: connect: dial tcp 127.0.0.1:5432: connect: connection refused\nFAIL\nFAIL\texample.com/t\t0.025s\nFAIL\n"},
		{name: "the port of the test server is taken", command: "npm test", code: 1, category: "port_in_use",
			stderr: "node:events:497\n      throw er; // Unhandled 'error' event\n      ^\n\nError: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle [as _listen2] (node:net:1817:16)\nEmitted 'error' event on Server instance at:\n  code: 'EADDRINUSE',\n  errno: -98,\n  syscall: 'listen',\n  address: '::',\n  port: 3000\n}\n\nNode.js v20.20.2\n"},
		{name: "a test is named like an error", command: "npx vitest run", code: 127, category: "command_not_found",
			stdout: " ✓ a.test.ts (2 tests) 3ms\n   ✓ AssertionError: expected 1 to be 2 1ms\n", stderr: "sh: 1: codecov: not found\n"},
		{name: "a relative module is the code's", command: "node a.js", code: 1, category: "code",
			stderr: "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module './nope'\nRequire stack:\n- /repo/a.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/repo/a.js' ]\n}\n\nNode.js v20.20.2\n"},
		{name: "a package is missing, and nobody could look", command: "node a.js", code: 1, category: "dependency", weak: true,
			stderr: "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module 'express'\nRequire stack:\n- /repo/a.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/repo/a.js' ]\n}\n\nNode.js v20.20.2\n"},
		{name: "no word at all", command: "true-or-not", code: 1, category: "unknown"},
		{name: "words that mean nothing", command: "make check", code: 2, category: "unknown", stdout: "0 failed\nerror count: 0\nroom 429 timeout skilled\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := verdictOf(t, c, tc.command, tc.code, tc.stdout, tc.stderr)
			switch tc.category {
			case "code":
				if !f.Code || f.Category != CategoryCode {
					t.Errorf("got %s by %s, want code: %s", f.Category, f.Handler, f.Why)
				}
			case "env":
				if !f.Infra || f.Code {
					t.Errorf("got %s by %s, want the environment: %s", f.Category, f.Handler, f.Why)
				}
			default:
				if f.Category != tc.category && !(tc.category == CategoryUnknown && f.Guessed()) {
					t.Errorf("got %s by %s, want %s: %s", f.Category, f.Handler, tc.category, f.Why)
				}
			}
			if f.Weak != tc.weak && !f.Guessed() {
				t.Errorf("weak is %v, want %v: %s by %s: %s", f.Weak, tc.weak, f.Category, f.Handler, f.Why)
			}
			for _, m := range f.Matches {
				if f.Code && !m.Vetoed && m.Handler.Guard == catalog.GuardNone {
					t.Errorf("a code failure offers the options of %s", m.Handler.ID)
				}
			}
		})
	}
}
