// Package archtest holds no code, only the test that keeps the rules of docs/architecture.md: who may import whom, who
// may write, start processes or read the clock. The table of that page is the one list of packages; the test reads it.
// Each rule says in its message why it is there and what to do. No comment switches a rule off.
//
// Another test makes docs/conformance.md: which tests prove each requirement of the published designs. It takes the
// requirements from testdata/requirements.tsv and the tests from their own comments (Conforms: 004-3.1-pause).
package archtest
