package testkit

import "os"

// Sample chooses how much of a long test runs: quick in go test, ci where SUPERLOOP_SLOW_TESTS is set as .ci/run sets it,
// and all where it is "all", which takes hours.
func Sample(quick, ci, all int) int {
	switch os.Getenv("SUPERLOOP_SLOW_TESTS") {
	case "":
		return quick
	case "all":
		return all
	}
	return ci
}
