package multiscan

import (
	"regexp"
	"strconv"
	"strings"
)

// found is a Hit that may be kept.
type found struct {
	pattern      int
	line, offset int64
	text         string
	loc          string
}

// naive is the reference: every expression on every cleaned text of every
// line, with the sequences removed by one expression instead of a state machine.
// It knows no windows: lines are at most Window bytes.
func naive(exprs []string, stream string) []found {
	var res []*regexp.Regexp
	for _, e := range exprs {
		res = append(res, regexp.MustCompile(e))
	}
	var out findings
	var offset int64
	lines := strings.SplitAfter(stream, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for n, raw := range lines {
		for _, text := range naiveTexts(strings.TrimSuffix(raw, "\n")) {
			for i, re := range res {
				if loc := re.FindStringSubmatchIndex(text); loc != nil {
					out.add(found{i, int64(n + 1), offset, text, ints(loc)})
				}
			}
		}
		offset += int64(len(raw))
	}
	return out.all()
}

// findings are what is found of each pattern: at most once a line, the first
// MaxHits times, and the last LastHits times at the end.
type findings struct {
	hits map[int][]found // of a pattern
	list []found         // in order
}

func (f *findings) has(pattern int, line int64) bool {
	list := f.hits[pattern]
	return len(list) > 0 && list[len(list)-1].line == line
}

func (f *findings) add(h found) {
	if f.hits == nil {
		f.hits = map[int][]found{}
	}
	if f.has(h.pattern, h.line) {
		return
	}
	f.hits[h.pattern] = append(f.hits[h.pattern], h)
	f.list = append(f.list, h)
}

func (f *findings) all() []found {
	var out, late []found
	seen := map[int]int{}
	for _, h := range f.list {
		n := seen[h.pattern]
		seen[h.pattern]++
		switch {
		case n < MaxHits:
			out = append(out, h)
		case n >= len(f.hits[h.pattern])-LastHits:
			late = append(late, h)
		}
	}
	return append(out, late...)
}

var (
	naiveString = `\x1b[\]PX^_][^\x07\x1b\r]*(?:\x07|\x1b\\)`
	naiveOpen   = `\x1b[\]PX^_][^\x07\x1b\r]*`
	naiveCSI    = `\x1b\[[ -?]*[@-~]?`
	naiveEsc    = `\x1b[ -/]*[0-~]?`
	naiveAny    = regexp.MustCompile(naiveString + "|" + naiveOpen + "|" + naiveCSI + "|" + naiveEsc)
	naiveBack   = regexp.MustCompile(`(?s)^\x08|[^\r\x08]\x08|\r\x08`)
)

// naiveTexts cleans a line and cuts it at each "\r".
func naiveTexts(line string) []string {
	line = naiveAny.ReplaceAllString(line, "")
	for {
		cut := false
		line = naiveBack.ReplaceAllStringFunc(line, func(s string) string {
			if cut {
				return s
			}
			cut = true
			if s[0] == '\r' {
				return "\r"
			}
			return ""
		})
		if !cut {
			break
		}
	}
	var texts []string
	for _, t := range strings.Split(line, "\r") {
		if t != "" {
			texts = append(texts, t)
		}
	}
	if texts == nil {
		texts = []string{""}
	}
	return texts
}

func ints(loc []int) string {
	var b strings.Builder
	for _, n := range loc {
		b.WriteString(" ")
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
