package classify_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// message is what a well-known program says about its environment, in its known wording.
type message struct{ kind, command, text string }

// messages reads testdata/said.tsv: the kind of the cause, a command, and what it prints.
func messages(t *testing.T) []message { return messagesOf(t, "testdata/said.tsv") }

func messagesOf(t *testing.T, file string) (all []message) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) != 3 {
			t.Fatalf("a line with %d parts: %s", len(f), line)
		}
		all = append(all, message{f[0], f[1], f[2]})
	}
	return all
}

// right holds, by kind of cause, the categories that are right for it.
var right = map[string][]string{
	"N": {"network_error", "environment", "dependency", "resources", "file_not_found", "auth"}, // nothing answers
	"E": {"environment", "config", "auth", "dependency", "file_not_found"},                     // a variable or a setting is missing
	"P": {"permission_denied", "environment", "auth", "vcs"},
	"F": {"file_not_found", "config", "environment", "dependency", "build_failure", "command_not_found"},
	"C": {"command_not_found", "tool_not_found", "dependency", "environment", "file_not_found", "package_manager"},
	"D": {"dependency", "command_not_found", "environment", "corrupted", "file_not_found", "config", "build_failure"},
	"V": {"dependency", "environment", "config"}, // a version is wrong
	"R": {"resources", "environment", "disk_full"},
	"L": {"lock_held", "resources", "vcs"},
	"X": {"corrupted", "dependency", "vcs", "network_error", "file_not_found", "config"},
	"A": {"auth", "permission_denied", "config", "environment", "vcs", "network_error"},
}

// What a program says of its environment is known when it says it itself, and when it ends a test.
func TestSaid(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	for name, as := range map[string]func(m message) realCase{
		"plain":  func(m message) realCase { return realCase{Command: m.command, Stderr: m.text + "\n"} },
		"a test": func(m message) realCase { return realCase{Command: "npm test", Stderr: endedTest(m.text)} },
	} {
		all := messages(t)
		known, looked, every := 0, 0, testkit.Sample(4, 1, 1)
		for i := 0; i < len(all); i += every {
			m := all[i]
			r := as(m)
			r.ExitCode = 1
			looked++
			if f := judged(t, c, r, r.Stdout, r.Stderr); slices.Contains(right[m.kind], f.Category) {
				known++
			} else {
				t.Logf("%s: %s by %s: %s", name, f.Category, f.Handler, m.text)
			}
		}
		t.Logf("%s: %d of %d are known", name, known, looked)
		if float64(known) < 0.93*float64(looked) {
			t.Errorf("%s: only %d of %d are known", name, known, looked)
		}
	}
}

// endedTest is the report of jest about a test that an exception with this message ended.
func endedTest(text string) string {
	if head, _, _ := strings.Cut(text, ":"); !strings.Contains(head, "rror") {
		text = "Error: " + text
	}
	return "FAIL ./a.test.js\n  ✕ boots (51 ms)\n\n  ● boots\n\n    " + text +
		"\n\n      at Object.run (lib/run.js:20:37)\n\nTest Suites: 1 failed, 1 total\nTests:       1 failed, 1 passed, 2 total\n"
}

