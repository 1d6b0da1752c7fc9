package classify

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/testreport"
)

// A test of how a program bears a full disk or a lost server throws the error itself: by a double, or by an exception of
// the program's own. Its report reads like one of the machine's. But the words stand in the code, and the machine's do
// not. So the code is asked: the lines that the report quotes, and the files that it names.

const (
	maxSources = 6        // files of the project that are looked at for one failed test
	maxFiles   = 24       // files of the project that are read for one failure
	maxLocals  = 48       // names of files that are looked for below its directory
	maxSource  = 64 << 10 // bytes read of one of them
	nearSource = 3        // lines before and after a place that a trace names, in which the error may be made
	farSource  = 40       // the same for languages whose reports name the place of the check, not that of the error
)

var (
	// makes matches a line of code that makes an error and throws it, tells a double to do so, or prints it.
	makes = pattern.Lazy(`(?i)\b(?:raise|throw|die|panic|super|reject|croak|error|echo|printf)\b|error\(|exception\(|err\(|errors\.new\(|format!\(|fault\(|side_effect|mock\w*reject|rejects?with|throws?\w*\(|and_raise|errno\(|\bnew \w+\(|Errorf?\(`)
	// catches matches a line of code that names an error in order to tell it from others.
	catches = pattern.Lazy(`\b(?:rescue|except|catch|errors\.(?:Is|As)|instanceof|match|case|toThrow|raises|rejects|assert\w*|expect\w*)\b`)
	// quotedText matches a string of the code; a group is what stands between its marks, the last one where a report has
	// cut the line off.
	quotedText = pattern.Lazy(`"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|` + "`((?:[^`\\\\]|\\\\.)*)`" + `|["'` + "`" + `]([^"'` + "`" + `]{10,})…$`)
	// machine matches the wording of the system, as opposed to that of a check that somebody wrote.
	machine = pattern.Lazy(`\b(?:E[A-Z]{4,}|EAI_[A-Z]+|EIO)\b|[ ({\[]:(?:e[a-z]{4,}|nxdomain|timeout)\b|(?i)\b(?:no space left on device|connection (?:was |is )?(?:refused|reset|timed out|closed|aborted|lost|not available|unexpectedly closed)|permission denied|too many open files|address already in use|read-only file ?system|cannot allocate memory|out of memory|name or service not known|temporary failure in name resolution|no such host|no route to host|network is unreachable|broken pipe|operation not permitted|resource temporarily unavailable|device or resource busy|stale file handle|input/output error|text file busy|file too large|quota exceeded|socket hang up|command not found|cannot find (?:package|module)|timed out|timeout of \d+ ?m?s exceeded|i/o timeout|deadline exceeded|os error \d+|errno \d+|certificate|docker daemon|rate limit|slow down|too many requests|unauthorized|service unavailable|fetch failed|failed to connect|could(?: not|n't) (?:connect|resolve)|(?:starting|shutting) up|lock (?:wait )?timeout|deadlock|execution expired|authentication failed|pooled connections)\b`)
	// systemType matches the name of an exception of the system at the beginning of a message.
	systemType = pattern.Lazy(`^((?:[A-Za-z_]\w*(?:::|\.))*(?:Errno::E[A-Z]+|(?:[A-Z]\w*)?(?:Connection|Connect|Permission|Timeout|Socket|OS|IO|BrokenPipe|UnknownHost|SSL)\w*(?:Error|Exception)))\b`)
)

// made reports whether the project's own code made the exception that ended a test: a double threw it, or the
// words of the system stand in the code.
func (j *judgement) made(f *failure) bool {
	for _, s := range f.Says {
		if j.ownServer(s.Text, f) {
			return true
		}
		if at := s.Line - f.First; at >= 0 && at < len(f.lines) && doubled(f.lines[at]) {
			return true
		}
		if !machine().MatchString(s.Text) {
			continue
		}
		if slices.ContainsFunc(f.lines, doubled) {
			return true
		}
		if fromOutside(f.lines, s.Line-f.First) {
			return false
		}
		if !slices.ContainsFunc(f.lines, bySystem().MatchString) && standsIn(s.Text, j.sourceOf(f), slices.ContainsFunc(f.lines, deeper)) {
			return true
		}
		if composed(s.Text, j.wholeSources(f)) {
			return true
		}
	}
	return false
}

// bySystem matches what a runtime shows only of an error that a call of the system gave.
var bySystem = pattern.Lazy(`\bsyscall: '\w+'|\bOs \{ code: \d|\bkind: Uncategorized`)

