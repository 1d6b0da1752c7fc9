package classify

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

const (
	maxEvidence     = 8
	maxEvidenceText = 400
)

// codePlaces holds the ways in which tools name a place in the code. The groups of an expression are file and line.
var codePlaces = []struct {
	has string // a string that each matching line contains: a cheap check before the expression
	re  func() *regexp.Regexp
}{
	{`File "`, pattern.Lazy(`^[\s|]*File "([^"]+)", line (\d+)`)},
	{"--> ", pattern.Lazy(`--> ([^\s:]+):(\d+)`)},
	{"): ", pattern.Lazy(`(?:^|[\s(\["'])((?:[A-Za-z]:)?[\w@./\\+-]*\w\.[A-Za-z]\w{0,7})\((\d+),\d+\)`)},
	{" on line ", pattern.Lazy(`in (/?[\w./-]+\.\w+) on line (\d+)`)},
	{" line ", pattern.Lazy(`\b(?:in|file) (/?[\w./-]*\w\.[A-Za-z]\w{0,5}),? line (\d+)`)},
	{" line ", pattern.Lazy(` at ([\w./-]+\.(?:p[lm]|t)) line (\d+)`)},
	{".lua @ ", pattern.Lazy(`-> (\S+\.lua) @ (\d+)$`)},
	{": line ", pattern.Lazy(`(?:^|[\s"'])([\w@./-]*\w\.[A-Za-z]\w{0,5}): line (\d+): `)},
}

// foreign reports whether a path belongs to an installed dependency or to the system, not to the repository's own code.
func foreign(path string) bool {
	return hasAny(path, "node_modules", "node:internal", "site-packages", "dist-packages", "/usr/", "/rustc/", "/library/std", "/library/core",
		"/go/src/", "lib/python", "_ssl.c", ".cargo/registry", "/pkg/mod/")
}

// codePlace finds the file and line of the code that a line of output is about. It searches the line itself, then up to
// 25 lines after it, such as those of a trace, then the frames in the 4 lines before it. A line that is a message with a
// place of its own speaks of that place, and not for its neighbours.
func codePlace(line string, before, after []string) (file string, n int) {
	if f, n := placeIn(line); f != "" {
		return f, n
	}
	for _, l := range after[:min(len(after), 25)] {
		if quotes(l) && sourceLine().MatchString(l) {
			continue
		}
		if ownMessage().MatchString(l) {
			break
		}
		if f, n := placeIn(l); f != "" {
			return f, n
		}
		if t := strings.TrimSpace(l); t != "" && openingOf(l, t) == opensBlock {
			break
		}
	}
	for i := len(before) - 1; i >= max(0, len(before)-4); i-- {
		if l := before[i]; frame().MatchString(l) || frameHead().MatchString(l) {
			if f, n := placeIn(l); f != "" {
				return f, n
			}
		} else if ownMessage().MatchString(l) {
			break
		}
	}
	return "", 0
}

var (
	// ownMessage matches a message that begins with its place: "a.go:3:1: undefined: x". The name of an exception alone
	// is none: pytest writes it behind the place of the line before it.
	ownMessage = pattern.Lazy(`^\S+?(?::\d+){1,2}:? +\S+ +\S|^\S+\(\d+,\d+\): \S`)
	// frameHead matches a line of a trace that is not indented.
	frameHead = pattern.Lazy(`^\S+:\d+: in \S|^\S+ \d+\)? ?in |^goroutine |^thread '`)
)

// placeIn returns the first file and line number of the repository's code that a line of output names.
func placeIn(line string) (string, int) {
	if f, n := colonPlace(line); f != "" {
		return f, n
	}
	for _, p := range codePlaces {
		if !strings.Contains(line, p.has) {
			continue
		}
		for _, m := range p.re().FindAllStringSubmatch(line, 4) {
			if n, err := strconv.Atoi(m[2]); err == nil && codeFile(m[1], n) {
				return m[1], n
			}
		}
	}
	return "", 0
}

// quotes reports, cheaply, whether a line of output may quote a line of code: with its number, or behind a bar.
func quotes(l string) bool {
	t := strings.TrimLeft(l, " \t")
	return t != "" && (t[0] >= '0' && t[0] <= '9' || t[0] == '>' || t[0] == '|' || t[0] >= 0x80)
}

// codeName matches the end of a path that can be a file of code.
var codeName = pattern.Lazy(`\w\.[A-Za-z][^./\\]{0,7}$|(?:^|[/\\])(?:Rake|Make|Gem|Docker|Jenkins|Vagrant|Just)file$`)

// hostName matches the name of a host, which a port follows as a line number follows the name of a file.
var hostName = pattern.Lazy(`^[^/\\]+\.(?:internal|intranet|local|localdomain|lan|corp|example|invalid|com|org|net|io|cloud|svc)$`)

// codeFile reports whether a path and a line number can be a place in the code of the repository.
func codeFile(path string, line int) bool {
	return line > 0 && line <= 10_000_000 && codeName().MatchString(path) && !hostName().MatchString(path) && !foreign(path)
}

// The bytes of a word, and the bytes of a path that needs no quotes.
const (
	wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	pathBytes = wordBytes + `@./\+-`
)

// drive matches the drive letter before a path on Windows, such as "C:".
var drive = pattern.Lazy(`(?:^|[ \t(\["'])[A-Za-z]:$`)

