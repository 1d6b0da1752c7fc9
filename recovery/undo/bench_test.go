package undo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(took[0].Microseconds())/1000, "best-ms")
}

// BenchmarkKeep is what a recovery waits for before its command is started: the
// plan, and the set.
func BenchmarkKeep(b *testing.B) {
	for _, c := range []struct {
		name, command string
		modules       int // files in node_modules, 8 KiB each
		dirty         bool
	}{
		{"clean", "npm install", 0, false},
		{"one-tracked-file-edited", "npm install", 0, true},
		{"2000-files-deleted", "rm -rf node_modules && npm install", 2000, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := newBox(b)
			x.put(".gitignore", "node_modules\n")
			x.put("package.json", "{}")
			for i := range 40 {
				x.put(fmt.Sprintf("src/%d.js", i), "export default 1")
			}
			x.commit()
			text := strings.Repeat("x", 8<<10)
			for i := range c.modules {
				x.put(fmt.Sprintf("node_modules/p%d/f%d.js", i/20, i), text)
			}
			if c.dirty {
				x.put("src/1.js", "export default 2")
			}
			words := [][]string{}
			for s := range strings.SplitSeq(c.command, " && ") {
				words = append(words, strings.Fields(s))
			}
			// Another set, so that the directories are there as they usually are.
			if _, err := x.store.Keep(b.Context(), Request{Caps: DefaultCaps(), Time: time.Unix(1, 0)}); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				targets, err := Plan(x.dir, ".", words)
				if err != nil {
					b.Fatal(err)
				}
				k, err := x.store.Keep(b.Context(), Request{Targets: targets, Caps: DefaultCaps(), Time: time.Unix(1_700_000_000, 0)})
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
				b.StopTimer()
				if len(k.NotKept) > 0 {
					b.Fatal(k.NotKept)
				}
				if err := x.store.Drop(b.Context(), k.ID); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			report(b, took)
		})
	}
}
