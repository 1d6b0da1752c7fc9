//go:build linux

package steering

import (
	"context"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

// BenchmarkStart is the start of an agent whose home directory is protected
// against one whose is not, taken in turns: the making of the mounts (first), and
// each start after that (next).
func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	w.furnish()
	s, err := proc.Start(proc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	spec := proc.Spec{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Dir: w.repo}
	const turn = 10
	var first, next [2]time.Duration
	for b.Loop() {
		for i := range 2 {
			p := sandbox.Protection{ReadOnly: []string{w.repo + "/.superloop"}}
			keeper := NewKeeper(w.surroundings(nil), durable.OS())
			if i == 1 {
				p.Around = keeper.Around
			}
			began := time.Now()
			g, rep := sandbox.Protect(context.Background(), s, p)
			if rep.Level != sandbox.ProtectMount {
				b.Skip(rep.Notes)
			}
			first[i] += time.Since(began)
			began = time.Now()
			for range turn {
				if res, err := g.Run(context.Background(), spec); err != nil || res.Code != 0 {
					b.Fatal(res, err)
				}
			}
			next[i] += time.Since(began)
			keeper.Close()
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"plain", "with-home"} {
		b.ReportMetric(float64(first[i].Microseconds())/float64(b.N), "first-"+name+"-us")
		b.ReportMetric(float64(next[i].Microseconds())/float64(b.N*turn), "next-"+name+"-us")
	}
}
