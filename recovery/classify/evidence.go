package classify

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/redact"
)

const (
	maxEvidence     = 8
	maxEvidenceText = 400
)

// codePlaces are how tools name a place in the code; the groups are file and
// line.
var codePlaces = []func() *regexp.Regexp{
	lazily(`^\s*File "([^"]+)", line (\d+)`),
	lazily(`--> ([^\s:]+):(\d+)`),
	lazily(`(?:^|[\s(\[❯"'])((?:[A-Za-z]:)?[\w@./\\+-]*\w\.[A-Za-z]\w{0,7}):(\d+)`),
	lazily(`(?:^|[\s(\["'])((?:[A-Za-z]:)?[\w@./\\+-]*\w\.[A-Za-z]\w{0,7})\((\d+),\d+\)`),
	lazily(`in (/?[\w./-]+\.\w+) on line (\d+)`),
}

// foreign are places that are not the repository's own code.
var foreign = lazily(`node_modules|node:internal|site-packages|dist-packages|/usr/|/rustc/|/library/(?:std|core)|/go/src/|lib/python\d|\.cargo/registry|/pkg/mod/`)

// codePlace finds the file and line of the code that a line of output is about:
// in it, in the lines after it, or right before it.
func codePlace(line string, before, after []string) (file string, n int) {
	if f, n := placeIn(line); f != "" {
		return f, n
	}
	for _, l := range after[:min(len(after), 25)] {
		if sourceLine().MatchString(l) {
			continue
		}
		if f, n := placeIn(l); f != "" {
			return f, n
		}
		if blockOpener().MatchString(l) {
			break
		}
	}
	for i := len(before) - 1; i >= max(0, len(before)-4); i-- {
		if f, n := placeIn(before[i]); f != "" {
			return f, n
		}
	}
	return "", 0
}

func placeIn(line string) (string, int) {
	if !strings.ContainsAny(line, ":(") && !strings.Contains(line, "line ") {
		return "", 0
	}
	for _, re := range codePlaces {
		for _, m := range re().FindAllStringSubmatch(line, 4) {
			n, err := strconv.Atoi(m[2])
			if err != nil || n == 0 || n > 10_000_000 || foreign().MatchString(m[1]) {
				continue
			}
			if ext := filepath.Ext(m[1]); len(ext) < 2 || unicode.IsDigit(rune(ext[1])) {
				continue
			}
			return m[1], n
		}
	}
	return "", 0
}

// evidence collects the most telling lines first, each once.
func (j *judgement) evidence() []Evidence {
	var out []Evidence
	seen := map[string]bool{}
	add := func(h hit) {
		text := j.c.printable(h.text)
		if text == "" || len(out) >= maxEvidence || seen[text] {
			return
		}
		seen[text] = true
		out = append(out, Evidence{Stream: h.stream.String(), Line: h.line, Text: text, File: h.file, FileLine: h.fileLine})
	}
	for n, m := range j.order {
		if m.hit != nil {
			add(*m.hit)
		}
		if n == 0 || m.rule.h.Guard != "" {
			for _, h := range m.others {
				if h.voice != voicePassed {
					add(h)
				}
			}
		}
	}
	for _, m := range j.vetoed {
		if m.hit != nil && len(out) < maxEvidence/2 {
			add(*m.hit)
		}
	}
	if len(out) == 0 {
		for _, o := range []*output{j.stderr, j.stdout} {
			for i := len(o.tail) - 1; i >= 0 && len(out) < 3; i-- {
				if strings.TrimSpace(o.tail[i]) != "" {
					add(hit{stream: o.name, line: o.lines - int64(len(o.tail)-1-i), text: o.tail[i]})
				}
			}
			if len(out) > 0 {
				break
			}
		}
	}
	return out
}

// printable makes a line fit for a person's screen and a file: no control
// characters, no secret, at most maxEvidenceText bytes.
func (c *Classifier) printable(line string) string {
	s := redact.Text(c.redact.String(strings.ToValidUTF8(stripANSI(line), "?")))
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > maxEvidenceText {
		s = strings.ToValidUTF8(s[:maxEvidenceText-3], "") + "..."
	}
	return s
}
