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
	N, Turn                int
	API                    API
	Model                  string
	Prompt, LastToolOutput string // the last text of the user and of a tool's result in the request
	HasToolResult          bool   // the request brings the result of a tool that the preceding reply called
	// Tools are the names of the tools that are offered. Nested ones come after
	// their parent, as "parent.name".
	Tools []string
	// Side: no tools are offered. That is how CLIs ask for a title, a topic or a
	// route beside their main conversation; a CLI whose tools were all taken away
	// looks the same.
	Side    bool
	Schema  json.RawMessage // that the answer's text is to satisfy; nil is none
	Session string          // the CLI's word for the conversation; "" if it sends none
	Stream  bool            // the answer was asked for as server-sent events
	Path    string
	Header  http.Header // holds the key, as Body may
	Body    []byte

	offered []offer
}

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

// Outcome is how far an answer went.
type Outcome string

// The outcomes.
const (
	Told   Outcome = "told"   // the answer was sent to its end, with its usage
	Failed Outcome = "failed" // an error was sent, as the response or inside the stream
	Hung   Outcome = "hung"   // the server stopped answering and kept the connection open
	Cut    Outcome = "cut"    // the server closed the connection in the middle
	Left   Outcome = "left"   // the client went away before the end
)

// Record is one answered request. A request is on record before the last byte
// of its answer is sent, so whoever has read an answer finds it in Calls.
type Record struct {
	N       int
	API     API
	Path    string
	Model   string // that the reply told
	Session string // this, Side and Tools: see Call
	Side    bool
	Tools   []string
	Status  int // of HTTP; 0 if no headers were sent
	Outcome Outcome
	Usage   Usage  // what the answer told when it was Told, else zero
	Error   string // why the reply is not the Script's, or the request was not understood
}

// Usage counts tokens in four disjoint kinds, as agent.Usage does: Input is
// neither read from nor written to a cache, Output includes Reasoning.
type Usage struct {
	Input, CacheRead, CacheWrite, Output, Reasoning int64
}

// Plus is the sum of both.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// Total is the usage of all records that were told, and of how many.
func Total(records []Record) (u Usage, n int) {
	for _, r := range records {
		if r.Outcome == Told {
			u = u.Plus(r.Usage)
			n++
		}
	}
	return u, n
}

// prompt is the whole input, as OpenAI and Gemini count it.
func (u Usage) prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// as is what the API can tell of u.
func (u Usage) as(api API) Usage {
	u.Reasoning = min(u.Reasoning, u.Output)
	switch api {
	case Anthropic:
		u.Reasoning = 0
	case Gemini:
		u.Input, u.CacheWrite = u.Input+u.CacheWrite, 0
	}
	return u
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// meter derives usage. It remembers how many tokens the last request of each
// session held.
type meter map[string]int64

// measure is what the call and its answer cost: four bytes are a token, rounded up.
// The input is the body of the request; what the session's previous request held counts
// as read from the cache, and half of a session's first request as written to it. The
// output is the text, the thinking (as reasoning) and the arguments of the tools, at
// least one token.
func (m meter) measure(c Call, a answer) Usage {
	u := Usage{Input: tokens(len(c.Body)), Reasoning: tokens(len(a.Thinking))}
	if c.Session != "" && !c.Side && c.API != Gemini {
		key := string(c.API) + " " + c.Session
		if before, again := m[key]; again {
			u.CacheRead = min(before, u.Input)
		} else {
			u.CacheWrite = u.Input / 2
		}
		m[key] = u.Input
		u.Input -= u.CacheRead + u.CacheWrite
	}
	bytes := len(a.Text)
	for _, t := range a.calls {
		bytes += len(t.input)
	}
	u.Output = max(1, tokens(bytes)+u.Reasoning)
	return u
}
