package gate

import (
	"bytes"
	"strings"
)

// uncheckedItems finds the open boxes of a markdown text: "[ ]" (or "[]" before
// a blank) at the start of a list item, of a quoted or plain line, of a heading
// or of a table cell. A box in the middle of a sentence is prose about boxes.
//
// What stands between ``` or ~~~ fences is an example and does not count; a
// fence that is never closed hides nothing, or one stray line would make all
// that follows it done.
func uncheckedItems(text []byte) []Item {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var open, fenced []Item
	var fence string // the opening fence while inside of one
	n := 0
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		n++
		s := strings.TrimSuffix(string(line), "\r")
		content := afterMarkers(s)
		if fence == "" {
			if f := fenceStart(content); f != "" {
				fence, fenced = f, nil
				continue
			}
		} else if closesFence(content, fence) {
			fence, fenced = "", nil
			continue
		}
		if !hasOpenBox(content) {
			continue
		}
		it := Item{Line: n, Text: oneLine(strings.ReplaceAll(s, "\t", "  "), maxItem)}
		if fence == "" {
			open = append(open, it)
		} else {
			fenced = append(fenced, it)
		}
	}
	if fence != "" {
		open = append(open, fenced...)
	}
	return open
}

// afterMarkers takes indentation and the marks of quotes, headings and list
// items off the front of a line.
func afterMarkers(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\u00a0")
		rest := s
		switch {
		case s == "":
			return s
		case s[0] == '>':
			rest = s[1:]
		case strings.IndexByte("-*+", s[0]) >= 0:
			rest = s[1:]
		case s[0] == '#':
			rest = strings.TrimLeft(s, "#")
		case '0' <= s[0] && s[0] <= '9':
			rest = strings.TrimLeft(s, "0123456789")
			if len(s)-len(rest) > 9 || rest == "" || (rest[0] != '.' && rest[0] != ')') {
				return s
			}
			rest = rest[1:]
		}
		// A mark stands before a blank, but for the quote's.
		if len(rest) == len(s) || (s[0] != '>' && rest != "" && rest[0] != ' ' && rest[0] != '\t') {
			return s
		}
		s = rest
	}
}

// fenceStart returns the fence that content opens, "" for none.
func fenceStart(content string) string {
	if content == "" || (content[0] != '`' && content[0] != '~') {
		return ""
	}
	rest := strings.TrimLeft(content, content[:1])
	n := len(content) - len(rest)
	if n < 3 || (content[0] == '`' && strings.Contains(rest, "`")) {
		return ""
	}
	return content[:n]
}

func closesFence(content, fence string) bool {
	rest := strings.TrimLeft(content, fence[:1])
	return len(content)-len(rest) >= len(fence) && strings.TrimSpace(rest) == ""
}

func hasOpenBox(content string) bool {
	if boxAt(content) {
		return true
	}
	for _, cell := range strings.Split(content, "|")[1:] {
		if boxAt(strings.TrimLeft(cell, " \t")) {
			return true
		}
	}
	return false
}

// boxAt reports whether s begins with an empty box and not with a link.
func boxAt(s string) bool {
	if !strings.HasPrefix(s, "[") {
		return false
	}
	rest := strings.TrimLeft(s[1:], " \t\u00a0")
	blank := len(rest) < len(s)-1
	if !strings.HasPrefix(rest, "]") {
		return false
	}
	rest = rest[1:]
	if rest == "" || rest[0] == ' ' || rest[0] == '\t' {
		return true
	}
	return blank && !strings.ContainsAny(rest[:1], "([:")
}
