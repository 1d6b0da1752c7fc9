package verify

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
)

// label is what is known of a recorded tool besides what it wrote.
type label struct {
	ID         string `json:"id"`
	Works      bool   `json:"works"`
	Silent     bool   `json:"silent"` // it works, and nothing that it writes proves it
	NotStarted bool   `json:"not_started"`
}

// recordings are the lines of a file of testdata: what real programs wrote that
// were asked for --version (or, "flag:", for an argument that does not exist),
// then for --help and -h. Those of found.jsonl.gz are programs of a Debian 12,
// those of built.jsonl were made for this and work, those of broken.jsonl were
// made broken.
func recordings(t testing.TB, name string) [][]byte {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// What works is repaired, and by a section that passes on what was written; what
// is broken never is.
// Conforms: 001-problem, 001-driver-ci, 001-driver-diverse, 001-d1-all, 001-d2.1-pattern
func TestRecordedTools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file                                   string
		works, repaired, byOutput, byHelp, byH int
	}{
		{"found.jsonl.gz", 450, 440, 420, 16, 4},
		{"built.jsonl", 25, 25, 22, 2, 1},
		{"broken.jsonl", 0, 0, 0, 0, 0},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			lines := recordings(t, tt.file)
			var out bytes.Buffer
			if err := Batch(bytes.NewReader(bytes.Join(lines, []byte("\n"))), &out); err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewScanner(&out)
			answers.Buffer(nil, 1<<20)
			works, methods := 0, map[string]int{}
			for _, line := range lines {
				if !answers.Scan() {
					t.Fatal("an answer is missing")
				}
				var l label
				var in batchIn
				var got batchOut
				for v, b := range map[any][]byte{&l: line, &in: line, &got: answers.Bytes()} {
					if err := json.Unmarshal(b, v); err != nil {
						t.Fatal(err)
					}
				}
				if l.Works {
					works++
				}
				if got.Repairable != (l.Works && !l.Silent) {
					t.Errorf("%s: repairable %v: %s", l.ID, got.Repairable, got.Why)
				}
				if got.Repairable {
					methods[got.Method]++
					fits(t, in, got)
				}
			}
			if works != tt.works || methods[OutputDetection] != tt.byOutput || methods[FallbackHelp] != tt.byHelp || methods[FallbackH] != tt.byH {
				t.Errorf("%d of %d work, repaired by %v", works, len(lines), methods)
			}
		})
	}
}

// fits: the repaired section passes on the very output that it came from, and
// its pattern on the raw text by itself.
func fits(t *testing.T, in batchIn, got batchOut) {
	t.Helper()
	r := in.recorded
	if got.Method != OutputDetection {
		for _, f := range in.Fallbacks {
			if methodOf(f.Args) == got.Method {
				r = f
			}
		}
	}
	v := catalog.Verify{Command: got.Repaired.Command, Mode: got.Repaired.Mode, Pattern: got.Repaired.Pattern, ExitCode: got.Repaired.ExitCode}
	if ok, why := Passes(v, r.Stdout, r.Stderr, r.exit()); !ok {
		t.Errorf("%s: the repaired section %+v does not pass: %s", in.ID, v, why)
	}
	re, err := regexp.Compile(v.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	if !re.MatchString(r.Stdout + "\n" + r.Stderr) {
		t.Errorf("%s: %s does not match what was written", in.ID, v.Pattern)
	}
	if upper := strings.ToUpper(r.Stdout + "\n" + r.Stderr); !re.MatchString(upper) {
		t.Errorf("%s: %s minds the case", in.ID, v.Pattern)
	}
	if _, err := split(v.Command); err != nil {
		t.Error(err)
	}
}

// Whatever a broken tool writes before it ends, a whole help included, it is not
// repaired.
// Conforms: 001-sec-hostile
func TestBrokenAfterHelp(t *testing.T) {
	t.Parallel()
	const help = "Usage: tool [OPTIONS] FILE\n\nOptions:\n  -o FILE  where to write\n  -h       this help\n"
	for _, line := range recordings(t, "broken.jsonl") {
		var l label
		var in batchIn
		if json.Unmarshal(line, &l) != nil || json.Unmarshal(line, &in) != nil {
			t.Fatal(string(line))
		}
		if in.Stdout+in.Stderr == "" || in.Tool == "nodeopt" || in.Tool == "pybadopt" || in.Tool == "javausage" {
			continue // it says nothing, or only that it was called wrongly
		}
		exit := in.exit()
		exit.NotStarted = l.NotStarted
		if a := AnalyzeVerifyFailure(help+in.Stdout, in.Stderr, exit, "tool"); a.Repairable || !a.Broken {
			t.Errorf("%s: %+v", l.ID, a)
		}
	}
}

func BenchmarkAnalyze(b *testing.B) {
	var in batchIn
	if err := json.Unmarshal(recordings(b, "found.jsonl.gz")[0], &in); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		AnalyzeVerifyFailure(in.Stdout, in.Stderr, in.exit(), in.Tool)
	}
}
