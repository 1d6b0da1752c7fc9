package classify

import (
	"strings"
	"testing"
)

// A definition that only other tests name is no double of this test.
func TestWithoutUnused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, report string
		want               bool // the words stay
	}{
		{"a type of Rust", "mod tests {\n    struct Full;\n    impl Write for Full {\n        fn write(&mut self) { Err(WORDS) }\n    }\n    #[test] fn fills() {\n        copy(Full);\n    }\n    #[test] fn copies() {\n        copy(file);\n    }\n}", "copies", false},
		{"the same, of the test that uses it", "mod tests {\n    struct Full;\n    impl Write for Full {\n        fn write(&mut self) { Err(WORDS) }\n    }\n    #[test] fn fills() {\n        copy(Full);\n    }\n    #[test] fn copies() {\n        copy(file);\n    }\n}", "fills", true},
		{"a module of Ruby", "class T\n  module Refuses\n    def self.new = raise(WORDS)\n  end\n\n  def test_down = ping(Refuses)\n  def test_ping = ping(TCP)\nend", "test_ping", false},
		{"a type of Go with a method", "type full struct{}\n\nfunc (full) Write() error { return WORDS }\n\nfunc TestFull(t *testing.T) {\n\tput(full{})\n}\n\nfunc TestPut(t *testing.T) {\n\tput(f)\n}", "TestPut", false},
		{"a value of JavaScript", "const down = () => { throw WORDS };\ntest(\"tells\", () => {\n  call(down);\n});\ntest(\"calls\", () => {\n  call(up);\n});", "calls", false},
		{"what a runner calls", "def setUp():\n    raise WORDS\n\ndef test_a():\n    pass\n", "test_a", true},
		{"a file whose tests the report does not name", "const down = () => { throw WORDS };\ntest(\"tells\", () => {\n  call(up);\n});", "other", true},
	} {
		got := strings.Join(withoutOthers(strings.Split(tt.file, "\n"), []string{"1) " + tt.report}), "\n")
		if strings.Contains(got, "WORDS") != tt.want {
			t.Errorf("%s:\n%s", tt.name, got)
		}
	}
}

// A port that the system has given to a server of the test is the test's.
func TestGivenPort(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const report = "--- FAIL: TestDown (0.00s)\n    w_test.go:9: For: dial tcp 127.0.0.1:42491: connect: connection refused\nFAIL\nFAIL\texample.com/app\t0.01s\nFAIL\n"
	for code, want := range map[string]bool{
		"l, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n":                                     true,
		"l, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\nconst broker = \"127.0.0.1:42491\"\n": false,
		"For(os.Getenv(\"BROKER\"))\n":                                                         false,
	} {
		dir := t.TempDir()
		write(t, dir, "w_test.go", code)
		if f := classified(t, c, dir, "go test ./...", report); f.Code != want {
			t.Errorf("code is %t with %s: %s", f.Code, code, f.Why)
		}
	}
}

// A guard knows mistakes of the project. What an installed script says of its own lines is none of them.
func TestGuardsOfInstalledScripts(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for out, code := range map[string]bool{
		"/usr/bin/chromium: 9: [: 25273208832: unexpected operator\n[3:3:ERROR:env.cc(257)] Missing X server or $DISPLAY\n": false,
		"./shot.sh: 9: [: 25273208832: unexpected operator\n":                                                               true,
	} {
		if f := classified(t, c, "", "sh shot.sh", out); f.Code != code {
			t.Errorf("code is %t: %s (%s): %s", f.Code, f.Category, f.Handler, out)
		}
	}
}

// What a double threw is the code's, in whatever words.
func TestDoubleInOneLine(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	out := ".F [100%]\n=================================== FAILURES ===================================\n/usr/lib/python3.11/unittest/mock.py:1177: subprocess.CalledProcessError: Command '['git', 'fetch']' returned non-zero exit status 128.\n=========================== short test summary info ============================\nFAILED test_g.py::test_offline\n1 failed, 1 passed in 0.17s\n"
	if f := classified(t, c, "", "pytest -q --tb=line", out); !f.Code {
		t.Errorf("%s: %s", f.Category, f.Why)
	}
}
