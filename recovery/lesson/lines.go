package lesson

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/classify"
)

// line is one line of a failure's output, without secrets.
type line struct {
	text   string // without control codes, and without blanks at its end
	stderr bool
	at     int // its index among the lines of its stream
	loose  bool
	score  int
}

const (
	maxLine   = 300 // bytes of a line that a pattern may recognise
	maxOutput = 1 << 20
)

var (
	// named matches a secret behind a name that says that it is one.
	named = pattern.Lazy(`(?i)((?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|access[_-]?key|credential|authorization|cookie)s?["']?\s*[=:]\s*["']?)([^\s"',;]{3,})`)
	home  = pattern.Lazy(`(/home/|/Users/)[^/\s:'"]+`)

	// trouble matches words that say that something is wrong.
	trouble = pattern.Lazy(`(?i:\b(?:errors?|fatal|fail(?:ed|s|ure)?|can ?not|can't|could ?n[o']t|couldn't|unable|unknown|not found|no such|missing|stale|mismatch\w*|(?:does|do|did|is|are|was) ?n[o']t\b|doesn't|isn't|denied|refused?|invalid|corrupt\w*|expired|unsupported|outdated|out of (?:date|sync)|locked|not (?:installed|running|available|set|configured|ready|writable|readable|allowed|permitted|loaded|initiali[sz]ed)|unavailable|unreachable|broken|incompatible|requires?d?|already|timed out|time-?out (?:of|after|exceeded|expired|while|waiting|was|error)|timeout:|rejected|abort(?:ed)?|must|please|undefined|unresolved|conflict\w*|too (?:old|new|many|large|long)|exceed\w*|quota|panic|exception|unexpected|without|lacks?|no \w+ (?:for|in|at|on|found|available|matching)|run .{1,40} first)\b)|\bE[A-Z]{4,}\b|[a-z](?:Error|Exception)\b`)
	// summary matches lines that only say that something has failed.
	summary = pattern.Lazy(`(?i)^\s*(?:\S*make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error)\s+(?:at|code|errno|path|dest|syscall|location|signal|cwd|workspace|command|A complete log|Test failed|Emitted|\[)|Emitted 'error' event|(?:code|errno|syscall): |(?:ERROR|Error|FAIL|FAILED|FATAL)[:! ]*(?:failed|job failed)?\s*$|Traceback|(?:BUILD|TESTS?) FAILED|usage:)|exit(?:ed)?(?: with)?(?: a)?(?: non-zero)? (?:code|status)|non-zero|process completed|\b\d+ (?:failed|passed|errors?)\b|complete log of this run|for more (?:information|details)|see above|aborting due to|could not compile|please report|this (?:is an error|error happened)|tries remaining|will retry`)
	// heading matches lines behind which the cause still comes.
	heading = pattern.Lazy(`(?i):\s*$|^\s*(?:\S+ )?warn(?:ing)?\b`)
	// trace matches frames of a trace, and lines that begin with a place in the code.
	trace  = pattern.Lazy(`^\s+at |^\s*File "|^\s+\d+: |^\s+from |^\s*[\w@./\\-]+\.\w+(?::\d+(?::\d+)?|\(\d+,\d+\)):? `)
	spoken = pattern.Lazy(`^[\w./+-]+(?:\[\d+\])?: \S`)
)

// cleaned returns the lines of an output, without secrets, control codes and the names of home directories.
func cleaned(output string, r *redact.Replacer) []string {
	output = text.Head(output, maxOutput)
	output = redact.Text(r.String(strings.ToValidUTF8(output, "?")))
	var out []string
	for l := range strings.Lines(output) {
		out = append(out, tidy(l))
	}
	return out
}

func tidy(s string) string {
	s = text.Uncoloured(strings.TrimRight(s, "\r\n"))
	if i := strings.LastIndexByte(s, '\r'); i >= 0 { // the last state of a progress bar
		s = s[i+1:]
	}
	s = named().ReplaceAllString(s, "${1}"+redact.Mark)
	s = home().ReplaceAllString(s, "${1}user")
	s = strings.ReplaceAll(s, "\t", "    ") // YAML takes no tab where a text begins
	return strings.TrimRightFunc(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s), unicode.IsSpace)
}

