package recovery

import "strings"

// unknown stands for text that is only known when bash runs the command. The byte is NUL, which no command can contain.
const unknown = '\x00'

// couldMatch reports whether pattern ('*' stands for any text) matches one of the texts that text may become.
func couldMatch(pattern, text string) bool {
	at := strings.IndexByte(text, unknown)
	if at < 0 || !agree(pattern, text[:at]) {
		return at < 0 && plainMatch(pattern, text)
	}
	const most = 1 << 18 // steps; a larger comparison counts as a possible match
	return len(pattern)*len(text) > most || intersects(pattern, text)
}

// agree reports whether the text before the first '*' of a pattern is compatible with begin.
func agree(pattern, begin string) bool {
	for i := range min(len(pattern), len(begin)) {
		if pattern[i] == '*' {
			return true
		}
		if pattern[i] != begin[i] {
			return false
		}
	}
	return true
}

// plainMatch reports whether pattern matches text for all values of the unknown bytes. Only '*' covers an unknown byte.
// plainMatch needs at most len(pattern)*len(text) steps.
func plainMatch(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// intersects reports whether some text fits both the pattern (with '*') and the command (with unknown bytes).
func intersects(pattern, text string) bool {
	row, next := make([]bool, len(text)+1), make([]bool, len(text)+1)
	row[0] = true
	for p := 0; ; p++ {
		// Within a row, '*' covers bytes of the text, and unknown bytes may stand for nothing.
		for t := 0; t < len(text); t++ {
			if row[t] && (text[t] == unknown || p < len(pattern) && pattern[p] == '*') {
				row[t+1] = true
			}
		}
		if p == len(pattern) {
			return row[len(text)]
		}
		clear(next)
		for t := 0; t <= len(text); t++ {
			if !row[t] {
				continue
			}
			switch {
			case pattern[p] == '*':
				next[t] = true
			case t < len(text) && text[t] == unknown:
				next[t] = true // the unknown text contains this byte, and perhaps more
			case t < len(text) && text[t] == pattern[p]:
				next[t+1] = true
			}
		}
		row, next = next, row
	}
}
