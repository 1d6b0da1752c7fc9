package classify

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without a handler, what a program of the project says itself is the code's;
// what it says of the world outside, and what another program says, is not.
func TestOwnFault(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, tc := range []struct {
		name, command  string
		exit           Exit
		stdout, stderr string
		code           bool
	}{
		{"an exception of one's own", "python3 app.py", Exit{Code: 1}, "", "Traceback (most recent call last):\n  File \"/repo/app.py\", line 4, in <module>\n    take(3)\nStockError: not enough of 3\n", true},
		{"the same, thrown by a library alone", "black .", Exit{Code: 1}, "", "Traceback (most recent call last):\n  File \"/usr/lib/python3/dist-packages/black/x.py\", line 4, in <module>\n    take(3)\nStockError: not enough of 3\n", false},
		{"an exception about the world outside", "python3 app.py", Exit{Code: 1}, "", "Traceback (most recent call last):\n  File \"/repo/app.py\", line 4, in <module>\n    take(3)\nBrokerError: could not connect to queue 3\n", false},
		{"a file of the project that is not there", "python3 app.py", Exit{Code: 1}, "", "Traceback (most recent call last):\n  File \"/repo/app.py\", line 4, in <module>\n    open(x)\nFileNotFoundError: [Errno 2] No such file or directory: 'data/items.json'\n", true},
		{"a file that a build makes", "python3 app.py", Exit{Code: 1}, "", "Traceback (most recent call last):\n  File \"/repo/app.py\", line 4, in <module>\n    open(x)\nFileNotFoundError: [Errno 2] No such file or directory: 'dist/items.json'\n", false},
		{"the usage of a script", "./deploy.sh prod now", Exit{Code: 2}, "", "usage: deploy.sh ENV\n", true},
		{"a fault of the project's program", "./app", Exit{Signal: "SIGSEGV"}, "", "", true},
		{"a fault of another's program", "node app.js", Exit{Signal: "SIGKILL"}, "", "", false},
		{"a tool of the machine complains", "zorkctl apply", Exit{Code: 1}, "", "order 3 has no price\n", false},
		{"a check names a place", "npm run check", Exit{Code: 1}, "", "check failed: src/a.js:3 contains console.log\n", true},
		{"two files differ", "diff -u want got", Exit{Code: 1}, "--- want\n+++ got\n", "", true},
		{"a script shows a difference", "sh test.sh", Exit{Code: 1}, "comparing\n--- want.txt\n+++ got.txt\n@@ -1,2 +1,2 @@\n a: ok\n-b: Permission denied\n+b: denied\n", "", true},
		{"a difference, and then something else", "sh test.sh", Exit{Code: 1}, "--- want.txt\n+++ got.txt\n@@ -1,2 +1,2 @@\n-b\n+c\nuploading\n", "zork: the service is unreachable\n", false},
		{"a fault below make", "make test", Exit{Code: 2}, "./app\n", "make: *** [Makefile:2: test] Segmentation fault\n", true},
		{"a fault below a shell", "bash run.sh", Exit{Code: 1}, "", "run.sh: line 3:   962 Segmentation fault      (core dumped) ./app --all\n", true},
		{"a fault of another's program below a shell", "bash run.sh", Exit{Code: 1}, "", "run.sh: line 3:   962 Segmentation fault      zorkctl apply\n", false},
		{"killed below make", "make test", Exit{Code: 2}, "./app\n", "make: *** [Makefile:2: test] Killed\n", false},
		{"a check that has found nothing wrong", "eslint .", Exit{Code: 1}, "", "checked 200 files, 0 errors, 0 warnings\n", false},
		{"a check that counts", "eslint .", Exit{Code: 1}, "", "checked 200 files, 3 errors, 0 warnings\n", true},
		{"no word", "bash check.sh", Exit{Code: 1}, "", "", false},
		{"a compiler that superloop does not know", "fancyc main.fc", Exit{Code: 1}, "", "main.fc(5, 27) Error: undeclared field: 'price'\n", true},
		{"the same, about a part that is missing", "fancyc main.fc", Exit{Code: 1}, "", "main.fc(2, 8) Error: cannot open file: jester\n", false},
		{"a place, then the error", "fancyc main.fc", Exit{Code: 1}, "", "File \"main.fc\", line 2, characters 35-46:\n2 | let a = b\nError: This expression has type int\n", true},
		{"a place in an installed library", "fancyc main.fc", Exit{Code: 1}, "", "/usr/lib/fancy/net.fc(5, 27) Error: undeclared field: 'price'\n", false},
		{"a place, and the network", "fancyc main.fc", Exit{Code: 1}, "", "main.fc(5, 27) Error: connection refused by 127.0.0.1\n", false},
		{"what was built says so itself", "go run ./cmd/sync", Exit{Code: 1}, "", "order 14 has no price and is no draft\nexit status 1\n", true},
		{"what was built refuses an option", "go run ./cmd/load --dry", Exit{Code: 1}, "", "flag provided but not defined: -dry\nUsage of load:\n  -file string\n    \tthe file to load\nexit status 2\n", true},
		{"a host and a port are no place in the code", "python3 jobs.py", Exit{Code: 1}, "waiting for database at db.internal:5432 ...\n", "gave up: the database is not reachable\n", false},
		{"a place in words", "zqxplay site.yml", Exit{Code: 4}, "", "ERROR! conflicting action statements: copy, bad\n\nThe error appears to be in '/repo/site.yml': line 5, column 6, but may\nbe elsewhere in the file depending on the exact syntax problem.\n", true},
		{"a place in words, and a part that is missing", "zqxplay site.yml", Exit{Code: 1}, "", "ERROR! the role 'acme.nginx' was not found in /repo/roles\n\nThe error appears to be in '/repo/site.yml': line 3, column 11, but may\nbe elsewhere in the file depending on the exact syntax problem.\n", false},
		{"superloop's own limit", "python3 app.py", Exit{Code: 1, TimedOut: true}, "", "Traceback (most recent call last):\n  File \"/repo/app.py\", line 4, in <module>\n    take(3)\nStockError: not enough of 3\n", false},
	} {
		f, err := c.Classify(context.Background(), Input{Command: tc.command, Exit: tc.exit, Stdout: strings.NewReader(tc.stdout), Stderr: strings.NewReader(tc.stderr)})
		if err != nil {
			t.Fatal(err)
		}
		if code := f.Code && !strings.Contains(f.Why, "it reads like"); code != tc.code { // a guess is not this rule's
			t.Errorf("%s: code is %t, want %t: %s by %q: %s", tc.name, f.Code, tc.code, f.Category, f.Handler, f.Why)
		}
		if f.Code && f.Handler == "" && (f.Confidence != ownConfidence || f.Signature == "" || f.Infra) {
			t.Errorf("%s: confidence %v, signature %q, infra %t", tc.name, f.Confidence, f.Signature, f.Infra)
		}
	}
}

