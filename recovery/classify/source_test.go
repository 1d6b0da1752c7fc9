package classify

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// A test throws an error of the system itself, and its report reads like one of the machine's. The code tells the two
// apart: the words stand in it, or they do not.
func TestCodeThatMakesErrors(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const phpunit = "There was 1 error:\n\n1) GateTest::testDown\n%s\n\n%s:3\n\nERRORS!\nTests: 1, Assertions: 0, Errors: 1.\n"
	const rust = "---- t::keeps stdout ----\n\nthread 't::keeps' (7) panicked at %s:4:20:\n%s\n\n\nfailures:\n    t::keeps\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
	const rspec = "Failures:\n\n  1) Mail waits\n     Failure/Error: smtp.send\n\n     %s\n     # %s:3:in `deliver'\n\nFinished in 0.01 seconds\n1 example, 1 failure\n"
	const vitest = " FAIL  p.test.js > keeps\nError: %s\n ❯ %s:3:6\n\n⎯⎯⎯⎯⎯[1/1]⎯\n\n Test Files  1 failed (1)\n      Tests  1 failed (1)\n"
	tests := []struct {
		name, command, report, said, file, code string
		want                                    bool // the code is to blame
	}{
		{"a double with the words", "phpunit", phpunit, "RuntimeException: cURL error 7: Failed to connect to api port 443: Connection refused", "tests/GateTest.php",
			"<?php\n$h->method('get')->willThrowException(new RuntimeException(\"cURL error 7: Failed to connect to api port 443: Connection refused\"));\n", true},
		{"a client that met the machine", "phpunit", phpunit, "RuntimeException: cURL error 7: Failed to connect to api port 443: Connection refused", "tests/GateTest.php",
			"<?php\n// throws what curl says\nthrow new RuntimeException(\"cURL error \" . curl_errno($c) . \": \" . curl_error($c));\n", false},
		{"an error of the program's own", "cargo test", rust, "called `Result::unwrap()` on an `Err` value: Full(\"No space left on device (os error 28)\")", "src/lib.rs",
			"pub fn put(n: usize) -> Result<(), E> {\n    if n > 3 { return Err(E::Full(\"No space left on device (os error 28)\".into())); }\n    Ok(())\n}\n", true},
		{"an error of the system", "cargo test", rust, "called `Result::unwrap()` on an `Err` value: Os { code: 28, kind: StorageFull, message: \"No space left on device\" }", "src/lib.rs",
			"pub fn put(p: &str) -> std::io::Result<()> {\n    std::fs::write(p, [0; 9000])\n}\n", false},
		{"a double that throws a type of the system", "rspec", rspec, "Errno::ECONNREFUSED:\n       Connection refused - connect(2) for \"mail\" port 25", "spec/mail_spec.rb",
			"smtp = double\nallow(smtp).to receive(:send).and_raise(Errno::ECONNREFUSED)\n", true},
		{"an error of Node.js beside a double with its words", "npx vitest run", vitest, "EACCES: permission denied, open '/etc/depot.state'", "p.test.js",
			"const w = vi.fn(() => { throw new Error(\"EACCES: permission denied, open\"); });\ntest(\"keeps\", () => {\n  fs.writeFileSync(\"/etc/depot.state\", \"1\"); });\n", false},
		{"code that bears a type of the system", "rspec", rspec, "Errno::ECONNREFUSED:\n       Connection refused - connect(2) for \"mail\" port 25", "lib/mail.rb",
			"def deliver\n  smtp.send\nrescue Errno::ECONNREFUSED => e then raise\nend\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, tt.file, tt.code)
			first, second := tt.said, tt.file
			switch tt.report {
			case phpunit:
				second = filepath.Join(dir, tt.file) // PHPUnit writes whole paths
			case rust:
				first, second = second, first
			}
			out := strings.Replace(strings.Replace(tt.report, "%s", first, 1), "%s", second, 1)
			f := classified(t, c, dir, tt.command, out)
			if f.Code != tt.want {
				t.Errorf("code is %t: %s (%s): %s", f.Code, f.Category, f.Handler, f.Why)
			}
			if elsewhere := classified(t, c, "", tt.command, out); elsewhere.Code {
				t.Errorf("without the code, the report is taken for %s (%s)", elsewhere.Category, elsewhere.Handler)
			}
		})
	}
	t.Run("a file outside of the directory", func(t *testing.T) {
		t.Parallel()
		top := t.TempDir()
		dir := filepath.Join(top, "repo")
		write(t, dir, "a", "")
		write(t, top, "tests/GateTest.php", tests[0].code)
		for _, place := range []string{filepath.Join(top, "tests", "GateTest.php"), "../tests/GateTest.php"} {
			if f := classified(t, c, dir, "phpunit", strings.Replace(strings.Replace(phpunit, "%s", tests[0].said, 1), "%s", place, 1)); f.Code {
				t.Errorf("%s was read", place)
			}
		}
	})
}

// A line may say something of a text instead of saying the text.
func TestTopics(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for out, code := range map[string]bool{
		`check of messages failed: "EACCES: permission denied, open /etc/depot" does not say who may read it`:            true,
		`docs/errors.md: E2 must read: No space left on device`:                                                          true,
		`docs/errors.md: cannot write: No space left on device`:                                                          false,
		`cannot read the key: "open /etc/depot/key: permission denied"`:                                                  false,
		`advice.py:5: error: Argument 1 has incompatible type "str"; expected "Literal['No space left on device']"  [x]`: true,
		`Exception in thread "main" java.lang.AssertionError: a full disk must queue, but got <No space left on device>`: true,
		`Exception in thread "main" java.io.IOException: No space left on device`:                                        false,
	} {
		if f := classified(t, c, "", "node check.js", out+"\n"); f.Code != code {
			t.Errorf("%s\n\tcode is %t: %s (%s): %s", out, f.Code, f.Category, f.Handler, f.Why)
		}
	}
}

func classified(t *testing.T, c *Classifier, dir, command, out string) Failure {
	t.Helper()
	f, err := c.Classify(context.Background(), Input{Command: command, Dir: dir, Exit: Exit{Code: 1}, Stdout: strings.NewReader(out)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
