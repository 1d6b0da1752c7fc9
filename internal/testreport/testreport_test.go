package testreport_test

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testreport"
)

// What runners print about one failed test, and the statement that ended it; "" is a failed check.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, says string }{
		{"pytest, an exception of the system", "____ test_save ____\n\n    def test_save():\n>       save(\"x\")\n\nstore.py:3: \n>       with open(path, \"w\") as f:\nE       PermissionError: [Errno 13] Permission denied: 'x'\n\nstore.py:3: PermissionError\n=== short test summary info ===", "PermissionError: [Errno 13] Permission denied: 'x'"},
		{"pytest, a check", "____ test_a ____\n>       assert f() == 'No space left on device'\nE       AssertionError: assert 1 == 2\n\ntest_a.py:3: AssertionError", ""},
		{"pytest, a mock", "____ test_a ____\n>               raise effect\nE               OSError: [Errno 28] No space left on device\n\n/usr/lib/python3.11/unittest/mock.py:1177: OSError", ""},
		{"pytest, raised by the test", "____ test_a ____\n>           raise ConnectionRefusedError(111, \"Connection refused\")\nE           ConnectionRefusedError: [Errno 111] Connection refused\n\ntest_net.py:7: ConnectionRefusedError\n\n>           raise RuntimeError(\"service is down\") from e\nE           RuntimeError: service is down\n\nnet.py:5: RuntimeError", ""},
		{"pytest, what a test has printed", "____ test_a ____\n>       assert x == 2\nE       assert 1 == 2\n\ntest_a.py:3: AssertionError\n---- Captured stderr call ----\nE       OSError: [Errno 28] No space left on device", ""},
		{"pytest, short, a variable", "____ ERROR collecting tests/test_s.py ____\nsettings.py:2: in <module>\n    URL = os.environ[\"DATABASE_URL\"]\n<frozen os>:679: in __getitem__\n    ???\nE   KeyError: 'DATABASE_URL'", "the environment variable DATABASE_URL is not set (KeyError: 'DATABASE_URL')"},
		{"unittest, an exception", "ERROR: test_x (test_a.T.test_x)\n----\nTraceback (most recent call last):\n  File \"/usr/lib/python3.11/subprocess.py\", line 1, in run\n    raise child_exception_type(errno_num)\nFileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'\n", "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'"},
		{"unittest, a check", "FAIL: test_x (test_a.T.test_x)\n----\nTraceback (most recent call last):\n  File \"test_a.py\", line 1, in test_x\n    self.assertEqual(a, \"Connection refused\")\nAssertionError: 'x' != 'Connection refused'\n", ""},
		{"jest, a message alone", "  ● queue › pushes\n\n    connect ECONNREFUSED 127.0.0.1:6399\n\n\nTests: 1 failed", "connect ECONNREFUSED 127.0.0.1:6399"},
		{"jest, a check", "  ● queue › pushes\n\n    expect(received).toBe(expected)\n\n    Expected: \"ENOSPC: no space left\"\n    Received: 1\n\nTests: 1 failed", ""},
		{"jest, thrown by the test", "  ● queue › pushes\n\n    ENOSPC: no space left on device\n\n    > 4 |   throw new Error(\"ENOSPC: no space left on device\")\n        |         ^\n\n      at Object.<anonymous> (a.test.js:4:9)\n\nTests: 1 failed", ""},
		{"jest, a promise", "  ● queue › pushes\n\n    expect(received).resolves.toEqual()\n\n    Received promise rejected instead of resolved\n    Rejected to value: [Error: connect ECONNREFUSED 127.0.0.1:6399]\n\n      at expect (x.js:1:1)\n", "Error: connect ECONNREFUSED 127.0.0.1:6399"},
		{"vitest", " FAIL  a.test.ts > dials\nError: connect ECONNREFUSED 127.0.0.1:5432\n ❯ a.test.ts:3:1\n⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯", "Error: connect ECONNREFUSED 127.0.0.1:5432"},
		{"vitest, what no test caught", "⎯⎯⎯⎯ Unhandled Rejection ⎯⎯⎯⎯⎯\nError: socket hang up\n ❯ ping hb.test.js:3:81\n\nThis error originated in \"hb.test.js\" test file.", "Error: socket hang up"},
		{"AVA, without the code", "  ─\n\n  reads all\n\n  Error thrown in test:\n\n  Error (Forbidden) {\n    message: 'EACCES: permission denied, open \\'/b\\'',\n  }\n\n  ─", "EACCES: permission denied, open '/b'"},
		{"mocha", "  1) uploads\n       stores a file:\n     Error: EACCES: permission denied, open 'uploads/a.png'\n      at Object.writeFileSync (node:fs:2380:20)\n", "Error: EACCES: permission denied, open 'uploads/a.png'"},
		{"mocha, a check", "  1) uploads\n       stores a file:\n\n      AssertionError: expected 'EACCES' to equal 'x'\n      + expected - actual\n", ""},
		{"Playwright", "  1) [chromium] › home.spec.ts:3:5 › home ─────────\n\n    Error: page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:4321/\n    Call log:\n      - navigating to \"http://localhost:4321/\", waiting until \"load\"\n\n       3 | test('home', async ({ page }) => {\n    >  4 |   await page.goto('http://localhost:4321/');\n         |              ^\n\n  1 failed\n", "Error: page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:4321/"},
		{"Playwright, a check", "  1) [chromium] › cart.spec.ts:9:5 › shows total ─────────\n\n    Error: expect(locator).toHaveText(expected) failed\n\n    Expected string: \"8.00\"\n    Received string: \"net::ERR_CONNECTION_REFUSED\"\n\n  1 failed\n", ""},
		{"Playwright, a check that waits", "  1) cart.spec.ts:9:5 › shows total ─────────\n\n    Error: Timed out 5000ms waiting for expect(locator).toBeVisible()\n\n  1 failed\n", ""},
		{"Playwright, a test that does not end", "  1) cart.spec.ts:9:5 › shows total ─────────\n\n    Test timeout of 30000ms exceeded.\n\n    Error: locator.click: Target page, context or browser has been closed\n\n  1 failed\n", ""},
		{"TAP, an exception", "not ok 2 - GET\n  ---\n  error: 'fetch failed'\n  code: 'ERR_TEST_FAILURE'\n  name: 'TypeError'\n  ...\n", "fetch failed"},
		{"TAP, a check", "not ok 2 - ENOSPC is told\n  ---\n  operator: equal\n  expected: 'ENOSPC'\n  ...\n", ""},
		{"node:test, a file that was not loaded", "# /repo/lib/config.js:1\n# const x = 1\n# Error: Missing required environment variable: KEY\n#     at must (/repo/lib/config.js:1:63)\n# Node.js v20.20.2\n# Subtest: a", "Error: Missing required environment variable: KEY"},
		{"go test, an error of the kernel", "--- FAIL: TestDB (0.00s)\n    a_test.go:5: connect: dial tcp 127.0.0.1:5432: connect: connection refused\nFAIL", "connect: dial tcp 127.0.0.1:5432: connect: connection refused"},
		{"go test, words of the test", "--- FAIL: TestW (0.00s)\n    a_test.go:5: write failed: no space left on device\nFAIL", ""},
		{"go test, a comparison", "--- FAIL: TestW (0.00s)\n    a_test.go:5: explain(\"write /x: no space left on device\")\n         got \"unknown\"\n        want \"free space\"\nFAIL", ""},
		{"go test, testify", "--- FAIL: TestDB (0.00s)\n    x_test.go:4:\n        \tError Trace:\t/repo/x_test.go:4\n        \tError:      \tReceived unexpected error:\n        \t            \tdial tcp 127.0.0.1:54329: connect: connection refused\n        \tTest:       \tTestDB\nFAIL", "dial tcp 127.0.0.1:54329: connect: connection refused"},
		{"cargo test", "---- tests::a stdout ----\n\nthread 'tests::a' (654) panicked at src/lib.rs:6:73:\nconnect: Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }\n\nfailures:", "connect: Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }"},
		{"cargo test, a check", "---- tests::a stdout ----\n\nthread 'tests::a' (654) panicked at src/lib.rs:6:73:\nassertion `left == right` failed\n  left: \"Connection refused\"\n\nfailures:", ""},
		{"JUnit", "  JUnit Jupiter:PdfTest:renders()\n    MethodSource [className = 'PdfTest']\n    => java.io.IOException: Cannot run program \"x\": error=2\n       java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n", "java.io.IOException: Cannot run program \"x\": error=2"},
		{"Gradle", "CfgTest > reads() FAILED\n    java.lang.IllegalStateException: connect timed out\n        at CfgTest.reads(CfgTest.java:9)\n\n1 test completed, 1 failed", "java.lang.IllegalStateException: connect timed out"},
		{"Gradle, a check", "NetTest > retries() FAILED\n    org.opentest4j.AssertionFailedError: expected: <Connection refused> but was: <null>\n        at NetTest.retries(NetTest.java:9)\n\n1 test completed, 1 failed", ""},
		{"rspec, what another program said", "  1) History lists\n     Failure/Error: raise \"git log failed: #{err}\" unless st.success?\n\n     RuntimeError:\n       git log failed: fatal: detected dubious ownership\n     # ./spec/a_spec.rb:6\n", "RuntimeError: git log failed: fatal: detected dubious ownership"},
		{"surefire, a check", "[ERROR] a.AppTest.add -- Time elapsed: 0.01 s <<< FAILURE!\norg.opentest4j.AssertionFailedError: expected: <Connection refused> but was: <1>\n", ""},
		{"rspec, the message of what was rescued in one line", "  1) Feed loads\n     Failure/Error: def load(u) = get(u) rescue raise(Lost, \"feed: #{$!.message}\")\n\n     Feed::Lost:\n       feed: Name or service not known\n     # ./lib/feed.rb:5:in `load'\n", "Feed::Lost: feed: Name or service not known"},
		{"rspec", "  1) Store connects\n     Failure/Error: TCPSocket.new(host, port)\n\n     Errno::ECONNREFUSED:\n       Connection refused - connect(2) for \"127.0.0.1\" port 1\n     # ./lib/store.rb:3:in `initialize'\n", "Errno::ECONNREFUSED: Connection refused - connect(2) for \"127.0.0.1\" port 1"},
		{"rspec, a double", "  1) Store connects\n     Failure/Error: def call = raise(Errno::ECONNREFUSED)\n\n     Errno::ECONNREFUSED:\n       Connection refused\n     # ./spec/a_spec.rb:3\n", ""},
		{"rspec, what was rescued", "  1) Bus opens\n     Failure/Error: raise Down, \"bus: #{e.message}\"\n\n     Bus::Down:\n       bus: Connection refused - connect(2)\n     # ./lib/bus.rb:7:in `open'\n", "Bus::Down: bus: Connection refused - connect(2)"},
		{"AVA, an exception", "  ─\n\n  probes\n\n  test.js:3\n\n  Error thrown in test:\n\n  Error {\n    code: 'ENOENT',\n    message: 'spawn mediainfo ENOENT',\n  }\n\n  ─\n", "ENOENT"},
		{"AVA, a check", "  ─\n\n  is tried again\n\n  test.js:4\n\n  FATAL: sorry, too many clients already\n\n  Value is not `true`:\n\n  false\n\n  ─\n", ""},
		{"minitest", "  1) Error:\nT#test_a:\nErrno::ENOENT: No such file or directory - magick\n    a.rb:1\n", "Errno::ENOENT: No such file or directory - magick"},
		{"minitest, a check", "  1) Failure:\nT#test_a [a.rb:1]:\nExpected: \"Permission denied\"\n  Actual: nil\n", ""},
		{"phpunit", "1) QueueTest::testConnects\nstream_socket_client(): Unable to connect to tcp://127.0.0.1:1 (Connection refused)\n\n/repo/a.php:6\n", "stream_socket_client(): Unable to connect to tcp://127.0.0.1:1 (Connection refused)"},
		{"phpunit, the place is of the report", "1) QueueTest::testConnects\nRuntimeException: Connection refused\n\n/repo/src/Queue.php:6\n/repo/tests/QueueTest.php:9\n\nERRORS!", "RuntimeException: Connection refused"},
		{"phpunit, testdox", " ✘ Fetch\n   │\n   │ Error: Call to undefined function curl_init()\n   │\n", "Error: Call to undefined function curl_init()"},
		{"dotnet test", "  Failed Acme.T.A [5 ms]\n  Error Message:\n   System.Net.Sockets.SocketException : Connection refused\n  Stack Trace:\n     at X\n", "System.Net.Sockets.SocketException : Connection refused"},
		{"ctest", "2/2 Test #2: codec ....***Failed    0.00 sec\n/repo/t: error while loading shared libraries: libx.so.2: cannot open shared object file\n\n50% tests passed, 1 tests failed out of 2", "/repo/t: error while loading shared libraries: libx.so.2: cannot open shared object file"},
		{"ExUnit", "  1) test publishes (QueueTest)\n     test.exs:8\n     ** (MatchError) no match of right hand side value: {:error, :econnrefused}\n     stacktrace:\n       test.exs:5: QueueTest.x/1\n\nFinished in 0.08 seconds", "** (MatchError) no match of right hand side value: {:error, :econnrefused}"},
		{"ExUnit, a check", "  1) test a (ExplainTest)\n     test.exs:8\n     Assertion with == failed\n     left:  \"no space left on device\"\n", ""},
		{"ExUnit, an error in place of success", "  1) test pings (SearchTest)\n     test.exs:4\n     match (=) failed\n     code:  assert :ok = Search.ping()\n     left:  :ok\n     right: {:error, :econnrefused}\n     stacktrace:\n       test.exs:5: (test)\n\nFinished in 0.04 seconds", "{:error, :econnrefused}"},
		{"ExUnit, another error", "  1) test explains (SearchTest)\n     test.exs:4\n     Assertion with == failed\n     left:  {:error, :econnrefused}\n     right: {:error, :down}\n\nFinished in 0.04 seconds", ""},
		{"busted", "Error -> spec/conf_spec.lua @ 2\nconf reads\n./src/conf.lua:1: module 'x' not found:", "./src/conf.lua:1: module 'x' not found:"},
		{"busted, a check", "Failure -> spec/retry_spec.lua @ 3\nretryable\nspec/retry_spec.lua:3: connection refused must be retried\nExpected objects to be the same.", ""},
		{"tcltest", "==== thumb-1.1 makes FAILED\n==== Contents of test case:\n exec gm\n---- Test generated error; Return code was: 1\n---- errorInfo: couldn't execute \"gm\": no such file or directory\n==== thumb-1.1 FAILED", "couldn't execute \"gm\": no such file or directory"},
		{"tcltest, a check", "==== hint-1.1 x FAILED\n==== Contents of test case:\n hint\n---- Result was:\nconnection refused\n==== hint-1.1 FAILED", ""},
		{"EUnit", "log_tests: write_test...*failed*\nin function log_tests:write_test/0 (log_tests.erl, line 3)\n**error:{assertEqual,[{module,log_tests},\n              {expected,ok},\n              {value,{error,eacces}}]}\n  output:<<\"\">>", "{error,eacces}"},
		{"EUnit, a check", "pool_tests: refused_test...*failed*\n**error:{assertEqual,[{module,pool_tests},\n              {expression,\"next ( { error , econnrefused } )\"},\n              {expected,{retry,100}},\n              {value,stop}]}\n  output:<<\"\">>", ""},
		{"Nim", "    Unhandled exception: Connection refused [OSError]\n  [FAILED] answers", "Connection refused [OSError]"},
		{"Nim, a check", "    /repo/tests/tlog.nim(4, 85): Check failed: advice(\"No space left on device\") == \"clean\"\n  [FAILED] full disk", ""},
		{"meson test", "1/2 saves FAIL            0.01s   exit status 1\n>>> MALLOC_PERTURB_=1 /repo/build/t\n―――――――――――――――― ✀  ――――――――――――――――\nstderr:\n/repo/build/t: error while loading shared libraries: libx.so.2: cannot open shared object file\n――――――――――――――――――――――――――――――――――", "/repo/build/t: error while loading shared libraries: libx.so.2: cannot open shared object file"},
		{"TAP, a path at the end of a quoted error", "not ok 1 - boots\n  ---\n  error: \"ENOENT: no such file or directory, open '/etc/a.pem'\"\n  ...\n1..1", "ENOENT: no such file or directory, open '/etc/a.pem'"},
		{"cargo test, the value of expect_err", "---- t::refuses stdout ----\nthread 't::refuses' (7) panicked at src/lib.rs:1:9:\nmust be refused: Read-only file system: 1\n\nfailures:", ""},
		{"go test, the error of a client", "--- FAIL: TestOpen (0.00s)\n    store_test.go:14: boot: NOAUTH Authentication required.\nFAIL", "boot: NOAUTH Authentication required."},
		{"bats, what a program printed", "not ok 1 tls\n# (in test file t.bats, line 4)\n#   `[ \"$output\" = tls ]' failed\n# got: SSL certificate problem\nok 2 x", ""},
		{"bats, a program that is to fail", "not ok 1 a missing file\n# (in test file t.bats, line 5)\n#   `[ \"$status\" -eq 2 ]' failed\n# status 1: import: x.csv: No such file or directory\nok 2 x", ""},
		{"jasmine", "1) store connects\n  Message:\n    Error: connect ECONNREFUSED 127.0.0.1:6379\n  Stack:\n        at <Jasmine>\n\n1 spec, 1 failure", "Error: connect ECONNREFUSED 127.0.0.1:6379"},
		{"jasmine, a check with a context", "1) why knows it\n  Message:\n    JavaScript heap out of memory: Expected 'crash' to be 'memory'.\n  Stack:\n        at <Jasmine>\n\n1 spec, 1 failure", ""},
		{"jest, a promise with an answer of a server", "  ● waits\n\n    expect(received).resolves.toBe()\n\n    Received promise rejected instead of resolved\n    Rejected to value: [Error: 429 Too Many Requests]\n\n      at expect (x.js:1:1)\n", ""},
		{"uvu", "   FAIL  \"dials\"\n    connect ECONNREFUSED 127.0.0.1:6379\n\n    at TCPConnectWrap.afterConnect (node:net:1555:16)\n\n  Total:     1", "connect ECONNREFUSED 127.0.0.1:6379"},
		{"uvu, a check", "   FAIL  \"levels\"\n    Expected values to be deeply equal:  (equal)\n\n        Actual:\n        --\"Connection refused\"\n\n  Total:     1", ""},
		{"deno test", "reads => ./a_test.ts:2:6\nerror: NotFound: No such file or directory (os error 2): readfile '/etc/app.json'\n    at Object.readTextFileSync (ext:deno_fs/30_fs.js:792:10)\n    at file:///repo/a_test.ts:2:20\n\nFAILED | 0 passed | 1 failed (3ms)", "NotFound: No such file or directory (os error 2): readfile '/etc/app.json'"},
		{"deno test, thrown by the test", "denied is 403 => ./a_test.ts:2:6\nerror: Error: status 500 for Permission denied (os error 13), want 403\n    at file:///repo/a_test.ts:2:167\n\n FAILURES", ""},
		{"bun test", "SQLiteError: unable to open database file\n      at new Database (bun:sqlite:268:28)\n(fail) postcodes > knows Zurich [4.85ms]\n(pass) postcodes > four digits [6.07ms]\n\n 1 pass\n 1 fail", "SQLiteError: unable to open database file"},
		{"bun test, a check", "error: expect(received).toBe(expected)\n\nExpected: \"Connection refused\"\nReceived: \"x\"\n\n      at <anonymous> (/repo/a.test.ts:3:5)\n(fail) says why [1.00ms]\n\n 0 pass\n 1 fail", ""},
		{"go test, an error behind what the test did", "--- FAIL: TestOpen (0.00s)\n    store_test.go:14: opening the store: this build has no driver\nFAIL", "opening the store: this build has no driver"},
		{"go test, a comparison behind what the test did", "--- FAIL: TestOpen (0.00s)\n    store_test.go:14: opening the store: got 3 rows, want 4\nFAIL", ""},
		{"go test, a panic", "panic: create container: dial unix /var/run/docker.sock: connect: no such file or directory\n\ngoroutine 1 [running]:\nFAIL\texample.com/app/it\t0.006s\nFAIL", "create container: dial unix /var/run/docker.sock: connect: no such file or directory"},
		{"go test, a panic about a variable", "panic: LEDGER_DSN is not set\n\ngoroutine 1 [running]:\nFAIL\texample.com/app/it\t0.006s\nFAIL", "LEDGER_DSN is not set"},
		{"go test, a panic of the code", "panic: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nFAIL\texample.com/app/it\t0.006s\nFAIL", ""},
		{"pytest, what another program said", "____ test_items ____\n>       if p.returncode: raise RuntimeError(p.stderr.strip())\nE       RuntimeError: Can't connect to local server through socket '/run/x.sock' (2)\n\ntest_shop.py:4: RuntimeError\n=====", "RuntimeError: Can't connect to local server through socket '/run/x.sock' (2)"},
		{"pytest, two texts about a variable", "____ test_a ____\n>       assert message(e) == \"X is not set\"\nE       AssertionError: assert 'X is not set!' == 'X is not set'\n\ntest_a.py:3: AssertionError", ""},
		{"GoogleTest, a call of the system", "[ RUN      ] A.b\nt.cc:12: Failure\nExpected equality of these values:\n  0\n  connect(fd, (sockaddr *)&a, sizeof a)\n    Which is: -1\nmemcached: Connection refused\n[  FAILED  ] A.b (0 ms)", "memcached: Connection refused"},
		{"GoogleTest, a check", "[ RUN      ] A.b\nt.cc:12: Failure\nExpected equality of these values:\n  advice(e)\n    Which is: \"x\"\n  \"Connection refused\"\n[  FAILED  ] A.b (0 ms)", ""},
		{"GoogleTest", "[ RUN      ] A.b\nunknown file: Failure\nC++ exception with description \"connect: Connection refused\" thrown in the test body.\n[  FAILED  ] A.b (0 ms)", "\"connect: Connection refused\" thrown in the test body."},
	} {
		list := testreport.Parse(strings.Split("> app@1.0.0 test\n"+tc.text, "\n"))
		if len(list) != 1 {
			t.Errorf("%s: %d failures, want 1: %+v", tc.name, len(list), list)
			continue
		}
		f := list[0]
		if f.First != 1 {
			t.Errorf("%s: it begins at %d", tc.name, f.First)
		}
		got := ""
		if len(f.Says) > 0 {
			got = f.Says[0].Text
		}
		if f.Asserted != (tc.says == "") || got != tc.says {
			t.Errorf("%s: asserted %v, says %q, want %q", tc.name, f.Asserted, got, tc.says)
		}
	}
}

