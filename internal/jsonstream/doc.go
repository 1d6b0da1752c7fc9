// Package jsonstream reads newline-delimited JSON as it comes and keeps only
// the values at wanted paths.
//
// A stream may be cut anywhere and a line may be of any length. A Reader holds
// at most 4 MiB of values, one more of each want, and a few times the largest
// Max; in practice, what the lines so far had of wanted values. A line break
// ends a line in every state, even within a string, so whatever a line held,
// the next one is read right.
//
// What is checked. A line is Broken exactly if encoding/json calls it invalid:
// tokens, brackets, commas, escapes, numbers, raw control bytes in strings and
// a depth of at most 10,000 are checked everywhere, in skipped parts too.
// Invalid UTF-8 is no error (nor is it to encoding/json) and is not looked for
// in what is skipped; in a text or key that is kept, each invalid byte and each
// lone surrogate becomes U+FFFD. A raw JSON value ('o', 'a') is kept as it
// came. Duplicate keys are no error: each value is reported.
//
// White space is space, tab, carriage return; a line of nothing else is blank
// and is not reported. A byte order mark before the first line is dropped.
package jsonstream
