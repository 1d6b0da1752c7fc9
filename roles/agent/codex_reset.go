package agent

import (
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	codexAt = pattern.Lazy(`(?i)try again at (?:([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,? (?:(\d{4}),? )?(?:at )?)?(\d{1,2}):(\d{2})(?: ?([ap])m)?`)
	codexIn = pattern.Lazy(`(?i)try again in ((?:(?:,|and| )*\d+(?:\.\d+)? ?[a-z]+)+)`)
	amount  = pattern.Lazy(`(\d+(?:\.\d+)?) ?([a-z]+)`)
)

// codexReset reads when the CLI says that a limit ends, in the words of its
// message: "try again at May 18th, 2033 3:33 AM", "at 3:33 PM" (of the same
// day), "in 1 day 2 hours". now is when it said so, zone that of its clock. Zero
// if it does not say. Minutes are not rounded by the CLI but cut, so the time is
// the end of the minute.
func codexReset(text string, now time.Time, zone *time.Location) time.Time {
	if now.IsZero() {
		return time.Time{}
	}
	if m := codexAt().FindStringSubmatch(text); m != nil {
		at, ok := clockTime(now.In(zone), m[1], m[2], m[3], m[4], m[5], m[6])
		if !ok {
			return time.Time{}
		}
		if m[1] == "" && now.Sub(at) > 12*time.Hour {
			at = at.AddDate(0, 0, 1) // said just before midnight
		}
		return at
	}
	if m := codexIn().FindStringSubmatch(text); m != nil {
		wait, ok := span(m[1])
		if !ok {
			return time.Time{}
		}
		return now.Add(wait)
	}
	return time.Time{}
}

// clockTime is the end of the minute that the words name, in the zone of now:
// on that day, else today. Without a year it is the next such day.
func clockTime(now time.Time, month, day, year, hour, minute, half string) (time.Time, bool) {
	h, _ := strconv.Atoi(hour)
	minutes, _ := strconv.Atoi(minute)
	if half != "" && (h < 1 || h > 12) || h > 23 || minutes > 59 {
		return time.Time{}, false
	}
	if half != "" {
		h %= 12
	}
	if strings.EqualFold(half, "p") {
		h += 12
	}
	y, mon, d := now.Date()
	if month != "" {
		m, err := time.Parse("Jan", strings.ToUpper(month[:1])+strings.ToLower(month[1:]))
		if err != nil {
			return time.Time{}, false
		}
		mon = m.Month()
		d, _ = strconv.Atoi(day)
	}
	if year != "" {
		y, _ = strconv.Atoi(year)
	}
	at := time.Date(y, mon, d, h, minutes, 0, 0, now.Location())
	if at.Day() != d {
		return time.Time{}, false // no such day
	}
	at = at.Add(time.Minute)
	if month != "" && year == "" && now.Sub(at) > 30*24*time.Hour {
		at = at.AddDate(1, 0, 0)
	}
	return at, true
}

// span is a duration in words: "5 minutes", "1 day 2 hours", "1.3s".
func span(words string) (time.Duration, bool) {
	var sum float64
	for _, m := range amount().FindAllStringSubmatch(strings.ToLower(words), -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		unit, ok := map[string]time.Duration{
			"ms": time.Millisecond, "millisecond": time.Millisecond, "s": time.Second, "sec": time.Second, "second": time.Second,
			"m": time.Minute, "min": time.Minute, "minute": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour,
			"d": 24 * time.Hour, "day": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
		}[unitName(m[2])]
		if err != nil || !ok {
			return 0, false
		}
		sum += n * float64(unit)
	}
	const most = 10 * 365 * 24 * time.Hour
	return time.Duration(sum), sum > 0 && sum < float64(most)
}

func unitName(word string) string {
	if len(word) > 2 {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// zoneOf is the zone of the agent's clock: that of the supervisor, unless the
// runner's own environment has another.
func zoneOf(req Request) *time.Location {
	if name := strings.TrimPrefix(req.CLI.Env["TZ"], ":"); name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone
		}
	}
	return time.Local
}
