package local

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/loop"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/recovery/cage"
)

// lookTime is for how long a cage is kept ready after a person has begun to look
// at a question.
const lookTime = time.Minute

// warmUp has a process ready that can become a recovery command: starting it is
// the longest part of the way from a proposal to its execution. Nothing else may
// run before it was used or let go of: the spawner has one command at a time.
func (d *driver) warmUp() {
	if d.warm != nil || d.preparation != nil || !d.state.Plan.Recovery {
		return
	}
	set := d.rules()[0].Settings
	if !set.Enabled {
		return
	}
	var err error
	if d.warm, err = cage.Start(d.spawner, cage.Ready{Network: cage.Network(set.NetworkOf("")), Grace: recoveryGrace, Marker: mark(d.state.RunID)}); err != nil {
		d.log.Debug("no cage is kept ready", zap.Error(err)) // a recovery will say what is wrong
	}
}

// coolDown lets go of a process that was not needed.
func (d *driver) coolDown() {
	d.warm.Close()
	d.warm = nil
}

// makeRoom lets go of all that was made ready, before something that has no use
// for it.
func (d *driver) makeRoom(next loop.EffectKind) {
	switch next {
	case loop.ExecuteRecovery:
	case loop.TakeProposal, loop.JudgeAttempt, loop.AskPerson:
		d.unprepare()
	default:
		d.unprepare()
		d.coolDown()
	}
}

// lookedAt warms up while a person looks at the question, and gives the time of
// the next look: at the latest next.
func (d *driver) lookedAt(next time.Time) time.Time {
	info, err := os.Lstat(filepath.Join(d.paths.Questions(), escalation.Looking))
	if err != nil || info.ModTime().Add(lookTime).Before(d.o.Now()) {
		d.coolDown()
		return next
	}
	d.warmUp()
	if end := info.ModTime().Add(lookTime + time.Second); end.Before(next) {
		return end
	}
	return next
}

// prepareApproved begins the preparation of what a person has approved, beside
// writing that down. What it stands on is looked at again before it begins.
func (d *driver) prepareApproved(ctx context.Context, rec escalation.Record) error {
	r := d.state.Recovery
	if rec.State != escalation.Approved || rec.Answer == nil || rec.Question.Command == nil || r == nil || d.preparation != nil || d.spawner == nil {
		return nil
	}
	next := *r
	if e := rec.Answer.Edit; e != nil {
		next.Attempt.Command, next.Attempt.Digest = string(e.Text), e.Digest
	}
	place, err := d.place(next.Attempt.WorkingDir)
	if err != nil {
		return nil // what comes next says what is wrong with it
	}
	d.preparation, err = d.prepare(&next, judged{place: place, policy: d.rules()[0]}, ms(next.Attempt.TimeoutMS))
	return err
}
