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

// stamp is how a file of the contract writes a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// pretty renders v as the contract's files do: indented by two spaces.
func pretty(v any) []byte { return render(v, "  ") }

// compact renders v as one line of a .jsonl file, newline included.
func compact(v any) []byte { return render(v, "") }

// render writes "<" and "&" as they are, and a newline at the end. v holds only plain values and valid raw JSON, so a
// failure is a programming error.
func render(v any, indent string) []byte {
	data, err := loop.EncodeIndent(v, indent)
	if err != nil {
		panic(fmt.Sprintf("gate: rendering %T: %v", v, err))
	}
	return append(data, '\n')
}

// members are a JSON object with its keys in their order.
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

// orEmpty keeps an empty list "[]" in JSON.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// oneLine makes text from outside safe to stand in one line of a report: control characters become spaces, bad UTF-8 is
// replaced, and what is beyond limit characters is cut and marked.
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

// pathText is a path as a line of a report holds it: as it is, or quoted when it would break the line.
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
