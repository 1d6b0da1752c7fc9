package mockapi

import (
	"net/http"
	"strings"
	"time"
)

// player sends one answer.
type player struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	d      dialect
	a      answer
	record *Record
}

// play sends the answer. array: a stream is sent as one JSON array.
func (p player) play(array bool) {
	if p.a.Delay > 0 {
		t := time.NewTimer(p.a.Delay)
		defer t.Stop()
		p.until(t.C)
	}
	if p.a.Hang == HangBeforeHeaders {
		p.ends(0, Hung, Usage{}, Usage{})
		p.until(nil)
	}
	status := http.StatusOK
	if p.a.fails() {
		status = p.a.Status
	}
	streams := p.a.call.Stream && !p.a.fails()
	p.headers(streams && !array)
	frames, told := p.frames(streams, array)
	stop := len(frames)
	switch {
	case p.a.Hang == HangAfterHeaders:
		stop = 0
	case p.a.CutAfter > 0:
		stop = min(p.a.CutAfter, len(frames)-1)
	case p.a.Hang == HangMidStream:
		stop = len(frames) / 2
	}
	switch {
	case stop == len(frames) && (p.a.fails() || p.a.InStream):
		p.ends(status, Failed, Usage{}, frames[stop-1].partial)
	case stop == len(frames):
		p.ends(status, Told, told, Usage{})
	default:
		partial := Usage{}
		if stop > 0 {
			partial = frames[stop-1].partial
		}
		outcome := Cut
		if p.a.Hang != "" {
			outcome = Hung
		}
		p.ends(status, outcome, Usage{}, partial)
	}
	p.send(status, frames, stop)
}

// frames are the parts in which the body is sent: the events of a stream, else
// the whole, or its bytes where it is to be cut.
func (p player) frames(streams, array bool) ([]frame, Usage) {
	var body string
	switch {
	case streams && !array:
		return p.d.stream(p.a), p.a.told
	case streams:
		var chunks []string
		for _, f := range p.d.stream(p.a) {
			_, data, _ := strings.Cut(string(f.data), "data: ")
			chunks = append(chunks, strings.TrimSpace(data))
		}
		body = "[" + strings.Join(chunks, ",\n") + "]"
	case p.a.fails() && p.a.ErrorBody != "":
		body = p.a.ErrorBody
	case p.a.fails():
		body = inJSON(p.a.errorBody(p.d))
	default:
		body = inJSON(p.d.whole(p.a))
	}
	if p.a.CutAfter > 0 || p.a.Hang == HangMidStream {
		list := make([]frame, len(body))
		for i := range body {
			list[i].data = []byte(body[i : i+1])
		}
		return list, p.a.told
	}
	return []frame{{data: []byte(body)}}, p.a.told
}

func (p player) headers(events bool) {
	h := p.w.Header()
	h.Set("Content-Type", "application/json")
	if events {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
	}
	h.Set("Request-Id", "req_"+p.a.id)
	h.Set("X-Request-Id", "req_"+p.a.id)
	if p.a.RetryAfter > 0 && p.a.call.API != Gemini {
		h.Set("Retry-After", wholeSeconds(p.a.RetryAfter))
	}
	for name, values := range p.a.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// send writes the first stop frames, and then ends, hangs or cuts.
func (p player) send(status int, frames []frame, stop int) {
	c := http.NewResponseController(p.w)
	p.w.WriteHeader(status)
	partial := Usage{}
	for _, f := range frames[:stop] {
		if _, err := p.w.Write(f.data); err != nil || (len(frames) < 1000 && c.Flush() != nil) {
			p.left(partial)
			return
		}
		partial = f.partial
	}
	if stop == len(frames) {
		return
	}
	if c.Flush() != nil {
		p.left(partial)
		return
	}
	if p.a.Hang != "" {
		p.until(nil)
	}
	abort()
}

// until waits for t. It does not return when the client leaves before, or the
// server is closed.
func (p player) until(t <-chan time.Time) {
	select {
	case <-t:
		return
	case <-p.r.Context().Done():
	case <-p.s.closing:
	}
	if p.a.Hang == "" {
		p.left(Usage{})
	}
	abort()
}

// abort closes the connection in the middle of an answer; a handler that merely
// returned would end the answer as if it was whole.
func abort() { panic(http.ErrAbortHandler) }

func (p player) ends(status int, o Outcome, told, partial Usage) {
	p.s.note(func() {
		p.record.Status, p.record.Outcome, p.record.Usage, p.record.Partial = status, o, told, partial
	})
}

// left is the end of an answer that could not be sent as it was planned.
func (p player) left(partial Usage) {
	p.s.note(func() {
		if p.record.Outcome != Hung && p.record.Outcome != Cut {
			p.record.Outcome = Left
		}
		p.record.Usage, p.record.Partial = Usage{}, partial
	})
}
