package multiscan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// sampleSize is how much passing output the built-in sample holds, in bytes.
const sampleSize = 512 << 10

// builtinSample is output of builds and tests that pass, made once from the
// templates below: what it lacks in variety of words it has in their habits
// (paths, durations, counts, names of tests that speak of errors).
var builtinSample = sync.OnceValue(func() []byte {
	g := sampler{rnd: rand.New(rand.NewPCG(20, 26))}
	g.b.Grow(sampleSize + 4096)
	for n := 0; g.b.Len() < sampleSize; n++ {
		tool := sampleTools[n%len(sampleTools)]
		for _, l := range tool.head {
			g.line(l)
		}
		for range 40 + g.rnd.IntN(60) {
			g.line(tool.body[g.rnd.IntN(len(tool.body))])
		}
		for _, l := range tool.tail {
			g.line(l)
		}
	}
	return g.b.Bytes()
})

// sampler fills templates: {w} a word, {W} one with a capital, {n} a number,
// {s} some words of prose, {f} a fraction, {v} a version, {h} a hash.
type sampler struct {
	b   bytes.Buffer
	rnd *rand.Rand
}

func (g *sampler) line(template string) {
	for {
		head, rest, found := strings.Cut(template, "{")
		g.b.WriteString(head)
		if !found {
			break
		}
		word := sampleWords[g.rnd.IntN(len(sampleWords))]
		switch rest[0] {
		case 'w':
			g.b.WriteString(word)
		case 'W':
			g.b.WriteByte(word[0] - 'a' + 'A')
			g.b.WriteString(word[1:])
		case 'n':
			fmt.Fprint(&g.b, g.rnd.IntN(2000))
		case 'f':
			fmt.Fprintf(&g.b, "%d.%02d", g.rnd.IntN(30), g.rnd.IntN(100))
		case 's':
			for i := range 3 + g.rnd.IntN(7) {
				if i > 0 {
					g.b.WriteByte(' ')
				}
				g.b.WriteString(sampleProse[g.rnd.IntN(len(sampleProse))])
			}
		case 'v':
			fmt.Fprintf(&g.b, "%d.%d.%d", g.rnd.IntN(12), g.rnd.IntN(40), g.rnd.IntN(20))
		case 'h':
			fmt.Fprintf(&g.b, "%016x", g.rnd.Uint64())
		}
		template = rest[2:]
	}
	g.b.WriteByte('\n')
}

var sampleWords = strings.Fields(`
user session token cache parser config client server request response handler error errors failure retry timeout
connection network socket permission access denied module package dependency version install resolve lock file
directory path memory disk process signal exit status command shell script build compile link test assert expect
check verify validate schema field value index array object string number boolean date time zone format render
component page button form input table list item row column query database migration transaction rollback commit
branch merge conflict remote fetch push clone checkout stash header body cookie auth login logout password secret
stream buffer chunk event emitter listener queue worker thread pool task job schedule cron metric logger trace
span context cancel deadline limit rate quota backoff jitter circuit breaker fallback default option flag argument
report support export transport viewport session conversion profile refill helper format information platform performance
notification subscription operation location position action reaction collection selection relation station generation
resource source force service device notice office invoice practice interface surface workspace namespace template
delete create update insert remove replace restore register release increase decrease charge change challenge
message package image language storage coverage average usage manage stage page sandbox checkbox inbox index
controller handler manager provider loader reader writer builder router adapter wrapper container counter pointer
payment shipment document element environment deployment comment segment fragment argument assignment alignment
available possible visible variable readable writable editable enabled disabled required optional allowed accepted
number member order border folder header footer leader under over after before again always never every another
from with without within into onto upon this that these those there where which while until since because should
could would must might cannot does not have been being were will also only just first last next previous current
black white green yellow purple orange window linux darwin amd64 arm64 https localhost example github internal
process progress success access address express compress password stress across class pass less loss miss
string strong strict structure stream strategy straight start state static status store stored through throw throws
shared library libraries directory directories repository factory history category country entry retry query
mkdir chmod rename unlink symlink lookup backup startup cleanup setup group lock block clock unlock locked blocked
kernel kill skill skilled fill filled bill billing tilt until untill memory allocate allocation heap limit exceeded
compiler linker header symbol undefined reference object archive archive target toolchain goal rule recipe artifact
missing invalid unknown unexpected empty null undefined duplicate expired broken corrupt unreachable refused killed
`)

