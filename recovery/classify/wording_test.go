package classify

import (
	"path/filepath"
	"strings"
	"testing"
)

// The code has worded a message if nothing of the system's wording is left when the code's strings are cut out of it.
func TestComposed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, said, code string
		want             bool
	}{
		{"a string in two parts", "dial tcp 10.0.0.1:6379: connect: connection refused", `return fmt.Sprintf("dial tcp %s: connect: %s", a, "connection refused")`, true},
		{"the system's frame is left", "ping: dial tcp 10.0.0.1:6379: connect: connection refused", `var errDown = errors.New("connection refused")`, false},
		{"an error of the system by its name", "saving a: write a.json: no space left on device", `return &fs.PathError{Op: "write", Path: n, Err: syscall.ENOSPC}`, true},
		{"an error of another name", "saving a: write a.json: no space left on device", `return &fs.PathError{Op: "write", Path: n, Err: syscall.EACCES}`, false},
		{"a typed double without the call", "Live: dial tcp 127.0.0.1:80: connect: connection refused", `return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}`, false},
		{"a number of Rust", `Err: Os { code: 28, kind: StorageFull, message: "No space left on device" }`, `Err(io::Error::from_raw_os_error(28))`, true},
		{"another number of Rust", `Err: Os { code: 13, kind: PermissionDenied, message: "Permission denied" }`, `Err(io::Error::from_raw_os_error(28))`, false},
		{"a kind that only the library has", `Custom { kind: Uncategorized, error: "Name or service not known" }`, `Error::new(ErrorKind::Other, "Name or service not known")`, false},
		{"a string to which a value is put", "Connection is not available, request timed out after 300ms.", `super("Connection is not available, request timed out after " + n + "ms.");`, true},
		{"an error number in the message", "store: [Errno 111] Connection refused", `raise ConnectionError(111, "Connection refused")`, false},
		{"an error number that C chooses", "t.c:7: put: got -1 (No space left on device), want 4", `errno = n > 4 ? ENOSPC : 0;`, true},
		{"an error number that C returns", "ring: cannot push: No space left on device", `if (full(r)) return -ENOSPC;`, true},
		{"an error number that C asks for", "ring: cannot push: No space left on device", `if (errno == ENOSPC) grow(r);`, false},
		{"a message of two lines", "error: mkdir /srv: permission denied\nhint: ask", `hint("mkdir /srv: permission denied")`, true},
		{"a double that talks of another port", "cache: Connection refused - connect(2) for \"127.0.0.1\" port 39003", `raise(Errno::ECONNREFUSED, "connect(2) for \"127.0.0.1\" port 6379")`, false},
		{"a double that talks of this port", "cache: Connection refused - connect(2) for \"127.0.0.1\" port 6379", `raise(Errno::ECONNREFUSED, "connect(2) for \"127.0.0.1\" port 6379")`, true},
		{"a script that looks for programs", "need: jq: command not found", `echo "$0: $p: command not found"`, true},
		{"a shell that looks for programs", "t.bats: line 9: jq: command not found", `echo "$0: $p: command not found"`, false},
		{"a string of Perl with an element", "cannot lock /run/a: Permission denied", `die "cannot lock $_[0]: Permission denied\n"`, true},
		{"a type of the system that the code throws", "java.io.IOException: Stale file handle", `throw new IOException("Stale file handle");`, true},
		{"a type of the system that it does not throw", "java.io.IOException: Stale file handle", `String text = "Stale file handle";`, false},
	} {
		if got := composed(tt.said, []string{tt.code}); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// What a runtime or a library threw is not the code's, whatever its words.
func TestFromOutside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		report string
		at     int
		want   bool
	}{
		{"java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.connect0(Native Method)\n\tat Bus.main(Bus.java:7)", 0, true},
		{"java.net.ConnectException: Connection refused\n\tat Bus.main(Bus.java:7)", 0, false},
		{"    EACCES: permission denied\n      at Object.mkdirSync (node:fs:1371:26)", 0, true},
		{"    connect ECONNREFUSED\n      at expect (node_modules/expect/build/index.js:2:1)\n      at Object.t (a.test.js:4:9)", 0, false},
		{">       f.write(data)\nE       OSError: [Errno 28] No space left on device\n\nkeep.py:9: OSError", 1, true},
		{">       raise OSError(28, os.strerror(28))\nE       OSError: [Errno 28] No space left on device\n\ntest_keep.py:9: OSError", 1, false},
		{"E   ConnectionError: refused\n\n/usr/lib/python3/dist-packages/requests/adapters.py:9: ConnectionError", 0, true},
	} {
		if got := fromOutside(strings.Split(tt.report, "\n"), tt.at); got != tt.want {
			t.Errorf("%t for:\n%s", got, tt.report)
		}
	}
}

