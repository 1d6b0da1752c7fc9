// Package journal keeps what happened: events.jsonl, the truth about a loop, and the files that are projections of it.
//
// # Format
//
// A journal is a file of lines. Each line is one JSON object and ends with one newline (0x0A); there is no other white
// space outside strings. The file is UTF-8. A line is at most 16 MiB long, its newline not counted.
//
// A line has these members, in this order, each exactly once:
//
//	seq        integer, 1 in the first line, one more in each further line
//	timestamp  RFC 3339, UTC, always 24 bytes: 2006-01-02T15:04:05.000Z
//	event      string, not empty
//	loop_id    string
//	run_id     string
//	iteration  integer, 0 or more
//	...        the event's own members, none or more
//	prev       string: the hash of the line before, "" in the first line
//	hash       string: 64 lower-case hexadecimal digits
//
// Integers have no sign and no leading zero. An own member does not have the name of one of the eight others, in
// whatever case. So a reader finds prev and hash by counting from the end, and everything before the own members by
// reading from the start, without parsing those.
//
// hash is the SHA-256 of the line's bytes from the first "{" up to, and without, the last `,"hash":` of the line. As
// prev is among these bytes, each hash stands for the line and for all lines before it.
//
// In strings the writer escapes `"`, `\` and the bytes below 0x20 (as \n, \r, \t or \u00XX); everything else stands as
// it is. A byte that is not UTF-8 is written as U+FFFD, and hashed as that.
//
// # Writing
//
// Lines are appended, never changed. Lines that belong together (a group) are one write(2); after a crash a group may
// have been cut anywhere, so any prefix of it may be there. What was appended with sync is on the disk when Append
// returns.
//
// # Repair
//
// A crash in the middle of an append leaves a torn end: bytes without a newline, or, after a power cut, one last line
// with NUL bytes where a page did not make it to the disk. Open copies a torn end to "<path>.broken-<offset>" and cuts
// it off. Nothing else is ever repaired: a line that is whole and does not fit the chain is corruption, whatever
// follows it, and Open refuses (CorruptError).
//
// # Head
//
// The chain shows that a line was changed, but whoever can write the file can also cut lines off its end, or write a
// new chain. So the writer keeps an anchor where an agent has no business (Options.Head): position and hash of the last
// line that is on the disk. It is written after the flush, so it never names a line that a crash can take back, and it
// is not flushed itself, so after a power cut it may name an older line than the last. Open refuses a journal that does
// not hold the line that the anchor names, where it names it (TamperedError).
//
// The file is a durable.Slots; its record is 57 bytes: 1 byte version (1), and, little-endian, 8 bytes seq, 8 bytes
// offset of the line's first byte, 8 bytes offset behind its newline (the file's size at that time), 32 bytes hash.
package journal
