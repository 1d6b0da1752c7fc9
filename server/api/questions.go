package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
)

// Questions is a page of questions to people.
type Questions struct {
	Escalations []Question `json:"escalations" nullable:"false"`
	NextCursor  string     `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

type answerIn struct {
	EID  string `path:"eid" doc:"the id of a question" maxLength:"100"`
	Body answer
}

// answer is an answer to a question.
type answer struct {
	Method   string `json:"method" enum:"approve,reject,manual,edit,choose" doc:"run the command, or go on as proposed; do not; it was done by hand; run another command; run that of an option"`
	Digest   string `json:"digest" minLength:"8" maxLength:"64" doc:"that of the question that was shown"`
	Option   string `json:"option,omitempty" maxLength:"256" doc:"with choose: the id of an option"`
	Command  string `json:"command,omitempty" maxLength:"65536" doc:"with edit: the command to run instead"`
	Remember bool   `json:"remember,omitempty" doc:"with approve or edit: from now on the command runs without a person"`
	Note     string `json:"note,omitempty" maxLength:"4096" doc:"why; the next planner reads it"`
}

type questionsIn struct {
	Page
	OnMachine
	State string `query:"state" enum:"pending,answered,all" default:"pending" doc:"answered: an answer was given; all: also those that expired or were superseded. Of each loop the last hundred are kept"`
	Loop  string `query:"loop" maxLength:"300" doc:"only those of the loop with this id"`
}

// questions registers the routes of questions to people.
func (a *api) questions(h huma.API) {
	huma.Get(h, "/api/v1/escalations", a.listQuestions)
	huma.Get(h, "/api/v1/escalations/{eid}", func(_ context.Context, in *struct {
		EID string `path:"eid" doc:"the id of a question" maxLength:"100"`
	}) (*body[Question], error) {
		q, err := a.question(in.EID)
		if err != nil {
			return nil, err
		}
		return q.show()
	})
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/escalations/{eid}/answer"}, a.answer)
}

// asked is a question with its loop.
type asked struct {
	e   entry
	p   layout.Paths
	rec escalation.Record
}

// cursor orders questions: the oldest first.
func (q asked) cursor() string {
	return q.rec.Question.Created.UTC().Format("20060102T150405.000") + "-" + q.rec.Question.ID
}

// every calls f for each question of a loop: with earlier also for those that the archive keeps, the oldest first.
func (a *api) every(e entry, earlier bool, f func(asked)) {
	p, err := server.Paths(a.store, e)
	if err != nil {
		return // the repository is gone, and its loop asks nothing
	}
	store := a.questionsOf(p, e.Loop)
	now, err := store.Load()
	if earlier {
		old, _ := store.Archive() // a damaged record holds no question
		for _, rec := range old {
			if rec.Question.ID != now.Question.ID {
				f(asked{e, p, rec})
			}
		}
	}
	if err == nil {
		f(asked{e, p, now})
	}
}

func (a *api) questionsOf(p layout.Paths, id string) escalation.Store {
	return escalation.Store{Disk: a.o.Disk, Dir: p.Questions(), Loop: id}
}

func (a *api) listQuestions(_ context.Context, in *questionsIn) (*body[Questions], error) {
	all, _ := a.store.All()
	var found []asked
	for _, e := range all {
		if in.Loop != "" && e.ID() != in.Loop || in.Machine != "" && in.Machine != e.Machine() {
			continue
		}
		a.every(e, in.State != "pending", func(q asked) {
			if in.State == "all" || (in.State == "pending") == (q.rec.State == escalation.Pending) && (in.State == "pending" || q.rec.Answer != nil) {
				found = append(found, q)
			}
		})
	}
	slices.SortFunc(found, func(x, y asked) int { return strings.Compare(x.cursor(), y.cursor()) })
	list, next := cut(found, in.Page, asked.cursor)
	out := Questions{Escalations: []Question{}, NextCursor: next}
	for _, q := range list {
		shown, err := q.show()
		if err != nil {
			return nil, err
		}
		out.Escalations = append(out.Escalations, shown.Body)
	}
	return &body[Questions]{out}, nil
}

// question returns the question with an id, whatever its state.
func (a *api) question(id string) (found asked, err error) {
	all, _ := a.store.All()
	for _, earlier := range []bool{false, true} { // most often it is one that waits
		for _, e := range all {
			a.every(e, earlier, func(q asked) {
				if q.rec.Question.ID == id {
					found = q
				}
			})
			if found.rec.Question.ID != "" {
				return found, nil
			}
		}
	}
	return found, problem(http.StatusNotFound, "not-found", "there is no question %q", id)
}

func (a *api) answer(ctx context.Context, in *answerIn) (*body[Question], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	q, err := a.question(in.EID)
	if err != nil {
		return nil, err
	}
	return a.give(ctx, q, by, in.Body)
}

// give answers a question by the verb that does so.
func (a *api) give(ctx context.Context, q asked, by escalation.By, in answer) (*body[Question], error) {
	if !strings.HasPrefix(q.rec.Digest, in.Digest) {
		return nil, problem(http.StatusConflict, "stale-digest", "the question %.8s has the digest %.16s, not %.16s; look at it before you answer", q.rec.Question.ID, q.rec.Digest, in.Digest)
	}
	bad := ""
	switch {
	case (in.Method == "choose") != (in.Option != ""):
		bad = "option goes with choose, and choose with option"
	case (in.Method == "edit") != (in.Command != ""):
		bad = "command goes with edit, and edit with command"
	case in.Remember && in.Method != "approve" && in.Method != "edit":
		bad = "remember goes with approve or edit"
	case strings.HasPrefix(in.Option, "-"):
		bad = "no option has such an id"
	}
	if bad != "" {
		return nil, problem(http.StatusUnprocessableEntity, "bad-answer", "%s", bad)
	}
	rec := q.rec
	if rec.State != escalation.Pending {
		return nil, decided(rec)
	}
	if err := a.dangerous(ctx, rec, in); err != nil {
		return nil, err
	}
	flags := []string{"--note=" + in.Note, "--by=" + by.User}
	id := []string{"--id=" + rec.Question.ID, "--digest=" + rec.Digest}
	var args []string
	switch in.Method {
	case "choose": // the verb takes the whole id, which has one digest
		args = append(append(of(q.e, "chain", "choose"), flags...), rec.Question.ID, in.Option)
	case "reject":
		args = append(append(of(q.e, "reject-recovery"), flags...), id...)
	case "manual":
		args = append(append(of(q.e, "resolve-recovery"), flags...), id...)
	default:
		args = append(append(of(q.e, "approve-recovery"), flags...), id...)
		if in.Command != "" {
			args = append(args, "--edit="+in.Command)
		}
		if in.Remember {
			args = append(args, "--remember")
		}
	}
	if _, err := say[Object](ctx, a, VerbCall{By: by, Args: args}); err != nil {
		return nil, err
	}
	now, err := a.question(rec.Question.ID)
	if err != nil {
		return nil, err
	}
	return now.show()
}

// dangerous lets a person confirm an answer that runs another command than was asked about, or that lets one run by itself
// from now on.
func (a *api) dangerous(ctx context.Context, rec escalation.Record, in answer) error {
	command := in.Command
	if command == "" && rec.Question.Command != nil {
		command = string(rec.Question.Command.Text)
	}
	switch {
	case in.Remember:
		return a.stepUp(ctx, "run this command of loop "+rec.Question.Loop+" now, and from now on without asking: "+command)
	case in.Method == "edit":
		return a.stepUp(ctx, "run this command of yours, once, for loop "+rec.Question.Loop+": "+command)
	}
	return nil
}

// decided returns the problem of an answer that comes after the decision.
func decided(rec escalation.Record) error {
	switch {
	case rec.Answer != nil:
		return problem(http.StatusConflict, "already-decided", "%v", &escalation.DecidedError{ID: rec.Question.ID, First: *rec.Answer, State: rec.State})
	case rec.State == escalation.Expired:
		return problem(http.StatusConflict, "expired", "%v", &escalation.ExpiredError{ID: rec.Question.ID, Expires: rec.Question.Expires})
	}
	return problem(http.StatusConflict, "not-waiting", "the question %.8s is %s: %s", rec.Question.ID, rec.State, rec.Why)
}

// timeOf is nil for the zero time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
