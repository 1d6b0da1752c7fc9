package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
)

// Question is what a loop asks a person.
type Question struct {
	ID      string    `json:"id"`
	Digest  string    `json:"digest" doc:"binds an answer to what was shown"`
	LoopID  string    `json:"loop_id" doc:"the id of its loop in this API"`
	State   string    `json:"state"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	View    Event     `json:"question" doc:"escalation.json, as docs/escalation.md describes it"`
}

// Questions is what waits for a person.
type Questions struct {
	Escalations []Question `json:"escalations"`
}

type answerIn struct {
	EID  string `path:"eid" doc:"the id of a question" maxLength:"100"`
	Body struct {
		Method string `json:"method" enum:"approve,reject,manual"`
		Digest string `json:"digest" minLength:"8" doc:"that of the question that was shown"`
		Note   string `json:"note,omitempty" maxLength:"4096"`
	}
}

// questions registers the routes of questions to people.
func (a *api) questions(h huma.API) {
	huma.Get(h, "/api/v1/escalations", func(ctx context.Context, _ *struct{}) (*body[Questions], error) {
		out := &body[Questions]{Questions{Escalations: []Question{}}}
		err := a.pending(func(e entry, _ escalation.Store, q Question) bool {
			out.Body.Escalations = append(out.Body.Escalations, q)
			return true
		})
		return out, err
	})
	huma.Get(h, "/api/v1/escalations/{eid}", func(_ context.Context, in *struct {
		EID string `path:"eid"`
	}) (*body[Question], error) {
		var found *Question
		err := a.pending(func(_ entry, _ escalation.Store, q Question) bool {
			if q.ID == in.EID {
				found = &q
			}
			return found == nil
		})
		if err == nil && found == nil {
			err = problem(http.StatusNotFound, "not-waiting", "no loop waits for an answer to %q", in.EID)
		}
		if err != nil {
			return nil, err
		}
		return &body[Question]{*found}, nil
	})
	huma.Register(h, huma.Operation{OperationID: "answer", Method: http.MethodPost, Path: "/api/v1/escalations/{eid}/answer",
		Summary: "Answer a question: run the command, do not, or it was done by hand"}, a.answer)
}

// pending calls f for each question that waits, until f returns false.
func (a *api) pending(f func(e entry, store escalation.Store, q Question) bool) error {
	all, _ := a.store.All()
	for _, e := range all {
		p, err := server.Paths(a.store, e)
		if err != nil {
			continue
		}
		store := a.questionsOf(p, e.Loop)
		rec, err := store.Load()
		if err != nil || rec.State != escalation.Pending {
			continue
		}
		data, err := escalation.View(rec)
		if err != nil {
			return problem(http.StatusConflict, "unusable", "%v", err)
		}
		if !f(e, store, Question{ID: rec.Question.ID, Digest: rec.Digest, LoopID: e.ID(), State: string(rec.State), Created: rec.Question.Created, Expires: rec.Question.Expires, View: data}) {
			return nil
		}
	}
	return nil
}

func (a *api) questionsOf(p layout.Paths, id string) escalation.Store {
	return escalation.Store{Disk: a.o.Disk, Dir: p.Questions(), Loop: id}
}

func (a *api) answer(ctx context.Context, in *answerIn) (*body[Question], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	method := map[string]escalation.Method{"approve": escalation.Approve, "reject": escalation.Reject, "manual": escalation.Resolve}[in.Body.Method]
	var out *body[Question]
	var refused error
	err = a.pending(func(_ entry, store escalation.Store, q Question) bool {
		if q.ID != in.EID {
			return true
		}
		rec, aerr := store.Answer(ctx, escalation.AnswerRequest{Method: method, By: by, Note: in.Body.Note, ID: in.EID, Digest: in.Body.Digest})
		if aerr != nil {
			kind := "refused"
			if errors.Is(aerr, escalation.ErrNothingPending) {
				kind = "already-decided"
			} else if in.Body.Digest != q.Digest {
				kind = "stale-digest"
			}
			refused = problem(http.StatusConflict, kind, "%v", aerr)
			return false
		}
		q.State = string(rec.State)
		out = &body[Question]{q}
		return false
	})
	if refused != nil {
		return nil, refused
	}
	if err == nil && out == nil {
		err = problem(http.StatusNotFound, "not-waiting", "no loop waits for an answer to %q; it was decided, or never asked", in.EID)
	}
	return out, err
}
