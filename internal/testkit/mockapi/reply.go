package mockapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Script plays the model. The server calls it for each model request in the order of their arrival, never twice at a
// time. It must not block.
type Script func(Call) Reply

// Reply is one answer of the model. The zero value is an answer without text.
type Reply struct {
	Thinking, Text string // Thinking, Text and Tools are sent in this order
	Tools          []Tool
	// Usage is the usage that the answer reports, as far as the API has a field for it. If it is zero, the server
	// computes it from the request and the reply.
	Usage      Usage
	Model      string // the model that the reply names; "" means that of the request
	StopReason string // in the API's own words; "" means the usual one

	Delay  time.Duration // the wait before the headers are sent
	Header http.Header   // headers that are added to the response

	// Status other than 0 and 200 makes the reply an error. RetryAfter is sent in whole seconds, rounded up: in the
	// header retry-after, or for Gemini as RetryInfo.
	Status     int
	RetryAfter time.Duration
	// ErrorType and ErrorMessage are in the API's own words. "" means the usual one of the status.
	ErrorType, ErrorMessage string
	ErrorFields             map[string]any // fields that are added to the error object
	ErrorBody               string         // the whole body of the error, unless ""
	// InStream sends the error as the last event of a stream that began without an error. The request has to ask for a
	// stream.
	InStream bool

	// Hang is where the server stops answering. It keeps the connection open until the client goes away or the server
	// is closed.
	Hang Hang
	// CutAfter is the number of events of a stream (at most all but the last), or of bytes of any other answer, after
	// which the server closes the connection; 0 sends the whole answer. With HangMidStream it is the number after which
	// the answer hangs.
	CutAfter int
}

// Hang is the place at which an answer hangs.
type Hang string

const (
	HangBeforeHeaders Hang = "before-headers"
	HangMidStream     Hang = "mid-stream" // after half of the events, unless CutAfter is set
)

// Tool is one call of a tool. Exactly one of Write, Shell and Name is set.
type Tool struct {
	Write *File  // writes a file, by the CLI's own tool for it or by a command
	Shell string // runs a command line
	// Name and Input call an offered tool without any translation. Input is a JSON object, or a JSON string for a tool
	// that takes text.
	Name  string
	Input json.RawMessage
}

// File is a file that a Tool writes. Path is absolute, because some CLIs accept no other path.
type File struct{ Path, Content string }

// Sequence answers the first request with the first reply, the second with the second, and so on. The last reply also
// answers all further requests. Side requests do not count; they get SmallTalk.
func Sequence(replies ...Reply) Script {
	return func(c Call) Reply {
		if c.Side || len(replies) == 0 {
			return Reply{Text: c.SmallTalk()}
		}
		return replies[min(c.Turn, len(replies))-1]
	}
}

// Always answers every request, side requests too, with the same reply, which is usually an error.
func Always(r Reply) Script { return func(Call) Reply { return r } }

// Window is a subscription's limit, as Anthropic's headers report it.
type Window struct {
	Status      string // allowed, allowed_warning or rejected
	Claim       string // five_hour or seven_day
	ResetsAt    time.Time
	Utilization float64 // between 0 and 1
}

// Header returns the headers anthropic-ratelimit-unified-* of the window, for Reply.Header of a successful answer or of
// a refusal.
func (w Window) Header() http.Header {
	const prefix = "Anthropic-Ratelimit-Unified-"
	reset, used := strconv.FormatInt(w.ResetsAt.Unix(), 10), strconv.FormatFloat(w.Utilization, 'f', -1, 64)
	short := map[string]string{"five_hour": "5h-", "seven_day": "7d-"}[w.Claim]
	h := http.Header{}
	for name, value := range map[string]string{
		"Status": w.Status, "Reset": reset, "Representative-Claim": w.Claim, "Fallback": "unavailable",
		"Overage-Status": "rejected", "Overage-Disabled-Reason": "org_level_disabled",
		short + "Status": w.Status, short + "Reset": reset, short + "Utilization": used,
	} {
		h.Set(prefix+name, value)
	}
	if w.Status == "allowed_warning" {
		h.Set(prefix+"Status", "allowed")
		h.Set(prefix+short+"Surpassed-Threshold", used)
	}
	return h
}

// Limit returns the refusal of an account whose window is exhausted until resetsAt, in the form of the API. claude
// reads the headers only if it has a subscription's token. codex reads the fields of the error. Gemini reports a wait
// in seconds from now.
func Limit(api API, resetsAt time.Time) Reply {
	left := time.Until(resetsAt)
	r := Reply{Status: http.StatusTooManyRequests, RetryAfter: left}
	switch api {
	case Anthropic:
		r.Header = Window{Status: "rejected", Claim: "five_hour", ResetsAt: resetsAt, Utilization: 1}.Header()
	case OpenAI:
		r.RetryAfter = 0
		r.ErrorType, r.ErrorMessage = "usage_limit_reached", "The usage limit has been reached"
		r.ErrorFields = map[string]any{"plan_type": "plus", "resets_at": resetsAt.Unix(), "resets_in_seconds": int64(left.Seconds())}
		r.Header = http.Header{"X-Codex-Primary-Used-Percent": {"100"}, "X-Codex-Primary-Window-Minutes": {"300"},
			"X-Codex-Primary-Reset-At": {strconv.FormatInt(resetsAt.Unix(), 10)}}
	case Gemini:
		r.ErrorMessage = "You exceeded your current quota, please check your plan and billing details."
	}
	return r
}
