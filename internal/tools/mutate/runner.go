package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

type verdict int

const (
	survived verdict = iota
	killed
	timedOut
	refused // by the compiler: no mutant at all
)

// sandbox runs argv in the directory dir, isolated, and reports whether its exit status is 0. os.TempDir is tmp there,
// which must exist, and is empty before and after.
type sandbox func(ctx context.Context, dir, tmp string, argv ...string) (ok bool, output []byte, err error)

// runner runs mutants, several at a time.
type runner struct {
	options
	sandbox sandbox
	work    string // its directory

	mu      sync.Mutex // of all below
	out     io.Writer
	sum     summary
	begun   int // mutants, without those that were refused
	refused int // in a row
}

// mostRefused is how many mutants in a row the compiler may refuse although the type checker took them. More means that
// something else is wrong.
const mostRefused = 10

type summary struct{ total, killed, timeouts int } // killed counts timeouts, too

func (s summary) percent() float64 { return 100 * float64(s.killed) / float64(max(1, s.total)) }

// all runs n mutants, or as many as there are.
func (r *runner) all(ctx context.Context, d *draw) (summary, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range r.parallel {
		wg.Go(func() {
			for r.begin() {
				m := d.next()
				if m == nil {
					return
				}
				v, _, err := r.judge(ctx, m.target, m)
				if err != nil {
					stop(fmt.Errorf("running a mutant of %s:%d: %w", m.src.path, m.line, err))
					return
				}
				r.report(m, v)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return r.sum, err
	}
	if r.refused > mostRefused {
		return r.sum, fmt.Errorf("compiling mutants: %d in a row did not compile, although the type checker took them", r.refused)
	}
	if r.sum.total == 0 {
		return r.sum, errors.New("drawing mutants: there is nothing to mutate in these packages")
	}
	return r.sum, nil
}

// begin reports whether one more mutant is to be run, and counts it.
func (r *runner) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	return r.begun <= r.n && r.refused <= mostRefused
}

func (r *runner) report(m *mutant, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch v {
	case refused: // for one of the compiler's rare limits; another one is run instead
		r.begun--
		r.refused++
		return
	case timedOut:
		r.sum.killed++
		r.sum.timeouts++
	case killed:
		r.sum.killed++
	case survived:
		before, after := m.lines()
		here, _ := os.Getwd()
		path, err := filepath.Rel(here, m.src.path)
		if err != nil || !filepath.IsLocal(path) {
			path = m.src.path
		}
		fmt.Fprintf(r.out, "%s:%d: %s\n\t- %s\n\t+ %s\n", path, m.line, m.what, before, after)
	}
	r.sum.total++
	r.refused = 0
}

// baseline runs the tests without any fault. They must pass, else every mutant would seem to be noticed.
func (r *runner) baseline(ctx context.Context, t *target) error {
	v, output, err := r.judge(ctx, t, nil)
	switch {
	case err != nil:
		return fmt.Errorf("running the tests of %s: %w", t.path, err)
	case v == killed:
		return fmt.Errorf("running the tests of %s: they fail without any fault (isolated: all but os.TempDir() is read-only):\n%s", t.path, output)
	case v == timedOut:
		return fmt.Errorf("running the tests of %s: they take longer than %v without any fault; give more with -timeout", t.path, r.timeout)
	case v == refused:
		return fmt.Errorf("compiling the tests of %s: %s", t.path, output)
	}
	return nil
}

// judge compiles the tests of t with the fault m, or without any if m is nil, and runs them isolated.
func (r *runner) judge(ctx context.Context, t *target, m *mutant) (verdict, []byte, error) {
	dir, err := os.MkdirTemp(r.work, "")
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tmp, binary, overlay := filepath.Join(dir, "t"), filepath.Join(dir, "tests"), filepath.Join(dir, "overlay.json")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return 0, nil, err
	}
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if m != nil {
		file := filepath.Join(dir, filepath.Base(m.src.path))
		replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.src.path: file}})
		if err := cmp.Or(err, os.WriteFile(file, m.text(), 0o644), os.WriteFile(overlay, replace, 0o644)); err != nil {
			return 0, nil, err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = t.dir
	if output, err := cmd.CombinedOutput(); err != nil {
		return refused, output, context.Cause(ctx)
	}
	limited, stop := context.WithTimeout(ctx, r.timeout)
	defer stop()
	ok, output, err := r.sandbox(limited, t.dir, tmp, binary, "-test.failfast", "-test.count=1", "-test.paniconexit0", "-test.run="+r.run)
	switch {
	case ctx.Err() != nil:
		return 0, nil, context.Cause(ctx)
	case limited.Err() != nil:
		return timedOut, output, nil
	case ok:
		return survived, output, err
	}
	return killed, output, err
}