// A package that is declared and intact has no such file; one that is missing is
// installed.
func TestDeclaredAndInstalled(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("package.json", `{"name":"a","dependencies":{"lodash":"4","left-pad":"1"}}`)
	write("node_modules/lodash/package.json", `{"name":"lodash","main":"lodash.js"}`)
	write("node_modules/lodash/lodash.js", "")
	for module, code := range map[string]bool{"lodash/zzz": true, "left-pad": false, "express": true} {
		text := "Error: Cannot find module '" + module + "'\nRequire stack:\n- " + dir + "/a.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15) {\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2\n"
		f, err := c.Classify(context.Background(), Input{Command: "node a.js", Dir: dir, Exit: Exit{Code: 1}, Stderr: strings.NewReader(text), Probes: &System{}})
		if err != nil {
			t.Fatal(err)
		}
		if f.Code != code {
			t.Errorf("%s: code is %t, want %t: %s", module, f.Code, code, f.Why)
		}
	}
}

func TestOwnModule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pkg, file string
		own       bool
	}{
		{"app.models", "app/views.py", true},
		{"app.models", "/repo/src/app/views.py", true},
		{"app.models", "tests/test_views.py", false},
		{"requests", "requests/a.py", false},
		{"google.cloud", "/usr/lib/python3/site-packages/google/a.py", false},
		{"app.models", "", false},
	} {
		if got := ownModule(tc.pkg, tc.file); got != tc.own {
			t.Errorf("%s imported by %q: %t, want %t", tc.pkg, tc.file, got, tc.own)
		}
	}
}

func TestColonPlace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line, file string
		n          int
	}{
		{"src/a.js:3:5: error: x", "src/a.js", 3},
		{"    at f (/repo/src/a.js:12:9)", "/repo/src/a.js", 12},
		{"    at file:///repo/a.mjs:1:22", "/repo/a.mjs", 1},
		{" ❯ src/a.test.ts:7:3", "src/a.test.ts", 7},
		{`C:\repo\a.cs:3: x`, `C:\repo\a.cs`, 3},
		{"/repo/Rakefile:3:in `block'", "/repo/Rakefile", 3},
		{"12:30:45 a message", "", 0},
		{"connect 127.0.0.1:5432", "", 0},
		{"    at f (/repo/node_modules/x/a.js:1:1)", "", 0},
		{"https://x.org:443/a", "", 0},
		{":::3000", "", 0},
	} {
		if f, n := placeIn(tc.line); f != tc.file || n != tc.n {
			t.Errorf("%q: %s:%d, want %s:%d", tc.line, f, n, tc.file, tc.n)
		}
	}
}

// What a program logged before a mistake of its own ended it, it had survived,
// unless the mistake may be the consequence.
func TestSurvivedBeforeAMistake(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const logged = "ERROR:db:could not connect to server: Connection refused\n"
	const trace = "Traceback (most recent call last):\n  File \"/repo/jobs.py\", line 5, in <module>\n    print(j.state)\n"
	const raised = "Traceback (most recent call last):\n  File \"/repo/jobs.py\", line 2, in <module>\n    dial()\nConnectionRefusedError: [Errno 111] Connection refused\n\nDuring handling of the above exception, another exception occurred:\n\n"
	for _, tc := range []struct {
		name, stderr string
		code         bool
	}{
		{"an attribute that no object has", logged + trace + "AttributeError: 'Job' object has no attribute 'state'\n", true},
		{"an attribute of nothing", logged + trace + "AttributeError: 'NoneType' object has no attribute 'state'\n", false},
		{"an exception on the way", raised + trace + "AttributeError: 'Job' object has no attribute 'state'\n", false},
	} {
		if f := verdictOf(t, c, "python3 jobs.py", 1, "", tc.stderr); f.Code != tc.code {
			t.Errorf("%s: code is %t: %s by %q: %s", tc.name, f.Code, f.Category, f.Handler, f.Why)
		}
	}
}
