package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/demo"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// demoAnswerer is the name under which --auto-answer answers: no person's.
const demoAnswerer = "demo"

// demoDesk sees to it that the demo's question is answered: it says what a person
// can type, or answers by itself.
type demoDesk struct {
	render.Progress
	app      *app
	ctx      context.Context // of the demo: what answers ends with it
	talk     func(text string)
	dir, exe string
	auto     bool
	running  sync.WaitGroup
}

// Event implements local.Observer.
func (d *demoDesk) Event(ev journal.Event, s loop.State) {
	d.Progress.Event(ev, s)
	if ev.Event != "recovery_escalated" {
		return
	}
	if !d.auto {
		d.talk(d.typed())
		return
	}
	var asked struct {
		ID string `json:"escalation_id"`
	}
	if err := json.Unmarshal(ev.Fields, &asked); err != nil {
		d.talk("The demo cannot read its own question: " + err.Error() + "\n" + d.typed())
		return
	}
	d.running.Go(func() {
		if err := d.answer(asked.ID); err != nil && d.ctx.Err() == nil {
			d.talk("\nThe demo could not answer: " + render.Clean(err.Error()) + "\n" + d.typed())
		}
	})
}

// wait returns when nothing answers any more.
func (d *demoDesk) wait() { d.running.Wait() }

// answer shows the question and approves it: in the same way, and by the same
// record, as a person's process would.
func (d *demoDesk) answer(id string) error {
	paths, err := d.app.paths(d.dir, demo.LoopID)
	if err != nil {
		return err
	}
	store := escalation.Store{Disk: d.app.disk, Dir: paths.Questions(), Loop: demo.LoopID}
	rec, err := opened(d.ctx, store, id)
	if err != nil {
		return err
	}
	if rec.Question.Command == nil || string(rec.Question.Command.Text) != demo.Remedy {
		return errors.New("this is not the question that the demo is about; a person has to answer it")
	}
	d.talk(fmt.Sprintf("\n%s\n--auto-answer: no person answers this. The demo approves it under the name %q, as a person would with\n  %s\n\n",
		escalation.Describe(rec, 0), demoAnswerer, rec.Actions().Approve))
	uid := os.Getuid()
	_, err = store.Answer(d.ctx, escalation.AnswerRequest{Method: escalation.Approve, ID: id, Digest: rec.Digest, Note: "demo --auto-answer",
		By: escalation.By{Channel: escalation.CLI, UID: &uid, User: demoAnswerer, Method: "process"}})
	return err
}

// opened waits until the question with this id is there: the loop notes its id
// down before it asks.
func opened(ctx context.Context, store escalation.Store, id string) (escalation.Record, error) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		rec, err := store.Load()
		if err == nil && rec.Question.ID == id {
			return rec, nil
		}
		if err != nil && !errors.Is(err, escalation.ErrNothingPending) {
			return rec, err
		}
		select {
		case <-ctx.Done():
			return rec, ctx.Err()
		case <-look.C:
		}
	}
}

// typed is how the demo's question is answered from another terminal. The
// program may have no place on PATH, and does while it waits.
func (d *demoDesk) typed() string {
	self := "superloop"
	if _, err := lookPath(d.app.env)(self); err != nil {
		self = text.Paste(d.exe)
	}
	dir := text.Paste(d.dir)
	flags := fmt.Sprintf("--repo %s --loop %s", dir, demo.LoopID)
	return fmt.Sprintf(`
The loop waits for you, and costs nothing while it does. Type one of these in a second terminal:

  %[1]s approve-recovery %[2]s
      shows what would run and why you are asked, asks once more, and lets it run, once

  %[1]s reject-recovery %[2]s --note 'not now'
      goes on without it; nothing else mends this repository, so the loop will get stuck

  cd %[3]s && %[4]s
  %[1]s resolve-recovery %[2]s --note 'installed again'
      you mend it yourself, and say so

Ctrl-C leaves and keeps the question; %[1]s run --repo %[3]s goes on.

`, self, flags, dir, demo.Remedy)
}
