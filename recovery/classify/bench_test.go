package classify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/testkit"
)

// TestPatternProblems: every pattern of the embedded catalog can match. None is tried on every line, which would cost more
// than all others together, and none needs a pass of its own over every log, which costs as much as all others.
func TestPatternProblems(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	for _, p := range c.Problems() {
		if p.Fatal || strings.Contains(p.Text, "every line") || strings.Contains(p.Text, "slower") {
			t.Error(p)
		} else {
			t.Log(p)
		}
	}
	t.Logf("%d patterns", len(c.prog.exprs))
}

// testLog is the output of a large test run: mostly passing, one line in a
// thousand of a failed assertion.
func testLog(size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 4096)
	for i := 0; b.Len() < size; i++ {
		switch i % 9 {
		case 0:
			fmt.Fprintf(&b, " ✓ src/components/widget-%d/widget.test.tsx (%d tests) %dms\n", i%977, i%31+1, i%500)
		case 1:
			fmt.Fprintf(&b, "PASS packages/core/src/module%d/__tests__/index.test.ts (%d.%03d s)\n", i%977, i%7, i%1000)
		case 2:
			fmt.Fprintf(&b, "ok  \tgithub.com/acme/project/internal/pkg%d\t%d.%03ds\n", i%977, i%9, i%1000)
		case 3:
			fmt.Fprintf(&b, "test module_%d::tests::handles_case_%d ... ok\n", i%97, i%991)
		case 4:
			fmt.Fprintf(&b, "tests/unit/test_module_%d.py::test_case_%d PASSED                  [ %2d%%]\n", i%97, i%991, i%100)
		case 5:
			fmt.Fprintf(&b, "   Compiling serde_derive v1.0.%d (/home/dev/.cargo/registry/src/index/serde_derive-1.0.%d)\n", i%300, i%300)
		case 6:
			fmt.Fprintf(&b, "2026-01-02T03:04:%02d.%03dZ INFO  http: request finished method=GET path=/api/v1/items/%d status=200 duration=%dms\n", i%60, i%1000, i, i%250)
		case 7:
			fmt.Fprintf(&b, "[%3d%%] Building CXX object src/CMakeFiles/app.dir/module_%d.cpp.o\n", i%100, i%977)
		default:
			if i%1000 < 9 {
				fmt.Fprintf(&b, "  ● suite %d › adds numbers\n\n    expect(received).toBe(expected) // Object.is equality\n\n    Expected: %d\n    Received: %d\n\n", i%7, i, i+1)
			} else {
				fmt.Fprintf(&b, "    at Object.<anonymous> (/repo/src/lib/helper-%d.js:%d:%d)\n", i%97, i%900, i%80)
			}
		}
	}
	return b.Bytes()
}

// failingTail is how such a run ends.
const failingTail = "Error: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle [as _listen2] (node:net:1817:16)\n"

func BenchmarkClassify(b *testing.B) {
	c := embeddedClassifier(b)
	for _, size := range []int{20 << 10, 2 << 20, 100 << 20} {
		log := append(testLog(size), failingTail...)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Classify(context.Background(), Input{Command: "npm test", Exit: Exit{Code: 1}, Stdout: bytes.NewReader(log)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	log := testLog(100 << 20)
	b.Run("bytes.Count", func(b *testing.B) {
		b.SetBytes(int64(len(log)))
		for b.Loop() {
			if bytes.Count(log, newline) == 0 {
				b.Fatal("no lines")
			}
		}
	})
	small := log[:64<<10]
	b.Run("loop", func(b *testing.B) {
		all := expressions(b, c)
		b.SetBytes(int64(len(small)))
		for b.Loop() {
			loopOver(all, small)
		}
	})
	b.Run("New", func(b *testing.B) {
		cat := embedded(b)
		for b.Loop() {
			if _, err := New(cat, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func expressions(t testing.TB, c *Classifier) []*regexp.Regexp {
	t.Helper()
	var out []*regexp.Regexp
	for _, e := range c.prog.exprs {
		re, err := regexp.Compile(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, re)
	}
	return out
}

// loopOver is what the classifier is measured against: every expression on
// every line.
func loopOver(all []*regexp.Regexp, log []byte) (hits int) {
	for line := range bytes.Lines(log) {
		for _, re := range all {
			if re.Match(bytes.TrimSuffix(line, newline)) {
				hits++
			}
		}
	}
	return hits
}

// used is the processor time of this process so far.
func used(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// repeated gives the same block until size bytes are read: a large log without
// its memory.
type repeated struct {
	block []byte
	at    int
	left  int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	r.left -= int64(n)
	return n, nil
}

// A large log is classified in constant memory, and hundreds of times faster than
// by trying every expression on every line. Times are the processor's, so that
// other work on the machine does not count, and are compared with one another.
// Conforms: 003-pipe-classify
func TestLargeLog(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("reads 100 MB")
	}
	c := embeddedClassifier(t)
	block := testLog(4 << 20)
	size := int64(testkit.Sample(30, 100, 100)) << 20
	all, loopBytes := expressions(t, c), block[:16<<10]
	loopStart := used(t)
	loopOver(all, loopBytes)
	loopRate := float64(len(loopBytes)) / (used(t) - loopStart).Seconds()

	large := bytes.Repeat(block, 16) // larger than any cache
	countStart := used(t)
	for range 5 {
		bytes.Count(large, newline)
	}
	countRate := float64(5*len(large)) / (used(t) - countStart).Seconds()

	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := used(t)
	f, err := c.Classify(context.Background(), Input{
		Command: "npm test", Exit: Exit{Code: 1},
		Stdout: io.MultiReader(&repeated{block: block, left: size}, strings.NewReader("\n"+failingTail)),
	})
	took := used(t) - start
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	rate := float64(size) / took.Seconds()
	t.Logf("%d patterns: %.0f MB/s, %.0f times the loop, %.3f of bytes.Count; %d KiB allocated, verdict %s by %s",
		len(c.prog.exprs), rate/1e6, rate/loopRate, rate/countRate, (after.TotalAlloc-before.TotalAlloc)>>10, f.Category, f.Handler)
	if !f.Code {
		t.Errorf("the failed assertions are not seen: %s by %s", f.Category, f.Handler)
	}
	if f.Bytes < size {
		t.Errorf("%d bytes were read of %d", f.Bytes, size)
	}
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
		t.Errorf("%d MiB were allocated, more than 64", got)
	}
	if rate < 100*loopRate {
		t.Errorf("only %.0f times as fast as the loop", rate/loopRate)
	}
}
