// Command record runs the failures that are listed under cases/ with the real tools of this machine. It writes their
// output and the expected answers to the corpora of recovery/classify. The catalog may be tuned on all of them but
// held.jsonl. The model of words learns from all of them but held.jsonl,
// blind.jsonl, dawn.jsonl, noon.jsonl, eve.jsonl, night.jsonl, morrow.jsonl, frost.jsonl and thaw.jsonl.
//
//	go run ./internal/tools/record -work DIR -tools DIR [-only REGEXP] [-jobs N]
//
// -work names a scratch directory. -tools names a directory with the tools that are not on PATH: see cases/README.md. A
// case that is not run now keeps the line that was recorded before. Each case needs its own programs. record reports
// and leaves out a case whose preparation fails, or whose command does not fail.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

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
	out := flags.String("out", "recovery/classify/testdata/real", "directory of the corpora")
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
	lines, err := readLines(*out) // includes lines that another run has written meanwhile
	if err != nil {
		return err
	}
	maps.Copy(lines, fresh)
	return writeLines(*out, list, lines)
}

// place holds the directories in which cases run, and the names that scrub replaces.
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

// recordAll runs the cases, jobs of them at a time, and returns their lines by their ids.
func recordAll(ctx context.Context, p place, todo []testCase, jobs int) (map[string]*line, error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		lost  error // errors of lost spawner processes
		lines = map[string]*line{}
		queue = make(chan testCase)
	)
	for range max(1, jobs) {
		sp, err := proc.Start(proc.Options{})
		if err != nil {
			return nil, fmt.Errorf("starting the spawner process: %w", err)
		}
		defer func() { _ = sp.Close() }() // all cases have ended, so the error does not matter
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
	for _, name := range corpora {
		data, err := os.ReadFile(filepath.Join(dir, name+".jsonl"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("reading a corpus: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
			l := &line{}
			if err := d.Decode(l); err != nil {
				return nil, fmt.Errorf("reading %s.jsonl: %w", name, err)
			}
			lines[l.ID] = l
		}
	}
	return lines, nil
}

// writeLines writes the corpora in the order of the list, with the current labels of the list.
func writeLines(dir string, list []testCase, lines map[string]*line) error {
	text := map[string]*bytes.Buffer{}
	for _, name := range corpora {
		text[name+".jsonl"] = &bytes.Buffer{}
	}
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

const (
	keep         = 11 << 10        // bytes that are kept of the beginning and of the end of a stream
	setupTimeout = 4 * time.Minute // time limit of a preparation
)

// record prepares one case in a new directory, runs its command and returns its line without labels.
func record(ctx context.Context, sp *proc.Spawner, p place, c testCase) (*line, error) {
	top := filepath.Join(p.work, c.id)
	env := []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=dev", "LOGNAME=dev", "TERM=dumb", "SHELL=/bin/bash",
		"TOOLS=" + p.tools, "TOP=" + top, "CASES=" + p.cases, "NO_UPDATE_NOTIFIER=1", "GOTELEMETRY=off"}
	if _, err := sp.Run(ctx, proc.Spec{Argv: []string{"rm", "-rf", top}, Env: env, Timeout: setupTimeout}); err != nil {
		return nil, fmt.Errorf("clearing its directory: %w", err)
	}
	repo := filepath.Join(top, "repo")
	if err := durable.OS().MkdirAll("case", repo, 0o755); err != nil {
		return nil, fmt.Errorf("making its directory: %w", err)
	}
	script := ". " + filepath.Join(p.cases, "lib.sh") + "\n" + c.setup + "\n/usr/bin/env -0 > " + filepath.Join(top, "env")
	r, err := sp.Run(ctx, proc.Spec{Argv: []string{"bash", "-c", script}, Dir: repo, Env: env, Timeout: setupTimeout})
	if err != nil {
		return nil, fmt.Errorf("preparing it: %w", err)
	}
	if r.Ended != proc.Exited || r.Code != 0 {
		return nil, fmt.Errorf("its preparation ended with %d (%s): %s", r.Code, r.Ended, r.Stderr.Text())
	}
	after, err := os.ReadFile(filepath.Join(top, "env"))
	if err != nil {
		return nil, fmt.Errorf("reading the environment that it prepared: %w", err)
	}
	env = strings.Split(strings.TrimSuffix(string(after), "\x00"), "\x00")
	argv := []string{"/bin/sh", "-c", c.command}
	if c.via != "" {
		argv = []string{"/bin/bash", "-c", c.via}
		env = append(env, "CMD="+c.command)
	}
	r, err = sp.Run(ctx, proc.Spec{Argv: argv, Dir: repo, Env: env, Timeout: c.timeout, Grace: 2 * time.Second, HeadTail: keep})
	if err != nil {
		return nil, fmt.Errorf("running it: %w", err)
	}
	l := &line{ID: c.id, Tool: p.toolName(ctx, sp, env, repo, c.tool), Command: p.scrub(c.command, top),
		ExitCode: r.Code, Signal: r.Signal, TimedOut: r.Ended == proc.TimedOut,
		Stdout: p.scrub(r.Stdout.Text(), top), Stderr: p.scrub(r.Stderr.Text(), top)}
	if r.Signal != "" { // the exit code that a shell reports for a signal
		l.ExitCode = 128 + int(unix.SignalNum(r.Signal))
	}
	switch {
	case r.Ended == proc.NotStarted || r.Ended == proc.Lost:
		return nil, fmt.Errorf("it was not run: %v", r.Err)
	case l.TimedOut && c.timeout == defaultTimeout:
		return nil, errors.New("it ran out of time")
	case r.Code == 0 && !l.TimedOut && !c.zeroIsFine:
		return nil, errors.New("it did not fail")
	}
	l.Files = filesOf(repo, l.Stdout+"\n"+l.Stderr)
	for name, text := range l.Files {
		l.Files[name] = p.scrub(text, top)
	}
	return l, nil
}

const (
	maxNamed = 4       // files kept of a project because the output names them
	maxFiles = 6       // files kept of a project
	maxFile  = 3 << 10 // bytes of a file that is kept
)

// sourceName matches the names of the files of code that a project may hold beside those that an output names.
var sourceName = regexp.MustCompile(`\.(?:go|rs|py|[cm]?[jt]s|rb|php|p[lm]|t|exs?|lua|java|c|cc|cpp|h|sh|bash|bats|tcl|test)$`)

// filesOf returns small files of a project, by their paths: those that an output names, and files of code beside them.
func filesOf(repo, output string) map[string]string {
	files := map[string]string{}
	keep := func(name string, most int) {
		if !filepath.IsLocal(name) || strings.Contains(name, "node_modules") || strings.HasSuffix(name, ".txt") || len(files) >= most {
			return
		}
		path := filepath.Join(repo, name)
		if at, err := os.Lstat(path); err == nil && at.Mode().IsRegular() && at.Size() <= maxFile {
			if text, err := os.ReadFile(path); err == nil && utf8.Valid(text) {
				files[name] = string(text)
			}
		}
	}
	for _, name := range regexp.MustCompile(`[\w@./-]+\.[a-zA-Z]{1,4}\b`).FindAllString(strings.ReplaceAll(output, "file://", ""), -1) {
		keep(strings.TrimPrefix(strings.TrimPrefix(name, "/repo/"), "./"), maxNamed)
	}
	_ = fs.WalkDir(os.DirFS(repo), ".", func(name string, d fs.DirEntry, err error) error { // what cannot be read is not kept
		switch base := filepath.Base(name); {
		case err != nil, len(files) >= maxFiles:
			return fs.SkipAll
		case d.IsDir() && name != "." && (base[0] == '.' || base == "node_modules" || base == "target" || base == "venv"):
			return fs.SkipDir
		case d.Type().IsRegular() && sourceName.MatchString(base):
			keep(name, maxFiles)
		}
		return nil
	})
	return files
}

// toolName adds the version to a tool's name. For "go !go version" it runs the command after the "!" and adds the
// number that the command prints.
func (p place) toolName(ctx context.Context, sp *proc.Spawner, env []string, dir, text string) string {
	name, command, ok := strings.Cut(text, " !")
	if !ok {
		return text
	}
	r, err := sp.Run(ctx, proc.Spec{Argv: []string{"/bin/sh", "-c", command + " 2>&1"}, Dir: dir, Env: env, Timeout: time.Minute})
	if err != nil || r.Ended != proc.Exited {
		return name
	}
	return strings.TrimSpace(name + " " + regexp.MustCompile(`\d+(?:\.\d+)+`).FindString(r.Stdout.Text()))
}

// scrub replaces the paths and names of this machine in a text by neutral ones.
func (p place) scrub(text, top string) string {
	if at, err := filepath.EvalSymlinks(top); err == nil {
		text = strings.ReplaceAll(text, at, top)
	}
	var pairs []string
	entries, _ := os.ReadDir(p.tools) // without the directory there are no tools to replace
	for _, e := range slices.Backward(entries) {
		if at, err := filepath.EvalSymlinks(filepath.Join(p.tools, e.Name())); err == nil {
			pairs = append(pairs, at, "/home/dev/tools/"+e.Name())
		}
	}
	if p.tools != "" {
		pairs = append(pairs, p.tools, "/home/dev/tools")
		text = regexp.MustCompile(`(\.\./)+`+regexp.QuoteMeta(filepath.Base(p.tools))+`/`).ReplaceAllString(text, "../tools/")
	}
	pairs = append(pairs, filepath.Join(top, "repo"), "/repo", strings.TrimPrefix(filepath.Join(top, "repo"), "/"), "repo", top, "/home/dev/case", // ctest leaves out the first slash
		p.work, "/home/dev/work",
		p.home+"/", "/home/dev/", p.home+`"`, `/home/dev"`, p.home+"'", "/home/dev'")
	for up := filepath.Dir(p.work); filepath.Dir(up) != "/" && up != "/"; up = filepath.Dir(up) {
		pairs = append(pairs, up, "/home/dev")
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if len(p.host) > 4 { // a name like vm says nothing about the machine, and is a part of other words
		text = strings.ReplaceAll(text, p.host, "devhost")
	}
	text = regexp.MustCompile(`on [0-9.]+:53: `).ReplaceAllString(text, "on 127.0.0.53:53: ") // Go's errors name the nameserver
	kept := slices.DeleteFunc(strings.Split(text, "\n"), regexp.MustCompile(`Unknown (user|env) config`).MatchString)
	return strings.ToValidUTF8(strings.Join(kept, "\n"), "\uFFFD")
}
