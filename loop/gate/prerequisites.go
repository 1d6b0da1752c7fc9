package gate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

const (
	maxPrerequisite = 16 << 20 // bounds a file that a check reads, in bytes
	maxFirst        = 10       // bounds the open items in a failure
)

// Types of prerequisite checks.
const (
	CheckMarkdownComplete = "markdown_checklist_complete"
	CheckRegexPresent     = "file_regex_present"
	CheckRegexAbsent      = "file_regex_absent"
	CheckContainsAll      = "file_contains_all"
	CheckNotContainsAny   = "file_not_contains_any"
	CheckFileExists       = "file_exists"
	CheckFileNonempty     = "file_nonempty"
)

// PrerequisiteCheck is one condition that a file must meet. Pattern is a regular expression in the syntax of
// JavaScript, and Flags are its flags (see compileRegex). Needles are literal texts. MinChars counts characters,
// without white space around the text; a value below 1 counts as 1.
type PrerequisiteCheck struct {
	ID       string
	Type     string
	Path     string // may contain placeholders such as {loop_id}
	Pattern  string
	Flags    string
	Needles  []string
	MinChars int
}

// PrerequisiteFailure is a check that failed, with the reason. Path is the path of the check after its placeholders
// were replaced.
type PrerequisiteFailure struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Path    string         `json:"path"`
	Reason  string         `json:"reason"`
	Details map[string]any `json:"details"`
}

// PrerequisitesResult is the verdict of the prerequisites gate: the content of prerequisites-results.json without the
// time.
type PrerequisitesResult struct {
	OK       bool
	Total    int
	Verified []string // ids of the checks that passed
	Failed   []PrerequisiteFailure
}

// Status returns "ok" or "failed".
func (r PrerequisitesResult) Status() string { return okOr(r.OK, StatusFailed) }

// ResultsJSON returns the content of prerequisites-results.json.
func (r PrerequisitesResult) ResultsJSON(at time.Time) []byte {
	return pretty(members{{"ok", r.OK}, {"generated_at", stamp(at)}, {"total", r.Total}, {"passed", len(r.Verified)},
		{"verified", orEmpty(r.Verified)}, {"failed", orEmpty(r.Failed)}})
}

// Look runs every check against the repository at root and adds the results. vars holds the values of the placeholders
// {repo}, {loop_id}, {loop} and {iteration} in a path. A placeholder without a value stays in the path, and the check
// then finds no such file. A check fails if its path is outside the repository, its type is unknown, its pattern does
// not compile, or it has nothing to look for. Look returns an error only if it cannot open the repository.
func (r *PrerequisitesResult) Look(root string, checks []PrerequisiteCheck, vars map[string]string) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	var pairs []string
	for name, value := range vars {
		pairs = append(pairs, "{"+name+"}", value)
	}
	fill := strings.NewReplacer(pairs...)
	for i, c := range checks {
		c.Path = fill.Replace(c.Path)
		if c.ID == "" {
			c.ID = fmt.Sprintf("%s:%s", orUnknown(c.Type), c.Path)
			if c.Path == "" {
				c.ID = fmt.Sprintf("%s:%d", orUnknown(c.Type), i)
			}
		}
		if reason, details := t.check(c); reason == "" {
			r.Verified = append(r.Verified, c.ID)
		} else {
			r.Failed = append(r.Failed, PrerequisiteFailure{c.ID, orUnknown(c.Type), c.Path, reason, details})
		}
	}
	r.OK, r.Total = len(r.Failed) == 0, r.Total+len(checks)
	return nil
}

func orUnknown(s string) string { return cmp.Or(s, "unknown") }

// StatusJSON returns the content of validation-status.json or prerequisites-status.json: the verdict, and the name of
// the file with the details, "" for none.
func StatusJSON(status, resultsFile string, at time.Time) []byte {
	var results *string
	if resultsFile != "" {
		results = &resultsFile
	}
	ok := status == StatusOK || status == StatusSkipped
	return pretty(members{{"ok", ok}, {"status", status}, {"generated_at", stamp(at)}, {"results_file", results}})
}

// check runs one prerequisite check. reason is "" if the check passes.
func (t *tree) check(c PrerequisiteCheck) (reason string, details map[string]any) {
	judge := map[string]func(string, PrerequisiteCheck) (string, map[string]any){
		CheckMarkdownComplete: checkBoxes, CheckRegexPresent: checkRegex, CheckRegexAbsent: checkRegex,
		CheckContainsAll: checkNeedles, CheckNotContainsAny: checkNeedles, CheckFileExists: checkLength, CheckFileNonempty: checkLength,
	}[c.Type]
	if judge == nil {
		return "unsupported_check_type:" + orUnknown(c.Type), nil
	}
	rel, err := t.rel(c.Path)
	if err == nil && c.Type == CheckFileExists {
		if _, err = t.root.Stat(rel); err == nil {
			return "", nil
		}
	}
	var content []byte
	if err == nil {
		content, err = t.read(rel, maxPrerequisite)
	}
	if err == nil {
		return judge(string(content), c)
	}
	f := faultOf(err)
	details = map[string]any{"path": c.Path}
	if f.err != nil {
		details["error"] = f.err.Error()
	}
	return f.reason, details
}

func checkLength(content string, c PrerequisiteCheck) (string, map[string]any) {
	size, least := utf8.RuneCountInString(strings.TrimSpace(content)), max(1, c.MinChars)
	if size < least {
		return "file_too_short", map[string]any{"size": size, "min_chars": least}
	}
	return "", nil
}

