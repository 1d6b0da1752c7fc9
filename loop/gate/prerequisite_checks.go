package gate

import (
	"strings"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
)

const (
	maxPrerequisite = 16 << 20 // bytes of a file that a check reads
	maxFirst        = 10       // open items that a failure shows
)

// check runs one prerequisite; the reason is "" when it holds.
func (t *tree) check(c PrerequisiteCheck) (reason string, details map[string]any) {
	switch c.Type {
	case CheckMarkdownComplete, CheckRegexPresent, CheckRegexAbsent,
		CheckContainsAll, CheckNotContainsAny, CheckFileExists, CheckFileNonempty:
	default:
		return reasonUnsupportedCheck + ":" + orUnknown(c.Type), nil
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
	if err != nil {
		f := faultOf(err)
		details = map[string]any{"path": c.Path}
		if f.err != nil {
			details["error"] = f.err.Error()
		}
		return f.reason, details
	}
	text := string(content)
	switch c.Type {
	case CheckMarkdownComplete:
		return checklistComplete(content)
	case CheckRegexPresent, CheckRegexAbsent:
		return checkRegex(text, c)
	case CheckContainsAll:
		return checkNeedles(text, c.Needles, false)
	case CheckNotContainsAny:
		return checkNeedles(text, c.Needles, true)
	}
	size, least := utf8.RuneCountInString(strings.TrimSpace(text)), max(1, c.MinChars)
	if size < least {
		return "file_too_short", map[string]any{"size": size, "min_chars": least}
	}
	return "", nil
}

func checklistComplete(content []byte) (string, map[string]any) {
	open := uncheckedItems(content)
	if len(open) == 0 {
		return "", nil
	}
	type item struct {
		Line int    `json:"line"`
		Text string `json:"text"`
	}
	var first []item
	for _, it := range open[:min(len(open), maxFirst)] {
		first = append(first, item{it.Line, strings.TrimSpace(it.Text)})
	}
	return "unchecked_items_remaining", map[string]any{"count": len(open), "first": first}
}

func checkRegex(content string, c PrerequisiteCheck) (string, map[string]any) {
	if c.Pattern == "" {
		return "missing_pattern", nil
	}
	re, err := compileRegex(c.Pattern, c.Flags)
	if err != nil {
		return reasonInvalidRegex + ":" + err.Error(), map[string]any{"pattern": c.Pattern, "flags": c.Flags}
	}
	if !strings.Contains(c.Pattern, `\r`) {
		content = strings.ReplaceAll(content, "\r\n", "\n")
	}
	at := re.FindStringIndex(content)
	if c.Type == CheckRegexPresent {
		if at == nil {
			return "pattern_not_found", map[string]any{"pattern": c.Pattern}
		}
		return "", nil
	}
	if at != nil {
		line := 1 + strings.Count(content[:at[0]], "\n")
		match := strings.ToValidUTF8(text.Head(content[at[0]:at[1]], maxItem), "\ufffd")
		return "pattern_present", map[string]any{"pattern": c.Pattern, "line": line, "match": match}
	}
	return "", nil
}

// checkNeedles wants every needle in the text, or none of them when they are
// forbidden. No needle, or an empty one, would verify nothing and fails too.
func checkNeedles(text string, needles []string, forbidden bool) (string, map[string]any) {
	var bad []string
	for _, n := range needles {
		if n == "" {
			return "empty_needle", nil
		}
		if strings.Contains(text, n) == forbidden {
			bad = append(bad, n)
		}
	}
	switch {
	case len(needles) == 0:
		return "missing_needles", nil
	case len(bad) == 0:
		return "", nil
	case forbidden:
		return "forbidden_content_present", map[string]any{"present": bad}
	}
	return "missing_required_content", map[string]any{"missing": bad}
}