// candidates returns the lines that may name the cause, the likeliest first. before is the present verdict: a line that
// a rule took for the cause comes first.
func (f Failure) candidates(r *redact.Replacer, before classify.Failure) []line {
	var out []line
	for _, s := range []struct {
		output string
		stderr bool
	}{{f.Stderr, true}, {f.Stdout, false}} {
		for i, l := range cleaned(s.output, r) {
			out = append(out, line{text: l, stderr: s.stderr, at: i, loose: f.Excerpt})
		}
	}
	programs := f.programs()
	taken := map[string]bool{}
	for _, m := range before.Matches {
		taken[strings.TrimSpace(tidy(m.Text))] = true
	}
	out = slices.DeleteFunc(out, func(l line) bool { return strings.TrimSpace(l.text) == "" })
	only := len(out) == 1
	out = slices.DeleteFunc(out, func(l line) bool { return len(l.text) > maxLine || strings.HasSuffix(l.text, "...") && f.Excerpt })
	for i := range out {
		l := &out[i]
		byProgram := spoken().MatchString(l.text) && slices.Contains(programs, path.Base(l.text[:strings.IndexAny(l.text, ":[")]))
		if summary().MatchString(l.text) || trace().MatchString(l.text) || strings.Count(l.text, " -") > 3 {
			continue
		}
		// Of a failure that a rule knows only the lines count that rules took: the others follow from them, or stand in
		// passing output as well.
		own := taken[strings.TrimSpace(l.text)]
		if !own && (before.Handler != "" || !(only && l.stderr) && !trouble().MatchString(l.text)) {
			continue
		}
		l.score = 1
		for _, more := range []bool{own, own, byProgram, spoken().MatchString(l.text), trouble().MatchString(l.text), l.stderr} {
			if more {
				l.score++
			}
		}
		if heading().MatchString(l.text) {
			l.score = 1
		}
	}
	out = slices.DeleteFunc(out, func(l line) bool { return l.score == 0 })
	slices.SortStableFunc(out, func(a, b line) int { return b.score - a.score })
	// A line that is far less likely to name the cause is no substitute for one that no rule can recognise safely.
	if len(out) > 0 {
		best := out[0].score
		out = slices.DeleteFunc(out, func(l line) bool { return l.score+1 < best })
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(l line) bool {
		twice := seen[l.text]
		seen[l.text] = true
		return twice
	})
}

// programs returns the names by which programs of the command may speak of themselves.
func (f Failure) programs() []string {
	var out []string
	for w := range strings.FieldsSeq(f.Command) {
		out = append(out, path.Base(strings.Trim(w, `'"();`)))
	}
	return out
}

// lastLine returns the last line that is not blank, for a message.
func (f Failure) lastLine(r *redact.Replacer) string {
	for _, output := range []string{f.Stderr, f.Stdout} {
		for _, l := range slices.Backward(cleaned(output, r)) {
			if l = strings.TrimSpace(l); l != "" {
				return text.Cut(l, 100)
			}
		}
	}
	return ""
}

// around returns the line with up to two lines before and after it, as an example has them.
func (l line) around(f Failure, r *redact.Replacer) string {
	output := f.Stdout
	if l.stderr {
		output = f.Stderr
	}
	all := cleaned(output, r)
	var out []string
	for i := max(0, l.at-2); i < min(len(all), l.at+3); i++ {
		if i == l.at || len(all[i]) <= maxLine {
			out = append(out, all[i])
		}
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// word is one word of letters.
var word = pattern.Lazy(`[A-Za-z]+`)

// general are words that outputs of any failure have. They say nothing of a cause.
var general = strings.Fields(`a about above abort aborted again all already an and any are as at be been because but by can cannot check code command
	complete completed could did do does done during error errors exception exit exited fail failed failing fails failure failures fatal file files
	find following for found from had has have in into invalid is it its line log make may message more must no non not nothing occurred of on one or
	output please problem process program reason result retry returned run running see some something status step stderr stdout stop stopped
	such task test tests that the then there this time to try unable unexpected unknown warning was went were while with without wrong you your zero
	err info debug warn severe critical operation request action job script target build details information stage phase work working cause caused build builds install installs installing installation
	package packages module modules project dependency dependencies suite suites object value name names shell bash main`)

// system matches the texts that an operating system has for its errors. Any failure may have them.
var system = pattern.Lazy(`(?i)connection (?:refused|reset(?: by peer)?|timed out|closed)|permission denied|access denied|no such file or directory|(?:command )?not found|` +
	`file exists|is a directory|not a directory|(?:no|not enough) space left on device|too many open files|address already in use|operation (?:not permitted|timed out)|` +
	`broken pipe|input/output error|resource (?:busy|temporarily unavailable)|cannot allocate memory|out of memory|segmentation fault|killed|terminated|core dumped|` +
	`unexpected end of (?:file|input)|line \d+|no such file`)

// telling counts the letters of words that are not general.
func telling(s string) int {
	s = system().ReplaceAllString(s, " ")
	n := 0
	for _, w := range word().FindAllString(s, -1) {
		if !slices.Contains(general, strings.ToLower(w)) {
			n += len(w)
		}
	}
	return n
}

// letters counts the ASCII letters of s.
func letters(s string) int {
	n := 0
	for i := range len(s) {
		if c := s[i] | 0x20; c >= 'a' && c <= 'z' {
			n++
		}
	}
	return n
}

// quoteLiteral returns an expression that matches s. Blanks in it match any blanks.
func quoteLiteral(s string) string {
	return blanks().ReplaceAllStringFunc(regexp.QuoteMeta(s), func(b string) string {
		if b == " " {
			return b
		}
		return `\s+`
	})
}

var blanks = pattern.Lazy(` +`)
