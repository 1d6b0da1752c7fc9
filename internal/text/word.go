package text

import "strings"

// Word is s as one word of a command line for a POSIX shell. What a terminal could
// misread in it is written as by Display, so a word with such characters is there
// to be read, and does not stand for s.
func Word(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+,="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(Display(s), "'", `'\''`) + "'"
}
