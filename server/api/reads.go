package api

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/slots"
	"github.com/superloop/superloop/server/tasks"
)

// Event is an event of a journal, as its line has it.
type Event json.RawMessage

// MarshalJSON returns the line.
func (e Event) MarshalJSON() ([]byte, error) { return json.RawMessage(e).MarshalJSON() }

// UnmarshalJSON keeps the line.
func (e *Event) UnmarshalJSON(line []byte) error {
	*e = slices.Clone(line)
	return nil
}

// Schema says that an event is an object: docs/events.md describes each.
func (Event) Schema(r huma.Registry) *huma.Schema {
	r.Map()["Event"] = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Description: "an event of events.jsonl, see docs/events.md"}
	return &huma.Schema{Ref: "#/components/schemas/Event"}
}

func eventOf(ev journal.Event) (Event, error) {
	line, err := journal.AppendLine(nil, ev)
	return Event(line[:max(len(line)-1, 0)]), err
}

// Page is how a list is cut.
type Page struct {
	Cursor string `query:"cursor" doc:"the next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// LoopPath is the loop in a path.
type LoopPath struct {
	ID string `path:"id" doc:"the id of a loop" maxLength:"300"`
}

type body[T any] struct{ Body T }

// maxEventWait bounds how long a request for events waits for the next one, in seconds.
const maxEventWait = 60

// reads registers the routes that change nothing.
func (a *api) reads(h huma.API) {
	huma.Get(h, "/healthz", func(context.Context, *struct{}) (*body[Health], error) {
		return &body[Health]{Health{a.o.Version}}, nil
	})
	huma.Get(h, "/readyz", func(context.Context, *struct{}) (*struct{}, error) {
		if _, errs := a.store.All(); len(errs) > 0 {
			return nil, problem(http.StatusServiceUnavailable, "registry", "%v", errors.Join(errs...))
		}
		return nil, nil
	})
	huma.Get(h, "/api/v1/loops", a.listLoops)
	huma.Get(h, "/api/v1/loops/{id}", func(_ context.Context, in *LoopPath) (*body[server.Row], error) {
		e, _, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		return a.row(e), nil
	})
	huma.Get(h, "/api/v1/queue", a.queue)
	huma.Get(h, "/api/v1/loops/{id}/events", a.events)
	huma.Get(h, "/api/v1/loops/{id}/verify", func(_ context.Context, in *LoopPath) (*body[Verified], error) {
		_, p, err := a.find(in.ID)
		if err != nil {
			return nil, err
		}
		rep, err := journal.Verify(p.Events())
		if err == nil && rep.FirstBad == nil {
			err = journal.CheckHead(p.Events(), p.Head())
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, problem(http.StatusConflict, "not-run-yet", "the loop has not run yet")
		case err != nil:
			return &body[Verified]{Verified{Events: rep.Events, Why: err.Error()}}, nil
		case rep.FirstBad != nil:
			return &body[Verified]{Verified{Events: rep.Events, Why: rep.FirstBad.Error()}}, nil
		}
		return &body[Verified]{Verified{Whole: true, Events: rep.Events}}, nil
	})
	sse.Register(h, huma.Operation{Method: http.MethodGet, Path: "/api/v1/loops/{id}/events/stream"},
		map[string]any{"message": Event{}, "problem": Trouble{}}, a.stream)
}

// Health says that the daemon answers.
type Health struct {
	Version string `json:"version"`
}

// Verified says whether the chain of a journal is whole.
type Verified struct {
	Whole  bool   `json:"whole"`
	Events int64  `json:"events" doc:"the number of events that were read"`
	Why    string `json:"why,omitempty" doc:"where it is not whole"`
}

// Trouble ends a stream.
type Trouble struct {
	Detail string `json:"detail"`
}

type loopsIn struct {
	Page
	OnMachine
	Repo   string `query:"repo" doc:"only the loops of this repository"`
	Status string `query:"status" doc:"only loops with this status"`
	Label  string `query:"label" doc:"only loops with this label"`
	Q      string `query:"q" doc:"only loops whose id or repository contains this"`
}

// Loops is a page of loops.
type Loops struct {
	Loops      []server.Row `json:"loops" nullable:"false"`
	NextCursor string       `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

func (a *api) listLoops(_ context.Context, in *loopsIn) (*body[Loops], error) {
	all, _ := a.store.All()
	v, _ := server.ReadView(a.o.State)
	out := &body[Loops]{Loops{Loops: []server.Row{}}}
	slices.SortFunc(all, func(x, y entry) int { return strings.Compare(x.ID(), y.ID()) })
	for _, e := range all {
		if e.ID() <= in.Cursor || in.Machine != "" && in.Machine != e.Machine() || in.Repo != "" && e.Repo != in.Repo || in.Label != "" && !slices.Contains(e.Labels, in.Label) ||
			!strings.Contains(e.Name(), in.Q) {
			continue
		}
		l := server.RowOf(a.store, e, v)
		if in.Status != "" && string(l.Status) != in.Status {
			continue
		}
		if len(out.Body.Loops) == in.Limit {
			out.Body.NextCursor = out.Body.Loops[in.Limit-1].ID
			break
		}
		out.Body.Loops = append(out.Body.Loops, l)
	}
	return out, nil
}

// Queue is who waits for a place.
type Queue struct {
	Limits slots.Limits `json:"limits" doc:"0 is no bound"`
	Loops  []server.Row `json:"loops" nullable:"false" doc:"in the order in which they are served if all need the same places"`
	// Trackers are those of which the daemon makes loops.
	Trackers []tasks.Status `json:"trackers" nullable:"false" doc:"what is known of the trackers of whose items the daemon makes loops"`
}

func (a *api) queue(context.Context, *struct{}) (*body[Queue], error) {
	v, err := server.ReadView(a.o.State)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, "no-view", "%v", err)
	}
	all, _ := a.store.All()
	out := &body[Queue]{Queue{Limits: v.Limits, Loops: []server.Row{}, Trackers: []tasks.Status{}}}
	known := tasks.Store{Loops: a.store}
	watched, _ := known.All() // superloop queue says what is wrong with a file
	for _, w := range watched {
		st, _ := known.Status(w) // without one nobody has looked yet
		if st.Items == nil {
			st.Items = []tasks.Row{}
		}
		out.Body.Trackers = append(out.Body.Trackers, st)
	}
	for _, e := range all {
		if l := server.RowOf(a.store, e, v); l.Phase == "queued" {
			out.Body.Loops = append(out.Body.Loops, l)
		}
	}
	slices.SortStableFunc(out.Body.Loops, func(x, y server.Row) int { return x.Ahead - y.Ahead })
	return out, nil
}

