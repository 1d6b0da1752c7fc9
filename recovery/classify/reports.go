package classify

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/internal/testreport"
	"github.com/superloop/superloop/recovery/catalog"
)

// failure is one failed test of a report.
type failure struct {
	testreport.Failure
	stream streamSet
	first  int64 // the number of the line at index 0
	outer  bool  // a handler recognises the environment in what ended the test
	made   bool  // the project's own code made the exception that ended the test
	lines  []string
	suite  string // the file of tests, if jest names it before the failures, "" if not
}

// maxMade bounds the failed tests whose code is looked at. If all of them made their errors themselves, so did the rest.
const maxMade = 32

// has reports whether a hit stands in the report of the failure.
func (f *failure) has(h hit) bool {
	return h.stream == f.stream && h.line >= f.first+int64(f.First) && h.line <= f.first+int64(f.Last)
}

// readReports scans what ended the tests, as if each had been a program that said only this. Its hits join those of the
// stream.
func (j *judgement) readReports(sc *multiscan.Scanner) {
	for _, o := range []*output{j.stderr, j.stdout} {
		lines := o.window
		o.window = nil
		suite, at := "", 0
		for _, f := range testreport.Parse(lines) {
			for ; f.Runner == "jest" && at < f.First; at++ {
				if name, ok := strings.CutPrefix(lines[at], "FAIL ./"); ok {
					suite, _, _ = strings.Cut(name, " ")
				}
			}
			shown := lines[f.First : f.Last+1]
			if n := f.Last + 2; n < len(lines) && strings.HasPrefix(lines[n], "Serialized Error: ") {
				shown = lines[f.First : n+1] // vitest tells the fields of the error behind its report
			}
			j.failures = append(j.failures, &failure{Failure: f, stream: o.name, first: o.lines - int64(len(lines)) + 1, lines: shown, suite: suite})
		}
	}
	made := 0
	for i, f := range j.failures {
		if f.made = i < maxMade && j.made(f) || i >= maxMade && made >= maxMade; f.made {
			f.Asserted, f.Says = true, nil
			made++
		}
	}
	type said struct {
		of   *failure
		line int64
	}
	var says []said
	var text strings.Builder
	for _, f := range j.failures {
		for _, s := range f.Says {
			says = append(says, said{f, f.first + int64(s.Line)})
			text.WriteString(strings.ReplaceAll(s.Text, "\n", " ") + "\n")
		}
	}
	if len(says) == 0 {
		return
	}
	sc.Reset(func(h multiscan.Hit) {
		s := says[h.Line-1]
		o := j.stdout
		if s.of.stream == onStderr {
			o = j.stderr
		}
		k := hit{stream: o.name, line: s.line, origin: o.src.Line(s.line), text: string(h.Text), captures: j.c.prog.captures(h), of: s.of}
		k.voice = voiceSuite
		o.hits[h.Pattern] = append(o.hits[h.Pattern], k)
	})
	_, _ = sc.Write([]byte(text.String())) // Write and Close of a Scanner never fail
	_ = sc.Close()
}

// outerOnly reports whether the environment ended a test, and no check of a test failed. Of a report with both, the
// failed check says that the code has to change, whatever becomes of the environment.
func (j *judgement) outerOnly() bool {
	for _, m := range j.matched {
		if m.rule.h.Guard != catalog.GuardNone {
			continue
		}
		for _, h := range append(m.others, *orZero(m.hit)) {
			if h.of != nil {
				h.of.outer = true
			}
		}
	}
	return slices.ContainsFunc(j.failures, func(f *failure) bool { return f.outer }) &&
		!slices.ContainsFunc(j.failures, func(f *failure) bool { return f.Asserted })
}

func orZero(h *hit) *hit {
	if h == nil {
		return &hit{}
	}
	return h
}
