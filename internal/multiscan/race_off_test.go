//go:build !race

package multiscan

const raceEnabled = false
