package notify

import (
	"math/rand/v2"
	"time"
)

// schedule says when to try again and when to stop.
type schedule struct {
	first, longest time.Duration
	maxAttempts    int
	maxAge         time.Duration
}

// longestAsked bounds what a Retry-After may ask for: an endpoint may slow us
// down, but not silence us.
const longestAsked = time.Hour

// delay is the time to wait after the given number of failures (1 and up): it
// doubles from first to longest, and between half of that and all of it is
// chosen by chance, so that many loops do not come back at the same moment. It
// is never shorter than what the other side asked for, up to longestAsked.
func (s schedule) delay(failures int, asked time.Duration) time.Duration {
	d := s.longest
	if n := max(failures-1, 0); n < 40 && s.first<<n>>n == s.first && s.first<<n < s.longest {
		d = s.first << n
	}
	if d > 1 {
		d = d/2 + rand.N(d/2+1)
	}
	return max(d, min(asked, longestAsked))
}

// over reports whether a message that has failed so often, and is that old, is
// given up.
func (s schedule) over(attempts int, age time.Duration) bool {
	return attempts >= s.maxAttempts || age >= s.maxAge
}
