//go:build !race

package remedy

const underRace = false
