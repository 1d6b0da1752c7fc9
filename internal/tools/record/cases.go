package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// line is one recorded failure: the input of superloop classify --batch, and the labels.
type line struct {
	ID       string `json:"id"`
	Tool     string `json:"tool"`
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal"`
	TimedOut bool   `json:"timed_out"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	labels
	Files map[string]string `json:"files,omitempty"` // small files of the project, those that the output names first
}

// labels are the expected answers of the classifier for a failure.
type labels struct {
	WantCode     bool     `json:"want_code"`
	WantCategory []string `json:"want_category"`
	WantRemedy   []string `json:"want_cure"`
	Note         string   `json:"note"`
}

// testCase is one entry of a case file. cases/README.md describes the format.
type testCase struct {
	id, tool       string
	corpus         string // the name of the file that holds the case's line
	labels         labels
	via            string // how the command is started; "" means sh -c
	setup, command string
	timeout        time.Duration
	zeroIsFine     bool // the command may exit with 0, because it loses the exit code of the failure
}

// defaultTimeout is the time limit of a case that does not set its own.
const defaultTimeout = 3 * time.Minute

// corpora names the corpora. The cases of a file named X_* go to the corpus X, those of other files to the first one.
var corpora = []string{"dev", "held", "fresh", "last", "wide", "final", "blind", "dawn", "noon", "eve", "night", "morrow", "frost", "thaw", "rime", "dew", "sleet", "hail", "snow", "fog"}

// corpusOf returns the name of the corpus file that holds the lines of a case file.
func corpusOf(caseFile string) string {
	name, _, _ := strings.Cut(filepath.Base(caseFile), "_")
	if !slices.Contains(corpora, name) {
		name = corpora[0]
	}
	return name + ".jsonl"
}

// readCases reads every case file of a directory, in the order of the names.
func readCases(dir string) (all []testCase, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt")) // sorted
	if err != nil {
		return nil, fmt.Errorf("listing the case files: %w", err)
	}
	seen := map[string]bool{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a case file: %w", err)
		}
		for i, text := range strings.Split("\n"+string(data), "\n== ")[1:] {
			c := testCase{timeout: defaultTimeout, corpus: corpusOf(name)}
			if err := c.parse(text); err != nil {
				return nil, fmt.Errorf("%s: case %d: %w", name, i+1, err)
			}
			if seen[c.id] {
				return nil, fmt.Errorf("%s: there are two cases %s", name, c.id)
			}
			seen[c.id] = true
			all = append(all, c)
		}
	}
	return all, nil
}

// parse reads one entry: a title, keys, the preparation, and at the end the command after a "$ ".
func (c *testCase) parse(text string) (err error) {
	title, rest, _ := strings.Cut(text, "\n")
	switch words := strings.Fields(title); {
	case len(words) == 2 && words[1] == "code":
		c.id, c.labels = words[0], labels{WantCode: true, WantCategory: []string{"code_bug"}, WantRemedy: []string{"none"}}
	case len(words) >= 4 && words[1] == "infra":
		c.id = words[0]
		c.labels = labels{WantCategory: strings.Split(words[2], ","), WantRemedy: strings.Split(strings.Join(words[3:], " "), "|")}
	default:
		return fmt.Errorf("%q is no title: write == ID code, or == ID infra CATEGORY[,CATEGORY] REMEDY[|REMEDY]", title)
	}
	c.tool, _, _ = strings.Cut(c.id, "-")
	body, command, ok := strings.Cut("\n"+rest, "\n$ ")
	if !ok {
		return fmt.Errorf("%s: no command: start its line with a dollar and a space", c.id)
	}
	c.command = strings.TrimSpace(command)
	for l := range strings.Lines(body + "\n") {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ": "); {
		case c.setup != "":
			c.setup += l
		case key == "tool":
			c.tool = value
		case key == "note":
			c.labels.Note = value
		case key == "via":
			c.via = value
		case key == "exit" && value == "lost":
			c.zeroIsFine = true
		case key == "timeout":
			if c.timeout, err = time.ParseDuration(value); err != nil {
				return fmt.Errorf("%s: %w", c.id, err)
			}
		case l != "\n":
			c.setup = l
		}
	}
	return nil
}
