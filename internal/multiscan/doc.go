// Package multiscan finds which of many regular expressions match the lines of
// a log that streams by, in constant memory: a literal filter runs over the
// text at a speed near that of memory, and an expression is run only on a
// line that holds all the literals it cannot match without.
//
// # What is matched
//
// The stream is cut into lines at "\n". From a line terminal control sequences
// are removed (CSI, OSC and the other control strings, ESC with its final byte;
// a backspace takes the character before it away), and a "\r" begins the text
// of the line anew, as a progress bar does, so that "\r\n" ends a line and each
// state of a progress bar is matched by itself. A text longer than [Window] is
// matched in windows that overlap by half; "^" and "$" match only at the true
// ends of the text. A pattern is found at most once per line, and at most
// [MaxHits] times while the stream goes by. The lines after that, and those for which
// a budget was spent, are not forgotten: the last of them, as many as fit into
// 256 KiB or more, are looked at when the stream ends, the last line first, and [LastHits]
// more are told of each pattern, since the end of a log says most about a failure.
// NUL bytes and invalid UTF-8 are ordinary text.
//
// # What it may cost
//
// Expressions are bounded in size, and the work of running them is counted (in
// bytes of text times instructions of the program) against a budget of each
// pattern and one of the whole stream, both of which grow with the stream. What
// was not run because a budget was spent, not at the end either, is counted in [Stats].Skipped.
// The outcome depends on the stream only, not on how it was cut into writes.
//
// # Letters
//
// Literals are compared without regard to the case of ASCII letters. The two
// other characters that fold to ASCII, U+017F (long s) and U+212A (Kelvin),
// are not taken for "s" and "k" by the filter.
package multiscan
