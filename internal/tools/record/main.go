// Command record runs the failures that are listed under cases/ with the real tools of this machine and writes what
// they said, with what is known to be wrong, to the two corpora of recovery/classify: dev.jsonl, on which the catalog
// may be tuned, and held.jsonl, on which it may not.
//
//	go run ./internal/tools/record -work DIR -tools DIR [-only REGEXP] [-jobs N]
//
// DIR of -work is scratch space, DIR of -tools holds what is not on PATH: see cases/README.md. A case that was recorded
// before and is not run now keeps its line. The programs that are needed differ from case to case; a case whose
// preparation fails or that does not fail is told and left out.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == proc.SpawnerArg {
		os.Exit(proc.SpawnerMain())
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	cases := flags.String("cases", "internal/tools/record/cases", "directory of the case files")
	out := flags.String("out", "recovery/classify/testdata/real", "directory of dev.jsonl and held.jsonl")
	work := flags.String("work", "", "scratch directory (required)")
	tools := flags.String("tools", "", "directory of tools that are not on PATH")
	only := flags.String("only", ".", "run the cases whose id matches")
	jobs := flags.Int("jobs", runtime.NumCPU(), "cases at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *work == "" {
		return errors.New("no scratch directory: give one with -work DIR")
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	list, err := readCases(*cases)
	if err != nil {
		return err
	}
	place, err := placeOf(*cases, *work, *tools)
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(slices.Clone(list), func(c testCase) bool { return !pick.MatchString(c.id) })
	fresh, err := recordAll(ctx, place, todo, *jobs)
	if err != nil {
		return err
	}
	lines, err := readLines(*out) // what another run may have written meanwhile too
	if err != nil {
		return err
	}
	maps.Copy(lines, fresh)
	return writeLines(*out, list, lines)
}

// place is where cases run.
type place struct{ cases, work, tools, home, host string }

func placeOf(cases, work, tools string) (p place, err error) {
	p = place{cases: cases, work: work, tools: tools}
	for _, path := range []*string{&p.cases, &p.work, &p.tools} {
		if *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	if err == nil {
		p.home, err = os.UserHomeDir()
	}
	if err == nil {
		p.host, err = os.Hostname()
	}
	return p, err
}

// recordAll runs cases, jobs at a time, and gives their lines by their ids.
func recordAll(ctx context.Context, p place, todo []testCase, jobs int) (map[string]*line, error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		lost  error // a spawner process
		lines = map[string]*line{}
		queue = make(chan testCase)
	)
	for range max(1, jobs) {
		sp, err := proc.Start(proc.Options{})
		if err != nil {
			return nil, fmt.Errorf("starting the spawner process: %w", err)
		}
		defer func() { _ = sp.Close() }() // it has nothing left to say
		wg.Go(func() {
			for c := range queue {
				l, err := record(ctx, sp, p, c)
				mu.Lock()
				switch {
				case err == nil:
					lines[c.id] = l
					fmt.Fprintf(os.Stderr, "%-40s exit %d %s, %d + %d bytes\n", c.id, l.ExitCode, l.Signal, len(l.Stdout), len(l.Stderr))
				case errors.Is(err, proc.ErrSpawnerLost):
					lost = errors.Join(lost, err)
					fallthrough
				default:
					fmt.Fprintf(os.Stderr, "%-40s left out: %v\n", c.id, err)
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range todo {
		queue <- c
	}
	close(queue)
	wg.Wait()
	return lines, lost
}

func readLines(dir string) (map[string]*line, error) {
	lines := map[string]*line{}
	for _, name := range []string{dev, held} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("reading a corpus: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
			l := &line{}
			if err := d.Decode(l); err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			lines[l.ID] = l
		}
	}
	return lines, nil
}

// writeLines writes the corpora in the order of the list, with the labels that the list has now.
func writeLines(dir string, list []testCase, lines map[string]*line) error {
	text := map[string]*bytes.Buffer{dev: {}, held: {}}
	for _, c := range list {
		l := lines[c.id]
		if l == nil {
			continue
		}
		l.labels = c.labels
		e := json.NewEncoder(text[c.corpus])
		e.SetEscapeHTML(false)
		if err := e.Encode(l); err != nil {
			return fmt.Errorf("writing the case %s: %w", c.id, err)
		}
	}
	for name, lines := range text {
		if err := durable.OS().WriteFile("corpus", filepath.Join(dir, name), lines.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing a corpus: %w", err)
		}
	}
	return nil
}