// madeNear is made for a line of a report that nothing has parsed.
func (j *judgement) madeNear(h hit) bool {
	if n := slices.IndexFunc(j.failures, func(f *failure) bool { return f == h.of || f.has(h) }); n >= 0 {
		return j.failures[n].made
	}
	o := j.of(h)
	i := int(h.line-o.lines) + len(o.tail) - 1
	if i < 0 || i >= len(o.tail) {
		return false
	}
	f := failure{lines: o.tail[max(0, i-farSource):min(len(o.tail), i+farSource)]}
	f.First = max(0, i-farSource)
	for _, l := range j.stdout.tail {
		if o == j.stderr && proved().MatchString(l) { // prove names on stdout the file of tests that died
			f.lines = append(slices.Clip(f.lines), l)
		}
	}
	f.Says = []testreport.Statement{{Line: i, Text: strings.Trim(h.text, "# ")}}
	return j.made(&f)
}

// deeper reports whether a line of a trace shows that the error came from a library, or from another error.
func deeper(l string) bool { return foreign(l) || strings.Contains(l, "Caused by:") }

// standsIn reports whether lines of code make an exception with these words, or, unless a library made it, of this type.
func standsIn(said string, code []string, library bool) bool {
	kind := "" // of an exception of the system
	if m := systemType().FindStringSubmatch(said); m != nil && !library {
		kind = m[1]
	}
	for _, l := range code {
		if kind != "" && word(l, kind) && !catches().MatchString(l) {
			return true
		}
		for _, m := range quotedText().FindAllStringSubmatch(l, 20) {
			text := m[1] + m[2] + m[3]
			if m[4] != "" && strings.Contains(said, m[4]) || machine().MatchString(text) && (isOf(text, said) || partOf(text, said)) {
				return true
			}
		}
	}
	return false
}

// unescaped returns a string of the code as a message has it, where no value is put in.
func unescaped(literal string) string {
	return strings.NewReplacer(`\"`, `"`, `\'`, `'`, "\\`", "`").Replace(literal)
}

// double matches the frame of a library that plays a part for a test.
var double = pattern.Lazy(`unittest/mock\.py|:internal/test_runner/mock|node_modules/(?:tinyspy|@vitest/spy|jest-mock|sinon|nock|testdouble)/|-packages/(?:responses|requests_mock|respx|moto|pyfakefs|httpretty|httmock|vcr|aioresponses|botocore/stub)\b|\bgems/webmock|\brspec[/-]mocks|\borg\.mockito\.`)

// doubled reports whether a line is such a frame. Each of them names a file or a package.
func doubled(l string) bool {
	return (strings.Contains(l, "/") || strings.Contains(l, "org.mockito.")) && double().MatchString(l)
}

// word reports whether a line has a word by itself.
func word(line, w string) bool {
	i := strings.Index(line, w)
	if i < 0 {
		return false
	}
	part := func(b byte) bool {
		return b == '_' || b == '.' || unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))
	}
	return (i == 0 || !part(line[i-1])) && (i+len(w) == len(line) || !part(line[i+len(w)]))
}

// isOf reports whether a literal gave a message: the message ends with it or goes on with a word, but not with a path that
// the system has added, or it has the beginning up to the first place where a value is put in.
func isOf(literal, said string) bool {
	const marks = `"')]}>., `
	if i := strings.IndexAny(literal, `\%{$`); i >= 0 {
		return strings.Contains(said, strings.TrimRight(literal[:i], "#"))
	}
	_, rest, ok := strings.Cut(said, strings.TrimRight(literal, marks))
	rest = strings.TrimLeft(rest, `"')]}>`)
	return ok && (strings.Trim(rest, marks) == "" || rest[0] == '\n' || len(rest) > 1 && rest[0] == ' ' && rest[1] >= 'a' && rest[1] <= 'z')
}

// partOf reports whether a part of a literal between two places where something is put in has the words of the system
// and stands in a text.
func partOf(literal, text string) bool {
	parts := strings.FieldsFunc(literal, func(r rune) bool { return strings.ContainsRune(`\%{}$`, r) })
	return len(parts) > 1 && slices.ContainsFunc(parts, func(p string) bool {
		return len(p) >= leastPart && strings.Contains(text, strings.Trim(p, `"`)) && machine().MatchString(p)
	})
}

const leastPart = 16 // bytes

// sourceOf returns the lines of code that make an error: of what the report of a failed test quotes, and near the places
// that it names, if the directory of the command is known. cargo names the file of the tests elsewhere if a test does
// not panic.
func (j *judgement) sourceOf(f *failure) (out []string) {
	type part struct {
		file string
		from int
	}
	seen := map[part]bool{}
	read := func(file string, from, to int) {
		if file == "" || seen[part{file, from}] || len(seen) >= maxSources {
			return
		}
		lines := j.scoped(j.local(file), f)
		if len(lines) == 0 {
			return
		}
		seen[part{file, from}] = true
		for _, l := range lines[max(0, min(len(lines), from)):min(len(lines), to)] {
			if makes().MatchString(l) {
				out = append(out, l)
			}
		}
	}
	said := map[int]bool{}
	for _, s := range f.Says {
		said[s.Line] = true
	}
	python, raised := f.Runner == "pytest" || f.Runner == "unittest", false // they quote the line that raised it
	for i, l := range f.lines {
		if !said[f.First+i] && quotesOwnCode(f.lines, i) && makes().MatchString(l) {
			out, raised = append(out, l), true
		}
	}
	for _, l := range f.lines {
		file, n := placeIn(l)
		near := nearSource
		if farFile().MatchString(file) {
			near = farSource
		}
		if !python || raised {
			read(file, n-near-1, n+near)
		}
	}
	if f.suite != "" && len(seen) == 0 {
		read(f.suite, 0, maxSource)
	}
	if f.Runner == "cargo test" {
		for _, l := range j.stderr.tail {
			if m := cargoRuns().FindStringSubmatch(l); m != nil {
				read(m[1], 0, maxSource)
			}
		}
	}
	return out
}

