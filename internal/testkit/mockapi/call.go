package mockapi

import (
	"encoding/json"
	"net/http"
)

// API is a family of wire formats.
type API string

// The APIs.
const (
	Anthropic API = "anthropic" // Messages
	OpenAI    API = "openai"    // Responses
	Gemini    API = "gemini"    // generateContent
)

// Call is one model request, as a Script sees it.
type Call struct {
	// N counts the model requests of this server from 1, Turn those that are not
	// on the side; of a side request Turn is that of the last one that was not.
	N, Turn int
	API     API
	Model   string
	// Prompt is the last text that the user said, LastToolOutput the text of the
	// last tool result in the request.
	Prompt, LastToolOutput string
	// HasToolResult: the request brings what a tool said that the preceding
	// reply called; ToolFailed: and marks it as an error (Anthropic only).
	HasToolResult, ToolFailed bool
	// Tools are the names of the tools that are offered. Nested ones come after
	// their parent, as "parent.name".
	Tools []string
	// Side: no tools are offered. That is how CLIs ask for a title, a topic or a
	// route beside their main conversation; a CLI whose tools were all taken away
	// looks the same.
	Side bool
	// Schema is the JSON Schema that the answer's text is to satisfy; nil is none.
	Schema json.RawMessage
	// Session is the CLI's word for the conversation; "" if it sends none.
	Session string
	// Authorization: the request carries a credential of some kind.
	Authorization bool
	// Stream: the answer was asked for as server-sent events.
	Stream bool
	Path   string
	// Header and Body are the request itself; they hold the key.
	Header http.Header
	Body   []byte

	offered []offer
}

// Outcome is how far an answer went.
type Outcome string

// The outcomes.
const (
	// Told: the answer was sent to its end, with its usage.
	Told Outcome = "told"
	// Failed: an error was sent, as the response or inside the stream.
	Failed Outcome = "failed"
	// Hung: the server stopped answering and kept the connection open.
	Hung Outcome = "hung"
	// Cut: the server closed the connection in the middle.
	Cut Outcome = "cut"
	// Left: the client went away before the end.
	Left Outcome = "left"
)

// Record is one answered request. A request is on record before the last byte
// of its answer is sent, so whoever has read an answer finds it in Calls.
type Record struct {
	N     int
	API   API
	Path  string
	Model string // that the reply told
	// Session, Side, Tools: see Call.
	Session string
	Side    bool
	Tools   []string
	// Called are the names of the tools that the reply calls.
	Called []string
	// Status is the HTTP status; 0 if no headers were sent.
	Status  int
	Outcome Outcome
	// Usage is what the answer told when it was Told, else zero. Partial is what
	// an answer that began had told when it ended otherwise.
	Usage, Partial Usage
	// Error says why a reply could not be given as the Script wanted it, or why a
	// request was not understood.
	Error string
}

// Total is the usage of all records that were told, and of how many.
func Total(records []Record) (u Usage, n int) {
	for _, r := range records {
		if r.Outcome == Told {
			u = u.plus(r.Usage)
			n++
		}
	}
	return u, n
}
