package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// line is one recorded failure: what classify --batch takes, and the labels.
type line struct {
	ID           string   `json:"id"`
	Tool         string   `json:"tool"`
	Command      string   `json:"command"`
	ExitCode     int      `json:"exit_code"`
	Signal       string   `json:"signal"`
	TimedOut     bool     `json:"timed_out"`
	Stdout       string   `json:"stdout"`
	Stderr       string   `json:"stderr"`
	WantCode     bool     `json:"want_code"`
	WantCategory []string `json:"want_category"`
	WantRemedy   []string `json:"want_cure"`
	Note         string   `json:"note"`
}

// testCase is one entry of a case file; see cases/README.md.
type testCase struct {
	id, tool, note   string
	held             bool // for measuring alone, see cases/README.md
	code             bool
	category, remedy []string
	via              string // how the command is started, "" is sh -c
	setup, command   string
	timeout          time.Duration
	zeroIsFine       bool // the exit code is expected to be lost
}

// defaultTimeout bounds a case that is not about time.
const defaultTimeout = 3 * time.Minute

// readCases reads every case file of a directory, in order of their names.
func readCases(dir string) ([]testCase, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt")) // sorted
	if err != nil {
		return nil, fmt.Errorf("listing the case files: %w", err)
	}
	var all []testCase
	seen := map[string]bool{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading a case file: %w", err)
		}
		for i, text := range strings.Split("\n"+string(data), "\n== ")[1:] {
			c, err := parseCase(text)
			if err != nil {
				return nil, fmt.Errorf("%s: case %d: %w", name, i+1, err)
			}
			if seen[c.id] {
				return nil, fmt.Errorf("%s: there are two cases %s", name, c.id)
			}
			seen[c.id] = true
			c.held = strings.HasPrefix(filepath.Base(name), "held_")
			all = append(all, c)
		}
	}
	return all, nil
}

// parseCase reads one entry: a title, keys, the preparation, and the command after a "$ " at the end.
func parseCase(text string) (testCase, error) {
	title, rest, _ := strings.Cut(text, "\n")
	words := strings.Fields(title)
	if len(words) < 2 {
		return testCase{}, fmt.Errorf("%q is no title: write == ID code, or == ID infra CATEGORIES REMEDIES", title)
	}
	c := testCase{id: words[0], timeout: defaultTimeout, tool: strings.SplitN(words[0], "-", 2)[0]}
	switch {
	case words[1] == "code" && len(words) == 2:
		c.code, c.category, c.remedy = true, []string{"code_bug"}, []string{"none"}
	case words[1] == "infra" && len(words) >= 4:
		c.category = strings.Split(words[2], ",")
		c.remedy = strings.Split(strings.Join(words[3:], " "), "|")
	default:
		return c, fmt.Errorf("%s: a title is == ID code, or == ID infra CATEGORY[,CATEGORY] REMEDY[|REMEDY]", c.id)
	}
	body, command, ok := strings.Cut("\n"+rest, "\n$ ")
	if !ok {
		return c, fmt.Errorf("%s: no command: start its line with a dollar and a space", c.id)
	}
	c.command = strings.TrimSpace(command)
	var setup []string
	for _, l := range strings.Split(body, "\n") {
		key, value, _ := strings.Cut(l, ": ")
		switch {
		case len(setup) > 0:
			setup = append(setup, l)
		case key == "tool":
			c.tool = value
		case key == "note":
			c.note = value
		case key == "via":
			c.via = value
		case key == "exit" && value == "lost":
			c.zeroIsFine = true
		case key == "timeout":
			d, err := time.ParseDuration(value)
			if err != nil {
				return c, fmt.Errorf("%s: %w", c.id, err)
			}
			c.timeout = d
		case l != "":
			setup = append(setup, l)
		}
	}
	c.setup = strings.Join(setup, "\n") + "\n"
	return c, nil
}
