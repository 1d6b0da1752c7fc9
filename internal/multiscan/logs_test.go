package multiscan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// logKind says what share of the lines of a generated log is what.
type logKind struct {
	name       string
	fail, near float64
}

var (
	passingLog = logKind{"passing", 0.001, 0}
	nearLog    = logKind{"nearmiss", 0.001, 0.33}
	hotLog     = logKind{"hot", 0.05, 0.05}
)

// logOf generates about size bytes of a log. Its templates and words are not
// those of the built-in sample.
func logOf(kind logKind, size int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 7))
	pick := func(s []string) string { return s[rnd.IntN(len(s))] }
	var b bytes.Buffer
	b.Grow(size + 1<<10)
	mode := 0
	for n := 0; b.Len() < size; n++ {
		if n%300 == 0 {
			mode = rnd.IntN(len(passingLines))
		}
		line := pick(passingLines[mode])
		switch r := rnd.Float64(); {
		case r < kind.fail:
			line = pick(failingLines)
		case r < kind.fail+kind.near:
			line = pick(nearLines)
		}
		for {
			head, rest, ok := strings.Cut(line, "%")
			b.WriteString(head)
			if !ok {
				break
			}
			switch rest[0] {
			case 'w':
				b.WriteString(pick(logWords))
			case 'd':
				fmt.Fprint(&b, rnd.IntN(3000))
			default:
				b.WriteByte('%')
				b.WriteByte(rest[0])
			}
			line = rest[1:]
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

var logWords = strings.Fields(`account address alert amount asset async audit avatar badge balance banner basket batch billing block board booking
	bundle calendar camera campaign card carrier category channel chart checkout city code comment company contact content contract
	coupon course crypto currency customer dashboard data delivery device diff discount document domain draft editor email encoder engine entity
	entry export feed feedback filter folder font gateway geo graph grid group guest handler hash history hook host icon image import inbox
	index invite invoice issue journal kernel label language layout leader ledger legend lesson library license link locale location macro
	mailer map market media member memory menu merchant message meter mobile model module monitor mutex network node note notice offer
	order owner packet panel partner password patch payment peer permission photo plan player policy poll portal post price printer product profile
	project promise provider proxy query quota range reader receipt record refund region relay release report request resolver resource
	review reward role route router rule sample scanner schema scope score screen search section sensor session shape share shipment signal site
	slot socket source stage state stock store stream student style subscription survey symbol sync system tag target tax team template
	tenant theme thread ticket timeline timer token tool topic tracker transfer tree trigger unit upload vector vendor version video view
	visitor voucher wallet warehouse webhook widget window wizard worker workspace zone`)

var passingLines = [][]string{
	{" ✓ src/%w/%w.test.ts (%d tests) %dms", " ✓ src/%w/%w/%w.spec.ts > %w > creates the %w for a %w %dms", "stdout | src/%w.test.ts > %w %w", "%w %w: loaded %d entries from /build/%w/%w/fixtures/%w.json",
		"   ✓ rejects when the %w is not allowed to read the %w", "   ✓ retries after a connection error", " RUN  v3.2.%d /build/%w"},
	{"test %w::%w::tests::%w_%w_%w ... ok", "test %w::%w_roundtrip ... ok", "   Compiling %w-%w v0.%d.%d", "   Compiling %w v1.%d.0 (/build/%w/crates/%w)", "  Downloaded %w-%w v%d.0.1 (registry `crates-io`)",
		"warning: function `%w_%w` is never used", "  --> crates/%w/src/%w.rs:%d:5", "test result: ok. %d passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.%ds"},
	{"tests/unit/test_%w.py::TestCase%d::test_%w_%w PASSED [ 12%]", "tests/integration/test_%w_%w.py ................... [ %d%]", "DEBUG    %w.%w:%w.py:%d sending %w to %w (%d bytes)", "WARNING  %w:%w.py:%d slow %w: %dms",
		"Collecting %w-%w>=%d.2", "  Using cached %w_%w-%d.1.0-cp312-cp312-manylinux_2_17_x86_64.whl (%d kB)"},
	{"=== RUN   Test%w/%w_%w", "--- PASS: Test%w/%w (0.%ds)", "ok  \tgithub.com/acme/%w/pkg/%w\t%d.102s", "    %w_test.go:%d: %w took %dms", "2026-03-11T10:22:%dZ INFO %w/%w.go:%d %w ready {\"id\": \"%d\", \"%w\": \"%w\"}", "?   \tgithub.com/acme/%w/cmd/%w\t[no test files]"},
	{"[%d/%d] Building CXX object src/%w/CMakeFiles/%w.dir/%w.cc.o", "g++ -O2 -Wall -Iinclude -MMD -MP -c src/%w/%w.cc -o build/%w/%w.o", "src/%w.cc:%d:12: warning: comparison of integer expressions of different signedness [-Wsign-compare]", "-- Performing Test HAVE_%w - Success", "  CC      drivers/%w/%w.o"},
	{"npm http fetch GET 200 https://packages.example.invalid/%w-%w %dms (cache hit)", "npm warn deprecated %w@%d.0.1: this library is not supported any more", "added %d packages, and audited %d packages in %ds", "  at %w (/build/%w/node_modules/%w/lib/%w.js:%d:17)", "dist/%w-%d.js   %d.11 kB"},
	{"[INFO] Downloaded from central: https://repo.maven.apache.org/maven2/org/%w/%w/%d/%w-%d.jar (%d kB at 1.2 MB/s)", "[INFO] Tests run: %d, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.%d s -- in org.%w.%wTest", "> Task :%w:compileKotlin UP-TO-DATE", "Get:%d http://deb.debian.org/debian bookworm/main amd64 lib%w-dev amd64 1.%d [%d kB]"},
}

// failingLines are what the patterns look for.
var failingLines = []string{
	"npm error code ERESOLVE", "npm ERR! code E404", "npm error code EINTEGRITY", "ERR_PNPM_OUTDATED_LOCKFILE  Cannot install", "error: externally-managed-environment",
	"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process %d (apt-get)", "E: Unable to locate package lib%w-dev", "fatal: unable to access 'https://github.com/acme/%w/': Could not resolve host: github.com",
	"ModuleNotFoundError: No module named '%w'", "ERROR: No matching distribution found for %w==%d", "go: github.com/acme/%w@v0.%d.0: missing go.sum entry for go.mod file",
	"error: linker `cc` not found", "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "Error: listen EADDRINUSE: address already in use :::%d",
	"Error: connect ECONNREFUSED 127.0.0.1:5432", "src/%w.c:%d:10: fatal error: openssl/ssl.h: No such file or directory", "/bin/sh: 1: %w: command not found", "make: *** No rule to make target '%w', needed by 'all'.  Stop.",
	"CMake Error at CMakeLists.txt:%d (message): Could NOT find ZLIB", "tar: failed to write /opt/%w: No space left on device", "Error: EMFILE: too many open files, watch", "fatal: detected dubious ownership in repository at '/srv/%w'",
}

// nearLines share words with the patterns and match none, or hardly any.
var nearLines = []string{
	"   ✓ shows 'command not available' when the %w is missing", "test errors::connection_reset_is_retried ... ok", "the server says: permission denied for %w, as it should", "No space reserved for %w; using the default",
	"--- PASS: TestEADDRINUSEIsExplained/%w (0.%ds)", "npm error codes are documented in docs/%w.md", "   ✓ ECONNREFUSED on 127.0.0.1 is mapped to unavailable (%d ms)", "INFO certificate of %w expires in %d days; certificates verified: %d",
	"checking whether openssl/%w.h is usable... yes", "    - could not resolve %w to a host name, skipped", "   Compiling externally-managed v0.%d.1", "PASS src/__tests__/no-matching-%w.test.js", "test fatal_error_page_for_%w ... ok",
	"[%d/%d] heap out of bounds check in %w ok", "the lock file of %w needs no update", "lookup of module %w took %dms; cannot be cached",
}
