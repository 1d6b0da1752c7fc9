package agent

import (
	"strconv"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

var (
	claudeEpoch = pattern.Lazy(`usage limit reached\|(\d{9,11})\b`)
	claudeClock = pattern.Lazy(`resets (?:at )?(?:([A-Z][a-z]{2})[a-z]* (\d{1,2})(?:,| at)? )?(\d{1,2})(?::(\d{2}))? ?([ap])m(?: \(([A-Za-z0-9_/+-]{1,64})\))?`)
)

// claudeReset reads when the CLI's message of a limit says that it ends, for
// releases that do not tell it otherwise: "resets 3:30pm (Europe/Berlin)",
// "resets Oct 6, 9am (UTC)", "limit reached|1759741200". now is when it said so.
// Zero if it does not say.
func claudeReset(text string, now time.Time) time.Time {
	if m := claudeEpoch().FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return time.Unix(n, 0)
	}
	m := claudeClock().FindStringSubmatch(text)
	if m == nil || now.IsZero() {
		return time.Time{}
	}
	zone := time.Local
	if m[6] != "" {
		named, err := time.LoadLocation(m[6])
		if err != nil {
			return time.Time{}
		}
		zone = named
	}
	if m[4] == "" {
		m[4] = "00"
	}
	at, ok := clockTime(now.In(zone), m[1], m[2], "", m[3], m[4], m[5])
	if !ok {
		return time.Time{}
	}
	if m[1] == "" && !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}
