package classify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// frames holds, by language, how a runtime or a test runner shows an exception that ends a program or a test. MESSAGE is
// the whole exception, CLASS and TEXT are its parts before and after the first colon.
var frames = map[string][]realCase{
	"py": {
		{Command: "python3 app.py", Stderr: "Traceback (most recent call last):\n  File \"/repo/app.py\", line 9, in <module>\n    run()\n  File \"/repo/app.py\", line 4, in run\n    x()\nMESSAGE\n"},
		{Command: "pytest -q", Stdout: "F    [100%]\n=================================== FAILURES ===================================\n____ test_a ____\n\n    def test_a():\n>       run()\n\ntest_a.py:4: \n_ _ _ _ _ _ _ _ _ _\n\n    def run():\n>       x()\nE       MESSAGE\n\napp.py:3: CLASS\n=========================== short test summary info ============================\nFAILED test_a.py::test_a - CLASS...\n1 failed in 0.04s\n"},
		{Command: "python3 -m unittest", Stderr: "E\n======================================================================\nERROR: test_a (test_a.T.test_a)\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/repo/test_a.py\", line 5, in test_a\n    run()\nMESSAGE\n\n----------------------------------------------------------------------\nRan 1 test in 0.001s\n\nFAILED (errors=1)\n"},
	},
	"js": {
		{Command: "node app.js", Stderr: "/repo/app.js:3\n  throw e;\n  ^\n\nMESSAGE\n    at run (/repo/app.js:3:9)\n\nNode.js v20.20.2\n"},
		{Command: "npx vitest run", Stderr: "\n⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯\n\n FAIL  a.test.js > boots\nMESSAGE\n ❯ run lib/run.js:1:49\n⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/1]⎯\n", Stdout: "\n RUN  v4.1.12 /repo\n\n Test Files  1 failed (1)\n      Tests  1 failed (1)\n"},
		{Command: "npx mocha", Stdout: "\n\n  1) boots\n\n  0 passing (3ms)\n  1 failing\n\n  1) boots:\n     MESSAGE\n      at run (lib/run.js:3:4)\n\n"},
		{Command: "node --test", Stdout: "TAP version 13\n# Subtest: boots\nnot ok 1 - boots\n  ---\n  failureType: 'testCodeFailure'\n  error: \"TEXT\"\n  stack: |-\n    run (/repo/a.js:2:54)\n  ...\n1..1\n# tests 1\n# pass 0\n# fail 1\n"},
	},
	"go": {
		{Command: "go run .", Stderr: "2026/11/29 10:16:00 depot: MESSAGE\nexit status 1\n"},
		{Command: "go test ./...", Stdout: "--- FAIL: TestBoot (0.00s)\n    a_test.go:12: boot: MESSAGE\nFAIL\nFAIL\texample.com/app\t0.006s\nFAIL\n"},
		{Command: "go run .", Stderr: "panic: MESSAGE\n\ngoroutine 1 [running]:\nmain.main()\n\t/repo/main.go:9 +0x3a\nexit status 2\n"},
		{Command: "go test ./...", Stdout: "--- FAIL: TestBoot (0.00s)\n    a_test.go:12: \n        \tError Trace:\t/repo/a_test.go:12\n        \tError:      \tReceived unexpected error:\n        \t            \tMESSAGE\n        \tTest:       \tTestBoot\nFAIL\nFAIL\texample.com/app\t0.006s\nFAIL\n"},
	},
	"java": {
		{Command: "java -jar app.jar", Stderr: "Exception in thread \"main\" MESSAGE\n\tat com.acme.App.main(App.java:9)\n"},
		{Command: "mvn test", Stdout: "[ERROR] com.acme.BootTest.boots -- Time elapsed: 0.01 s <<< ERROR!\nMESSAGE\n\tat com.acme.BootTest.boots(BootTest.java:9)\n\n[INFO] Results:\n[ERROR] Tests run: 1, Failures: 0, Errors: 1, Skipped: 0\n[INFO] BUILD FAILURE\n"},
	},
	"rb": {
		{Command: "ruby app.rb", Stderr: "app.rb:3:in `run': TEXT (CLASS)\n\tfrom app.rb:3:in `<main>'\n"},
		{Command: "rspec", Stdout: "F\n\nFailures:\n\n  1) depot boots\n     Failure/Error: run\n\n     CLASS:\n       TEXT\n     # ./lib/a.rb:2:in `initialize'\n\nFinished in 0.0124 seconds (files took 0.1 seconds to load)\n1 example, 1 failure\n"},
		{Command: "ruby -Itest t.rb", Stdout: "Run options: --seed 3\n\n# Running:\n\nE\n\n  1) Error:\nT#test_a:\nMESSAGE\n    t.rb:3:in `setup'\n\n1 runs, 0 assertions, 0 failures, 1 errors, 0 skips\n"},
	},
	"rs": {
		{Command: "cargo run -q", Stderr: "\nthread 'main' (4129) panicked at src/main.rs:1:68:\ncalled `Result::unwrap()` on an `Err` value: MESSAGE\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"},
		{Command: "cargo test", Stdout: "\nrunning 1 test\ntest t::boots ... FAILED\n\nfailures:\n\n---- t::boots stdout ----\n\nthread 't::boots' (31) panicked at src/lib.rs:1:8:\ncalled `Result::unwrap()` on an `Err` value: MESSAGE\n\n\nfailures:\n    t::boots\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n", Stderr: "error: test failed, to rerun pass `--lib`\n"},
	},
	"php": {
		{Command: "php app.php", Stderr: "PHP Fatal error:  Uncaught MESSAGE in /repo/app.php:4\nStack trace:\n#0 {main}\n  thrown in /repo/app.php on line 4\n"},
		{Command: "phpunit", Stdout: "PHPUnit 9.6.7\n\nE    1 / 1 (100%)\n\nThere was 1 error:\n\n1) BootTest::testBoots\nMESSAGE\n\n/repo/src/Boot.php:4\n\nERRORS!\nTests: 1, Assertions: 0, Errors: 1.\n"},
	},
	"phpwarn": {
		{Command: "php app.php", Stderr: "PHP Warning:  MESSAGE in /repo/app.php on line 3\nPHP Fatal error:  Uncaught TypeError: fwrite(): Argument #1 ($stream) must be of type resource, bool given in /repo/app.php:4\nStack trace:\n#0 {main}\n  thrown in /repo/app.php on line 4\n"},
	},
	"ex": {
		{Command: "mix run", Stderr: "** MESSAGE\n    run.exs:2: (file)\n"},
		{Command: "mix test", Stdout: "\n\n  1) test boots (BootTest)\n     test/boot_test.exs:4\n     ** MESSAGE\n     code: boot()\n     stacktrace:\n       test/boot_test.exs:5: (test)\n\nFinished in 0.02 seconds\n1 test, 1 failure\n"},
	},
	"erl": {{Command: "escript run.escript", Stderr: "escript: exception error: no match of right hand side value MESSAGE\n  in function  erl_eval:expr/6 (erl_eval.erl, line 496)\n"}},
	"net": {
		{Command: "dotnet run", Stderr: "Unhandled exception. MESSAGE\n   at Program.<Main>$(String[] args) in /repo/Program.cs:line 4\n"},
		{Command: "dotnet test", Stdout: "  Failed Depot.Tests.BootTests.Boots [12 ms]\n  Error Message:\n   CLASS : TEXT\n  Stack Trace:\n     at Depot.Tests.BootTests.Boots() in /repo/BootTests.cs:line 9\n\nFailed!  - Failed:     1, Passed:     0, Skipped:     0, Total:     1, Duration: 12 ms\n"},
	},
	"pl":   {{Command: "perl app.pl", Stderr: "MESSAGE at app.pl line 3.\n"}},
	"ml":   {{Command: "dune exec ./main.exe", Stderr: "Fatal error: exception MESSAGE\n"}},
	"cpp":  {{Command: "./build/app", Stderr: "terminate called after throwing an instance of 'std::system_error'\n  what():  MESSAGE\nAborted (core dumped)\n"}},
	"lua":  {{Command: "lua5.4 main.lua", Stderr: "lua5.4: main.lua:3: MESSAGE\nstack traceback:\n\t[C]: in function 'assert'\n\tmain.lua:3: in main chunk\n\t[C]: in ?\n"}},
	"deno": {{Command: "deno run main.ts", Stderr: "error: Uncaught (in promise) MESSAGE\n    at Object.open (ext:deno_fs/30_fs.js:623:21)\n    at file:///repo/main.ts:1:12\n"}},
}

