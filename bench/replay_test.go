package bench

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkReplay is a program that only replays a journal, against a Go program
// that does nothing: its size, its start (an empty journal), and the time of a whole
// run with the journal of one loop. The machine imports nothing that acts, so all
// stay small.
func BenchmarkReplay(b *testing.B) {
	exe := build(b, "github.com/superloop/superloop/internal/tools/replay", "replay", "-ldflags=-s -w")
	src := b.TempDir()
	must(b, os.WriteFile(filepath.Join(src, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644))
	noop := build(b, filepath.Join(src, "main.go"), "noop", "-ldflags=-s -w")
	empty := filepath.Join(src, "empty.jsonl")
	must(b, os.WriteFile(empty, nil, 0o644))
	journal, err := filepath.Abs("../loop/testdata/rules1-shell.jsonl")
	must(b, err)
	var start, whole, floor []usage
	for b.Loop() {
		start, whole, floor = nil, nil, nil
		for range 40 {
			floor = append(floor, measure(b, src, nil, 0, noop))
			start = append(start, measure(b, src, nil, 0, exe, empty))
			whole = append(whole, measure(b, src, nil, 0, exe, journal))
		}
	}
	wall := func(u usage) float64 { return float64(u.wall) }
	size, err := os.Stat(exe)
	must(b, err)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size.Size())/1e6, "MB-stripped")
	b.ReportMetric(median(start, wall)/median(floor, wall), "start/noop")
	b.ReportMetric(median(whole, wall)/median(floor, wall), "replay/noop")
}
