package classify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/text"
)

// logKinds are the outputs of large test runs, in the form that the runners
// give them: templates in which %p is some words, %w a word, %W one with a capital and %n a number.
var logKinds = []struct {
	name       string
	lines, end []string
}{
	{"vitest", []string{
		" ✓ src/%w/%w-%w.test.ts > %W%W > should %p %nms", " ✓ src/%w/%w-%w.test.ts > %W%W > returns %p", " ✓ packages/%w/src/%w.test.ts > %W > %p %nms",
		" ✓ src/%w/%w.test.ts (%n tests) %nms", "stdout | src/%w/%w.test.ts > %W > should %p", "%p", "  { id: %n, name: '%w_%w' }",
	}, []string{
		" FAIL  src/%w/%w.test.ts > %W > should %p", "AssertionError: expected %n to be %n // Object.is equality", " ❯ src/%w/%w.test.ts:%n:%n", "", " Test Files  1 failed | %n passed (%n)", "      Tests  1 failed | %n passed (%n)",
	}},
	{"vitest-coloured", []string{
		" \x1b[32m✓\x1b[39m src/%w/%w-%w.test.ts\x1b[2m > \x1b[22m%W%W\x1b[2m > \x1b[22mshould %p\x1b[32m %n\x1b[2mms\x1b[22m\x1b[39m",
		" \x1b[32m✓\x1b[39m src/%w/%w.test.ts \x1b[2m(\x1b[22m\x1b[2m%n tests\x1b[22m\x1b[2m)\x1b[22m\x1b[32m %n\x1b[2mms\x1b[22m\x1b[39m", "%p", "  { id: \x1b[33m%n\x1b[39m, name: \x1b[32m'%w_%w'\x1b[39m }",
	}, []string{"\x1b[31m\x1b[1mAssertionError\x1b[22m: expected %n to be %n // Object.is equality\x1b[39m", "\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[31m1 failed\x1b[39m\x1b[22m\x1b[2m | \x1b[22m\x1b[1m\x1b[32m%n passed\x1b[39m\x1b[22m\x1b[90m (%n)\x1b[39m"}},
	{"jest", []string{
		"PASS src/%w/__tests__/%w-%w.test.js", "  %W%W", "    ✓ should %p (%n ms)", "    ✓ %p", "    ✓ returns %p (%n ms)", "  console.log", "    %p", "",
		"      at Object.<anonymous> (src/%w/__tests__/%w-%w.test.js:%n:%n)", "      at callCircusTest (node_modules/jest-circus/build/run.js:%n:%n)",
	}, []string{
		"  ● %W › should %p", "", "    expect(received).toBe(expected) // Object.is equality", "", "    Expected: %n", "    Received: %n", "",
		"      at Object.toBe (src/%w/__tests__/%w.test.js:%n:%n)", "Tests:       1 failed, %n passed, %n total",
	}},
	{"go", []string{
		"=== RUN   Test%W%W", "=== RUN   Test%W%W/%w_%w_%w", "--- PASS: Test%W%W (0.%ns)", "    --- PASS: Test%W%W/%w_%w_%w (0.%ns)", "    %w_test.go:%n: %p", "=== PAUSE Test%W%W", "=== CONT  Test%W%W",
		"ok  \tgithub.com/acme/%w/internal/%w\t%n.%ns", "2026/02/03 11:22:33 %p %w=%n",
	}, []string{"--- FAIL: Test%W%W (0.00s)", "    %w_test.go:%n: got %n, want %n", "FAIL", "FAIL\tgithub.com/acme/%w/%w\t0.%ns"}},
	{"pytest", []string{
		"tests/%w/test_%w_%w.py::test_%w_%w_%w PASSED                        [ %n%]", "tests/%w/test_%w.py::Test%W::test_%w[%w-%w] PASSED                [ %n%]", "tests/%w/test_%w.py ....................... [ %n%]",
		"INFO     %w.%w:%w.py:%n %p", "PASSED tests/%w/test_%w.py::test_%w_%w",
	}, []string{"E       assert %n == %n", "tests/%w/test_%w.py:%n: AssertionError", "FAILED tests/%w/test_%w.py::test_%w - assert %n == %n", "================== 1 failed, %n passed in %n.21s =================="}},
	{"cargo", []string{
		"test %w::%w::tests::%w_%w_%w ... ok", "test %w::tests::returns_%w_when_%w_is_%w ... ok", "test %w_%w::prop_tests::%w_%w ... ok", "   Compiling %w-%w v0.%n.%n", "warning: unused variable: `%w_%w`", "  --> src/%w/%w.rs:%n:%n", "   |",
	}, []string{"thread '%w::tests::%w' panicked at src/%w.rs:%n:%n:", "assertion `left == right` failed", "  left: %n", " right: %n", "test result: FAILED. %n passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.%ns"}},
}

