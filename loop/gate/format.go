package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// stamp is how a file of the contract writes a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// pretty renders v as the contract's files do: indented, "<" and "&" as they
// are, a newline at the end. v holds only plain values and valid raw JSON, so
// a failure is a programming error.
func pretty(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("gate: rendering %T: %v", v, err))
	}
	return buf.Bytes()
}

// compact renders v as one line of a .jsonl file, newline included.
func compact(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("gate: rendering %T: %v", v, err))
	}
	return buf.Bytes()
}

// orEmpty keeps an empty list "[]" in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// oneLine makes text from outside safe to stand in one line of a report:
// control characters become spaces, bad UTF-8 is replaced, and what is beyond
// limit runes is cut and marked.
func oneLine(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == limit {
			b.WriteString("...")
			break
		}
		n++
		if unicode.IsControl(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ")
}

// pathText is a path as a line of a report holds it: as it is, or quoted when
// it would break the line.
func pathText(p string) string {
	if !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) {
		return strconv.Quote(p)
	}
	return p
}

// plural is "1 file" or "n files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
