package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

type verdict int

const (
	survived verdict = iota
	killed
	timedOut
	refused // by the compiler: no mutant at all
)

// runner runs mutants, several at a time.
type runner struct {
	options
	sandbox *sandbox
	work    string // its directory

	mu   sync.Mutex // of all below
	out  io.Writer
	sum  summary
	runs int
}

type summary struct{ total, killed, timeouts int } // killed counts timeouts, too

func (s summary) percent() float64 { return 100 * float64(s.killed) / float64(max(1, s.total)) }

// all runs n mutants, or as many as there are.
func (r *runner) all(ctx context.Context, d *draw) (summary, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	slots := make(chan struct{}, r.n)
	for range r.n {
		slots <- struct{}{}
	}
	close(slots)
	var wg sync.WaitGroup
	for range r.parallel {
		wg.Go(func() {
			for range slots {
				more, err := r.one(ctx, d)
				if err != nil {
					stop(err)
				}
				if err != nil || !more {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return r.sum, err
	}
	if r.sum.total == 0 {
		return r.sum, errors.New("drawing mutants: there is nothing to mutate in these packages")
	}
	return r.sum, nil
}

// mostRefused is how many mutants in a row the compiler may refuse although the
// type checker took them. More means that something else is wrong.
const mostRefused = 10

// one draws a mutant, judges and reports it; more is false when none is left.
func (r *runner) one(ctx context.Context, d *draw) (more bool, err error) {
	var said []byte
	for range mostRefused {
		m := d.next()
		if m == nil {
			return false, nil
		}
		v, output, err := r.judge(ctx, m.target, m)
		if err != nil {
			return false, fmt.Errorf("running a mutant of %s:%d: %w", m.src.path, m.line, err)
		}
		if v == refused {
			said = output
			continue
		}
		r.report(m, v)
		return true, nil
	}
	return false, fmt.Errorf("compiling mutants: %d in a row did not compile, although the type checker took them; the last one:\n%s", mostRefused, said)
}

func (r *runner) report(m *mutant, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.total++
	switch v {
	case timedOut:
		r.sum.killed++
		r.sum.timeouts++
	case killed:
		r.sum.killed++
	case survived:
		before, after := m.lines()
		fmt.Fprintf(r.out, "%s:%d: %s\n\t- %s\n\t+ %s\n", relative(m.src.path), m.line, m.what, before, after)
	}
}

// relative is the path as it is typed from here, if it is below.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// baseline runs the tests without any fault. They must pass, else every mutant
// would seem to be noticed.
func (r *runner) baseline(ctx context.Context, t *target) error {
	v, output, err := r.judge(ctx, t, nil)
	if err != nil {
		return fmt.Errorf("running the tests of %s: %w", t.path, err)
	}
	switch v {
	case killed:
		return fmt.Errorf("running the tests of %s: they fail without any fault (isolated: all but os.TempDir() is read-only):\n%s", t.path, output)
	case timedOut:
		return fmt.Errorf("running the tests of %s: they take longer than %v without any fault; give more with -timeout", t.path, r.timeout)
	case refused:
		return fmt.Errorf("compiling the tests of %s: %s", t.path, output)
	}
	return nil
}

// judge compiles the tests of t with the fault m, or without any if m is nil, and
// runs them isolated.
func (r *runner) judge(ctx context.Context, t *target, m *mutant) (verdict, []byte, error) {
	r.mu.Lock()
	r.runs++
	dir := filepath.Join(r.work, strconv.Itoa(r.runs))
	r.mu.Unlock()
	defer func() { _ = os.RemoveAll(dir) }()
	tmp, binary := filepath.Join(dir, "t"), filepath.Join(dir, "tests")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return 0, nil, err
	}
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if m != nil {
		overlay, err := writeOverlay(dir, m)
		if err != nil {
			return 0, nil, err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = t.dir
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return 0, nil, context.Cause(ctx)
		}
		return refused, output, nil
	}
	tests := []string{"-test.failfast", "-test.count=1", "-test.paniconexit0"}
	if r.run != "" {
		tests = append(tests, "-test.run="+r.run)
	}
	limited, stop := context.WithTimeout(ctx, r.timeout)
	defer stop()
	ok, output, err := r.sandbox.run(limited, order{Dir: t.dir, Tmp: tmp, Binary: binary, Args: tests})
	switch {
	case ctx.Err() != nil:
		return 0, nil, context.Cause(ctx)
	case limited.Err() != nil:
		return timedOut, output, nil
	case err != nil:
		return 0, nil, err
	case ok:
		return survived, output, nil
	}
	return killed, output, nil
}

// writeOverlay writes the file with the fault, and what tells the go command to
// take it instead of the one in the package.
func writeOverlay(dir string, m *mutant) (string, error) {
	file := filepath.Join(dir, filepath.Base(m.src.path))
	if err := os.WriteFile(file, m.text(), 0o644); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.src.path: file}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, overlay, 0o644)
}