// sampleProse are the words of which the names of tests are made; the more common
// ones stand there more often.
var sampleProse = strings.Fields(`
the the the the the the a a a a an of of of of to to to to in in in and and and is is is is for for for that that with with if if if
when when when not not not it be as are are or by from from on on at can into has does should should should should returns returns returns
throws throws rejects rejects resolves handles handles handles creates creates updates deletes removes renders renders shows calls
supports allows accepts ignores keeps uses adds sets gets reads writes parses parses validates formats converts fails passes prints
return return throw error error errors value value values given empty empty string string number list array object key keys name name file files
path type function method argument arguments result results request response data input output default option options user users item items
field fields test tests case cases valid invalid missing null undefined true false all any each same new first last only than then other
multiple single two one zero more without using after before between during twice once already exists exist found same different
correct correctly properly expected unknown wrong time date page state event events call called component children parent child
message messages text line lines code status header headers body server client connection query table row column record index id token
session permission permissions role account email password url link image button click form input select modal dialog menu
nested simple complex large small long short negative positive optional required custom multiple existing initial current previous next
format encoding decoding reading writing parsing loading saving sending matching sorting filtering mapping rendering handling testing
package module import export class interface struct pointer slice map channel buffer stream reader writer reports reported
example examples implements implementation compare equal length size count position start end begin marshal unmarshal encode decode
must may will would could cannot used set get has have been being its their which where how what whether while until also no
compiling running listing building checking collected generated installing linking include library libraries system version
`)

