package classify

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
)

// Code names files in many ways. What it names is read, and nothing else but what lies beside it.
func TestReach(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, code, other string
		want                    bool
	}{
		{"a table of messages", "src/errors.ts", "import en from '../locales/en.json';", "locales/en.json", true},
		{"a module of JavaScript without its ending", "test/a.test.js", "const c = require('../lib/client');", "lib/client.js", true},
		{"the index of a directory", "a.test.mjs", "import { x } from './fakes';", "fakes/index.mjs", true},
		{"a module of Python", "tests/test_a.py", "from depot.errors import Down", "src/depot/errors.py", true},
		{"a module beside a module of Python", "depot/shelf.py", "from .errors import Down", "depot/errors.py", true},
		{"a member that is a module", "test_a.py", "from depot import errors", "depot/errors.py", true},
		{"a package of Go", "internal/store/store_test.go", "\t\"example.com/app/internal/errs\"", "internal/errs/kinds.go", true},
		{"the tests of a package of Go", "a_test.go", "\t\"example.com/app/errs\"", "errs/errs_test.go", false},
		{"a module of Perl, the third of a line", "t/a.t", "use lib 'lib'; use Test::More tests => 1; use Depot::Disk;", "lib/Depot/Disk.pm", true},
		{"a file of PHP", "tests/ATest.php", "require __DIR__ . '/../lang/en.php';", "lang/en.php", true},
		{"a module of Lua", "spec/a_spec.lua", "local net = require(\"src.net\")", "src/net.lua", true},
		{"a file of a shell", "t.bats", "setup() { source lib/fetch.sh; }", "lib/fetch.sh", true},
		{"a file of a shell behind a variable", "test/t.bats", "source \"$BATS_TEST_DIRNAME/need.sh\"", "test/need.sh", true},
		{"a directory of programs that a test plays", "test/t.bats", "PATH=\"$BATS_TEST_DIRNAME/stubs:$PATH\"", "test/stubs/curl", true},
		{"what lies beside", "a.rb", "Depot.new", "b.rb", true},
		{"what nothing names", "test/a.test.js", "const c = require('../lib/client');", "other/client.js", false},
		{"what lies elsewhere", "a.js", "require('../../etc/passwd.js')", "b.json", false},
		{"a directory that lies elsewhere", "sub/a.js", "spawn('../../top/bin')", "../top/bin/x", false},
		{"an installed program", "a.js", "spawn('./node_modules/bin')", "node_modules/bin/x", false},
	} {
		dir := filepath.Join(t.TempDir(), "repo")
		write(t, dir, tt.file, tt.code+"\n")
		write(t, dir, tt.other, "x\n")
		j := judgement{in: &Input{Dir: dir}}
		if got := slices.Contains(j.reach([]string{tt.file}), tt.other); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// The words of an error may stand in a file that no trace names.
func TestWordedElsewhere(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const report = " FAIL  src/quota.test.js > fills\nError: No space left on device\n ❯ reserve src/quota.js:3:33\n ❯ src/quota.test.js:3:42\n\n⎯⎯⎯⎯⎯[1/1]⎯\n\n Test Files  1 failed (1)\n      Tests  1 failed (1)\n"
	for table, code := range map[string]bool{`{"disk": "No space left on device"}`: true, `{"disk": "full"}`: false} {
		dir := t.TempDir()
		write(t, dir, "src/quota.js", "import en from '../locales/en.json';\nexport function reserve(n, max) {\n  if (n > max) throw new Error(en.disk);\n}\n")
		write(t, dir, "src/quota.test.js", "import { reserve } from './quota.js';\n")
		write(t, dir, "locales/en.json", table)
		if f := classified(t, c, dir, "npx vitest run", report); f.Code != code {
			t.Errorf("code is %t with %s: %s", f.Code, table, f.Why)
		}
	}
}

// What a program of the project says in words that anybody has is no fact. What a program of the machine says is one.
func TestOwnProgramsSayNoFacts(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, tt := range []struct {
		command, out string
		weak         bool
	}{
		{"make check", "app: write: No space left on device\nmake: *** [Makefile:2: check] Error 1\n", true},
		{"bash tools/check.sh", "disk: no space left on device\n", true},
		{"make check", "tar: a.tar: Cannot write: No space left on device\nmake: *** [Makefile:2: check] Error 2\n", false},
		{"python3 tools/pack.py", "Traceback (most recent call last):\n  File \"/repo/tools/pack.py\", line 3, in <module>\n    f.write(b)\nOSError: [Errno 28] No space left on device\n", false},
		{"tar cf a.tar .", "tar: a.tar: Cannot write: No space left on device\n", false},
	} {
		if f := classified(t, c, "", tt.command, tt.out); f.Category != "disk_full" || f.Weak != tt.weak {
			t.Errorf("%s: %s, weak %t: %s", tt.command, f.Category, f.Weak, f.Why)
		}
	}
}

// What a rule of the operator knows of a program of the project is believed. A rule of the repository, which agents can write,
// changes nothing.
func TestRulesOfTheOperatorForOwnPrograms(t *testing.T) {
	t.Parallel()
	for source, weak := range map[string]bool{catalog.SourceUser: false, catalog.SourceRepository: true} {
		other := *embedded(t)
		h := other.Handlers[slices.IndexFunc(other.Handlers, func(h catalog.Handler) bool { return h.Category == "disk_full" })]
		h.ID, h.Match, h.Origin = "own_disk", catalog.Match{Any: []string{`^app: write: No space`}}, catalog.Origin{Source: source}
		other.Handlers = append(slices.Clone(other.Handlers), h)
		c, err := New(&other, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := classified(t, c, "", "make check", "app: write: No space left on device\nmake: *** [Makefile:2: check] Error 1\n"); f.Category != "disk_full" || f.Weak != weak {
			t.Errorf("%s: %s, weak %t: %s", source, f.Category, f.Weak, f.Why)
		}
	}
}

// A value of Lua that is thrown, and what a built program prints, name no place. Their code is read all the same.
func TestErrorsWithoutAPlace(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, tt := range []struct{ command, out, file, code string }{
		{"busted", "*\n0 successes / 0 failures / 1 error / 0 pending : 0.002 seconds\n\nError -> spec/net_spec.lua @ 3\nnet opens\ndb:2: connection refused\n", "spec/net_spec.lua",
			"it(\"opens\", function() error(host .. \": connection refused\", 0) end)\n"},
		{"go run .", "selfcheck: ENOSPC is not \"No space left on device\"\nexit status 1\n", "main.go", "var texts = map[string]string{\"ENOSPC\": \"No space left on device\"}\n"},
	} {
		for code, want := range map[string]bool{tt.code: true, "return nil\n": false} {
			dir := t.TempDir()
			write(t, dir, tt.file, code)
			if f := classified(t, c, dir, tt.command, tt.out); f.Code != want {
				t.Errorf("%s: code is %t with %s: %s", tt.command, f.Code, code, f.Why)
			}
		}
	}
}