// The same words are no fact about the environment where a test compares them, a compiler quotes them, a difference
// shows them, or a program goes on after them and fails by a mistake of its own.
func TestQuoted(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	all := messages(t)
	for _, tc := range []struct{ name, command, stdout, stderr string }{
		{"jest", "npx jest", "", "FAIL ./a.test.js\n  ✕ says why (5 ms)\n\n  ● says why\n\n    expect(received).toBe(expected)\n\n    Expected: \"WORDS\"\n    Received: \"WORDS!\"\n\n    > 4 |   expect(message(e)).toBe(\"WORDS\");\n        |                      ^\n\n      at Object.toBe (a.test.js:4:22)\n\nTests:       1 failed, 1 total\n"},
		{"pytest", "pytest -q", "F  [100%]\n=== FAILURES ===\n____ test_a ____\n\n>       assert message(e) == \"WORDS\"\nE       AssertionError: assert 'WORDS!' == 'WORDS'\nE         \nE         - WORDS\nE         + WORDS!\n\ntests/test_a.py:5: AssertionError\n=== short test summary info ===\nFAILED tests/test_a.py::test_a - AssertionError\n1 failed in 0.04s\n", ""},
		{"pytest, captured", "pytest -q", "F  [100%]\n=== FAILURES ===\n____ test_a ____\n\n>       assert r.tries == 3\nE       assert 2 == 3\n\ntests/test_a.py:5: AssertionError\n----- Captured stderr call -----\nWORDS\n=== short test summary info ===\nFAILED tests/test_a.py::test_a - assert 2 == 3\n1 failed in 0.04s\n", ""},
		{"go test", "go test ./...", "--- FAIL: TestMessage (0.00s)\n    msg_test.go:12: got \"WORDS!\", want \"WORDS\"\nFAIL\nFAIL\texample.com/app\t0.006s\nFAIL\n", ""},
		{"go test, a log", "go test ./...", "2024/05/05 12:00:00 WORDS\n--- FAIL: TestRetry (0.00s)\n    retry_test.go:12: 2 tries, want 3\nFAIL\nFAIL\texample.com/app\t0.006s\nFAIL\n", ""},
		{"rspec", "rspec", "F\n\nFailures:\n\n  1) Message says why\n     Failure/Error: expect(message(e)).to eq(\"WORDS\")\n\n       expected: \"WORDS\"\n            got: \"WORDS!\"\n\n       (compared using ==)\n     # ./spec/a_spec.rb:4\n\nFinished in 0.0124 seconds\n1 example, 1 failure\n", ""},
		{"unittest", "python3 -m unittest", "", "F\n======\nFAIL: test_a (tests.test_a.T.test_a)\n------\nTraceback (most recent call last):\n  File \"/repo/tests/test_a.py\", line 5, in test_a\n    self.assertEqual(message(e), \"WORDS\")\nAssertionError: 'WORDS!' != 'WORDS'\n- WORDS!\n+ WORDS\n\n------\nRan 1 test in 0.001s\n\nFAILED (failures=1)\n"},
		{"cargo test", "cargo test", "\nrunning 1 test\ntest tests::says ... FAILED\n\nfailures:\n\n---- tests::says stdout ----\nthread 'tests::says' panicked at src/lib.rs:9:9:\nassertion `left == right` failed\n  left: \"WORDS!\"\n right: \"WORDS\"\n\nfailures:\n    tests::says\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n", "error: test failed, to rerun pass `--lib`\n"},
		{"phpunit", "phpunit", "PHPUnit 9.6.7\n\nF    1 / 1 (100%)\n\nThere was 1 failure:\n\n1) MessageTest::testSays\nFailed asserting that two strings are equal.\n--- Expected\n+++ Actual\n@@ @@\n-'WORDS'\n+'WORDS!'\n\n/repo/tests/MessageTest.php:4\n\nFAILURES!\nTests: 1, Assertions: 1, Failures: 1.\n", ""},
		{"mocha", "npx mocha", "\n  0 passing (5ms)\n  1 failing\n\n  1) message\n       says why:\n\n      AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:\n\n'WORDS!' !== 'WORDS'\n\n      + expected - actual\n\n      -WORDS!\n      +WORDS\n      \n      at Context.<anonymous> (test/a.js:4:12)\n\n", ""},
		{"node:test", "node --test", "TAP version 13\n# Subtest: says why\nnot ok 1 - says why\n  ---\n  failureType: 'testCodeFailure'\n  error: |-\n    Expected values to be strictly equal:\n    + 'WORDS!'\n    - 'WORDS'\n  code: 'ERR_ASSERTION'\n  name: 'AssertionError'\n  expected: 'WORDS'\n  operator: 'strictEqual'\n  ...\n1..1\n# tests 1\n# pass 0\n# fail 1\n", ""},
		{"surefire", "mvn test", "[ERROR] MessageTest.says -- Time elapsed: 0.01 s <<< FAILURE!\norg.opentest4j.AssertionFailedError: expected: <WORDS> but was: <WORDS!>\n\tat MessageTest.says(MessageTest.java:9)\n\n[ERROR] Failures: \n[ERROR]   MessageTest.says:9 expected: <WORDS> but was: <WORDS!>\n[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n", ""},
		{"gcc", "make", "gcc -c errs.c -o errs.o\n", "errs.c:5:3: error: initializer element is not computable at load time\n    5 |   \"WORDS\",\n      |   ^\nmake: *** [Makefile:3: errs.o] Error 1\n"},
		{"a checker", "mypy app.py", "app.py:5: error: Argument 1 has incompatible type \"Literal[`WORDS`]\"; expected \"int\"  [arg-type]\n", ""},
		{"a difference", "make check", "./app --selftest > out.txt\ndiff expected.txt out.txt\n1c1\n< WORDS\n---\n> WORDS!\n", "make: *** [Makefile:7: check] Error 1\n"},
		{"a warning", "python3 app.py", "", "WARNING: WORDS; going on without it\nTraceback (most recent call last):\n  File \"/repo/app.py\", line 9, in <module>\n    print(limits[\"pro\"])\nKeyError: 'pro'\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, seen := 0, 0
			for i := 0; i < len(all); i += testkit.Sample(15, 1, 1) {
				m := all[i]
				seen++
				r := realCase{Command: tc.command, ExitCode: 1}
				if !strings.Contains(tc.stdout+tc.stderr, "WORDS") {
					t.Fatal("the frame quotes nothing")
				}
				show := strings.NewReplacer("WORDS", m.text).Replace
				out, err := show(tc.stdout), show(tc.stderr)
				if f := judged(t, c, r, out, err); f.Code {
					code++
				} else {
					t.Logf("%s by %s: %s", f.Category, f.Handler, m.text)
				}
			}
			if code < seen*98/100 {
				t.Errorf("%d of %d are the code's", code, seen)
			}
		})
	}
}
