//go:build race

package classify

// raced: everything takes ten times as long, so less of it is tried.
const raced = true
