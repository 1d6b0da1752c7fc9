package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// grown is a journal of n events in the sizes of real ones, without segments or
// with those that Seal makes of it at its usual size.
func grown(b *testing.B, n int, seal bool) (path, head string) {
	b.Helper()
	dir := b.TempDir()
	path, head = filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "head")
	j := mustOpen(b, durable.OS(), path, Options{Head: head})
	group := make([]Event, 0, 500)
	for i := 1; i <= n; i++ {
		ev := event(i)
		if i%10 == 0 { // a command with the end of its output
			ev.Event, ev.Fields = "tests_end", json.RawMessage(fmt.Sprintf(`{"exit_code":1,"duration_ms":%d,"output_tail":"--- FAIL: TestOrder%d (0.%02ds)\n    order_test.go:%d: got %x, want %x"}`, i*7919%99999, i%83, i%97, i%400, i*2654435761, i*40503))
		}
		if group = append(group, ev); len(group) == cap(group) || i == n {
			if _, err := j.Append(false, group...); err != nil {
				b.Fatal(err)
			}
			group = group[:0]
			if seal {
				if err := j.Seal(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	return path, head
}

// BenchmarkAMillionEvents does the same with a journal of a million events that
// is one file, and with one that has segments, in turns. The ratio is that of
// the medians: above 1, segments are slower.
func BenchmarkAMillionEvents(b *testing.B) {
	const n = 1_000_000
	plain, plainHead := grown(b, n, false)
	path, head := grown(b, n, true)
	info, err := os.Stat(plain)
	if err != nil {
		b.Fatal(err)
	}
	disk := int64(0)
	segments, _ := filepath.Glob(filepath.Join(Segments(path), "*"))
	for _, s := range append(segments, path) {
		if info, err := os.Stat(s); err == nil {
			disk += info.Size()
		}
	}
	b.Logf("%d MiB in one file; %d segments and the file have %d MiB", info.Size()>>20, len(segments), disk>>20)
	nothing := func(Event) error { return nil }
	stop := func(Event) error { return ErrStop }
	for _, way := range []struct {
		name string
		do   func(path, head string) error
	}{
		{"Open", func(path, head string) error {
			j, err := Open(durable.OS(), path, Options{Head: head})
			if err != nil {
				return err
			}
			return j.Close()
		}},
		{"Open-unknown", func(path, head string) error {
			_ = os.Remove(knownPath(head))
			j, err := Open(durable.OS(), path, Options{Head: head})
			if err != nil {
				return err
			}
			return j.Close()
		}},
		{"Verify", func(path, _ string) error { _, err := Verify(path); return err }},
		{"Read", func(path, _ string) error { return Read(path, 0, nothing) }},
		{"Read-one-in-the-middle", func(path, _ string) error { return Read(path, n/2, stop) }},
		{"Tail-100", func(path, _ string) error { _, err := Tail(path, 100); return err }},
		{"CheckHead", CheckHead},
	} {
		b.Run(way.name, func(b *testing.B) {
			var one, many []time.Duration
			for b.Loop() {
				t0 := time.Now()
				err := way.do(plain, plainHead)
				t1 := time.Now()
				err2 := way.do(path, head)
				t2 := time.Now()
				if err != nil || err2 != nil {
					b.Fatal(err, err2)
				}
				one, many = append(one, t1.Sub(t0)), append(many, t2.Sub(t1))
			}
			a, z := median(one), median(many)
			b.ReportMetric(float64(z)/float64(a), "ratio")
			b.ReportMetric(float64(a)/1e6, "one-file-ms")
			b.ReportMetric(float64(z)/1e6, "segments-ms")
		})
	}
}

// BenchmarkSeal seals 64 MiB; every Append waits so long.
func BenchmarkSeal(b *testing.B) {
	from, _ := grown(b, 185_000, false)
	data := mustRead(b, from)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "events.jsonl")
		mustWrite(b, path, data)
		j := mustOpen(b, durable.OS(), path, Options{})
		b.StartTimer()
		err := j.Seal()
		b.StopTimer()
		if err != nil || j.app.Size() != 0 {
			b.Fatal(err, j.app.Size(), len(data))
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