type eventsIn struct {
	LoopPath
	After int64 `query:"after" minimum:"0" doc:"only events with a higher number"`
	EventChoice
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Wait  int `query:"wait" minimum:"0" maximum:"60" doc:"wait so many seconds for an event, if there is none"`
}

// Events is a page of events.
type Events struct {
	Events []Event `json:"events" nullable:"false"`
	After  int64   `json:"after" doc:"the number to continue with"`
}

func (a *api) events(ctx context.Context, in *eventsIn) (*body[Events], error) {
	_, p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	out := &body[Events]{Events{Events: []Event{}, After: in.After}}
	take := func(ev journal.Event) error {
		out.Body.After = ev.Seq
		if !in.has(ev) {
			return nil
		}
		line, err := eventOf(ev)
		if err != nil {
			return err
		}
		if out.Body.Events = append(out.Body.Events, line); len(out.Body.Events) == in.Limit {
			return journal.ErrStop
		}
		return nil
	}
	err = journal.Read(p.Events(), in.After+1, take)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil && len(out.Body.Events) == 0 && in.Wait > 0 {
		in.Limit = 1
		ctx, stop := context.WithTimeout(ctx, time.Duration(min(in.Wait, maxEventWait))*time.Second)
		defer stop()
		if err = journal.Follow(ctx, p.Events(), out.Body.After+1, take); ctx.Err() != nil {
			err = nil
		}
	}
	if err != nil {
		return nil, problem(http.StatusConflict, "unreadable-journal", "%v", err)
	}
	return out, nil
}

// RoleChoice chooses events by who has worked.
type RoleChoice struct {
	Role   string `query:"role" maxLength:"100" doc:"only events of this role"`
	Runner string `query:"runner" maxLength:"200" doc:"only events of this runner"`
	Model  string `query:"model" maxLength:"200" doc:"only events of this model"`
}

func (c RoleChoice) has(ev journal.Event) bool {
	if (c == RoleChoice{}) {
		return true
	}
	var of struct {
		Role   string `json:"role"`
		Runner string `json:"runner"`
		Model  string `json:"model"`
	}
	_ = text.Decode(ev.Fields, &of) // what is no text stays empty
	return (c.Role == "" || of.Role == c.Role) && (c.Runner == "" || of.Runner == c.Runner) && (c.Model == "" || of.Model == c.Model)
}

// EventChoice says which events a list has.
type EventChoice struct {
	Event string    `query:"event" maxLength:"100" doc:"only events whose name matches this pattern, such as role_*"`
	From  time.Time `query:"from" doc:"only events of this time or later (RFC 3339)"`
	To    time.Time `query:"to" doc:"only events before this time"`
	RoleChoice
}

func (c EventChoice) check() error {
	if _, err := path.Match(c.Event, ""); err != nil {
		return problem(http.StatusUnprocessableEntity, "bad-pattern", "event=%q is no pattern", c.Event)
	}
	return nil
}

func (c EventChoice) has(ev journal.Event) bool {
	ok, _ := path.Match(c.Event, ev.Event) // check has looked at the pattern
	return (ok || c.Event == "") && !ev.Timestamp.Before(c.From) && (c.To.IsZero() || ev.Timestamp.Before(c.To)) && c.RoleChoice.has(ev)
}

type streamIn struct {
	LoopPath
	After int64 `query:"after" minimum:"0" doc:"only events with a higher number"`
	Last  int64 `header:"Last-Event-ID" minimum:"0" doc:"sent by a client that comes back; counts before after"`
}

func (a *api) stream(ctx context.Context, in *streamIn, send sse.Sender) {
	_, p, err := a.find(in.ID)
	if err == nil {
		err = journal.Follow(ctx, p.Events(), max(in.After, in.Last)+1, func(ev journal.Event) error {
			line, err := eventOf(ev)
			if err != nil {
				return err
			}
			return send(sse.Message{ID: int(ev.Seq), Data: line})
		})
	}
	if err != nil && ctx.Err() == nil {
		_ = send.Data(Trouble{err.Error()})
	}
}
