package cooldown

import (
	"math"
	"time"

	"github.com/superloop/superloop/roles/agent/class"
)

// waits are the first and the longest wait for each class that time ends.
var waits = map[class.Class][2]time.Duration{
	class.Limit:      {time.Minute, 30 * time.Minute},
	class.Overloaded: {15 * time.Second, 10 * time.Minute},
	class.Network:    {10 * time.Second, 5 * time.Minute},
}

// Backoff is how long to wait after the given number of refusals in a row when the provider has not told until when: it
// doubles with each of them, within the bounds in waits. Fewer than one strike is one. Any other class gives 0.
func Backoff(failure class.Class, strikes int) time.Duration {
	wait, most := waits[failure][0], waits[failure][1]
	for n := 1; n < strikes && wait < most; n++ {
		wait *= 2
	}
	return min(wait, most)
}

// maxJitter bounds what Jitter adds.
const maxJitter = 30 * time.Second

// Jitter makes a wait longer, by a random part of a tenth of it and of at most 30 seconds, so that the loops that share
// an account do not all come back in one instant. random gives numbers from 0 up to 1; whatever it gives, the result is
// neither shorter than wait nor below 0.
func Jitter(wait time.Duration, random func() float64) time.Duration {
	part := random()
	if wait <= 0 || !(part > 0) { // NaN, too
		return max(wait, 0)
	}
	more := time.Duration(min(part, 1) * float64(min(wait/10, maxJitter)))
	return wait + min(more, math.MaxInt64-wait)
}