// TestThrown: an exception about the environment is known in whichever way a runtime or a test runner shows it.
// thrown.tsv has the categories that are right, a language, and the exception in its known wording.
func TestThrown(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	all, sides, categories := 0, 0, 0
	list := messagesOf(t, "testdata/thrown.tsv")
	for i := 0; i < len(list); i += testkit.Sample(5, 1, 1) {
		m := list[i]
		class, text, ok := strings.Cut(m.text, ": ")
		if !ok {
			text = class
		}
		fill := strings.NewReplacer("MESSAGE", m.text, "CLASS", class, "TEXT", text)
		if len(frames[m.command]) == 0 {
			t.Fatalf("no frame for %q", m.command)
		}
		for _, r := range frames[m.command] {
			r.ExitCode = 1
			f := judged(t, c, r, fill.Replace(r.Stdout), fill.Replace(r.Stderr))
			all++
			if !f.Code {
				sides++
			}
			if slices.Contains(strings.Split(m.kind, ","), f.Category) {
				categories++
			} else {
				t.Logf("%s: %s by %s: %s", r.Command, f.Category, f.Handler, m.text)
			}
		}
	}
	t.Logf("of %d, %d are the environment's, %d have a right category", all, sides, categories)
	if float64(sides) < 0.97*float64(all) || float64(categories) < 0.95*float64(all) {
		t.Errorf("of %d only %d are the environment's, and %d have a right category", all, sides, categories)
	}
}
