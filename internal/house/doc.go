// Package house holds no code, only the test that keeps the rules of
// docs/architecture.md: who may import whom, who may write, fork or read the
// clock. Each rule has its reason in its message.
package house
