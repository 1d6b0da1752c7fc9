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
			if expr = strings.TrimLeft(expr, " "); flags == "=" {
				expr = "^(?:" + expr + ")$"
			} else if flags != "" {
				expr = "(?" + flags + ")" + expr
			}
			tables[name] = append(tables[name], failure{class.Class(word), pattern.Lazy(expr)})
		}
	}
	return tables
})

// findClass classifies a text by a table of failures.txt. It also returns the offset at which the match begins.
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

// statusClass classifies an HTTP status. It returns class.Unknown for a status that is no known failure of a model API.
func statusClass(status int) class.Class { return classOf("http.status", strconv.Itoa(status)) }

// maxWait is the longest wait that is believed. No window of a provider is longer than a month.
const maxWait = 32 * 24 * time.Hour

// waited returns the end of a wait that was requested at the time at. It returns the zero time if either is unknown, or
// if the wait is too long to be meant.
func waited(at time.Time, wait time.Duration) time.Time {
	if at.IsZero() || wait <= 0 || wait > maxWait {
		return time.Time{}
	}
	return at.Add(wait)
}

// limited records the limit and its end. reset is zero if the provider does not name it.
func (l *Learned) limited(kind string, reset time.Time) {
	if l.Class == class.Limit || l.Class == class.Overloaded && !reset.IsZero() {
		l.Limit = &Limit{Kind: kind, ResetsAt: reset}
	}
}

// resetOf reads the end of a limit from the headers that model APIs use. at is the time of the response.
func resetOf(h http.Header, at time.Time) time.Time {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil {
		return waited(at, time.Duration(ms*float64(time.Millisecond)))
	}
	for _, name := range []string{"retry-after", "anthropic-ratelimit-unified-reset", "x-ratelimit-reset"} {
		if t := moment(h.Get(name), at); !t.IsZero() {
			return t
		}
	}
	// If several windows have a header each, the window that opens last counts.
	var last time.Time
	for name := range strings.FieldsSeq(`anthropic-ratelimit-requests-reset anthropic-ratelimit-tokens-reset
		x-ratelimit-reset-requests x-ratelimit-reset-tokens`) {
		left := h.Get(strings.Replace(name, "reset", "remaining", 1))
		if t := moment(h.Get(name), at); t.After(last) && (left == "0" || left == "") {
			last = t
		}
	}
	return last
}

// moment reads a time in the forms that headers use: seconds from now, a Unix time in s or ms, a duration (6m0s) or a
// date.
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

const anAmount = `(\d+(?:\.\d+)?) ?(?:(ms|milliseconds?)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?)|(w|weeks?))\b`

// amountUnits are the units in anAmount, in the order of its groups.
var amountUnits = [...]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

var (
	amount     = pattern.Lazy(`(?i)` + anAmount)
	resetEpoch = pattern.Lazy(`usage limit reached\|(\d{9,11})\b`)
	resetAfter = pattern.Lazy(`(?i)try again in ((?:(?:,|and| )*` + anAmount + `)+)`)
	resetAt    = pattern.Lazy(`(?i)(resets|try again at)(?: at)? (?:([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?(?:,| at)? (?:(\d{4}),? )?(?:at )?)?` +
		`(\d{1,2})(?::(\d{2}))?(?: ?([ap])m)?(?: \(([A-Za-z0-9_/+-]{1,64})\))?`)
)

// resetIn reads the end of a limit from a message of a CLI: "resets 3:30pm (Europe/Berlin)", "resets Oct 6, 9am (UTC)",
// "limit reached|1759741200", "try again at May 18th, 2033 3:33 AM", "try again in 1 day 2 hours". now is the time of
// the message and zone the time zone of the CLI's clock. The result is zero if the message tells no time. The CLIs cut
// the seconds off and do not round, so the result is the end of the minute.
func resetIn(text string, now time.Time, zone *time.Location) time.Time {
	if m := resetEpoch().FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return time.Unix(n, 0)
	}
	if now.IsZero() {
		return time.Time{}
	}
	if m := resetAfter().FindStringSubmatch(text); m != nil {
		if wait := span(m[1]); wait > 0 {
			return now.Add(wait)
		}
		return time.Time{}
	}
	m := resetAt().FindStringSubmatch(text)
	if m == nil || m[6] == "" && m[7] == "" {
		return time.Time{}
	}
	if m[8] != "" {
		named, err := time.LoadLocation(m[8])
		if err != nil {
			return time.Time{}
		}
		zone = named
	}
	now = now.In(zone)
	at := clockTime(now, m[2], m[3], m[4], m[5], m[6], m[7])
	late := 12 * time.Hour // a time that is this much in the past means the next day
	if strings.EqualFold(m[1], "resets") {
		late = 0
	}
	if m[2] == "" && !at.IsZero() && now.Sub(at) >= late {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

// clockTime returns the end of the minute that the words name, in the time zone of now. Without a month it is on the
// day of now; without a year it is on the next such day. The result is zero if there is no such time.
func clockTime(now time.Time, month, day, year, hour, minute, half string) time.Time {
	h, _ := strconv.Atoi(hour)
	minutes, _ := strconv.Atoi(minute)
	if half != "" && (h < 1 || h > 12) || h > 23 || minutes > 59 {
		return time.Time{}
	}
	if half != "" {
		h %= 12
	}
	if strings.EqualFold(half, "p") {
		h += 12
	}
	y, mon, d := now.Date()
	if month != "" {
		m, err := time.Parse("Jan", month)
		if err != nil {
			return time.Time{}
		}
		mon = m.Month()
		d, _ = strconv.Atoi(day)
	}
	if year != "" {
		y, _ = strconv.Atoi(year)
	}
	at := time.Date(y, mon, d, h, minutes, 0, 0, now.Location())
	if at.Day() != d {
		return time.Time{} // the month has no such day
	}
	at = at.Add(time.Minute)
	if month != "" && year == "" && now.Sub(at) > 30*24*time.Hour {
		at = at.AddDate(1, 0, 0)
	}
	return at
}

// span parses a duration in words: "5 minutes", "1 day 2 hours", "1.3s". It returns 0 for a duration of ten years or
// more.
func span(words string) time.Duration {
	var sum float64
	for _, m := range amount().FindAllStringSubmatch(words, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		for i, unit := range amountUnits {
			if m[2+i] != "" {
				sum += n * float64(unit)
			}
		}
	}
	if sum >= float64(10*365*24*time.Hour) {
		return 0
	}
	return time.Duration(sum)
}

// zoneOf returns the time zone of the agent's clock: that of the supervisor, unless the runner's own environment sets
// TZ.
func zoneOf(req Request) *time.Location {
	if name := strings.TrimPrefix(req.CLI.Env["TZ"], ":"); name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone
		}
	}
	return time.Local
}
