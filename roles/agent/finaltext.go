package agent

import "github.com/superloop/superloop/roles"

// finalHalf leaves room for the mark, so that the text is within MaxMessage.
const finalHalf = messageHalf - 64

// finalText collects the agent's last message from the pieces in which a stream
// brings it. It holds at most finalHalf bytes of the beginning and twice that
// of the end, however much comes. The zero value is ready.
type finalText struct {
	head, tail []byte
	cut        int64 // bytes between head and tail that are gone
}

func (t *finalText) add(p []byte) {
	n := min(len(p), finalHalf-len(t.head))
	t.head = append(t.head, p[:n]...)
	t.tail = append(t.tail, p[n:]...)
	if len(t.tail) > 2*finalHalf {
		t.shrink()
	}
}

// shrink leaves finalHalf bytes of the end.
func (t *finalText) shrink() {
	if over := len(t.tail) - finalHalf; over > 0 {
		t.cut += int64(over)
		t.tail = append(t.tail[:0], t.tail[over:]...)
	}
}

func (t *finalText) reset() { t.head, t.tail, t.cut = t.head[:0], t.tail[:0], 0 }

func (t *finalText) empty() bool { return len(t.head) == 0 }

// text is all of it, or its beginning and its end with a mark between them.
func (t *finalText) text() string {
	t.shrink()
	if t.cut == 0 {
		return string(t.head) + string(t.tail)
	}
	return roles.JoinCut(string(t.head), string(t.tail), t.cut)
}

// end is enough of the end to show its last line.
func (t *finalText) end() string {
	p := t.tail
	if len(p) == 0 {
		p = t.head
	}
	return string(p[max(0, len(p)-maxLine):])
}
