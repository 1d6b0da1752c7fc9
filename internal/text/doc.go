// Package text writes foreign text so that it is harmless: Display for a reader's
// terminal, Word for a reader who pastes it into a shell. It decides nothing.
package text
