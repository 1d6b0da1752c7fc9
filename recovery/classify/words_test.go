package classify

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/wordmodel"
)

// learned names the corpora that the model of words learns from. It never sees held.jsonl, blind.jsonl,
// dawn.jsonl, dusk.jsonl, duskheld.jsonl, noon.jsonl, eve.jsonl, night.jsonl, morrow.jsonl, frost.jsonl, thaw.jsonl, dew.jsonl, sleet.jsonl
// hail.jsonl, snow.jsonl and fog.jsonl, which measure.
var learned = []string{"dev", "fresh", "last", "wide", "final"}

// labelled is a failure with what is known of it.
type labelled struct {
	labels         []string
	command        string
	stdout, stderr string
}

// TestWordsAreTheCorpora: words.bin has learned from the corpora as they are.
func TestWordsAreTheCorpora(t *testing.T) {
	t.Parallel()
	sum := sha256.New()
	var files []string
	for _, name := range learned {
		files = append(files, filepath.Join("testdata", "real", name+".jsonl"))
	}
	files = append(files, "testdata/said.tsv", "testdata/messages.tsv")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(data)
	}
	of := hex.EncodeToString(sum.Sum(nil))
	if *update {
		m := wordmodel.Train(samplesOf(t, samples(t, nil)))
		m.Of = of
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("words.bin", data, 0o644); err != nil {
			t.Fatal(err)
		}
		wordsData = data
	}
	if got := wordsModel().Of; got != of {
		t.Fatalf("words.bin has learned from other corpora (%.12s, not %.12s); type: go generate ./recovery/classify", got, of)
	}
}

// samples returns what the model learns from. pick chooses among the lines of messages.tsv; nil takes all.
func samples(t *testing.T, pick func(n int) bool) (out []labelled) {
	t.Helper()
	for _, name := range learned {
		f, err := os.Open(filepath.Join("testdata", "real", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			var r struct {
				Command, Stdout, Stderr string
				WantCode                bool     `json:"want_code"`
				WantCategory            []string `json:"want_category"`
			}
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if r.WantCode {
				r.WantCategory = []string{CategoryCode}
			}
			out = append(out, labelled{r.WantCategory, r.Command, r.Stdout, r.Stderr})
		}
	}
	for n, m := range rows(t, "testdata/messages.tsv") {
		if pick == nil || pick(n) {
			out = append(out, labelled{strings.Split(m[0], ","), m[1], "", strings.ReplaceAll(m[2], `\n`, "\n")})
		}
	}
	kinds := map[string]string{"N": "network_error", "E": "environment", "P": "permission_denied", "F": "file_not_found", "C": "command_not_found", "D": "dependency",
		"V": "environment", "R": "resources", "L": "lock_held", "X": "corrupted", "A": "auth"}
	for _, m := range rows(t, "testdata/said.tsv") {
		out = append(out, labelled{[]string{kinds[m[0]]}, m[1], "", m[2]})
	}
	return out
}

// rows reads a file of three columns.
func rows(t *testing.T, file string) (out [][]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		cells := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(cells) != 3 {
			t.Fatalf("%s: a line with %d columns: %s", file, len(cells), line)
		}
		out = append(out, cells)
	}
	return out
}

// samplesOf reads samples as Classify reads an output.
func samplesOf(t *testing.T, all []labelled) []wordmodel.Sample {
	t.Helper()
	c := embeddedClassifier(t)
	out := make([]wordmodel.Sample, len(all))
	for i, s := range all {
		sc, buf := c.prog.set.NewScanner(nil), make([]byte, backSize+blockSize)
		j := &judgement{c: c, in: &Input{}}
		j.stdout = c.prog.read(context.Background(), onStdout, strings.NewReader(s.stdout), sc, buf)
		j.stderr = c.prog.read(context.Background(), onStderr, strings.NewReader(s.stderr), sc, buf)
		out[i].Labels = s.labels
		for _, h := range j.ends() {
			out[i].Lines = append(out[i].Lines, h.text)
		}
	}
	return out
}

// TestWordsOfOthers: a model that has learned from every second message tells the code from the environment in the
// others, and mostly what they are about.
func TestWordsOfOthers(t *testing.T) {
	if testkit.Sample(0, 1, 1) == 0 {
		t.Skip("it learns for some seconds; .ci/run plays it (SUPERLOOP_SLOW_TESTS=1)")
	}
	t.Parallel()
	m := wordmodel.Train(samplesOf(t, samples(t, func(n int) bool { return n%2 == 0 })))
	sides, categories, all := 0, 0, 0
	var others []labelled
	for n, row := range rows(t, "testdata/messages.tsv") {
		if n%2 == 1 {
			others = append(others, labelled{labels: strings.Split(row[0], ","), stderr: strings.ReplaceAll(row[2], `\n`, "\n")})
		}
	}
	for _, s := range samplesOf(t, others) {
		got := m.Labels()[wordmodel.Best(m.Score(s.Lines))]
		all++
		if (got == CategoryCode) == (s.Labels[0] == CategoryCode) {
			sides++
		}
		if slices.Contains(s.Labels, got) {
			categories++
		}
	}
	t.Logf("of %d messages %.1f %% are the code's or the environment's rightly, and %.1f %% have a right category", all, 100*float64(sides)/float64(all), 100*float64(categories)/float64(all))
	if float64(sides) < 0.88*float64(all) || float64(categories) < 0.65*float64(all) {
		t.Error("that is too few")
	}
}
