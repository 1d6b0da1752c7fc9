package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"time"
)

// header is a line taken apart, without copying: its slices point into the line.
// Texts are as they stand between the quotes, escapes and all.
type header struct {
	seq              int64
	date             [7]int // year, month, day, hour, minute, second, millisecond
	event, loop, run []byte
	iteration        int
	own              []byte // the own members, without the comma before them
	prev, hash       []byte
	hashed           []byte // what the hash is of
}

// parse takes a line (without its newline) apart and says why it cannot, or "".
// It does not look into the own members and does not compute the hash.
func (h *header) parse(line []byte) string {
	p := cursor{rest: line}
	p.expect(seqKey)
	seq := p.integer(math.MaxInt64)
	p.expect(timeKey)
	p.date(&h.date)
	p.expect(eventKey)
	h.event = p.text()
	p.expect(loopKey)
	h.loop = p.text()
	p.expect(runKey)
	h.run = p.text()
	p.expect(iterKey)
	h.iteration = int(p.integer(math.MaxInt32))
	if p.bad {
		return "it does not begin as an event does"
	}
	if seq < 1 || len(h.event) == 0 {
		return "it has no sequence number or no name"
	}
	h.seq = seq
	return h.trailer(line, p.rest)
}

// trailer takes rest, what follows the iteration, apart from its end.
func (h *header) trailer(line, rest []byte) string {
	const why = "it does not end as an event does"
	n := len(rest) - trailerLen
	if n < len(prevKey) || string(rest[n:n+len(hashKey)]) != hashKey || string(rest[len(rest)-len(lineEnd):]) != lineEnd {
		return why
	}
	h.hash = rest[n+len(hashKey) : len(rest)-len(lineEnd)]
	h.hashed = line[:len(line)-trailerLen+1]
	rest = rest[:n]
	// A hash does not end with a quote, so the two endings cannot be confused.
	switch at := len(rest) - hashLen; {
	case string(rest[len(rest)-len(prevKey):]) == prevKey:
		h.prev, rest = nil, rest[:len(rest)-len(prevKey)]
	case at >= len(prevKey) && string(rest[at-len(prevKey):at]) == prevKey:
		h.prev, rest = rest[at:], rest[:at-len(prevKey)]
	default:
		return why
	}
	h.own = nil
	if len(rest) > 0 {
		if len(rest) < len(`,"":0`) || rest[0] != ',' || rest[1] != '"' {
			return "its own fields are not a JSON object"
		}
		h.own = rest[1:]
	}
	if !isHash(h.hash) || len(h.prev) > 0 && !isHash(h.prev) {
		return "it has no hash where one must be"
	}
	return ""
}

// hashMatches computes the line's hash.
func (h *header) hashMatches() bool {
	sum := sha256.Sum256(h.hashed)
	var text [hashLen]byte
	hex.Encode(text[:], sum[:])
	return bytes.Equal(text[:], h.hash)
}

// cursor reads from the front of a line. Once something is not as expected, bad
// stays true and nothing more is read.
type cursor struct {
	rest []byte
	bad  bool
}

func (p *cursor) expect(s string) {
	if p.bad || len(p.rest) < len(s) || string(p.rest[:len(s)]) != s {
		p.bad = true
		return
	}
	p.rest = p.rest[len(s):]
}

func (p *cursor) integer(most int64) int64 {
	var v int64
	i := 0
	for ; i < len(p.rest) && p.rest[i]-'0' <= 9; i++ {
		d := int64(p.rest[i] - '0')
		if v > (most-d)/10 {
			p.bad = true
			return 0
		}
		v = v*10 + d
	}
	if i == 0 || i > 1 && p.rest[0] == '0' {
		p.bad = true
	}
	p.rest = p.rest[i:]
	return v
}

// text reads up to, not including, the closing quote.
func (p *cursor) text() []byte {
	for i := 0; i < len(p.rest) && !p.bad; i++ {
		switch c := p.rest[i]; {
		case c == '"':
			s := p.rest[:i]
			p.rest = p.rest[i:]
			return s
		case c == '\\':
			i++
		case c < 0x20:
			p.bad = true
		}
	}
	p.bad = true
	return nil
}

func (p *cursor) date(d *[7]int) {
	if p.bad || len(p.rest) < len(timeLayout) {
		p.bad = true
		return
	}
	s := p.rest[:len(timeLayout)]
	p.rest = p.rest[len(timeLayout):]
	field, v := 0, 0
	for i, want := range []byte("0000-00-00T00:00:00.000Z") {
		c := s[i]
		switch {
		case want == '0' && c-'0' <= 9:
			v = v*10 + int(c-'0')
		case want != '0' && c == want:
			d[field], v = v, 0
			field++
		default:
			p.bad = true
			return
		}
	}
	if d[1] < 1 || d[1] > 12 || d[2] < 1 || d[2] > daysIn(d[0], d[1]) || d[3] > 23 || d[4] > 59 || d[5] > 59 {
		p.bad = true
	}
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// maxNames bounds the names that a decoder remembers: a foreign file may have a
// new one in each line.
const maxNames = 256

// decoder makes Events of headers. Texts that come again and again (the loop, the
// run, the event's name, the hash that is the next line's prev) are made once.
type decoder struct {
	names map[string]string
	hash  string
}

func (d *decoder) event(h *header) Event {
	ev := Event{
		Seq: h.seq,
		Timestamp: time.Date(h.date[0], time.Month(h.date[1]), h.date[2], h.date[3], h.date[4], h.date[5],
			h.date[6]*int(time.Millisecond), time.UTC),
		Event:     d.name(h.event),
		LoopID:    d.name(h.loop),
		RunID:     d.name(h.run),
		Iteration: h.iteration,
		Prev:      d.hash,
	}
	if ev.Prev != string(h.prev) {
		ev.Prev = string(h.prev)
	}
	ev.Hash = string(h.hash)
	d.hash = ev.Hash
	if h.own != nil {
		own := make([]byte, 0, len(h.own)+2)
		own = append(own, '{')
		own = append(own, h.own...)
		ev.Fields = append(own, '}')
	}
	return ev
}

func (d *decoder) name(raw []byte) string {
	if s, ok := d.names[string(raw)]; ok {
		return s
	}
	s := string(raw)
	if strings.IndexByte(s, '\\') >= 0 {
		quoted := append(append([]byte{'"'}, raw...), '"')
		var plain string
		if json.Unmarshal(quoted, &plain) == nil {
			s = plain
		}
	}
	if d.names == nil {
		d.names = make(map[string]string)
	}
	if len(d.names) < maxNames {
		d.names[string(raw)] = s
	}
	return s
}
