package agent

import (
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

const anAmount = `(\d+(?:\.\d+)?) ?(?:(ms|milliseconds?)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?)|(w|weeks?))\b`

// amountUnits are the units of anAmount, in its order.
var amountUnits = [...]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

var (
	amount     = pattern.Lazy(`(?i)` + anAmount)
	resetEpoch = pattern.Lazy(`usage limit reached\|(\d{9,11})\b`)
	resetAfter = pattern.Lazy(`(?i)try again in ((?:(?:,|and| )*` + anAmount + `)+)`)
	resetAt    = pattern.Lazy(`(?i)(resets|try again at)(?: at)? (?:([a-z]{3})[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?(?:,| at)? (?:(\d{4}),? )?(?:at )?)?` +
		`(\d{1,2})(?::(\d{2}))?(?: ?([ap])m)?(?: \(([A-Za-z0-9_/+-]{1,64})\))?`)
)

// resetIn reads when a CLI says that a limit ends: "resets 3:30pm (Europe/Berlin)", "resets Oct 6, 9am (UTC)", "limit
// reached|1759741200", "try again at May 18th, 2033 3:33 AM", "try again in 1 day 2 hours". now is when it said so,
// zone that of its clock. Zero if it does not say. The CLIs cut minutes and do not round them, so the time is the end
// of the minute.
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
	late := 12 * time.Hour // what was said just before midnight is of the day after
	if strings.EqualFold(m[1], "resets") {
		late = 0
	}
	if m[2] == "" && !at.IsZero() && now.Sub(at) >= late {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

// clockTime is the end of the minute that the words name, in the zone of now: on that day, else today. Without a year
// it is the next such day. Zero if there is no such time.
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
		return time.Time{} // no such day
	}
	at = at.Add(time.Minute)
	if month != "" && year == "" && now.Sub(at) > 30*24*time.Hour {
		at = at.AddDate(1, 0, 0)
	}
	return at
}

// span is a duration in words: "5 minutes", "1 day 2 hours", "1.3s"; 0 for one of ten years or more.
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

// zoneOf is the zone of the agent's clock: that of the supervisor, unless the runner's own environment has another.
func zoneOf(req Request) *time.Location {
	if name := strings.TrimPrefix(req.CLI.Env["TZ"], ":"); name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone
		}
	}
	return time.Local
}
