// Package archtest holds no code, only the test that keeps the rules of docs/architecture.md: who may import whom, who
// may write, start processes or read the clock. The table of that page is the one list of packages; the test reads it.
// Each rule says in its message why it is there and what to do. No comment switches a rule off.
package archtest
