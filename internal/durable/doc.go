// Package durable is the only code of superloop that writes to disk. Each
// function says what is true after it returns, and what is true after the
// process, or the power, dies at any point inside it.
//
// Two words are used strictly:
//
//   - "survives a kill": the bytes are in the system's page cache; SIGKILL
//     cannot take them back, a power cut can.
//   - "survives a power cut": the bytes, and the directory entry that leads to
//     them, were flushed (fdatasync, fsync) and the flush was successful.
//
// A Disk is a value and is passed to whoever writes; nothing is global. Every
// physical step is announced to the Disk's Fault, if it has one, under the name
// "<operation>:<step>": the operation is the caller's ("events", "state"), the
// step is one of
//
//	create open read write append truncate sync dirsync rename remove
//	mkdir chmod close aside aside-write aside-sync lock
//
// A test can therefore fail, cut short or never finish exactly one step of one
// operation, and run over all of them by recording the names of a clean run.
//
// No file is ever opened through a symbolic link in its last component, and
// nothing but a regular file is opened at all: an agent that plants a link or a
// FIFO where superloop writes gets an error, not a write elsewhere or a hang.
package durable