var logWords = strings.Fields(`account address alert amount asset audit badge balance basket batch billing booking bundle calendar camera campaign card carrier cart category
	channel chart checkout city comment company contact content contract coupon course currency customer dashboard delivery device discount document draft editor email
	encoder engine entity export feed filter folder gateway graph grid group guest handler hash history image import index invite invoice journal label layout leader
	ledger lesson library license locale location mailer market media member menu merchant message meter model monitor network node note notice offer order owner packet
	page partner payment permission player policy portal price printer product profile project promise provider query quota range reader receipt record region release report
	request resolver resource review reward role route router rule scanner schema score search section sensor session shape shipment signal slot source stage state stock store
	stream student style survey symbol system target tax team template tenant theme thread ticket timeline timer token tool topic tracker transfer tree trigger upload value
	vector vendor version video view visitor voucher wallet warehouse webhook widget window wizard worker workspace zone`)

var logProse = strings.Fields(`a a a an the the the the of of of to to to in in and and is is for for with if when when not be are by from on at as it no all any each only
	after before without twice once again still also than then same other default given empty missing valid invalid known unknown first last next previous new old
	returns throws accepts rejects handles keeps drops reads writes sends counts sorts merges splits parses prints shows hides updates creates deletes
	value values error errors list lists field fields key keys name names file files line lines type types request response user users limit option options result`)

// logOf gives about size bytes of one kind of log: passing, with a few failing lines
// at its end.
func logOf(kind int, size int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 11))
	word := func() string { return logWords[rnd.IntN(len(logWords))] }
	var b bytes.Buffer
	b.Grow(size + 4096)
	write := func(line string) {
		for {
			head, rest, ok := strings.Cut(line, "%")
			b.WriteString(head)
			if !ok {
				break
			}
			switch rest[0] {
			case 'w':
				b.WriteString(word())
			case 'W':
				w := word()
				b.WriteByte(w[0] - 'a' + 'A')
				b.WriteString(w[1:])
			case 'n':
				fmt.Fprint(&b, rnd.IntN(900))
			case 'p':
				for i := range 4 + rnd.IntN(7) {
					if i > 0 {
						b.WriteByte(' ')
					}
					if rnd.IntN(3) == 0 {
						b.WriteString(word())
					} else {
						b.WriteString(logProse[rnd.IntN(len(logProse))])
					}
				}
			default:
				b.WriteByte('%')
				b.WriteByte(rest[0])
			}
			line = rest[1:]
		}
		b.WriteByte('\n')
	}
	k := logKinds[kind]
	for b.Len() < size {
		write(k.lines[rnd.IntN(len(k.lines))])
	}
	for _, l := range k.end {
		write(l)
	}
	return b.Bytes()
}

// BenchmarkEmbeddedScan runs the patterns of the embedded catalog over 100 MB of
// each kind of log, in pieces between which the "\n" of the same piece are
// counted, and, on the first 32 KiB, a loop of all expressions over the lines. Times
// are the thread's, and medians over the pieces. xCount is the speed as a share of
// bytes.Count's, xLoop how often faster than the loop it is.
func BenchmarkEmbeddedScan(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := embeddedClassifier(b)
	all := expressions(b, c)
	size := 100 << 20
	if testing.Short() {
		size = 8 << 20
	}
	const pieceSize = 1 << 20
	for kind, k := range logKinds {
		b.Run(k.name, func(b *testing.B) {
			runtime.LockOSThread() // each benchmark has its own goroutine
			defer runtime.UnlockOSThread()
			log := logOf(kind, size, 1)
			start := threadTime()
			loopOver(all, log[:32<<10])
			loop := float64(32<<10) / 1e6 / (threadTime() - start).Seconds()
			hits := 0
			sc := c.prog.set.NewScanner(nil)
			var counting, scanning []float64 // MB/s
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				hits = 0
				sc.Reset(func(multiscan.Hit) { hits++ })
				for rest := log; len(rest) > 0; {
					piece := rest[:min(len(rest), pieceSize)]
					rest = rest[len(piece):]
					start := threadTime()
					bytes.Count(piece, newline)
					mid := threadTime()
					for p := piece; len(p) > 0; {
						n := min(len(p), blockSize)
						_, _ = sc.Write(p[:n])
						p = p[n:]
					}
					end := threadTime()
					if len(piece) == pieceSize {
						counting = append(counting, pieceSize/1e6/(mid-start).Seconds())
						scanning = append(scanning, pieceSize/1e6/(end-mid).Seconds())
					}
				}
				_ = sc.Close()
			}
			n, m := median(counting), median(scanning)
			st := sc.Stats()
			b.ReportMetric(m, "scan-MB/s")
			b.ReportMetric(n, "count-MB/s")
			b.ReportMetric(m/n, "xCount")
			b.ReportMetric(m/loop, "xLoop")
			b.ReportMetric(float64(hits), "hits")
			b.ReportMetric(float64(st.Confirms), "confirms")
			b.ReportMetric(float64(st.Skipped), "skipped")
		})
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkFailingLog classifies logs of 2 MB that end in a failure: what is to be
// waited for between a failure and its verdict. cpu-ms is the thread's time on one
// core, ms the time by the clock: medians.
// Conforms: 003-pipe-classify
func BenchmarkFailingLog(b *testing.B) {
	c := embeddedClassifier(b)
	logs := map[string][]byte{"mixed": append(testLog(2<<20), failingTail...)}
	for kind, k := range logKinds {
		logs[k.name] = logOf(kind, 2<<20, 3)
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var cpu, one []float64
			b.SetBytes(int64(len(logs[name])))
			classify := func(r io.Reader) float64 {
				began := time.Now()
				if _, err := c.Classify(context.Background(), Input{Command: "npm test", Exit: Exit{Code: 1}, Stdout: r}); err != nil {
					b.Fatal(err)
				}
				return time.Since(began).Seconds() * 1e3
			}
			for b.Loop() {
				start := threadTime()
				one = append(one, classify(bytes.NewReader(logs[name])))
				cpu = append(cpu, (threadTime()-start).Seconds()*1e3)
			}
			for unit, of := range map[string][]float64{"cpu-ms": cpu, "ms": one} {
				b.ReportMetric(median(of), unit)
				b.ReportMetric(of[0], "least-"+unit)
			}
		})
	}
}

