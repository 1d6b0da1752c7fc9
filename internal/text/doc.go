// Package text makes foreign text harmless, each way of it once: for a terminal (Display, Shown, Line), for a shell
// (Word, Words, Paste), and in a length (Cut, Head, Tail). It decides nothing.
package text
