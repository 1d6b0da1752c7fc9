package agent

import (
	_ "embed"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/roles/agent/class"
)

//go:embed failures.txt
var failuresText string

// failure is one line of failures.txt.
type failure struct {
	class class.Class
	text  func() *regexp.Regexp
}

var failures = sync.OnceValue(func() map[string][]failure {
	tables := map[string][]failure{}
	name, flags := "", ""
	for line := range strings.Lines(failuresText) {
		line = strings.TrimSuffix(line, "\n")
		switch head, isHead := strings.CutPrefix(line, "["); {
		case line == "" || line[0] == '#':
		case isHead:
			name, flags, _ = strings.Cut(strings.TrimSuffix(head, "]"), " ")
		default:
			word, expr, _ := strings.Cut(line, " ")
			expr = strings.TrimLeft(expr, " ")
			switch flags {
			case "":
			case "=":
				expr = "^(?:" + expr + ")$"
			default:
				expr = "(?" + flags + ")" + expr
			}
			tables[name] = append(tables[name], failure{class.Class(word), pattern.Lazy(expr)})
		}
	}
	return tables
})

// findClass gives the class of a text by a table of failures.txt, and where the words for it begin.
func findClass(table, text string) (class.Class, int) {
	for _, f := range failures()[table] {
		if at := f.text().FindStringIndex(text); at != nil {
			return f.class, at[0]
		}
	}
	return class.None, 0
}

func classOf(table, text string) class.Class {
	found, _ := findClass(table, text)
	return found
}

// statusClass is what an HTTP status says by itself; class.Unknown for one that is no failure known of a model API.
func statusClass(status int) class.Class { return classOf("http.status", strconv.Itoa(status)) }

// maxWait bounds what is believed of a time to wait: no window of a provider is longer than a month.
const maxWait = 32 * 24 * time.Hour

// waited adds a wait to the time at which it was asked for; zero when either is not known, or cannot be meant.
func waited(at time.Time, wait time.Duration) time.Time {
	if at.IsZero() || wait <= 0 || wait > maxWait {
		return time.Time{}
	}
	return at.Add(wait)
}

// limited notes until when the provider asks to wait; reset is zero when it does not say.
func (l *Learned) limited(kind string, reset time.Time) {
	if l.Class == class.Limit || l.Class == class.Overloaded && !reset.IsZero() {
		l.Limit = &Limit{Kind: kind, Text: l.ErrorText, ResetsAt: reset}
	}
}

// resetOf reads the headers in which model APIs say when a limit ends. at is the time of the response.
func resetOf(headers map[string]string, at time.Time) time.Time {
	get := func(name string) string {
		for k, v := range headers {
			if strings.EqualFold(k, name) {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	if ms, err := strconv.ParseFloat(get("retry-after-ms"), 64); err == nil {
		return waited(at, time.Duration(ms*float64(time.Millisecond)))
	}
	for _, name := range []string{"retry-after", "anthropic-ratelimit-unified-reset", "x-ratelimit-reset"} {
		if t := moment(get(name), at); !t.IsZero() {
			return t
		}
	}
	// Of the windows that have one each, the last to open again.
	var last time.Time
	for name := range strings.FieldsSeq(`anthropic-ratelimit-requests-reset anthropic-ratelimit-tokens-reset
		x-ratelimit-reset-requests x-ratelimit-reset-tokens`) {
		left := get(strings.Replace(name, "reset", "remaining", 1))
		if t := moment(get(name), at); t.After(last) && (left == "0" || left == "") {
			last = t
		}
	}
	return last
}

// moment reads a time as headers have it: seconds from now, a Unix time in s or ms, a duration (6m0s) or a date.
func moment(text string, at time.Time) time.Time {
	var wait time.Duration
	n, nerr := strconv.ParseFloat(text, 64)
	d, derr := time.ParseDuration(text)
	switch {
	case nerr == nil && n >= 1e11 && n < 1e14:
		wait = time.UnixMilli(int64(n)).Sub(at)
	case nerr == nil && n >= 1e9 && n < 1e14:
		wait = time.Unix(int64(n), 0).Sub(at)
	case nerr == nil && n > 0 && n < 1e14:
		wait = time.Duration(n * float64(time.Second))
	case derr == nil:
		wait = d
	}
	for _, layout := range []string{time.RFC3339, http.TimeFormat} {
		if t, err := time.Parse(layout, text); err == nil {
			wait = t.Sub(at)
		}
	}
	return waited(at, wait)
}