// colonPlace finds a place in the code that is written as path.ext:line, as most tools do.
func colonPlace(line string) (string, int) {
	for i := 1; i+1 < len(line); i++ {
		if line[i] != ':' || line[i+1] < '0' || line[i+1] > '9' {
			continue
		}
		before := strings.TrimRight(line[:i], pathBytes)
		file := line[len(before):i]
		switch {
		case strings.HasSuffix(before, "file:"):
			file = "/" + strings.TrimLeft(file, "/")
		case strings.HasSuffix(before, ":") && strings.ContainsAny(file, `/\`) && drive().MatchString(before):
			file = before[len(before)-2:] + file
		case before != "" && !strings.ContainsRune(" \t([\"'", rune(before[len(before)-1])) && !strings.HasSuffix(before, "❯"):
			continue
		}
		number := strings.TrimLeft(line[i+1:], "0123456789")
		if n, err := strconv.Atoi(line[i+1 : len(line)-len(number)]); err == nil && codeFile(file, n) {
			return file, n
		}
	}
	return "", 0
}

// evidence collects up to maxEvidence lines, each text once. The lines of the primary match come first. If no handler
// matched, it takes the last lines of output.
func (j *judgement) evidence() []Evidence {
	var out []Evidence
	seen := map[string]bool{}
	add := func(h hit) {
		text := j.c.printable(h.text)
		if text == "" || len(out) >= maxEvidence || seen[text] {
			return
		}
		seen[text] = true
		if file, n := placeIn(h.text); h.file == "" && (j.in.Dir == "" || j.exists(j.local(file))) {
			h.file, h.fileLine = file, n // of a hit whose surroundings nobody has looked at
		}
		out = append(out, Evidence{Stream: h.stream.String(), Line: h.origin, Text: text, File: h.file, FileLine: h.fileLine})
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
					n := o.lines - int64(len(o.tail)-1-i)
					add(hit{stream: o.name, line: n, origin: o.src.Line(n), text: o.tail[i]})
				}
			}
			if len(out) > 0 {
				break
			}
		}
	}
	return out
}

// printable makes a line safe for an operator's screen and for a file. The result has no control characters, no secret
// and at most maxEvidenceText bytes.
func (c *Classifier) printable(line string) string {
	s := redact.Text(c.redact.String(strings.ToValidUTF8(text.Uncoloured(line), "?")))
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s))
	if len(s) > maxEvidenceText {
		s = strings.ToValidUTF8(s[:maxEvidenceText-3], "") + "..."
	}
	return s
}

var (
	uuidText = pattern.Lazy(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	timeText = pattern.Lazy(`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b`)
	urlText  = pattern.Lazy(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>)]+`)
	pathText = pattern.Lazy(`(?:[A-Za-z]:)?(?:\.{0,2}/|~/|\\)(?:[^\s"'():,;<>|*?\\/]+[/\\])*[^\s"'():,;<>|*?\\/]*`)
	hexText  = pattern.Lazy(`(?i)\b(?:0x[0-9a-f]+|[0-9a-f]{7,64})\b`)
	tempText = pattern.Lazy(`(?i)\b(?:tmp|temp|cc|npm|pytest|go-build)[-_.]?[A-Za-z0-9]*\d[A-Za-z0-9_]{2,}\b`)
	number   = pattern.Lazy(`\d+(?:\.\d+)*`)
	spaces   = pattern.Lazy(`\s+`)
)

// maxNormalised bounds how many bytes of a line Normalise reads.
const maxNormalised = 400

// Normalise removes from a line of output the parts that differ from run to run: control codes, paths but for their
// last element, URLs, times, UUIDs, hexadecimal and decimal numbers, names of temporary files, and ports. It is
// idempotent.
func Normalise(line string) string {
	s := strings.ToValidUTF8(text.Uncoloured(line), "")
	if len(s) > maxNormalised {
		s = strings.ToValidUTF8(s[:maxNormalised], "")
	}
	s = urlText().ReplaceAllString(s, "<url>")
	s = uuidText().ReplaceAllString(s, "<id>")
	s = timeText().ReplaceAllString(s, "<time>")
	s = pathText().ReplaceAllStringFunc(s, func(as string) string {
		p := strings.ReplaceAll(as, `\`, "/")
		if i := strings.LastIndexByte(p, '/'); i >= 0 && strings.Trim(p, "/.") != "" {
			return "<path>" + p[i+1:]
		}
		return as
	})
	s = tempText().ReplaceAllString(s, "<tmp>")
	s = hexText().ReplaceAllStringFunc(s, func(h string) string {
		if strings.ContainsAny(h, "0123456789") {
			return "<hex>"
		}
		return h
	})
	s = number().ReplaceAllString(s, "<n>")
	return strings.TrimSpace(spaces().ReplaceAllString(s, " "))
}

// Signature returns a name for a failure. The same failure in another run has the same name. The name consists of the
// category, the handler, and a short hash over the normalised parts. For a failure of the code, the parts are the names
// of the failed tests and files; their order does not matter.
func Signature(category, handler string, parts ...string) string {
	clean := make([]string, 0, len(parts))
	for _, p := range parts {
		if p = Normalise(p); p != "" {
			clean = append(clean, p)
		}
	}
	slices.Sort(clean)
	clean = slices.Compact(clean)
	sum := sha256.Sum256([]byte(category + "\x00" + handler + "\x00" + strings.Join(clean, "\x00")))
	return strings.TrimSuffix(category+"/"+handler, "/") + "-" + hex.EncodeToString(sum[:5])
}
