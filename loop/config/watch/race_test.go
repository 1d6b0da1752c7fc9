package watch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/config"
)

// last is the number of what a writer writes at the end.
const last = 7777

// writeALot writes valid configurations of changing length in every way, as fast
// as it can, and half a one now and then.
func writeALot(path string, rounds int) error {
	names := slices.Sorted(maps.Keys(ways))
	for n := 1; n <= rounds; n++ {
		data := text(set(base(), "loops/0/max_iterations", n))
		for range n % 5 {
			data = append(data, "      \n"...)
		}
		if n%7 == 0 {
			if err := os.WriteFile(path, data[:len(data)/2], 0o644); err != nil {
				return err
			}
		}
		if err := ways[names[n%len(names)]](path, data); err != nil {
			return err
		}
	}
	return ways["rename over"](path, numbered(last))
}

// A process writes the file in every way while it is watched, looked at and
// used: what is in force is always one of the whole files that were written, and
// in the end the last one.
func TestWriterProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.start(w.options())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	look := Watch(ctx, w.path)
	p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{
		Env: append(os.Environ(), childEnv+"="+w.path+"\n400"), Files: []*os.File{nil, os.Stdout, os.Stderr}})
	w.ok(err)
	done := make(chan struct{})
	var wg sync.WaitGroup
	seen := map[int]bool{}
	wg.Go(func() { // who uses it
		for {
			select {
			case <-done:
				return
			default:
				c := r.Config()
				if err := sound(c); err != nil {
					t.Error(err)
					return
				}
				seen[number(c)] = true
			}
		}
	})
	wg.Go(func() { // who begins iterations, without having heard of anything
		for {
			select {
			case <-done:
				return
			default:
				r.Check(time.Now())
			}
		}
	})
	for number(r.Config()) != last {
		next(t, look)
		out := r.Check(time.Now())
		for _, p := range out.Problems {
			if !slices.Contains([]string{"no_file", "empty", "syntax"}, p.Code) {
				t.Errorf("%s: %v", out.Kind, p)
			}
		}
		if out.Kind == Held || len(out.Warnings) > 0 {
			t.Errorf("%+v", out)
		}
	}
	close(done)
	wg.Wait()
	st, err := p.Wait()
	if err != nil || !st.Success() {
		t.Fatalf("the writer: %v, %v", st, err)
	}
	if len(seen) < 2 { // on a busy machine only the first and the last
		t.Errorf("only %d configurations were ever in force", len(seen))
	}
	if left, err := filepath.Glob(filepath.Dir(w.store.Path) + "/*broken*"); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}
}

// sound reports whether c is one of the configurations that are written.
func sound(c *config.Config) error {
	l, ok := c.Loop("one")
	if !ok || len(c.Loops) != 1 || len(c.Runners) != 1 || c.Runners["a"].Command[0] != "agent" || l.SpecFile != "spec.md" || l.CompletionPromise != "DONE" ||
		l.MaxIterations < 1 || string(c.Recovery) != `{"auto_approve":["npm ci"],"max_auto_recoveries_per_run":3}` || len(c.Webhooks) == 0 {
		return fmt.Errorf("this was never written: %+v", c)
	}
	return nil
}