var sampleTools = []struct{ head, body, tail []string }{
	{
		head: []string{"", "> {w}-{w}@{v} test", "> vitest run", "", " RUN  v{v} /home/dev/{w}-{w}", ""},
		body: []string{
			" \u2713 src/{w}/{w}.test.ts ({n} tests) {n}ms",
			" \u2713 src/{w}/{w}-{w}.test.js > {W}{W} > should {s} {n}ms", " \u2713 src/{w}/{w}.test.js > {W} > {s} {n}ms", " \u2713 test/{w}/{w}.test.js > {s} > {s}",
			" \x1b[32m\u2713\x1b[39m src/{w}/{w}.test.js\x1b[2m > \x1b[22m{W}\x1b[2m > \x1b[22m{s}\x1b[32m {n}\x1b[2mms\x1b[22m\x1b[39m",
			"\x1b[90mstdout\x1b[2m | src/{w}/{w}.test.js\x1b[2m > \x1b[22m\x1b[2m{W}\x1b[2m > \x1b[22m\x1b[2m{s}\x1b[22m\x1b[39m",
			"\x1b[90m    at \x1b[39m file:///home/dev/{w}/node_modules/{w}/dist/{w}.js:{n}:{n}", "    at file:///home/dev/{w}/src/{w}.test.js:{n}:{n}", "    at new Promise (<anonymous>)",
			" \u2713 packages/{w}/test/{w}-{w}.spec.tsx ({n} tests | {n} skipped) {n}ms",
			"   \u2713 {w} > {w} {w} > returns {w} when the {w} is {w} {n}ms",
			"   \u2713 {w} > throws an error if {w} is not a {w}",
			"   \u2713 handles {w} {w} with {w} ({n} ms)",
			"stdout | src/{w}/{w}.test.ts > {w} > {w} {w}",
			"stderr | src/{w}.test.ts > {w} > logs the {w} error",
			"Error: {w} {w} failed", "    at {w}{W} (/home/dev/{w}/src/{w}/{w}.ts:{n}:{n})",
		},
		tail: []string{"", " Test Files  {n} passed ({n})", "      Tests  {n} passed | {n} skipped ({n})", "   Start at  10:24:{n}",
			"   Duration  {f}s (transform {n}ms, setup {n}ms, collect {f}s, tests {f}s, environment {n}ms, prepare {n}ms)", ""},
	},
	{
		head: []string{"", "> {w}@{v} test", "> jest --ci --coverage", ""},
		body: []string{
			"PASS src/{w}/__tests__/{w}.test.js", "PASS packages/{w}-{w}/src/{w}.test.tsx ({f} s)",
			"  {W}{W}", "    \u2713 should {w} the {w} ({n} ms)", "    \u2713 does not {w} when {w} is {w}",
			"  console.log", "    {w} {w}: {n}", "      at Object.log [as {w}] (src/{w}.js:{n}:{n})",
			"{w}.ts        |   {f} |    {f} |     100 |   {f} | {n}-{n},{n}",
			"    \u25cb skipped rejects with {W}Error: connect ECONNREFUSED",
		},
		tail: []string{"", "Test Suites: {n} passed, {n} total", "Tests:       {n} skipped, {n} passed, {n} total", "Snapshots:   {n} passed, {n} total",
			"Time:        {f} s, estimated {n} s", "Ran all test suites."},
	},
	{
		head: []string{"npm warn deprecated {w}-{w}@{v}: this version is no longer supported", ""},
		body: []string{
			"npm warn deprecated {w}@{v}: Please use {w}-{w} instead", "npm http fetch GET 200 https://registry.npmjs.org/{w}-{w} {n}ms (cache hit)",
			"npm http fetch GET 200 https://registry.npmjs.org/@{w}/{w}/-/{w}-{v}.tgz {n}ms", "npm info run {w}@{v} postinstall node_modules/{w} node install.js",
			"npm verb reify mark retired [ '/home/dev/{w}/node_modules/{w}' ]",
		},
		tail: []string{"", "added {n} packages, and audited {n} packages in {n}s", "", "{n} packages are looking for funding", "  run `npm fund` for details", "", "found 0 vulnerabilities"},
	},
	{
		head: []string{"    Updating crates.io index", "     Locking {n} packages to latest compatible versions", "   Compiling {w} v{v}"},
		body: []string{
			"   Compiling {w}-{w} v{v}", "  Downloaded {w}_{w} v{v}", "    Checking {w} v{v} (/home/dev/{w}/crates/{w})",
			"test {w}::tests::{w}_{w}_{w} ... ok", "test {w}::{w}::test_{w}_error ... ok", "test {w}_returns_{w} ... ignored",
			"warning: unused variable: `{w}`", "   --> src/{w}/{w}.rs:{n}:{n}", "    |", "{n} |     let {w} = {w}.{w}();", "    |         ^^^^^ help: if this is intentional, prefix it with an underscore: `_{w}`",
			"    = note: `#[warn(unused_variables)]` on by default",
		},
		tail: []string{"    Finished `test` profile [unoptimized + debuginfo] target(s) in {f}s", "     Running unittests src/lib.rs (target/debug/deps/{w}-{h})",
			"", "test result: ok. {n} passed; 0 failed; {n} ignored; 0 measured; 0 filtered out; finished in {f}s", "", "   Doc-tests {w}"},
	},
	{
		head: []string{"============================= test session starts ==============================", "platform linux -- Python {v}, pytest-{v}, pluggy-{v}",
			"rootdir: /home/dev/{w}", "plugins: cov-{v}, xdist-{v}, asyncio-{v}", "collected {n} items", ""},
		body: []string{
			"test_{w}_{w} (test.test_{w}.{W}Test.test_{w}_{w})", "{s} ... ok", "tests/{w}/test_{w}.py::Test{W}::test_{w}[{w}-{w}] PASSED", "Compiling '/home/dev/lib/python3.12/{w}/{w}.py'...", "Listing '/usr/lib/python3.12/test/{w}'...",
			"/usr/bin/install -c -m 644 ./Include/{w}.h /usr/local/include/python3.12", "gcc -pthread -c -Wsign-compare -DNDEBUG -g -fwrapv -O3 -Wall -std=c11 -I./Include/internal -o Objects/{w}{w}.o Objects/{w}{w}.c",
			"tests/test_{w}.py::test_{w}_{w} PASSED                                [ {n}%]", "tests/{w}/test_{w}_{w}.py ..........s.....x...                        [ 42%]",
			"tests/test_{w}.py::Test{W}::test_raises_{w}_error PASSED               [ {n}%]", "  /home/dev/{w}/.venv/lib/python3.12/site-packages/{w}/{w}.py:{n}: DeprecationWarning: {w} is deprecated, use {w}",
			"    warnings.warn(", "INFO     {w}.{w}:{w}.py:{n} {w} {w} for {w}", "ERROR    {w}:{w}.py:{n} could not {w} {w}: {w}", "src/{w}/{w}.py      {n}     {n}    {n}%   {n}-{n}",
			"  Downloading {w}_{w}-{v}-py3-none-any.whl ({n} kB)", "Requirement already satisfied: {w}>={v} in ./.venv/lib/python3.12/site-packages ({v})",
		},
		tail: []string{"", "=============================== warnings summary ===============================", "================== {n} passed, {n} skipped, {n} warnings in {f}s =================="},
	},
	{
		head: []string{"go: downloading github.com/{w}/{w} v{v}", "go: downloading golang.org/x/{w} v{v}"},
		body: []string{
			"=== RUN   Test{W}{W}", "=== RUN   Example{W}_{w}", "--- PASS: Example{W} ({f}s)", "    {w}_test.go:{n}: {s}", "    --- PASS: Test{W}/{s} ({f}s)", "=== RUN   Test{W}/{w}_{w}_{w}", "=== PAUSE Test{W}{W}", "=== CONT  Test{W}{W}", "--- PASS: Test{W}{W} ({f}s)",
			"    --- PASS: Test{W}/{w}_{w} ({f}s)", "    {w}_test.go:{n}: {w}: {w} = {n}, want {n}", "ok  \tgithub.com/{w}/{w}/internal/{w}\t{f}s",
			"?   \tgithub.com/{w}/{w}/cmd/{w}\t[no test files]", "ok  \tgithub.com/{w}/{w}/{w}\t(cached)\tcoverage: {f}% of statements",
			"2026/01/02 10:{n}:{n} {w}: {w} error: {w} {w}", "--- SKIP: Test{W} ({f}s)",
		},
		tail: []string{"PASS", "ok  \tgithub.com/{w}/{w}\t{f}s"},
	},
	{
		head: []string{"make[1]: Entering directory '/home/dev/{w}'", "-- The C compiler identification is GNU {v}", "-- Detecting C compiler ABI info - done"},
		body: []string{
			"gcc -O2 -g -Wall -Wextra -Iinclude -I../{w}/include -c -o build/{w}/{w}.o src/{w}/{w}.c", "[ {n}%] Building CXX object src/{w}/CMakeFiles/{w}.dir/{w}_{w}.cpp.o",
			"cc -std=c11 -D_GNU_SOURCE -fPIC -c {w}.c -o {w}.o", "src/{w}.c:{n}:{n}: warning: unused parameter '{w}' [-Wunused-parameter]", "   {n} | static int {w}(struct {w} *{w})",
			"      |            ^~~~~~~~", "  CC      {w}/{w}.o", "  LD      lib{w}.so", "-- Looking for {w}_{w} - found", "checking for {w}_{w}... yes", "ar rcs lib{w}.a {w}.o {w}.o", "[100%] Built target {w}",
		},
		tail: []string{"make[1]: Leaving directory '/home/dev/{w}'", "make[1]: Nothing to be done for 'all'."},
	},
	{
		head: []string{"> tsc --noEmit -p tsconfig.json", "[10:{n}:{n} AM] Starting compilation in watch mode..."},
		body: []string{
			"dist/assets/{w}-{h}.js    {f} kB \u2502 gzip: {f} kB", "TSFILE: /home/dev/{w}/dist/{w}/{w}.d.ts", "transforming ({n}) src/{w}/{w}.tsx", "[INFO] --- maven-surefire-plugin:{v}:test (default-test) @ {w} ---",
			"[INFO] Tests run: {n}, Failures: 0, Errors: 0, Skipped: {n}, Time elapsed: {f} s -- in com.{w}.{w}.{W}Test", "> Task :{w}:compileJava UP-TO-DATE", "> Task :{w}:test",
			"{W}Test > {w}{W}() PASSED", "Get:{n} http://deb.debian.org/debian bookworm/main amd64 lib{w} amd64 {v}-1 [{n} kB]", "Setting up lib{w}-dev:amd64 ({v}-1) ...", "Unpacking {w} ({v}-2+deb12u1) ...",
		},
		tail: []string{"[10:{n}:{n} AM] Found 0 errors. Watching for file changes.", "\u2713 built in {f}s", "BUILD SUCCESSFUL in {n}s", "[INFO] BUILD SUCCESS"},
	},
}
