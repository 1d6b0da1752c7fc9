package schemas

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// space moves over white space and, where the file may have them, over comments. It stops at a comment without an end.
func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch rest := s.src[s.pos:]; {
		case strings.IndexByte(" \t\n\r", rest[0]) >= 0:
			s.pos++
		case s.comments && bytes.HasPrefix(rest, []byte("//")):
			s.line(rest)
		case s.comments && bytes.HasPrefix(rest, []byte("/*")):
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				return
			}
			s.pos += n + 4
		default:
			return
		}
	}
}

// line moves over a comment that ends with its line. It reports a character that ends a line for some readers and not
// for others: an operator would see a key where superloop sees a comment, or the other way round.
func (s *scanner) line(rest []byte) {
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		n = len(rest)
	}
	text := string(bytes.TrimSuffix(rest[:n], []byte("\r")))
	if i := strings.IndexAny(text, "\r\u2028\u2029"); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		s.note(s.pos+i, CodeEncoding, "a comment holds a character that some editors take for the end of the line", strconv.QuoteRune(r), "a new line")
	}
	s.pos += n
}

// comment reports the slash at the position. The scanner has read a whole comment before, if the file may have one.
func (s *scanner) comment(allowed string) bool {
	switch {
	case !s.comments:
		return s.syntax(s.pos, "JSON has no comments", s.here(), allowed)
	case bytes.HasPrefix(s.src[s.pos:], []byte("/*")):
		return s.syntax(s.pos, "this comment has no end", "the end of the file", "*/")
	}
	return s.syntax(s.pos, "a comment begins with // or /*", s.here(), allowed)
}
