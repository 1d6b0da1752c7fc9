package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/escalation/slack"
)

// resolve carries a click out: it answers the question that the message was
// about, and no other, in whichever loop of this repository asks it.
func (d *clickDesk) resolve(ctx context.Context, way string, c slack.Click) slack.Outcome {
	if !d.may(c.UserID) {
		return slack.Outcome{Status: slack.Refused, Text: "you may not answer any more"}
	}
	store, rec, err := d.question(c.ID)
	switch {
	case errors.Is(err, escalation.ErrNothingPending):
		return slack.Outcome{Status: slack.Unknown}
	case err != nil:
		return slack.Outcome{Status: slack.Failed, Text: err.Error()}
	case rec.Digest != c.Digest:
		return slack.Outcome{Status: slack.Outdated}
	case c.Action == slack.Details:
		o := slack.Outcome{Status: slack.Accepted, Text: escalation.Describe(rec, 0)}
		if rec.Lapsed(time.Now()) || rec.State != escalation.Pending {
			past := ended(rec)
			past.Text, o = o.Text, past
		}
		return o
	case rec.State != escalation.Pending:
		return ended(rec)
	}
	method := escalation.Reject
	if c.Action == slack.Approve {
		method = escalation.Approve
	}
	user := c.UserID
	if c.UserName != "" {
		user = fmt.Sprintf("%s (%s)", c.UserID, c.UserName)
	}
	answered, err := store.Answer(ctx, escalation.AnswerRequest{Method: method, ID: c.ID, Digest: c.Digest,
		By: escalation.By{Channel: escalation.Slack, User: user, Method: way}})
	if err == nil {
		return slack.Outcome{Status: slack.Accepted, Message: outcomeMessage(answered)}
	}
	return d.refused(c.ID, err)
}

// refused is why an answer does not count, for the person who clicked.
func (d *clickDesk) refused(id string, err error) slack.Outcome {
	var decided *escalation.DecidedError
	var other *escalation.MismatchError
	var late *escalation.ExpiredError
	o := slack.Outcome{Status: slack.Failed, Text: err.Error()}
	switch {
	case errors.As(err, &decided):
		o = slack.Outcome{Status: slack.AlreadyDecided, By: decided.First.By.String()}
	case errors.As(err, &late):
		o = slack.Outcome{Status: slack.Expired}
	case errors.As(err, &other):
		o = slack.Outcome{Status: slack.Outdated}
	case errors.Is(err, escalation.ErrNothingPending):
		o = slack.Outcome{Status: slack.Unknown}
	}
	if _, rec, err := d.question(id); err == nil && rec.Answer != nil {
		o.Message = outcomeMessage(rec)
	}
	return o
}

// ended is what there is to say of a question that waits no more.
func ended(rec escalation.Record) slack.Outcome {
	o := slack.Outcome{Status: slack.Outdated, Message: outcomeMessage(rec)}
	switch {
	case rec.Answer != nil:
		o.Status, o.By = slack.AlreadyDecided, rec.Answer.By.String()
	case rec.State == escalation.Expired || rec.Lapsed(time.Now()):
		o.Status = slack.Expired
	}
	return o
}

// question finds a question of this repository's loops by its whole id, with the store of its loop; one of before too.
// A record that cannot be believed hides no other loop's.
func (d *clickDesk) question(id string) (escalation.Store, escalation.Record, error) {
	ids, err := d.app.loopIDs(d.repo)
	if err != nil {
		return escalation.Store{}, escalation.Record{}, err
	}
	var damaged error
	var stores []escalation.Store
	for _, loopID := range ids {
		paths, err := d.app.paths(d.repo, loopID)
		if err != nil {
			return escalation.Store{}, escalation.Record{}, err
		}
		store := escalation.Store{Disk: d.app.disk, Dir: paths.Questions(), Loop: loopID}
		stores = append(stores, store)
		rec, err := store.Load()
		switch {
		case err == nil && rec.Question.ID == id:
			return store, rec, nil
		case err != nil && !errors.Is(err, escalation.ErrNothingPending):
			damaged = err
		}
	}
	for _, store := range stores {
		// What of the archive cannot be read is no answer to a click.
		records, _ := store.Archive()
		for _, rec := range records {
			if rec.Question.ID == id {
				return store, rec, nil
			}
		}
	}
	if damaged != nil {
		return escalation.Store{}, escalation.Record{}, damaged
	}
	return escalation.Store{}, escalation.Record{}, escalation.ErrNothingPending
}

// outcomeMessage takes the place of the message that was clicked.
func outcomeMessage(rec escalation.Record) *notify.Message {
	q := rec.Question
	m := notify.Message{ID: q.ID + "/clicked", Escalation: q.ID, Kind: notify.Resolved, Loop: q.Loop, Repo: q.Repo, Iteration: q.Iteration,
		Type: string(q.Type), Status: string(rec.State), Digest: rec.Digest, Created: q.Created}
	if q.Command != nil {
		m.Command, m.WorkingDir = string(q.Command.Text), q.Command.WorkingDir
	}
	if rec.State == escalation.Pending { // its time is over, and nobody has written that down yet
		m.Status = string(escalation.Expired)
	}
	if rec.Answer != nil {
		m.By, m.Note = rec.Answer.By.String(), rec.Answer.Note
	}
	return &m
}
