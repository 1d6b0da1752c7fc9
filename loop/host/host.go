// Package host is how an engine beyond this machine has the loops of this machine carried out: one request or answer a
// line, as JSON, over a pair of pipes. The process at the other end runs each loop by loop/local, so the journal, the
// policy, the sandbox and the verbs are those of a loop without an engine.
//
// The journal on the machine is the truth about its loop. An engine knows a prefix of it, asks for one effect at a time, and
// gets the events that it does not know. So an effect that was carried out while nobody could hear of it is not carried out
// again: the next request gets its events.
package host

import (
	"encoding/json"
	"time"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/roles/agent"
)

// MaxLine bounds a request or an answer, in bytes.
const MaxLine = 8 << 20

// Place names a loop of the machine.
type Place struct {
	Repo string `json:"repo"` // an absolute path
	Loop string `json:"loop"`
}

// Request is one line to the machine. Exactly one of its members besides ID is set.
type Request struct {
	ID    int64  `json:"id"` // unique among the requests without an answer
	Turn  *Turn  `json:"turn,omitempty"`
	Verb  *Verb  `json:"verb,omitempty"`
	Claim *Claim `json:"claim,omitempty"`
	Stop  int64  `json:"stop,omitempty"`  // the id of a turn that is to end; it has no answer of its own
	Grant string `json:"grant,omitempty"` // the id of a Slot: its role may begin; it has no answer of its own
}

// Turn asks for the outcome of an effect.
type Turn struct {
	Place
	// Start takes the loop up, as an operator does who types superloop run, and asks for its state.
	Start bool `json:"start,omitempty"`
	Fresh bool `json:"fresh,omitempty"` // of Start: from the beginning
	// Effect is the id of the effect that is due, as the engine knows the loop; "" if the loop has ended. If the journal has
	// gone on since, nothing is carried out.
	Effect string `json:"effect,omitempty"`
	Since  int64  `json:"since"`        // the number of the last event that the engine knows
	By     string `json:"by,omitempty"` // the operator who has started the loop
	// Leave carries nothing out: a loop that is bound to no machine is let go, for another one.
	Leave bool `json:"leave,omitempty"`
}

// Rest says why a loop rests after a turn.
type Rest string

// The values of Rest.
const (
	GoesOn Rest = ""       // it does not: an effect is due
	Waits  Rest = "waits"  // for a time, for an operator, or for a limit
	Paused Rest = "paused" // an operator has paused it
	Ended  Rest = "ended"
)

// Turned is the answer to a Turn.
type Turned struct {
	State *loop.State `json:"state,omitempty"` // of a Start; Seq is the number of its last event
	Seq   int64       `json:"seq,omitempty"`
	Lines []Line      `json:"lines,omitempty"` // the events after Since, in order
	More  bool        `json:"more,omitempty"`  // there are others
	Rest  Rest        `json:"rest,omitempty"`
	// Left is after which time a loop that waits has to be looked at again, at the latest. It is a duration because the clocks
	// of the machine and of the engine may differ.
	Left  time.Duration `json:"left,omitempty"`
	LetGo bool          `json:"let_go,omitempty"` // this machine has let the loop go, which is bound to none
}

// Line is an event as it travels.
type Line struct {
	loop.Line
	Fields json.RawMessage `json:"fields,omitempty"`
}

// Event returns the event as the machine reads it.
func (l Line) Event() loop.Line {
	l.Line.Fields = l.Fields
	return l.Line
}

// LinesOf makes events ready to travel.
func LinesOf(events []loop.Line) []Line {
	return loop.Map(events, func(l loop.Line) Line { return Line{l, l.Fields} })
}

// Verb carries out a verb of superloop, as By has typed it on the machine.
type Verb struct {
	Args []string `json:"args"`
	By   By       `json:"by"`
	Of   Place    `json:"of,omitzero"` // the loop
	// ID names what was decided, in hexadecimal digits: each try has the same. Again says that a try before may have been carried
	// out; if it was, nothing is done again, and that is no error.
	ID    string `json:"id,omitempty"`
	Again bool   `json:"again,omitempty"`
}

// By is the operator behind a verb, as the engine knows them.
type By struct {
	User   string `json:"user"`
	Method string `json:"method"` // how the engine knows them
}

// Answer is one line from the machine: the answer to the request with its ID, or news.
type Answer struct {
	ID      int64   `json:"id,omitempty"`
	Turned  *Turned `json:"turned,omitempty"`
	Claimed *Place  `json:"claimed,omitempty"` // where a claimed loop is on this machine
	Said    []byte  `json:"said,omitempty"`    // what a verb has printed
	Error   *Error  `json:"error,omitempty"`
	// Stirred is a loop that waited and has something to do now. The answer then belongs to no request.
	Stirred *Place `json:"stirred,omitempty"`
	// Wish is a loop that somebody wants to run, who has asked this machine. The answer then belongs to no request.
	Wish *Wish `json:"wish,omitempty"`
	// Slot is a role that is about to use an account, or does so no more. The answer then belongs to no request.
	Slot *Slot `json:"slot,omitempty"`
}

// Slot is the place of one role among those that use an account. The role begins when the engine grants it.
type Slot struct {
	ID      string        `json:"id"` // of this role; no other one has had it, on any machine
	Place   Place         `json:"place"`
	Account agent.Account `json:"account"`
	Left    bool          `json:"left,omitempty"` // the role has ended, or does not begin any more
}

// Wish asks the engine to begin a loop, or to go on with it.
type Wish struct {
	Place
	By    string `json:"by"`
	Fresh bool   `json:"fresh,omitempty"` // from the beginning
}

// Error says why a request failed.
type Error struct {
	Text string `json:"text"`
	Next string `json:"next,omitempty"` // the command to type next
	// Moved says that another machine has the loop.
	Moved bool `json:"moved,omitempty"`
	// Final says that the same request fails again until somebody changes something.
	Final bool `json:"final,omitempty"`
}

func (e *Error) Error() string {
	if e.Next == "" {
		return e.Text
	}
	return e.Text + " (type: " + e.Next + ")"
}
