package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// volatile are the parts of an output that differ from one run of a loop to the next, and what alike puts in their place.
var volatile = []struct {
	re *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`("undo": ?)"\d{8}T[^"]*"`), `${1}"UNDO"`},
	{regexp.MustCompile(`\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{8}`), "RUN"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d(:\d\d:\d\d(\.\d+)?Z?)?|\b(\d\d-\d\d )?\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`[0-9.]+ an hour|("per_active_hour": ?)[0-9.]+`), "${1}RATE"},
	{regexp.MustCompile(`\b([0-9a-f]{8}|[0-9a-f]{12,64})\b`), "HEX"},
	{regexp.MustCompile(`\bindex [0-9a-f]+\.\.[0-9a-f]+`), "HEX"},
	{regexp.MustCompile(`\bpid \d+|"(pid|start_time)": ?\d+`), "PID"},
	{regexp.MustCompile(`("\w*(_ms|_us|bytes|offset)": ?)\d+`), "${1}N"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`), "TOOK"},
	{regexp.MustCompile(`[ \t]+`), " "}, // the width of a column
}

// alike wants the files of two directories to be the same, but for pids, times, run ids and digests. Lines that match
// REGEXP do not count.
func alike(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 2 || len(args) == 3), "alike DIR DIR [REGEXP]")
	left := regexp.MustCompile(`$^`)
	if len(args) == 3 {
		left = regexp.MustCompile(args[2])
	}
	read := func(file string) string {
		data, err := os.ReadFile(file)
		ts.Check(err)
		text := ""
		for line := range strings.Lines(string(data)) {
			if !left.MatchString(line) {
				text += line
			}
		}
		for _, v := range volatile {
			text = v.re.ReplaceAllString(text, v.as)
		}
		return text
	}
	names := func(dir string) (out []string) {
		entries, err := os.ReadDir(ts.MkAbs(dir))
		ts.Check(err)
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	a, b := names(args[0]), names(args[1])
	if len(a) == 0 || strings.Join(a, " ") != strings.Join(b, " ") {
		ts.Fatalf("%s has %q, %s has %q", args[0], a, args[1], b)
	}
	for _, name := range a {
		one, two := read(filepath.Join(ts.MkAbs(args[0]), name)), read(filepath.Join(ts.MkAbs(args[1]), name))
		x, y := strings.Split(one, "\n"), strings.Split(two, "\n")
		for i := range max(len(x), len(y)) {
			if i >= len(x) || i >= len(y) || x[i] != y[i] {
				ts.Fatalf("%s differs:\n--- %s\n%s\n--- %s\n%s", name, args[0], strings.Join(x[min(i, len(x)):], "\n"), args[1], strings.Join(y[min(i, len(y)):], "\n"))
			}
		}
	}
}
