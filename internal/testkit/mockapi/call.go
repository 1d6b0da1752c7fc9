package mockapi

import (
	"net/http"
	"strings"
)

// API is a family of wire formats.
type API string

const (
	Anthropic API = "anthropic" // Messages
	OpenAI    API = "openai"    // Responses
	Gemini    API = "gemini"    // generateContent
)

// Call is one model request, as a Script sees it.
type Call struct {
	// N counts the model requests of this server from 1, Turn those of them that are not on the side.
	N, Turn                int
	API                    API
	Model                  string
	Prompt, LastToolOutput string // the last text of the user and of a tool's result in the request
	HasToolResult          bool   // the request brings the result of a tool that the preceding reply called
	// Tools are the names of the tools that are offered. Nested ones come after their parent, as "parent.name".
	Tools []string
	// Side: no tools are offered. That is how CLIs ask for a title, a topic or a route beside their main conversation;
	// a CLI whose tools were all taken away looks the same.
	Side    bool
	Session string // the CLI's word for the conversation; "" if it sends none
	Stream  bool   // the answer was asked for as server-sent events
	Path    string
	Header  http.Header // holds the key, as Body may
	Body    []byte

	schema  node // of JSON, that the answer's text is to satisfy
	offered []offer
}

// SmallTalk is a short text that says nothing; where the request wants JSON, the smallest value that its schema takes.
func (c Call) SmallTalk() string {
	if c.schema.v == nil {
		return "Small talk"
	}
	return inJSON(c.schema.example())
}

// node is a decoded JSON value. One that is absent holds nil, and has nothing in it.
type node struct{ v any }

func (n node) at(path ...string) node {
	for _, p := range path {
		m, _ := n.v.(object)
		n = node{m[p]}
	}
	return n
}

// first is the first of names that the object has.
func (n node) first(names ...string) string {
	for _, name := range names {
		if n.at(name).v != nil {
			return name
		}
	}
	return ""
}

func (n node) str() string {
	s, _ := n.v.(string)
	return s
}

func (n node) list() (list []node) {
	values, _ := n.v.([]any)
	for _, v := range values {
		list = append(list, node{v})
	}
	return list
}

// text is what a content says: a text, a list of blocks with texts, or an object that holds one of these.
func (n node) text() string {
	switch v := n.v.(type) {
	case string:
		return v
	case object:
		return n.at("content").text()
	}
	var texts []string
	for _, b := range n.list() {
		texts = append(texts, b.at("text").str())
	}
	return strings.Join(texts, "\n")
}

// is reports whether the type of a JSON Schema is kind, or may be. Gemini writes it in capitals.
func (n node) is(kind string) bool {
	return strings.Contains(strings.ToLower(inJSON(n.at("type").v)), `"`+kind+`"`)
}

// example is a value that the JSON Schema takes.
func (n node) example() any {
	switch enum := n.at("enum").list(); {
	case len(enum) > 0:
		return enum[0].v
	case n.is("boolean"):
		return false
	case n.is("number"), n.is("integer"):
		return 1
	case n.is("array"):
		return []any{}
	case n.is("object"):
		m := object{}
		for _, r := range n.at("required").list() {
			m[r.str()] = n.at("properties", r.str()).example()
		}
		return m
	}
	return "as the task asks"
}

// Outcome is how far an answer went.
type Outcome string

const (
	Told   Outcome = "told"   // the answer was sent to its end, with its usage
	Failed Outcome = "failed" // an error was sent, as the response or inside the stream
	Hung   Outcome = "hung"   // the server stopped answering and kept the connection open
	Cut    Outcome = "cut"    // the server closed the connection in the middle
	Left   Outcome = "left"   // the client went away before the end
)

// Record is one answered request. A request is on record before the last byte of its answer is sent, so whoever has
// read an answer finds it in Calls.
type Record struct {
	N       int
	API     API
	Path    string
	Model   string // that the reply named
	Session string // this, Side and Tools: see Call
	Side    bool
	Tools   []string
	Status  int // of HTTP; 0 if no headers were sent
	Outcome Outcome
	Usage   Usage  // what the answer reported when it was Told, else zero
	Error   string // why the reply is not the Script's, or the request was not understood
}

// Usage counts tokens in four disjoint kinds, as agent.Usage does: Input is neither read from nor written to a cache,
// Output includes Reasoning.
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

// meter derives usage. It remembers how many tokens the last request of each session held.
type meter map[string]int64

// measure is what the call and its answer cost: four bytes are a token, rounded up. The input is the body of the
// request; what the session's previous request held counts as read from the cache, and half of a session's first
// request as written to it. The output is the text, the thinking (as reasoning) and the arguments of the tools, at
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
