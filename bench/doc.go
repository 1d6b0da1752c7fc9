// Package bench measures whole processes: `go test -bench . ./bench`. Every figure is a ratio to a floor that is
// measured in the same run.
package bench
