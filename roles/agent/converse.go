package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// Asker is an Adapter whose CLI can ask superloop before each use of a tool. If Request.Asked is not "", Command starts
// the CLI in the form in which it asks about every use of a tool and takes its prompt from the Client, Stream reads the
// output of that form, and Run holds the conversation.
type Asker interface {
	Adapter
	// Converse returns the client of the CLI's protocol for one run. It must not block.
	Converse(req Request, c Conversation) Client
}

// speaker is an Asker that superloop drives by its protocol only, also if it is not to ask. Nobody is asked then: the
// Client answers the CLI's own questions as Request.Permissions says.
type speaker interface {
	Asker
	speaks()
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

// maxPrompt is the longest prompt that goes over standard input, in bytes.
const maxPrompt = 32 << 20

type endKey struct{}

// WithEnd returns a context for a request whose run EndRun ends by calling end. Run makes the contexts of its requests by it.
func WithEnd(ctx context.Context, end func(reason string)) context.Context {
	return context.WithValue(ctx, endKey{}, end)
}

// EndRun ends the run whose request ctx is of, because the agent does not give in. It does nothing for another context.
func EndRun(ctx context.Context, reason string) {
	if end, ok := ctx.Value(endKey{}).(func(string)); ok {
		end(reason)
	}
}

// talk is the conversation of one run. A nil talk is that of a run without one.
type talk struct {
	client Client
	input  *inbox
	pause  *proc.Pause

	mu     sync.Mutex
	class  class.Class
	reason string // why the run was ended; "" if it was not
}

// converse prepares the conversation of a run if the request wants one, and puts its input into spec.
func converse(a Adapter, req Request, o Options, spec *proc.Spec, cut context.CancelCauseFunc) (*talk, error) {
	asker, ok := a.(Asker)
	if _, speaks := a.(speaker); req.Asked == "" {
		if !speaks {
			return nil, nil
		}
		o.Ask = func(context.Context, permit.Request) permit.Answer { return permit.Answer{Decision: permit.Leave} }
	}
	switch {
	case !ok:
		return nil, fmt.Errorf("superloop cannot be asked by %s about its tools, only by %s: set permissions.mode to off, or use another runner", a.Name(), strings.Join(Askers(), ", "))
	case o.Ask == nil:
		return nil, errors.New("nobody answers what the agent asks for")
	}
	prompt, size, err := door.Ends(req.PromptPath, maxPrompt, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the prompt: %w", err)
	}
	if size > maxPrompt {
		return nil, tooLong("the prompt", size)
	}
	t := &talk{input: newInbox(), pause: &proc.Pause{}}
	fail := func(c class.Class, why, reason string) {
		t.mu.Lock()
		if t.reason == "" {
			t.class, t.reason = c, reason
		}
		t.mu.Unlock()
		cut(cutError(why))
	}
	end := func(reason string) { fail(class.Permission, CutRefused, reason) }
	t.client = asker.Converse(req, Conversation{Prompt: prompt, Hold: o.Hold, Send: t.input.send,
		Fail: func(reason string) { fail(class.Config, CutUnasked, reason) },
		Ask: func(ctx context.Context, r permit.Request) permit.Answer {
			if t.over() { // no answer helps the agent on while it is ended: each would be another request to its model
				<-ctx.Done()
				return permit.Answer{Decision: permit.Deny, Message: "superloop: the run is over"}
			}
			defer t.pause.Hold()()
			return o.Ask(WithEnd(ctx, end), r)
		}})
	spec.Input, spec.Pause = t.input, t.pause
	spec.HeadTail = 0 // what the CLI prints is the protocol, never the agent's message
	t.client.Begin()
	return t, nil
}

func (t *talk) stdout(p []byte) {
	if t != nil {
		t.client.Stdout(p)
	}
}

// hangUp ends the CLI's input: the turn is over.
func (t *talk) hangUp() {
	if t != nil {
		t.input.close()
	}
}

// over reports whether the conversation has ended the run.
func (t *talk) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason != ""
}

// end ends the conversation. The process has ended.
func (t *talk) end(spec *proc.Spec) time.Duration {
	if t == nil {
		return 0
	}
	t.client.End()
	t.input.close()
	return spec.Pause.Held()
}

// judge makes the reason for which the conversation ended the run the failure of the run.
func (t *talk) judge(res *Result) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason != "" {
		res.Structured, res.Done, res.Class, res.ErrorText = true, false, t.class, errorText(t.reason)
	}
}

// inbox is what the CLI is still to read: an unbounded queue of bytes with one reader.
type inbox struct {
	mu     sync.Mutex
	more   sync.Cond
	wait   bytes.Buffer
	closed bool
}

func newInbox() *inbox {
	q := &inbox{}
	q.more.L = &q.mu
	return q
}

func (q *inbox) send(data []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.wait.Write(data)
		q.more.Signal()
	}
}

func (q *inbox) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Signal()
}

// Read blocks until there is something to read. What was sent before close is read before io.EOF.
func (q *inbox) Read(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.wait.Len() == 0 {
		if q.closed {
			return 0, io.EOF
		}
		q.more.Wait()
	}
	return q.wait.Read(p)
}

const (
	maxWire   = 64 << 20 // bounds a line of a protocol, in bytes; it is more than any request of a CLI needs
	maxMemory = 64 << 10 // bounds what is taken of a file with instructions for agents, in bytes
)

// wireLines cuts what a CLI prints into the lines of its protocol. The zero value is ready.
type wireLines struct {
	line []byte // the present line, as far as it has come
	lost bool   // the rest of the present line is dropped
}

// cut calls each for every line that p completes, without its line break; the line is valid during the call only. A line
// of more than maxWire bytes is dropped, and tooLong called instead.
func (w *wireLines) cut(p []byte, each func(line []byte), tooLong func()) {
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if !w.lost && len(w.line)+len(piece) > maxWire {
			w.lost, w.line = true, nil
			tooLong()
		}
		if !w.lost {
			w.line = append(w.line, piece...)
		}
		if !whole {
			return
		}
		if !w.lost {
			each(w.line)
		}
		w.line, w.lost = w.line[:0], false
		if cap(w.line) > 1<<20 {
			w.line = nil
		}
	}
}

// remembered puts the repository's instructions for agents in front of the prompt: a CLI that reads no settings of the
// repository does not read them either.
func remembered(req Request, file, prompt string) string {
	memory, _, err := door.Ends(filepath.Join(req.WorkDir, file), maxMemory, 0)
	if err != nil || memory == "" {
		return prompt
	}
	return file + " of this repository says:\n\n" + memory + "\n\n" + prompt
}