func checkBoxes(content string, _ PrerequisiteCheck) (string, map[string]any) {
	open := uncheckedItems(content)
	if len(open) == 0 {
		return "", nil
	}
	type item struct {
		Line int    `json:"line"`
		Text string `json:"text"`
	}
	first := loop.Map(open[:min(len(open), maxFirst)], func(it Item) item { return item{it.Line, strings.TrimSpace(it.Text)} })
	return "unchecked_items_remaining", map[string]any{"count": len(open), "first": first}
}

func checkRegex(content string, c PrerequisiteCheck) (string, map[string]any) {
	if c.Pattern == "" {
		return "missing_pattern", nil
	}
	re, err := compileRegex(c.Pattern, c.Flags)
	if err != nil {
		return "invalid_regex:" + err.Error(), map[string]any{"pattern": c.Pattern, "flags": c.Flags}
	}
	if !strings.Contains(c.Pattern, `\r`) {
		content = strings.ReplaceAll(content, "\r\n", "\n")
	}
	at := re.FindStringIndex(content)
	switch present := c.Type == CheckRegexPresent; {
	case present && at == nil:
		return "pattern_not_found", map[string]any{"pattern": c.Pattern}
	case !present && at != nil:
		line := 1 + strings.Count(content[:at[0]], "\n")
		match := strings.ToValidUTF8(text.Head(content[at[0]:at[1]], maxItem), "\ufffd")
		return "pattern_present", map[string]any{"pattern": c.Pattern, "line": line, "match": match}
	}
	return "", nil
}

// checkNeedles requires every needle in the text, or none of them if they are forbidden. It fails if there is no needle
// or an empty one, because such a check would verify nothing.
func checkNeedles(content string, c PrerequisiteCheck) (string, map[string]any) {
	forbidden := c.Type == CheckNotContainsAny
	var bad []string
	for _, n := range c.Needles {
		if strings.Contains(content, n) == forbidden {
			bad = append(bad, n)
		}
	}
	switch {
	case slices.Contains(c.Needles, ""):
		return "empty_needle", nil
	case len(c.Needles) == 0:
		return "missing_needles", nil
	case len(bad) == 0:
		return "", nil
	case forbidden:
		return "forbidden_content_present", map[string]any{"present": bad}
	}
	return "missing_required_content", map[string]any{"missing": bad}
}

// compileRegex compiles a pattern and flags that were written for JavaScript.
//
// The flags i, m and s mean the same in Go. The flags g and u do not matter for a test of presence. The flag y anchors
// the match at the start of the text. As in JavaScript, any other flag and a repeated flag are errors.
//
// compileRegex translates \uXXXX, \u{X}, [^], [] and the wider \s. Look-around and back references are errors: Go does
// not support them, so that no pattern takes exponential time.
func compileRegex(pattern, flags string) (*regexp.Regexp, error) {
	expr := fromJS(pattern)
	var keep string
	for i, f := range flags {
		switch {
		case strings.ContainsRune(flags[:i], f):
			return nil, fmt.Errorf("flag %q is given twice", f)
		case strings.ContainsRune("ims", f):
			keep += string(f)
		case f == 'y':
			expr = `\A(?:` + expr + `)`
		case f != 'g' && f != 'u':
			return nil, fmt.Errorf("unknown flag %q; known are g, i, m, s, u, y", f)
		}
	}
	if keep != "" {
		expr = "(?" + keep + ")" + expr
	}
	return regexp.Compile(expr)
}

// jsSpace is the set of characters that \s matches in JavaScript, in the form of the inside of a character class.
const jsSpace = `\t\n\v\f\r\p{Z}\x{FEFF}`

// fromJS rewrites the parts of a pattern whose syntax differs between JavaScript and Go. It copies everything else
// unchanged.
func fromJS(p string) string {
	var b strings.Builder
	class := false
	for p != "" {
		out, n := p[:1], 1
		switch {
		case p[0] == '\\' && len(p) > 1:
			out, n = escapeFromJS(p, class)
		case class && p[0] == '[': // a literal bracket in JavaScript, the start of [:name:] in Go
			out = `\[`
		case class:
			class = p[0] != ']'
		case strings.HasPrefix(p, "[^]"):
			out, n = `[\s\S]`, 3
		case strings.HasPrefix(p, "[]"):
			out, n = `[^\s\S]`, 2
		case strings.HasPrefix(p, "[^"):
			out, n, class = "[^", 2, true
		case p[0] == '[':
			class = true
		}
		b.WriteString(out)
		p = p[n:]
	}
	return b.String()
}

// escapeFromJS translates the escape at the start of s, and returns its length in s in bytes.
func escapeFromJS(s string, class bool) (string, int) {
	switch c := s[1]; {
	case c == 'u' && len(s) >= 6 && isHex(s[2:6]):
		return `\x{` + s[2:6] + `}`, 6
	case c == 'u':
		if end := strings.IndexByte(s, '}'); strings.HasPrefix(s, `\u{`) && end > 3 && isHex(s[3:end]) {
			return `\x{` + s[3:end] + `}`, end + 1
		}
	case c == 's' && class:
		return jsSpace, 2
	case c == 's':
		return `[` + jsSpace + `]`, 2
	case c == 'S' && !class:
		return `[^` + jsSpace + `]`, 2
	case c == 'b' && class:
		return `\x08`, 2
	case c == '0':
		return `\x00`, 2
	}
	return s[:2], 2
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == "" }
