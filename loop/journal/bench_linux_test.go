package journal

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
)

// benchEvent gives lines of about 230 bytes of envelope and fields, and the two
// hashes.
func benchEvent() Event {
	return Event{Timestamp: day, Event: "role_end", LoopID: "checkout", RunID: "20261121T040506.789Z-0a1b2c3d", Iteration: 12,
		Fields: json.RawMessage(`{"role":"implementer","runner":"claude","exit_code":0,"duration_ms":137243}`)}
}

func BenchmarkAppendLine(b *testing.B) {
	ev := benchEvent()
	ev.Seq, ev.Prev = 1234, strings.Repeat("0a", 32)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := AppendLine(buf, ev); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend appends one event with a Journal and the same bytes with bare
// system calls, in turns, and reports the ratio of the medians: the disk's mood
// is the same for both.
func BenchmarkAppend(b *testing.B) {
	for _, tt := range []struct {
		name       string
		sync, head bool
	}{{"write", false, false}, {"write+fdatasync", true, false}, {"write+fdatasync+head", true, true}} {
		b.Run(tt.name, func(b *testing.B) {
			dir := b.TempDir()
			o := Options{}
			if tt.head {
				o.Head = filepath.Join(dir, "head")
			}
			j := mustOpen(b, durable.OS(), filepath.Join(dir, "events.jsonl"), o)
			bare, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			defer bare.Close()
			fd := int(bare.Fd())
			ev := benchEvent()
			ev.Seq, ev.Prev = 1234, strings.Repeat("0a", 32)
			line, err := AppendLine(nil, ev)
			if err != nil {
				b.Fatal(err)
			}
			var ours, theirs []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				t0 := time.Now()
				_, err := unix.Write(fd, line)
				if tt.sync && err == nil {
					err = unix.Fdatasync(fd)
				}
				t1 := time.Now()
				_, err2 := j.Append(tt.sync, ev)
				t2 := time.Now()
				if err != nil || err2 != nil {
					b.Fatal(err, err2)
				}
				theirs, ours = append(theirs, t1.Sub(t0)), append(ours, t2.Sub(t1))
			}
			a, z := median(theirs), median(ours)
			b.ReportMetric(float64(z)/float64(a), "ratio")
			b.ReportMetric(float64(a), "bare-ns")
			b.ReportMetric(float64(z), "journal-ns")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// big is a journal of that many bytes or a little more, with a head.
func big(b *testing.B, size int64) (path, head string) {
	b.Helper()
	dir := b.TempDir()
	path, head = filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "head")
	j := mustOpen(b, durable.OS(), path, Options{Head: head})
	kinds := []string{"role_start", "role_end", "tests_start", "tests_end", "gates_evaluated", "iteration_end", "iteration_start", "recovery_executed"}
	group := make([]Event, 512)
	for j.end().end < size {
		for i := range group {
			group[i] = benchEvent()
			group[i].Event = kinds[i%len(kinds)]
		}
		if _, err := j.Append(false, group...); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	return path, head
}

// BenchmarkScan reads a journal in every way; bytes.Count over the same file is
// the floor to compare with.
func BenchmarkScan(b *testing.B) {
	const size = 64 << 20
	path, head := big(b, size)
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			if !strings.Contains(name, "-") { // those with a dash do not read all of it
				b.SetBytes(size)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("bytes.Count", func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		buf := make([]byte, scanBuffer)
		for n := 0; ; {
			k, err := f.Read(buf)
			if n += bytes.Count(buf[:k], []byte(`"event":"recovery_executed"`)); err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	run("Read", func() error {
		return Read(path, 0, func(Event) error { return nil })
	})
	run("Verify", func() error {
		rep, err := Verify(path)
		if rep.FirstBad != nil {
			return rep.FirstBad
		}
		return err
	})
	run("Open", func() error {
		j, err := Open(durable.OS(), path, Options{})
		if err != nil {
			return err
		}
		return j.Close()
	})
	run("Open-at-head", func() error {
		j, err := Open(durable.OS(), path, Options{Head: head})
		if err != nil {
			return err
		}
		return j.Close()
	})
	run("Tail-20", func() error {
		_, err := Tail(path, 20)
		return err
	})
	run("Read-last-20", func() error {
		tail, err := Tail(path, 20)
		if err != nil {
			return err
		}
		return Read(path, tail[0].Seq, func(Event) error { return nil })
	})
	run("encoding/json", func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		dec := json.NewDecoder(f)
		for {
			var row struct{ Event string }
			if err := dec.Decode(&row); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}

// BenchmarkAppendersConcurrently shows what one flush for all saves: the time of
// one durable event when several goroutines append.
func BenchmarkAppendersConcurrently(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			j := mustOpen(b, durable.OS(), filepath.Join(b.TempDir(), "events.jsonl"), Options{})
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := j.Append(true, benchEvent()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
