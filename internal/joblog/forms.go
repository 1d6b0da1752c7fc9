package joblog

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

// form is one way in which a tool writes a prefix.
type form struct {
	re func() *regexp.Regexp // matches at the beginning of a line; group 1, if there is one, is the job
	// least is the share of the lines that must have the prefix. A tool that drives jobs writes some lines of its own.
	least float64
	few   int // this number of lines with the same job is enough, whatever their share; 0: never
	lines int // the least number of lines with the prefix
	not   func() *regexp.Regexp
	// has is a byte that the prefix contains, and digits says that it begins with a digit or "[": cheap checks before the
	// expression.
	has    byte
	digits bool
	open   bool // the length of the prefix depends on what follows it
}

// forms holds the prefixes. The first that fits a stream is taken.
var forms = []form{
	// Times: CI systems, journals, ts of moreutils; a step and its time of BuildKit.
	{re: pattern.Lazy(`^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?Z| ?[+-]\d\d:?\d\d)?\]?(?:: |[ \t]|$)`), least: 0.9, lines: 1, has: '-', digits: true},
	{re: pattern.Lazy(`^\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?:: |[ \t]|$)`), least: 0.9, lines: 1, has: ':', digits: true},
	{re: pattern.Lazy(`^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:[ \t]|$)`), least: 0.9, lines: 1, has: ':'},
	{re: pattern.Lazy(`^\[?\+?\d+(?:\.\d+)s\]?(?: |$)`), least: 0.9, lines: 2, has: 's', digits: true},
	{re: pattern.Lazy(`^(#\d+) (?:\d+\.\d+ |(?:CACHED|DONE \d|ERROR: )?)`), least: 0.9, lines: 2, has: '#', open: true},
	// docker compose, foreman, honcho: a name and a bar; concurrently and others: a name in brackets and a bar.
	{re: pattern.Lazy(`^([A-Za-z@][\w@./:-]*|\[[\w@./:#-]+\]) *\|(?: |$)`), least: 0.5, few: 4, lines: 1, not: pattern.Lazy(`^\w+ \| \w+ \|`), has: '|'},
	// turbo, nx: the package and the task. pnpm -r: the directory and the script.
	{re: pattern.Lazy(`^(@?[A-Za-z][\w./-]*[:#][A-Za-z][\w-]*(?:[:][\w-]+)*):(?: |$)`), least: 0.5, few: 4, lines: 2, has: ':',
		not: pattern.Lazy(`^[\w./-]+\.\w{1,5}[:#]|^(?i:error|warning|fatal|note|info|debug|npm|node)[:#]`)},
	{re: pattern.Lazy(`^(@[\w.-]+/[\w.-]+[:#][\w:-]+):(?: |$)`), least: 0.3, few: 3, lines: 1, has: ':'},
	{re: pattern.Lazy(`^((?:\.|[\w@.-]+(?:/[\w@.-]+)+|[\w@-]+) (?:pre|post)?(?:test|build|lint|check|start|dev|install|typecheck|ci|e2e|unit|compile|prepare|generate)(?:[:][\w:-]+)?)(?:: |\$ |:$)`), least: 0.5, few: 2, lines: 1, has: ' '},
	// lerna: the package. yarn workspaces: the package in brackets.
	{re: pattern.Lazy(`^(@[\w.-]+/[\w.-]+):(?: |$)`), least: 0.5, few: 3, lines: 2, has: ':'},
	{re: pattern.Lazy(`^(?:➤ YN\d{4}: )?(\[@?[\w./:#-]+\]): `), least: 0.5, few: 3, lines: 2, has: ':'},
	// concurrently, npm-run-all, go-task, wireit.
	{re: pattern.Lazy(`^(\[[\w@./:#-]+\])(?: |$)`), least: 0.9, lines: 3, has: ']',
		not: pattern.Lazy(`^\[(?i:info|error|err|warn|warning|debug|trace|fatal|notice|ok|pass|fail|failed|skip|passed|success)\]|^\[\d+/\d+\]`)},
	// The same with the name of a usual task, which needs no further line to be known.
	{re: pattern.Lazy(`^(\[(?:[\w@./-]+[:#])?(?:pre|post)?(?:test|build|lint|check|start|dev|install|typecheck|ci|e2e|unit|compile|prepare|generate)(?::[\w:-]+)?\])(?: |$)`), least: 0.9, lines: 1, has: ']'},
	// GNU parallel --tag: the argument and a tab; --tagstring '[{}]'.
	{re: pattern.Lazy(`^(\[[\w@./:#-]+\])\t`), least: 0.9, lines: 1, has: '\t'},
	{re: pattern.Lazy(`^([^\s\t][^\t]{0,60})\t`), least: 1, lines: 3, not: pattern.Lazy(`^(?:ok|FAIL|---|\?|\d+|[0-9a-f]{7,}) *\t`), has: '\t'},
}