// pytest --tb=line prints one line for each failed test, and only below the head of its report.
func TestPytestLine(t *testing.T) {
	t.Parallel()
	lines := strings.Split("net.py:3: ReadTimeout: before the report\n===== FAILURES =====\n/usr/lib/python3/dist-packages/requests/adapters.py:578: ReadTimeout: read timed out\nt.py:9: AssertionError: assert 1 == 2\n===== short test summary info =====\nnet.py:3: ReadTimeout: after it", "\n")
	list := testreport.Parse(lines)
	if len(list) != 2 || list[0].First != 2 || list[1].First != 3 {
		t.Fatalf("%+v", list)
	}
	if list[0].Asserted || list[0].Says[0].Text != "ReadTimeout: read timed out" || !list[1].Asserted {
		t.Errorf("%+v", list)
	}
}

// What a command printed that a test of JavaScript ran is a part of what ended the test.
func TestCommandFailed(t *testing.T) {
	t.Parallel()
	lines := strings.Split("  ● renders\n\n    Command failed: magick a.png b.png\n    /bin/sh: 1: magick: not found\n\n      at run (lib/run.js:2:3)\n", "\n")
	list := testreport.Parse(lines)
	if len(list) != 1 || list[0].Asserted || len(list[0].Says) != 2 || list[0].Says[1].Text != "/bin/sh: 1: magick: not found" {
		t.Errorf("%+v", list)
	}
}

