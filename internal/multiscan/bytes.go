package multiscan

import "bytes"

// The bytes of which a piece of text is asked whether it holds them: bits of what
// occur says. After these come the marks.
const (
	hasEsc = 1 << iota
	hasBackspace
	hasMark // the first one; the next bit is the next one's
)

// askedFor gives them in the order of the bits. What is left is filled with the first.
func askedFor(marks []byte) (want [8]byte) {
	for i := range want {
		want[i] = esc
	}
	want[1] = backspace
	copy(want[2:2+maxMarks], marks)
	return want
}

// occurIn is occur for any machine.
func occurIn(b []byte, want *[8]byte) (has uint64) {
	for i, c := range want[:2+maxMarks] {
		if i > 0 && c == want[0] {
			has |= has & 1 << i
		} else if bytes.IndexByte(b, c) >= 0 {
			has |= 1 << i
		}
	}
	return has
}
