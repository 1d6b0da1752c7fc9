package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// header is a parsed line. Its slices point into the line. Texts are the bytes between the quotes, escapes included.
type header struct {
	seq              int64
	at               time.Time
	event, loop, run []byte
	iteration        int
	own              []byte // the event's own members, without the comma before them
	prev, hash       []byte
	hashed           []byte // the bytes that the hash is computed from
}

// parse parses a line without its newline. It does not parse the event's own members and does not check the hash. It
// returns "" or the reason why the line is no event.
func (h *header) parse(line []byte) string {
	p := cursor{rest: line}
	p.expect(seqKey)
	seq := p.integer(math.MaxInt64)
	p.expect(timeKey)
	h.at = p.time()
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

// trailer parses rest, the part of the line behind the iteration, from its end.
func (h *header) trailer(line, rest []byte) string {
	const why = "it does not end as an event does"
	n := len(rest) - trailerLen
	if n < len(prevKey) || string(rest[n:n+len(hashKey)]) != hashKey || string(rest[len(rest)-len(lineEnd):]) != lineEnd {
		return why
	}
	h.hash = rest[n+len(hashKey) : len(rest)-len(lineEnd)]
	h.hashed = line[:len(line)-trailerLen+1]
	// A hash does not end with a quote, so an empty prev cannot be mistaken for a hash.
	own, first := bytes.CutSuffix(rest[:n], []byte(prevKey))
	if h.prev = nil; !first {
		n = max(0, n-hashLen)
		h.prev = rest[n : len(rest)-trailerLen]
		var ok bool
		if own, ok = bytes.CutSuffix(rest[:n], []byte(prevKey)); !ok {
			return why
		}
	}
	h.own = nil
	if len(own) > 0 {
		if len(own) < len(`,"":0`) || own[0] != ',' || own[1] != '"' {
			return "its own fields are not a JSON object"
		}
		h.own = own[1:]
	}
	if !isHash(h.hash) || !first && !isHash(h.prev) {
		return "it has no hash where one must be"
	}
	return ""
}

// hashMatches computes the line's hash and reports whether it is the hash in the line.
func (h *header) hashMatches() bool {
	sum := sha256.Sum256(h.hashed)
	var text [hashLen]byte
	hex.Encode(text[:], sum[:])
	return bytes.Equal(text[:], h.hash)
}

// decode returns the line as an Event.
func (h *header) decode() Event {
	ev := Event{Seq: h.seq, Timestamp: h.at, Event: unquote(h.event), LoopID: unquote(h.loop), RunID: unquote(h.run),
		Iteration: h.iteration, Prev: string(h.prev), Hash: string(h.hash)}
	if h.own != nil {
		ev.Fields = append(append(append(make([]byte, 0, len(h.own)+2), '{'), h.own...), '}')
	}
	return ev
}

// unquote decodes the inside of a JSON string. If it cannot, it returns the bytes as they are.
func unquote(raw []byte) string {
	var s string
	if bytes.IndexByte(raw, '\\') < 0 || json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s) != nil {
		return string(raw)
	}
	return s
}

// cursor reads a line from its start. bad becomes true when something is not as expected, and stays true.
type cursor struct {
	rest []byte
	bad  bool
}

func (p *cursor) expect(s string) {
	rest, ok := bytes.CutPrefix(p.rest, []byte(s))
	p.rest, p.bad = rest, p.bad || !ok
}

// integer reads an integer without sign and leading zeros. A value above most is bad.
func (p *cursor) integer(most int64) int64 {
	n := len(p.rest) - len(bytes.TrimLeft(p.rest, "0123456789"))
	v, err := strconv.ParseInt(string(p.rest[:n]), 10, 64)
	p.bad = p.bad || err != nil || v > most || n > 1 && p.rest[0] == '0'
	p.rest = p.rest[n:]
	return v
}

// text reads up to the closing quote and leaves the quote.
func (p *cursor) text() []byte {
	for i := 0; i < len(p.rest); i++ {
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

func (p *cursor) time() time.Time {
	s := p.rest[:min(len(p.rest), len(timeLayout))]
	p.rest = p.rest[len(s):]
	at, err := time.Parse(timeLayout, string(s))
	p.bad = p.bad || err != nil || bytes.IndexByte(s, ',') >= 0 // time.Parse also accepts a comma for the point
	return at
}
