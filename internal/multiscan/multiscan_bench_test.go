package multiscan

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"testing"
)

// BenchmarkScan puts the scanner beside counting the "\n" of the same buffer
// and beside a loop of all expressions over each line (of its first MB), in one
// run and interleaved in pieces of 4 MB, by the time of the thread: the ratios
// of the medians are what counts, not the times.
//
// xCount is the speed as a share of bytes.Count's, xLoop how often faster than
// the loop. Allocations are those of the whole pass: the indices of hits.
func BenchmarkScan(b *testing.B) {
	exprs := benchPatterns()
	size := 100 << 20
	if testing.Short() {
		size = 8 << 20
	}
	for _, kind := range []logKind{passingLog, nearLog, hotLog} {
		b.Run(fmt.Sprintf("%s/%d", kind.name, len(exprs)), func(b *testing.B) {
			log := logOf(kind, size, 1)
			loop := loopSpeed(exprs, log[:1<<20])
			s, _, err := Compile(exprs, Options{})
			if err != nil {
				b.Fatal(err)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			hits := 0
			sc := s.NewScanner(nil)
			var counting, scanning []float64 // MB/s
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				hits = 0
				sc.Reset(func(Hit) { hits++ })
				for rest := log; len(rest) > 0; {
					piece := rest[:min(len(rest), 4<<20)]
					start := threadTime()
					bytes.Count(piece, newline)
					mid := threadTime()
					for p := piece; len(p) > 0; {
						n := min(len(p), 256<<10)
						_, _ = sc.Write(p[:n])
						p = p[n:]
					}
					end := threadTime()
					counting = append(counting, float64(len(piece))/1e6/(mid-start).Seconds())
					scanning = append(scanning, float64(len(piece))/1e6/(end-mid).Seconds())
					rest = rest[len(piece):]
				}
				sc.Close()
			}
			slices.Sort(counting)
			slices.Sort(scanning)
			c, m := counting[len(counting)/2], scanning[len(scanning)/2]
			b.ReportMetric(m, "scan-MB/s")
			b.ReportMetric(c, "count-MB/s")
			b.ReportMetric(scanning[len(scanning)*9/10], "scan-p90-MB/s")
			b.ReportMetric(m/c, "xCount")
			b.ReportMetric(m/loop, "xLoop")
			b.ReportMetric(float64(hits), "hits")
			b.ReportMetric(float64(sc.Stats().Confirms), "confirms")
			b.ReportMetric(float64(sc.Stats().Skipped), "skipped")
		})
	}
}

// loopSpeed gives the MB/s of the loop over all expressions.
func loopSpeed(exprs []string, log []byte) float64 {
	var res []*regexp.Regexp
	for _, e := range exprs {
		res = append(res, regexp.MustCompile(e))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	for line := range bytes.Lines(log) {
		for _, re := range res {
			re.FindSubmatchIndex(bytes.TrimRight(line, "\n"))
		}
	}
	return float64(len(log)) / (threadTime() - start).Seconds() / 1e6
}

// BenchmarkCompile also tells the memory that a set takes.
func BenchmarkCompile(b *testing.B) {
	exprs := benchPatterns()
	sampled()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, _, _ := Compile(exprs, Options{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		_, _, _ = Compile(exprs, Options{})
	}
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)), "heap-bytes")
	runtime.KeepAlive(s)
}