const (
	maxSample = 120 // lines of the first block from which the prefixes are learned
	maxPrefix = 120 // bytes of a prefix
	maxLayers = 3   // prefixes of one line, such as a time and a job
	maxJobs   = 64  // more names than these are no names of jobs
)

// match returns the job that the prefix of a line names, and the length of the prefix; 0 if the line has none.
func (f form) match(line []byte) (job string, size int) {
	if len(line) == 0 || bytes.IndexByte(line[:min(len(line), maxPrefix)], f.has) < 0 ||
		f.digits && line[0] != '[' && line[0] != '+' && (line[0] < '0' || line[0] > '9') || f.not != nil && f.not().Match(line) {
		return "", 0
	}
	m := f.re().FindSubmatchIndex(bytes.TrimRight(line, "\r\n"))
	if m == nil {
		return "", 0
	}
	if len(m) > 2 && m[2] >= 0 {
		job = string(line[m[2]:m[3]])
	}
	return job, m[1]
}

// learn finds out which prefixes the lines of a text have.
func learn(block []byte) (layers []form) {
	var sample [][]byte
	for line := range bytes.Lines(block) {
		if line = bytes.TrimRight(uncoloured(line), "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			sample = append(sample, line)
		}
		if len(sample) >= maxSample {
			break
		}
	}
	for len(layers) < maxLayers && len(sample) > 0 {
		at := -1
		for i, f := range forms {
			if f.fits(sample) {
				at = i
				break
			}
		}
		if at < 0 {
			break
		}
		layers = append(layers, forms[at])
		for i, line := range sample {
			_, size := forms[at].match(line)
			sample[i] = line[size:]
		}
	}
	return layers
}

// fits reports whether the lines of a sample have the prefix.
func (f form) fits(sample [][]byte) bool {
	count, all := map[string]int{}, 0
	most := 0
	for _, line := range sample {
		job, size := f.match(line)
		if size == 0 {
			continue
		}
		all++
		count[job]++
		most = max(most, count[job])
	}
	if all < f.lines || len(count) > maxJobs || len(count) > max(2, all/2) {
		return false
	}
	return float64(all) >= f.least*float64(len(sample)) || f.few > 0 && most >= f.few
}

// failedLine reports whether a line says that its job has failed.
func failedLine(line []byte) bool {
	return slices.ContainsFunc(failedParts, func(p []byte) bool { return bytes.Contains(line, p) }) && failed().Match(line)
}

// failedParts holds texts one of which stands in each line that failed matches: a cheap check before the expression.
var failedParts = [][]byte{[]byte("ailed"), []byte("exit"), []byte("Exit"), []byte("ELIFECYCLE"), []byte("npm ")}

var failed = pattern.Lazy(`(?:^|[\s:])(?:Failed|failed with exit code|exited with code [1-9]\d*|Process exited \(exit code [1-9]\d*\)|Exit status [1-9]|Command failed)|ELIFECYCLE|^npm (?:ERR!|error) `)

// uncoloured returns a line without the control sequences of terminals.
func uncoloured(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	s := text.Uncoloured(string(line))
	if !strings.HasSuffix(s, "\n") && len(line) > 0 && line[len(line)-1] == '\n' {
		s += "\n"
	}
	return []byte(s)
}
