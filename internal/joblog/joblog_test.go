package joblog_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/joblog"
)

func read(t testing.TB, text string) (string, *joblog.Reader) {
	t.Helper()
	r := joblog.NewReader(strings.NewReader(text))
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), r
}

// What tools really print, and the same without its prefixes.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"docker compose", "web-1  | a\ndb-1   | ready\nweb-1  | b\n", "a\nb\nready\n"},
		{"one line of a container", "web-1  | sh: 1: jq: not found", "sh: 1: jq: not found"},
		{"turbo", "@acme/web:test: a\n@acme/api:test: x\n@acme/web:test: b\n Tasks: 1 successful\n", "a\nb\nx\n Tasks: 1 successful\n"},
		{"pnpm -r", "packages/a test$ node --test\npackages/a test: not ok 1\npackages/a test: Failed\n ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL\n", "node --test\nnot ok 1\nFailed\n ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL\n"},
		{"the failed job comes last", "[a] | x failed with exit code 1\n[b] | 1\n[b] | 2\n[a] | y\n", "1\n2\nx failed with exit code 1\ny\n"},
		{"CI times", "2026-11-23T10:00:00.1234567Z a\n2026-11-23T10:00:00.1234567Z\n2026-11-23T10:00:01.1234567Z b\n", "a\n\nb\n"},
		{"a time and a job", "10:00:00 web.1  | a\n10:00:01 web.1  | b\n", "a\nb\n"},
		{"colours", "\x1b[36mweb-1  |\x1b[0m a\n\x1b[36mweb-1  |\x1b[0m b\n", "a\nb\n"},
		{"concurrently", "[0] a\n[1] b\n[0] c\n[1] d\n", "a\nc\nb\nd\n"},
		{"parallel --tag", "one two\ta\none two\tb\nthree\tc\nthree\td\n", "a\nb\nc\nd\n"},
		{"journal", "Nov 23 10:00:00 a\nNov 23 10:00:01 b\n", "a\nb\n"},
		{"one line of a task", "[build] tar: vendor.tar: Cannot open: No such file or directory", "tar: vendor.tar: Cannot open: No such file or directory"},
		{"jobs that differ by a digit", "web-1  | a\nweb-2  | x\nweb-1  | b\nweb-2  | y\n", "a\nb\nx\ny\n"},
		{"a step of BuildKit with and without its time", "#5 a\n#5 0.123 b\n#5 c\n", "a\nb\nc\n"},
		{"an empty line before one of the same prefix", "10:00:00\n10:00:01 a\n10:00:0 b\n10:00:02 c\n10:00:03 d\n10:00:04 e\n10:00:05 f\n10:00:06 g\n10:00:07 h\n10:00:08 i\n", "\na\n10:00:0 b\nc\nd\ne\nf\ng\nh\ni\n"},
		{"empty lines of a job", "[build] | a\n[build] |\n[build] | b\n", "a\n\nb\n"},
	} {
		if got, _ := read(t, tc.in); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// What looks like a prefix, and is a part of what a tool says.
func TestNoPrefix(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a compiler":         "main.go:3:1: undefined: x\nmain.go:4:1: undefined: y\n",
		"rustc":              "error[E0425]: cannot find value\n --> src/main.rs:1:2\n  |\n1 | fn main() { x }\n  |             ^ not found\n",
		"Maven":              "[INFO] Scanning\n[ERROR] Failed to execute goal\n[ERROR] -> [Help 1]\n",
		"go test":            "ok  \texample.com/a\t0.1s\nok  \texample.com/b\t0.1s\nFAIL\texample.com/c\t0.2s\n",
		"npm":                "npm error code ENOENT\nnpm error syscall open\nnpm error path /repo/package.json\n",
		"a shell":            "sh: 1: jq: not found\n",
		"a word in brackets": "[deprecated] use --all\n",
		"make":               "make: *** [Makefile:2: all] Error 1\nmake: Leaving directory '/repo'\n",
		"cmake's progress":   "[1/3] Building\n[2/3] Building\n[3/3] Linking\n",
		"a table":            "id | name | age\n1 | a | b\n",
		"git":                "fatal: not a git repository\n",
		"du":                 "12\ta\n13\tb\n14\tc\n",
		"C++":                "ld: a.o: undefined reference\ncollect2: error: ld returned 1\n",
	} {
		if got, r := read(t, text); got != text || r.Line(2) != 2 {
			t.Errorf("%s: %q, want it unchanged", name, got)
		}
	}
}

// Each line of the text is a line of the stream without its prefix, at the place that Line tells, however the stream is
// cut into reads.
func TestLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(20, 20000).Draw(t, "lines")
		seed := rapid.IntRange(0, 1000).Draw(t, "seed")
		var in strings.Builder
		lines := make([]string, n)
		for i := range lines {
			lines[i] = fmt.Sprintf("job-%d  | line %d of %s", (i*seed+i/7)%5, i, strings.Repeat("x", (i*seed)%60))
			in.WriteString(lines[i] + "\n")
		}
		r := joblog.NewReader(iotest.HalfReader(strings.NewReader(in.String())))
		buf := make([]byte, rapid.IntRange(1, 100000).Draw(t, "buffer"))
		at, rest, last := int64(0), "", map[string]int64{}
		for {
			m, err := r.Read(buf)
			rest += string(buf[:m])
			for {
				line, after, ok := strings.Cut(rest, "\n")
				if !ok {
					break
				}
				rest = after
				at++
				from := r.Line(at)
				job, text, _ := strings.Cut(lines[from-1], "  | ")
				if text != line {
					t.Fatalf("line %d is %q, line %d of the stream is %q", at, line, from, text)
				}
				if from <= last[job] {
					t.Fatalf("line %d of %s came after line %d", from, job, last[job])
				}
				last[job] = from
			}
			if errors.Is(err, io.EOF) {
				break
			}
		}
		if at != int64(n) || rest != "" || r.Bytes() != int64(in.Len()) {
			t.Fatalf("%d lines of %d, rest %q, %d bytes of %d", at, n, rest, r.Bytes(), in.Len())
		}
	})
}

// A stream of any bytes loses nothing but prefixes: it has as many lines, each the end of a line of the stream.
func FuzzReader(f *testing.F) {
	f.Add([]byte("web-1  | a\nweb-1  | b\n"))
	f.Add([]byte("2026-11-23T10:00:00Z a\nx"))
	f.Add([]byte("\x1b[31m[a] | x\n[b] | \x1b[0m\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := joblog.NewReader(iotest.OneByteReader(strings.NewReader(string(data))))
		out, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := read(t, string(data))
		if whole != string(out) {
			t.Fatalf("read by the byte: %q, at once: %q", out, whole)
		}
		if strings.IndexByte(string(data), 0x1b) >= 0 {
			return // colours are removed where prefixes are
		}
		from, to := strings.SplitAfter(string(data), "\n"), strings.SplitAfter(whole, "\n")
		if len(from) != len(to) {
			t.Fatalf("%d lines, want %d: %q", len(to), len(from), whole)
		}
		for i, line := range to {
			if line = strings.TrimSuffix(line, "\n"); !slices.ContainsFunc(from, func(l string) bool {
				return strings.HasSuffix(strings.TrimSuffix(l, "\n"), line)
			}) {
				t.Fatalf("line %d, %q, is the end of no line of the stream", i+1, line)
			}
		}
	})
}
