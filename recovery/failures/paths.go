package failures

import (
	"fmt"
	"slices"
	"strings"
)

// wrongPathRule applies when a path that does not exist has one namesake in the project: a file of the same name in
// another directory. What says so is a look at the project, not the words of the output. The words only give the path,
// so the rule is not sure before the task has failed twice in the same way.
func wrongPathRule(c Case, e Entry) RootCause {
	if e.Blame == BlameProvider || e.Blame == BlameAccount || e.Blame == BlameSettings {
		return RootCause{}
	}
	for _, p := range append([]string{c.Captures["path"]}, PathsIn(c.Evidence)...) {
		right := c.Facts.Namesakes[p]
		if exists, looked := c.Facts.Exists[p]; right == "" || exists || !looked {
			continue
		}
		f := RootCause{Type: CauseCode, Confidence: 0.65, Location: p, Description: fmt.Sprintf("the path %s is wrong: there is no such file, and the project has %s", p, right),
			Fix: Fix{Kind: FixCode, Instruction: fmt.Sprintf("correct %s to %s wherever it is used", p, right)}}
		if c.same() > 1 {
			f.Confidence = 0.8
		}
		if i := slices.IndexFunc(c.Evidence, func(q Quote) bool { return strings.Contains(q.Text, p) }); i >= 0 {
			f.Evidence = []Quote{c.Evidence[i]}
		}
		return f
	}
	return RootCause{}
}

// maxPaths bounds the result of PathsIn.
const maxPaths = 8

// PathsIn returns the paths with a directory in them that lines of the evidence call missing, in their order. Whether
// they exist is another question.
func PathsIn(evidence []Quote) []string {
	var out []string
	for _, q := range evidence {
		line := strings.ToLower(q.Text)
		if !slices.ContainsFunc([]string{"no such file or directory", "cannot find file", "cannot find the file", "file not found", "filenotfounderror"}, func(s string) bool { return strings.Contains(line, s) }) {
			continue
		}
		for _, w := range strings.FieldsFunc(q.Text, func(r rune) bool { return strings.ContainsRune(" \t'\"`,;()[]<>=", r) }) {
			w = strings.TrimRight(w, ":.")
			if strings.Contains(w, "/") && !strings.Contains(w, "://") && !slices.Contains(out, w) && len(out) < maxPaths {
				out = append(out, w)
			}
		}
	}
	return out
}
