package mockapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Script is what the model does. It is called for each model request in the order of their arrival, never twice at a
// time, and must not block.
type Script func(Call) Reply

// Reply is one answer of the model. The zero value is an answer without text.
type Reply struct {
	Thinking, Text string // these and Tools are sent in this order
	Tools          []Tool
	// Usage is what the answer tells, in the fields that the API has; zero derives it from the request and the reply.
	Usage      Usage
	Model      string // the name that the reply gives itself; "" is that of the request
	StopReason string // in the API's own words; "" is the usual one

	Delay  time.Duration // before the headers are sent
	Header http.Header   // is added to the response

	// Status other than 0 and 200 is an error. RetryAfter is told in whole seconds, rounded up: as the header
	// retry-after, or by Gemini as RetryInfo.
	Status     int
	RetryAfter time.Duration
	// ErrorType and ErrorMessage are in the API's own words; "" is the usual one of the status.
	ErrorType, ErrorMessage string
	ErrorFields             map[string]any // are added to the error object
	ErrorBody               string         // unless "", the whole body of the error
	// InStream sends the error as the last event of a stream that began well. The request has to stream.
	InStream bool

	// Hang stops answering at that point and keeps the connection open until the client leaves or the server is closed.
	Hang Hang
	// CutAfter closes the connection after so many events (of a stream, at most all but the last) or bytes (of anything
	// else); 0 does not. With HangMidStream it says where to hang.
	CutAfter int
}

// Hang is where an answer hangs.
type Hang string

const (
	HangBeforeHeaders Hang = "before-headers"
	HangMidStream     Hang = "mid-stream" // half-way through the events, unless CutAfter says where
)

// Tool is one call of a tool; exactly one of Write, Shell and Name is set.
type Tool struct {
	Write *File  // puts a file into place, by the CLI's own tool for it or by a command
	Shell string // is a command line
	// Name and Input call an offered tool as it is. Input is a JSON object; of a tool that takes text, a JSON string.
	Name  string
	Input json.RawMessage
}

// File is a file that a Tool writes. Path is absolute: some CLIs take no other.
type File struct{ Path, Content string }

// Sequence answers the first request with the first reply and so on, and all after the last one with the last. Side
// requests do not count; they get SmallTalk.
func Sequence(replies ...Reply) Script {
	return func(c Call) Reply {
		if c.Side || len(replies) == 0 {
			return Reply{Text: c.SmallTalk()}
		}
		return replies[min(c.Turn, len(replies))-1]
	}
}

// Always answers every request, on the side too, with the same reply: an error, most often.
func Always(r Reply) Script { return func(Call) Reply { return r } }

// Window is a subscription's limit as Anthropic's headers tell it.
type Window struct {
	Status      string // allowed, allowed_warning or rejected
	Claim       string // five_hour or seven_day
	ResetsAt    time.Time
	Utilization float64 // between 0 and 1
}

// Header are the headers anthropic-ratelimit-unified-*, for Reply.Header of an answer that is well or of a refusal.
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

// Limit is the refusal of an account whose window is used up until resetsAt, in the API's own form: claude believes the
// headers only with a subscription's token, codex reads the fields of the error, and Gemini tells of a wait in seconds
// from now.
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
