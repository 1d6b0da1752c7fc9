package mockapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// answer is a Reply with everything decided that it left open.
type answer struct {
	Reply
	calls []toolCall
	id    string
	// told is the usage, in the kinds that the API can tell.
	told Usage
	// began is when the answer was decided, and wants is its call.
	began time.Time
	call  Call
}

// frame is one event of a stream, ready to be sent.
type frame struct {
	data []byte
	// partial is what the stream has told when it ends here.
	partial Usage
}

// dialect is one API's wire format.
type dialect interface {
	// parse fills what the body tells. An error is the client's.
	parse(c *Call) error
	// stream are the events of an answer, the usage in the last one. When
	// InStream is set, the last one is the error instead.
	stream(a answer) []frame
	// whole is the body of an answer that is not streamed.
	whole(a answer) any
	// failure is the body of an error; kind and message are never "".
	failure(status int, kind, message string, a answer) any
	// usual are the type and the message of a status.
	usual(status int) (kind, message string)
}

// decide completes a reply. An error is the script's.
func decide(c Call, r Reply, m meter) (answer, error) {
	a := answer{Reply: r, id: fmt.Sprintf("%08d", c.N), call: c, began: time.Now()}
	if a.Model == "" {
		a.Model = c.Model
	}
	for i, t := range r.Tools {
		call, err := choose(t, c.offered)
		if err != nil {
			return a, err
		}
		call.id = fmt.Sprintf("call_%s_%d", a.id, i+1)
		a.calls = append(a.calls, call)
	}
	if r.InStream && !c.Stream {
		return a, fmt.Errorf("the script's error is to be told in the stream, and the request does not stream")
	}
	if a.fails() {
		return a, nil
	}
	a.told = r.Usage
	if a.told == (Usage{}) {
		a.told = m.measure(c, a)
	}
	a.told = a.told.as(c.API)
	return a, nil
}

// fails: the answer is an error instead of a message.
func (a answer) fails() bool { return !a.InStream && a.Status != 0 && a.Status != http.StatusOK }

// errorBody is the body of an error answer.
func (a answer) errorBody(d dialect) any {
	status := a.Status
	if a.InStream && status == 0 {
		status = http.StatusInternalServerError
	}
	kind, message := d.usual(status)
	if a.ErrorType != "" {
		kind = a.ErrorType
	}
	if a.ErrorMessage != "" {
		message = a.ErrorMessage
	}
	return d.failure(status, kind, message, a)
}

// wholeSeconds is d rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// pieces cuts text as a model streams it: at most limit pieces of about the
// same length, never inside a character.
func pieces(text string, limit int) []string {
	size := max(12, (len(text)+limit-1)/limit)
	var list []string
	start := 0
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
