package render

import (
	"fmt"
	"math"
	"time"
)

// Percent formats a share as a whole percentage.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// Dollars formats an amount with four decimals below one dollar and with two above. It shows an amount that rounds to
// zero as "<$0.0001".
func Dollars(usd float64, round func(float64) float64) string {
	digits, unit := 4, 1e4
	if usd >= 1 {
		digits, unit = 2, 1e2
	}
	// In binary a whole number of cents may be slightly too small, so the amount is rounded to 1e-9 dollars first.
	shown := round(math.Round(usd*1e9)/1e9*unit+1e-6) / unit
	if shown == 0 && usd > 0 {
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.*f", digits, shown)
}

// ShortTime formats a duration that may be much shorter than a second.
func ShortTime(ms int64) string {
	switch {
	case ms < 1:
		return "<1ms"
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	}
	return Duration(time.Duration(ms) * time.Millisecond)
}
