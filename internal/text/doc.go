// Package text makes foreign text harmless, each way of it once: for a terminal (Display,
// Line), for a shell (Word, Words, Paste), and in a length (Cut, Head). It decides
// nothing.
package text
