package agent

import (
	"time"

	"github.com/superloop/superloop/recovery/permit"
)

// Asker is an Adapter whose CLI can ask superloop before each use of a tool. If Request.Asked is not "", Command starts
// the CLI in the form in which it asks about every use of a tool and takes its prompt from the Client, Stream reads the
// output of that form, and Run holds the conversation.
type Asker interface {
	Adapter
	// Converse returns the client of the CLI's protocol for one run. It must not block.
	Converse(req Request, c Conversation) Client
}

// Conversation is what a Client works with. Its functions may be called from any goroutine, and none but Ask blocks.
type Conversation struct {
	Prompt string // what the agent is to do
	// Ask is called once for each request, in a goroutine of the Client's own; see permit.Ask. Hold is the longest time
	// that it takes. A deadline that the CLI has for answers must be later.
	Ask  permit.Ask
	Hold time.Duration
	// Send puts bytes on the CLI's standard input, whole and in the order of the calls. After the end of the run it does
	// nothing. Run itself closes the input when the Stream is Finished.
	Send func(data []byte)
	// Fail ends the run, because the CLI does not keep to the protocol: it ran a tool that it did not ask about, or its
	// output cannot be read. The first reason counts.
	Fail func(reason string)
}

// Client is superloop's side of the protocol of one CLI, in one run. The adapter's Stream reads the same output beside it,
// for what the run shows.
type Client interface {
	// Begin sends what begins the conversation.
	Begin()
	// Stdout takes the CLI's output in pieces of any size, from one goroutine. It keeps no reference to p and must not
	// block. Requests whose answer takes time are answered from goroutines of the Client's own.
	Stdout(p []byte)
	// End is called once, when the process has ended and all its output has been taken. It ends the contexts of all open
	// calls of Ask, and returns when they have returned.
	End()
}

// Askers returns the names of the adapters whose CLIs can be asked, in the order of Adapters.
func Askers() (names []string) {
	for _, a := range Adapters() {
		if _, ok := a.(Asker); ok {
			names = append(names, a.Name())
		}
	}
	return names
}
