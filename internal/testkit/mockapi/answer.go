package mockapi

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is a Reply after complete has decided everything that the Reply left open.
type answer struct {
	Reply
	dialect
	call  Call
	calls []toolCall
	id    string
	told  Usage // the usage to report, in the kinds that the API has
}

// dialect is the wire format of one API.
type dialect interface {
	// parse fills c from the body, except for model and stream, which the server sets. An error is the client's fault.
	parse(c *Call, body node) error
	// stream returns the events of an answer. The last event holds the usage, or the error if InStream is set.
	stream(a answer) [][]byte
	whole(a answer) object                                     // returns the body of an answer that is not streamed
	failure(status int, kind, message string, a answer) object // returns the body of an error
}

type object = map[string]any

// item is one finished part of an answer, with the events that stream its contents.
type item struct {
	fields object
	inside []object
}

// begun returns the item as it is before its contents have been streamed: the fields that empty names have their empty
// values.
func (it item) begun(empty object) object {
	fields := maps.Clone(it.fields)
	maps.DeleteFunc(empty, func(k string, _ any) bool { return fields[k] == nil })
	maps.Copy(fields, empty)
	return fields
}

func finished(items []item) []object {
	list := []object{}
	for _, it := range items {
		list = append(list, it.fields)
	}
	return list
}

// complete decides everything that a reply has left open. An error is the script's fault.
func complete(c Call, d dialect, r Reply, m meter) (answer, error) {
	a := answer{Reply: r, dialect: d, call: c, id: fmt.Sprintf("%08d", c.N)}
	a.Model = cmp.Or(a.Model, c.Model)
	for i, t := range r.Tools {
		call, err := choose(t, c.offered)
		if err != nil {
			return a, err
		}
		call.id = fmt.Sprintf("call_%s_%d", a.id, i+1)
		a.calls = append(a.calls, call)
	}
	if r.InStream && !c.Stream {
		return a, errors.New("the script's error is to be told in the stream, and the request does not stream")
	}
	if !a.fails() {
		if a.told = r.Usage; a.told == (Usage{}) {
			a.told = m.measure(c, a)
		}
		a.told = a.told.as(c.API)
	}
	return a, nil
}

// fails reports whether the answer is an error instead of a message.
func (a answer) fails() bool { return !a.InStream && a.Status != 0 && a.Status != http.StatusOK }

// errorsText holds the usual type and message of an error by API and status. 500 stands for every status from 500 on
// that has no entry, 400 for every other status without an entry.
//
//go:embed errors.txt
var errorsText string

func usual(api API, status int) (kind, message string) {
	_, rest, ok := strings.Cut("\n"+errorsText, fmt.Sprintf("\n%s %d ", api, status))
	if !ok {
		return usual(api, map[bool]int{false: 400, true: 500}[status >= 500])
	}
	line, _, _ := strings.Cut(rest, "\n")
	kind, message, _ = strings.Cut(line, " ")
	return kind, message
}

func (a answer) errorBody() object {
	status := cmp.Or(a.Status, http.StatusInternalServerError)
	kind, message := usual(a.call.API, status)
	body := a.failure(status, cmp.Or(a.ErrorType, kind), cmp.Or(a.ErrorMessage, message), a)
	maps.Copy(body["error"].(object), a.ErrorFields)
	return body
}

// stop returns the API's word for why the model stopped: calls if it called a tool, otherwise end. The reply's own
// StopReason takes precedence.
func (a answer) stop(calls, end string) string {
	if len(a.calls) > 0 {
		end = calls
	}
	return cmp.Or(a.StopReason, end)
}

// wholeSeconds returns d in seconds, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// pieces cuts text as a model streams it: into at most limit pieces of about the same length, never inside a character.
func pieces(text string, limit int) (list []string) {
	size, start := max(12, (len(text)+limit-1)/limit), 0
	for at := range text {
		if at-start >= size {
			list = append(list, text[start:at])
			start = at
		}
	}
	if start < len(text) {
		list = append(list, text[start:])
	}
	return list
}

// sse returns a server-sent event with a name.
func sse(name string, fields object) []byte {
	fields["type"] = name
	return []byte("event: " + name + "\ndata: " + inJSON(fields) + "\n\n")
}

// parts returns the body in the pieces in which it is sent: the events of a stream, the single bytes of a body that
// will be cut, or else the whole body.
func (a answer) parts(streams bool) [][]byte {
	if streams {
		return a.stream(a)
	}
	body := []byte(a.ErrorBody)
	switch {
	case a.fails() && a.ErrorBody == "":
		body = []byte(inJSON(a.errorBody()))
	case !a.fails():
		body = []byte(inJSON(a.whole(a)))
	}
	if a.CutAfter > 0 || a.Hang == HangMidStream {
		return slices.Collect(slices.Chunk(body, 1))
	}
	return [][]byte{body}
}

// play sends the answer, or the part of it that the script wants sent, and records the outcome.
func (s *Server) play(w http.ResponseWriter, r *http.Request, a answer, record *Record) {
	ends := func(status int, o Outcome) {
		s.note(func() { record.Status, record.Outcome, record.Usage = status, o, map[Outcome]Usage{Told: a.told}[o] })
	}
	if a.Delay > 0 && !s.wait(r, time.After(a.Delay)) {
		ends(0, Left)
		abort()
	}
	if a.Hang == HangBeforeHeaders {
		ends(0, Hung)
		s.wait(r, nil)
		abort()
	}
	status, streams := http.StatusOK, a.call.Stream && !a.fails()
	if a.fails() {
		status = a.Status
	}
	a.headers(w.Header(), streams)
	parts := a.parts(streams)
	stop, outcome := len(parts), Told
	switch {
	case a.CutAfter > 0:
		stop, outcome = min(a.CutAfter, len(parts)-1), Cut
	case a.Hang == HangMidStream:
		stop = len(parts) / 2
	case a.fails() || a.InStream:
		outcome = Failed
	}
	if a.Hang != "" {
		outcome = Hung
	}
	ends(status, outcome)
	c := http.NewResponseController(w)
	w.WriteHeader(status)
	for _, part := range parts[:stop] {
		_, err := w.Write(part)
		if err == nil && streams {
			err = c.Flush()
		}
		if err != nil {
			if stop == len(parts) {
				ends(status, Left)
			}
			return
		}
	}
	if stop == len(parts) {
		return
	}
	_ = c.Flush() // a client that has gone away needs no flush
	if a.Hang != "" {
		s.wait(r, nil)
	}
	abort()
}

func (a answer) headers(h http.Header, events bool) {
	h.Set("Content-Type", "application/json")
	if events {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
	}
	h["Request-Id"], h["X-Request-Id"] = []string{"req_" + a.id}, []string{"req_" + a.id}
	if a.RetryAfter > 0 && a.call.API != Gemini {
		h.Set("Retry-After", wholeSeconds(a.RetryAfter))
	}
	for name, values := range a.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// wait waits for t. It returns false if the client goes away or the server is closed before.
func (s *Server) wait(r *http.Request, t <-chan time.Time) bool {
	select {
	case <-t:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

// abort closes the connection in the middle of an answer. If the handler just returned, the server would end the answer
// regularly.
func abort() { panic(http.ErrAbortHandler) }