// Each test has doubles of its own: those of another test say nothing of this one.
func TestWithoutOthers(t *testing.T) {
	t.Parallel()
	file := strings.Split("const shared = 1;\ntest(\"tells\", () => {\n  a();\n});\ntest(\"packs\", () => {\n  b(shared);\n});", "\n")
	got := strings.Join(withoutOthers(file, []string{"  ● packs", "    packing: refused"}), "|")
	if want := "const shared = 1;|||});|test(\"packs\", () => {|  b(shared);|});"; got != want {
		t.Errorf("%s", got)
	}
	if got := withoutOthers(file, []string{"unhandled"}); len(got) != len(file) || got[2] == "" {
		t.Errorf("a report that names no test: %q", got)
	}
}

// A report names a file as its package sees it. The file is found in the package.
func TestFilesOfPackages(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	dir := t.TempDir()
	write(t, dir, "internal/store/store.go", "package store\n\nfunc down(a string) error { return fmt.Errorf(\"dial tcp %s: connection timed out\", a) }\n")
	write(t, dir, "internal/store/store_test.go", "package store\n")
	const report = "--- FAIL: TestPut (0.00s)\n    store_test.go:8: cannot put: dial tcp 10.0.0.1:80: connection timed out\nFAIL\nFAIL\texample.com/app/%s\t0.01s\nFAIL\n"
	if f := classified(t, c, dir, "go test ./...", strings.Replace(report, "%s", "internal/store", 1)); !f.Code {
		t.Errorf("%s by %s: %s", f.Category, f.Handler, f.Why)
	}
	if f := classified(t, c, dir, "go test ./...", strings.Replace(report, "%s", "internal/other", 1)); f.Code {
		t.Errorf("the files of another package are read: %s", f.Why)
	}
	j := judgement{in: &Input{Dir: dir}, stdout: &output{}, stderr: &output{}}
	for file, want := range map[string]string{filepath.Join(dir, "a.go"): "a.go", "/elsewhere/a.go": "", "../a.go": "", "": ""} {
		if got := j.local(file); got != want {
			t.Errorf("local(%q) = %q, want %q", file, got, want)
		}
	}
}

// A server that the test itself has started answers what the test makes it answer.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const report = "--- FAIL: TestFetch (0.00s)\n    c_test.go:9: cannot fetch: unexpected status 503 Service Unavailable\nFAIL\nFAIL\texample.com/app\t0.01s\nFAIL\n"
	for code, want := range map[string]bool{
		"s := httptest.NewServer(h)\nfunc h(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }\n": true,
		"r, err := http.Get(\"http://depot/\")\n":                                                             false,
	} {
		dir := t.TempDir()
		write(t, dir, "c_test.go", code)
		if f := classified(t, c, dir, "go test ./...", report); f.Code != want {
			t.Errorf("code is %t with %s: %s", f.Code, code, f.Why)
		}
	}
}

// What a failed test alone says is no fact, if no guard knows its runner either.
func TestWordsOfATestAreWeak(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	out := "==== put-1 fills it FAILED\n==== Contents of test case:\n put 4 4\n---- Test generated error; Return code was: 1\n---- Return code should have been one of: 0 2\n---- errorInfo: couldn't write \"spool\": no space left on device\n    while executing\n\"put 4 4\"\n---- errorCode: NONE\n==== put-1 FAILED\n"
	if f := classified(t, c, "", "tclsh all.tcl", out); !f.Weak || f.Category != "disk_full" {
		t.Errorf("%s, weak %t: %s", f.Category, f.Weak, f.Why)
	}
}
