package slack

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/superloop/superloop/escalation/notify"
)

const (
	// sectionRoom is what of Slack's 3000 characters a section leaves for foreign text; the rest is for our own words.
	sectionRoom = 2400
	// headerRoom is Slack's limit for a header.
	headerRoom = 150

	tick = "```"
)

// plain makes s safe for a plain_text object, on one line of at most limit
// characters (at least 3). Slack may or may not read entities there, so it
// holds nothing that would need one.
func plain(s string, limit int) string {
	s = strings.NewReplacer("<", "(", ">", ")", "&", "+").Replace(notify.OneLine(s, limit))
	used, kept := 0, 0 // kept: bytes that leave room for the dots
	for i, r := range s {
		if used += width(r); used > limit {
			return s[:kept] + "..."
		}
		if used <= limit-3 {
			kept = i + utf8.RuneLen(r)
		}
	}
	return s
}

// width is how many of Slack's characters r is; they are taken to be
// JavaScript's.
func width(r rune) int { return max(1, utf16.RuneLen(r)) }

// span is s as inline code, on one line, of at most limit characters before it
// is escaped.
func span(s string, limit int) string {
	s = strings.ReplaceAll(notify.OneLine(s, limit), "`", "'")
	if s == "" {
		s = "-"
	}
	return "`" + notify.Escape(s) + "`"
}

// fenced is s as one code block that fits into a section; what does not fit is
// left out, and said so.
func fenced(s string) string {
	pieces, _ := fence(s)
	if len(pieces) == 1 {
		return pieces[0]
	}
	return strings.TrimSuffix(pieces[0], "\n"+tick) + "\n..." + "\n" + tick
}

// fence is s as code blocks that each fit into a section, one after the other
// all of it. marks is as of notify.Visible.
func fence(s string) (pieces []string, marks int) {
	s, marks = notify.Visible(s)
	// Three backticks would end the block.
	marks += strings.Count(s, tick)
	s = strings.ReplaceAll(s, tick, "``<U+0060>")
	for {
		n := fitting(s)
		if n < len(s) {
			// A line is better not cut in two, if that costs little.
			if i := strings.LastIndexByte(s[:n], '\n'); i > n/2 {
				n = i + 1
			}
		}
		pieces = append(pieces, tick+"\n"+notify.Escape(strings.TrimSuffix(s[:n], "\n"))+"\n"+tick)
		if s = s[n:]; s == "" {
			return pieces, marks
		}
	}
}

// fitting is how many bytes of s fit into a section when they are escaped.
func fitting(s string) int {
	room := sectionRoom
	for i, r := range s {
		switch r {
		case '&':
			room -= len("&amp;")
		case '<', '>':
			room -= len("&lt;")
		default:
			room -= width(r)
		}
		if room < 0 {
			return i
		}
	}
	return len(s)
}

// leftOut says that pieces in the middle of a long command are missing.
func leftOut(pieces []string) string {
	n := 0
	for _, p := range pieces {
		n += len([]rune(p)) - 2*len(tick) - 2
	}
	return fmt.Sprintf("_About %d characters are left out here. Look at all of the command with superloop in a terminal before you decide._", n)
}