// TestEmbeddedLikeLoop: on every kind of log and on what the catalog's own
// examples hold, the scanner finds what a loop of all expressions finds.
func TestEmbeddedLikeLoop(t *testing.T) {
	if raced {
		t.Skip("one goroutine, and two thousand expressions on each line")
	}
	t.Parallel()
	c := embeddedClassifier(t)
	all := expressions(t, c)
	var logs []string
	for kind := range logKinds {
		logs = append(logs, string(logOf(kind, 2<<10, 7)))
	}
	n, every := 0, testkit.Sample(151, 29, 29)
	for _, h := range embedded(t).Handlers {
		for _, e := range h.Examples {
			if n++; n%every == 0 {
				logs = append(logs, e.Stdout+"\n"+e.Stderr)
			}
		}
	}
	found := 0
	for _, log := range logs {
		var got, want []string
		sc := c.prog.set.NewScanner(func(h multiscan.Hit) { got = append(got, fmt.Sprint(h.Line, " ", h.Pattern, " ", h.Loc)) })
		if _, err := sc.Write([]byte(log)); err != nil {
			t.Fatal(err)
		}
		if err := sc.Close(); err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(strings.TrimSuffix(log, "\n"), "\n") {
			line = strings.TrimSuffix(text.Uncoloured(line), "\r")
			for p, re := range all {
				if loc := re.FindStringSubmatchIndex(line); loc != nil {
					want = append(want, fmt.Sprint(n+1, " ", p, " ", loc))
				}
			}
		}
		found += len(want)
		slices.Sort(got)
		slices.Sort(want)
		if strings.Contains(log, "\r") && len(got) == len(want) {
			continue // a state of a progress bar is a text of its own: other places in it
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %v, want %v in:\n%.1000s", got, want, log)
		}
	}
	if found < 50 {
		t.Errorf("only %d hits: this shows little", found)
	}
}

// TestTheEndOfALargeLog: what a run failed of is seen at the end of a large log whose
// lines look like it all along.
func TestTheEndOfALargeLog(t *testing.T) {
	if raced {
		t.Skip("reads 30 MB")
	}
	t.Parallel()
	c := embeddedClassifier(t)
	near := "   ✓ EADDRINUSE: address already in use is told to the operator who starts it (3 ms)\n"
	for _, end := range []string{"", strings.Repeat("    at Server.listen (node:net:1817:16)\n", 100)}[testkit.Sample(1, 0, 0):] {
		f, err := c.Classify(context.Background(), Input{
			Command: "npm run dev", Exit: Exit{Code: 1},
			Stdout: strings.NewReader(strings.Repeat(near, (16<<20)/len(near)) + "server: EADDRINUSE: address already in use :::3000 (giving up)\n" + end),
		})
		if err != nil {
			t.Fatal(err)
		}
		if f.Category != "port_in_use" {
			t.Errorf("%s by %s: %s", f.Category, f.Handler, f.Why)
		}
	}
}
