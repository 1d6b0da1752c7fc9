package mockapi

import (
	"net/http"
	"strings"
)

// API names one of the model APIs.
type API string

const (
	Anthropic API = "anthropic" // the Messages API
	OpenAI    API = "openai"    // the Responses API
	Gemini    API = "gemini"    // the generateContent API
)

// Call is one model request as a Script gets it.
type Call struct {
	// N is the number of the model request on this server, from 1. Turn is the number of the model requests so far that
	// were no side requests.
	N, Turn                int
	API                    API
	Model                  string
	Prompt, LastToolOutput string // the last text of the user, and the last result of a tool, in the request
	HasToolResult          bool   // the request holds the result of a tool that the preceding reply called
	// Tools are the names of the tools that the request offers. Nested tools come after their parent, as "parent.name".
	Tools []string
	// Side reports whether the request offers no tools. CLIs send such side requests for a title, a topic or a route
	// besides their main conversation. The requests of a CLI without any tools look the same.
	Side    bool
	Session string // the CLI's id of the conversation; "" if the CLI sends none
	Stream  bool   // the client wants the answer as server-sent events
	Path    string
	Header  http.Header // holds the client's key, as Body may, too
	Body    []byte

	schema  node // the JSON Schema that the answer's text has to satisfy
	offered []offer
}

// SmallTalk returns a short meaningless text. If the request wants JSON, it returns a small value that satisfies the
// request's schema.
func (c Call) SmallTalk() string {
	if c.schema.v == nil {
		return "Small talk"
	}
	return inJSON(c.schema.example())
}

// node is a decoded JSON value. The node of an absent value holds nil and has no members.
type node struct{ v any }

func (n node) at(path ...string) node {
	for _, p := range path {
		m, _ := n.v.(object)
		n = node{m[p]}
	}
	return n
}

// first returns the first of names that the object has, or "".
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

// text returns the text of a content: a string, a list of blocks with texts, or an object that holds one of these.
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

// is reports whether kind is a type that the JSON Schema allows. Gemini writes the types in capitals.
func (n node) is(kind string) bool {
	return strings.Contains(strings.ToLower(inJSON(n.at("type").v)), `"`+kind+`"`)
}

// example returns a value that satisfies the JSON Schema.
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

// Outcome says how far the server sent an answer.
type Outcome string

const (
	Told   Outcome = "told"   // the server sent the whole answer, with its usage
	Failed Outcome = "failed" // the server sent an error, as the response or inside the stream
	Hung   Outcome = "hung"   // the server stopped answering and kept the connection open
	Cut    Outcome = "cut"    // the server closed the connection in the middle
	Left   Outcome = "left"   // the client closed the connection before the end
)

// Record describes one answered request. The server records a request before it sends the last byte of the answer, so a
// client that has read an answer finds the request in Calls.
type Record struct {
	N       int
	API     API
	Path    string
	Model   string // the model that the reply named
	Session string // Session, Side and Tools are those of the Call
	Side    bool
	Tools   []string
	Status  int // the HTTP status; 0 if the server sent no headers
	Outcome Outcome
	Usage   Usage  // the usage that the answer reported if its Outcome is Told, else zero
	Error   string // why the request or the script's reply was invalid
}

// Usage counts tokens like agent.Usage: Input, CacheRead, CacheWrite and Output are disjoint, and Output includes
// Reasoning.
type Usage struct {
	Input, CacheRead, CacheWrite, Output, Reasoning int64
}

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// Total returns the usage of all records whose Outcome is Told, and the number of these records.
func Total(records []Record) (u Usage, n int) {
	for _, r := range records {
		if r.Outcome == Told {
			u = u.Plus(r.Usage)
			n++
		}
	}
	return u, n
}

// prompt returns the tokens of the whole input, as OpenAI and Gemini count it.
func (u Usage) prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// as returns u in the kinds of tokens that the API reports.
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

// meter computes the usage of answers. It maps each session to the number of tokens in its last request.
type meter map[string]int64

// measure returns the usage of a call and its answer. Four bytes count as one token, rounded up. The input is the body
// of the request. The part of it that the session's previous request held counts as read from the cache. Half of a
// session's first request counts as written to the cache. The output is the text, the thinking (as reasoning) and the
// arguments of the tools, at least one token.
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