// farFile matches the files of languages whose reports do not name the place at which an error was made.
var farFile = pattern.Lazy(`\.(?:py|go|rs|bats|exs?|sh)$`)

// cargoRuns matches the line in which cargo names the file whose tests it runs.
var cargoRuns = pattern.Lazy(`^\s+Running (?:unittests )?(\S+\.rs) \(`)

// quotesOwnCode reports whether a line of a report quotes a line of the project's code: behind its number or a bar, or as
// the traces of Python do, whose next place says whose it is.
func quotesOwnCode(lines []string, i int) bool {
	if !strings.HasPrefix(lines[i], ">  ") && sourceLine().MatchString(lines[i]) {
		return true
	}
	if !pythonRaise().MatchString(lines[i]) {
		return false
	}
	if i > 0 && pythonPlace().MatchString(lines[i-1]) {
		return !foreign(lines[i-1])
	}
	for _, l := range lines[i+1 : min(len(lines), i+20)] {
		if pythonPlace().MatchString(l) {
			return !foreign(l)
		}
	}
	return false
}

var (
	pythonRaise = pattern.Lazy(`^(?:>| {4})\s*(?:\w.*: )?raise\b`)
	pythonPlace = pattern.Lazy(`^\s*File "[^"]+", line \d+|^\S+\.py:\d+: `)
)

// readLines returns the lines of the first maxSource bytes of a file below the directory of the command, or nil.
func (j *judgement) readLines(file string) []string {
	if lines, known := j.files[file]; known || len(j.files) >= maxFiles || file == "" || j.in.Dir == "" {
		return lines
	}
	if j.files == nil {
		j.files = map[string][]string{}
	}
	j.files[file] = nil
	f, _, err := door.Open(filepath.Join(j.in.Dir, file))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxSource))
	j.files[file] = strings.Split(string(b), "\n")
	return j.files[file]
}

// packages are the patterns of the directories in which a workspace has its packages.
var packages = []string{"*", "packages/*", "apps/*", "libs/*", "services/*", "crates/*", "modules/*"}

// goPackage matches the line in which go test names a package.
var goPackage = pattern.Lazy(`^FAIL\t(\S+)\t`)

// local returns the path of a file below the directory of the command, or "" if it lies elsewhere. A report may name a
// file as its package sees it.
func (j *judgement) local(file string) string {
	at, known := j.locals[file]
	if !known && len(j.locals) < maxLocals {
		if j.locals == nil {
			j.locals = map[string]string{}
		}
		at = j.find(file)
		j.locals[file] = at
	}
	return at
}

func (j *judgement) find(file string) string {
	if j.in.Dir == "" || file == "" {
		return ""
	}
	if filepath.IsAbs(file) {
		rel, err := filepath.Rel(j.in.Dir, file)
		if err != nil || !filepath.IsLocal(rel) {
			return ""
		}
		return rel
	}
	if !filepath.IsLocal(file) {
		return ""
	}
	file = filepath.Clean(file)
	if j.readLines(file) != nil {
		return file
	}
	if strings.HasSuffix(file, ".go") {
		for _, l := range j.stdout.tail {
			m := goPackage().FindStringSubmatch(l)
			for ok := m != nil; ok; {
				if _, m[1], ok = strings.Cut(m[1], "/"); ok && j.exists(filepath.Join(m[1], file)) {
					return filepath.Join(m[1], file)
				}
			}
		}
	}
	var found []string
	for _, p := range packages {
		all, _ := filepath.Glob(filepath.Join(j.in.Dir, p, file)) // the pattern is well-formed, or it matches nothing
		found = append(found, all...)
	}
	if len(found) == 1 {
		if rel, err := filepath.Rel(j.in.Dir, found[0]); err == nil {
			return rel
		}
	}
	return file
}

// exists reports whether a path below the directory of the command is a regular file.
func (j *judgement) exists(file string) bool {
	at, err := os.Lstat(filepath.Join(j.in.Dir, file))
	return filepath.IsLocal(file) && err == nil && at.Mode().IsRegular()
}
