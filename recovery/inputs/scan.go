package inputs

import (
	"encoding/json"
	"strings"
)

// scanJSON calls found for every string value of a JSON text, with the key it stands under and the key of the object
// that is in; in an array that is the array's key. It is made for lock files of many megabytes: it builds nothing, and
// it takes comments and trailing commas as bun does. false: that is no JSON.
func scanJSON(text []byte, found func(parent, key, value string)) bool {
	var stack []string // keys of the objects and arrays that are open
	var array []bool
	key, pending := "", ""
	s := string(text)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{', '[':
			if len(stack) > 1000 {
				return false
			}
			stack, array = append(stack, key), append(array, c == '[')
			if c == '{' {
				key = ""
			}
		case '}', ']':
			if len(stack) == 0 || array[len(array)-1] != (c == ']') {
				return false
			}
			key = stack[len(stack)-1]
			stack, array = stack[:len(stack)-1], array[:len(array)-1]
			if len(array) > 0 && !array[len(array)-1] {
				key = ""
			}
		case ',':
			if len(array) > 0 && !array[len(array)-1] {
				key = ""
			}
		case '/':
			if i+1 >= len(s) {
				return false
			}
			end := "\n"
			if s[i+1] == '*' {
				end = "*/"
			}
			n := strings.Index(s[i:], end)
			if n < 0 {
				return true
			}
			i += n + len(end) - 1
		case '"':
			n := stringEnd(s[i+1:])
			if n < 0 {
				return false
			}
			value := s[i+1 : i+1+n]
			if strings.IndexByte(value, '\\') >= 0 {
				if json.Unmarshal([]byte(s[i:i+n+2]), &pending) != nil {
					return false
				}
				value = pending
			}
			i += n + 1
			if len(array) > 0 && !array[len(array)-1] && key == "" && colonNext(s[i+1:]) {
				key = value
				continue
			}
			parent := ""
			if len(stack) > 0 {
				parent = stack[len(stack)-1]
			}
			found(parent, key, value)
		}
	}
	return len(stack) == 0
}

// stringEnd is the offset of the quote that ends a string.
func stringEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

func colonNext(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(" \t\r\n", s[i]) < 0 {
			return s[i] == ':'
		}
	}
	return false
}
