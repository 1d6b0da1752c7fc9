//go:build !race

package recovery

const slowdown = 1
