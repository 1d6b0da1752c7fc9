package mockapi

import (
	"encoding/json"
	"net/http"
	"time"
)

// Script is what the model does. It is called for each model request in the
// order of their arrival, never twice at a time, and must not block.
type Script func(Call) Reply

// Reply is one answer of the model. The zero value is an answer without text.
type Reply struct {
	// Thinking, Text and Tools are sent in this order.
	Thinking, Text string
	Tools          []Tool
	// Usage is what the answer tells; zero derives it (see the package).
	Usage Usage
	// Model is the name that the reply gives itself; "" is that of the request.
	Model string
	// StopReason is in the API's own words; "" is the usual one.
	StopReason string

	// Delay passes before the headers are sent.
	Delay time.Duration
	// Header is added to the response.
	Header http.Header

	// Status other than 0 and 200 is an error. RetryAfter is told in whole
	// seconds, rounded up: as the header retry-after, or by Gemini as RetryInfo.
	Status     int
	RetryAfter time.Duration
	// ErrorType and ErrorMessage are in the API's own words; "" is the usual one
	// of the status. ErrorFields are added to the error object.
	ErrorType, ErrorMessage string
	ErrorFields             map[string]any
	// ErrorBody, unless "", is the whole body of the error.
	ErrorBody string
	// InStream sends the error as the last event of a stream that began well
	// (with Thinking and Text, if any). It needs a request that streams.
	InStream bool

	// Hang stops answering at that point and keeps the connection open until the
	// client leaves or the server is closed.
	Hang Hang
	// CutAfter closes the connection after so many events (of a stream, at most
	// all but the last) or bytes (of anything else); 0 does not. With
	// HangMidStream it says where to hang.
	CutAfter int
}

// Hang is where an answer hangs.
type Hang string

// Where an answer can hang.
const (
	HangBeforeHeaders Hang = "before-headers"
	HangAfterHeaders  Hang = "after-headers"
	// HangMidStream is half-way through the events, unless CutAfter says where.
	HangMidStream Hang = "mid-stream"
)

// Tool is one call of a tool; exactly one of Write, Shell and Name is set.
type Tool struct {
	// Write puts a file into place, by the CLI's own tool for it or by a command.
	Write *File
	// Shell is a command line.
	Shell string
	// Name and Input call an offered tool as it is: Input is its JSON object, or
	// for a tool that takes text a JSON string.
	Name  string
	Input json.RawMessage
}

// File is a file that a Tool writes. Path is absolute: some CLIs take no other.
type File struct{ Path, Content string }

// SmallTalk is a short text that says nothing: if the request wants JSON of a
// schema, the smallest value that satisfies it.
func (c Call) SmallTalk() string {
	if len(c.Schema) == 0 {
		return "Small talk"
	}
	var p property
	_ = json.Unmarshal(c.Schema, &p) // a schema that is none wants nothing
	return inJSON(p.any())
}

// Sequence answers the first request with the first reply and so on, and all
// after the last one with the last. Side requests do not count; they get
// SmallTalk.
func Sequence(replies ...Reply) Script {
	return func(c Call) Reply {
		if c.Side || len(replies) == 0 {
			return Reply{Text: c.SmallTalk()}
		}
		return replies[min(c.Turn, len(replies))-1]
	}
}

// Always answers every request, on the side too, with the same reply: an error,
// most often.
func Always(r Reply) Script { return func(Call) Reply { return r } }
