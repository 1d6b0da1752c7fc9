package testkit

import (
	"math"
	"os"
	"strconv"
)

// Sample chooses how much of a long test runs: quick in go test, ci where SUPERLOOP_SLOW_TESTS is set as .ci/run sets it,
// and all where it is "all", which takes hours. Where it is "few", as .ci/run sets it on a slow machine, it is a number
// between quick and ci.
func Sample(quick, ci, all int) int {
	switch os.Getenv("SUPERLOOP_SLOW_TESTS") {
	case "":
		return quick
	case "few":
		if quick > 0 {
			return int(math.Round(math.Sqrt(float64(quick) * float64(ci))))
		}
	case "all":
		return all
	}
	return ci
}

// Every returns n where only every n-th of many like tests is to run (SUPERLOOP_EVERY), and 1 elsewhere.
func Every() int {
	if n, err := strconv.Atoi(os.Getenv("SUPERLOOP_EVERY")); err == nil && n > 1 {
		return n
	}
	return 1
}