// What is no report has no failures.
func TestNoReport(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "npm error code ENOSPC\n", "ok  \texample.com/a\t0.1s\n", "PASS\n--- PASS: TestA (0.00s)\n", "1) first\n2) second\n", "__name__ == '__main__'\n"} {
		if got := testreport.Parse(strings.Split(text, "\n")); len(got) != 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Any lines give failures inside of them, in their order, that do not overlap, and statements that stand in them.
func FuzzParse(f *testing.F) {
	f.Add("____ test ____\nE   OSError: x\n--- FAIL: TestA\n    a_test.go:1: open /x: y\n")
	f.Add("  1) a\n     Failure/Error: x\n\n     E::X:\n  1) Error:\nnot ok 1\n---- a stdout ----\n")
	f.Add("# /a:1\n# Error: x\n# Node.js v20\n ✘ A\n   │ x\n1/2 Test #1: a ***Failed\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		at := -1
		for _, f := range testreport.Parse(lines) {
			if f.First <= at || f.Last < f.First || f.Last >= len(lines) {
				t.Fatalf("a failure at %d to %d, after %d, of %d lines", f.First, f.Last, at, len(lines))
			}
			at = f.Last
			if f.Asserted != (len(f.Says) == 0) {
				t.Fatalf("asserted %v with %d statements", f.Asserted, len(f.Says))
			}
			for _, s := range f.Says {
				if s.Line < f.First || s.Line > f.Last || s.Text == "" {
					t.Fatalf("a statement %q at %d of a failure at %d to %d", s.Text, s.Line, f.First, f.Last)
				}
			}
		}
	})
}
