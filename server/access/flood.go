package access

import "time"

// Of refused requests that are alike, whole of them are written as they come. Then lines stand for several, each for twice
// as many as the one before, until alikeFor is over. So no process fills the record, and a kill costs no more refusals than
// were written down.
const (
	whole    = 20
	alikeFor = time.Minute
	// kinds bounds how many kinds of refused requests are told apart at once.
	kinds = 1000
)

// kind is what refused requests have in common. The path is not part of it, nor the id of the process: who floods the
// record can change both with each request.
type kind struct {
	channel, exe, token, method, reason string
	uid                                 int
}

// burst is a number of refused requests of a kind.
type burst struct {
	n, next int // how many there were, and at which number of counted ones the next line is due
	counted int // since the last line
	last    Line
}

// flooded reports whether a line of a refused request is only counted, and may let it stand for those that were. The caller
// holds l.mu.
func (l *Log) flooded(line *Line) bool {
	k := kind{line.Channel, line.Exe, line.Token, line.Method, line.Reason, -1}
	if line.UID != nil {
		k.uid = *line.UID
	}
	if l.bursts == nil {
		l.bursts = map[kind]*burst{}
	}
	if len(l.bursts) >= kinds && l.bursts[k] == nil {
		k = kind{}
	}
	b := l.bursts[k]
	if b == nil {
		b = &burst{next: 2}
		l.bursts[k] = b
		time.AfterFunc(alikeFor, func() { l.over(k) })
	}
	if b.n++; b.n <= whole {
		return false
	}
	b.last = *line
	if b.counted++; b.counted < b.next {
		return true
	}
	line.Count, b.counted, b.next = b.counted, 0, 2*b.next
	return false
}

// over writes the line that stands for the rest of a burst.
func (l *Log) over(k kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bursts[k]
	delete(l.bursts, k)
	if b.last.Count = b.counted; b.counted > 0 {
		_ = l.twice(b.last) // as a line that a full disk costs
	}
}
