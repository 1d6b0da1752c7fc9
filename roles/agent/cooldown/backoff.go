package cooldown

import (
	"math"
	"time"

	"github.com/superloop/superloop/roles/agent/class"
)

// Backoff is how long to wait after the given number of refusals in a row when
// the provider has not told until when: it doubles with each of them.
//
//	class       first   most
//	rate limit  1 min   30 min
//	overloaded  15 s    10 min
//	network     10 s    5 min
//
// Fewer than one strike is one. A class that time does not cure gives 0.
func Backoff(failure class.Class, strikes int) time.Duration {
	var first, most time.Duration
	switch failure {
	case class.Limit:
		first, most = time.Minute, 30*time.Minute
	case class.Overloaded:
		first, most = 15*time.Second, 10*time.Minute
	case class.Network:
		first, most = 10*time.Second, 5*time.Minute
	default:
		return 0
	}
	wait := first
	for n := 1; n < strikes && wait < most; n++ {
		wait *= 2
	}
	return min(wait, most)
}

// maxJitter bounds what Jitter adds.
const maxJitter = 30 * time.Second

// Jitter makes a wait longer, by a random part of a tenth of it and of at most 30
// seconds, so that the loops that share an account do not all come back in one
// instant. random gives numbers from 0 up to 1; whatever it gives, the result is
// neither shorter than wait nor below 0.
func Jitter(wait time.Duration, random func() float64) time.Duration {
	if wait <= 0 {
		return 0
	}
	part := random()
	if !(part > 0) { // NaN, too
		return wait
	}
	more := time.Duration(min(part, 1) * float64(min(wait/10, maxJitter)))
	return wait + min(more, math.MaxInt64-wait)
}
