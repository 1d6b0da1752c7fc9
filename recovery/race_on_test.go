//go:build race

package recovery

// slowdown is what the race detector costs.
const slowdown = 10
