package gate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

// stamp formats a time for the files that this package renders.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// pretty renders v as JSON with an indent of two spaces.
func pretty(v any) []byte { return render(v, "  ") }

// compact renders v as one line of a .jsonl file, newline included.
func compact(v any) []byte { return render(v, "") }

// render encodes v as JSON without escapes for "<" and "&", and adds a newline. v holds only plain values and valid raw
// JSON, so a failure is a programming error.
func render(v any, indent string) []byte {
	data, err := loop.EncodeIndent(v, indent)
	if err != nil {
		panic(fmt.Sprintf("gate: rendering %T: %v", v, err))
	}
	return append(data, '\n')
}

// members is a JSON object that keeps the order of its keys.
type members []member

type member struct {
	key   string
	value any
}

func (m members) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, e := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:", e.key)
		value := compact(e.value)
		out = append(out, value[:len(value)-1]...)
	}
	return append(out, '}'), nil
}

// orEmpty returns a list that JSON encodes as "[]" if it is empty, not as null.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// oneLine makes foreign text safe for one line of a report. It replaces control characters by spaces and bad UTF-8 by
// replacement characters, and cuts the text at limit characters, with a mark at the cut.
func oneLine(s string, limit int) string {
	if len(s) > utf8.UTFMax*limit {
		s = s[:utf8.UTFMax*limit+1]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit]) + text.Dots
	}
	return strings.TrimRight(s, " ")
}

// pathText returns a path for a line of a report. It quotes a path that would break the line.
func pathText(p string) string {
	if !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) {
		return strconv.Quote(p)
	}
	return p
}

// plural returns "1 file" or "n files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
