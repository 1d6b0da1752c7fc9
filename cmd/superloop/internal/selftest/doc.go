// Package selftest drives an installed agent CLI through superloop's own
// adapter and process handling against a mock of its model API, and judges
// whether success, tool use, refusals, limits, overload, a hanging provider and
// a kill are told apart as docs/agents.md promises. It spends no token and
// opens no connection but to this machine.
//
// A case is driven (drive.go), what was seen of it is a Seen, and judging a
// Seen is pure (judge.go). The result is a Card per CLI.
package selftest
