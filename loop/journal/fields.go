package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// appendFields appends the members of the object raw, each after a comma, without
// white space and as valid UTF-8.
func appendFields(dst []byte, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return dst, nil
	}
	if !json.Valid(raw) {
		return dst, errors.New("its fields are not valid JSON")
	}
	start := len(dst)
	depth, key := 0, false // key: the next string is a name of the outermost object
	for i := 0; i < len(raw); {
		c := raw[i]
		if depth == 0 && c != '{' && !isSpace(c) && len(dst) == start {
			return dst, errors.New("its fields are not a JSON object")
		}
		switch c {
		case ' ', '\t', '\r', '\n':
		case '"':
			end := stringEnd(raw, i)
			if key {
				if err := checkName(raw[i:end]); err != nil {
					return dst[:start], err
				}
				key = false
			}
			dst = appendValid(dst, raw[i:end])
			i = end
			continue
		case '{', '[':
			if depth++; depth == 1 {
				c, key = ',', true
			}
			dst = append(dst, c)
		case '}', ']':
			if depth--; depth > 0 {
				dst = append(dst, c)
			}
		case ',':
			key = depth == 1
			dst = append(dst, c)
		default:
			dst = append(dst, c)
		}
		i++
	}
	if len(dst) == start+1 { // an empty object
		dst = dst[:start]
	}
	return dst, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// stringEnd is the offset behind the string that begins at raw[i]; raw is valid.
func stringEnd(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// checkName refuses the envelope's names: jq and every decoder would take the own
// field for the envelope's, Go's in any case of letters.
func checkName(quoted []byte) error {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		var s string
		if err := json.Unmarshal(quoted, &s); err != nil {
			return fmt.Errorf("its field %s: %w", quoted, err)
		}
		name = []byte(s)
	}
	if len(name) > 2*len("timestamp") { // folding makes a name longer than that no shorter
		return nil
	}
	switch {
	case foldsTo(name, "seq"), foldsTo(name, "timestamp"), foldsTo(name, "event"), foldsTo(name, "loop_id"),
		foldsTo(name, "run_id"), foldsTo(name, "iteration"), foldsTo(name, "prev"), foldsTo(name, "hash"):
		return fmt.Errorf("its field %s has a name of the envelope", quoted)
	}
	return nil
}

func foldsTo(name []byte, of string) bool {
	return len(name) >= len(of) && bytes.EqualFold(name, []byte(of))
}

// appendValid appends s with each byte that is not UTF-8 replaced.
func appendValid(dst, s []byte) []byte {
	if utf8.Valid(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[n:]
	}
	return dst
}
