package local

import (
	"context"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
)

// awaitAnswer waits for the answer to an escalation, which costs nothing.
func (d *driver) awaitAnswer(shutdown context.Context) (loop.Fact, error) {
	if err := d.watchAnswers(); err != nil {
		return nil, err
	}
	in, wish := d.kick()
	mended := &effects.Mended{By: in.By, Note: in.Note, IntentID: in.ID}
	switch {
	case wish:
	case d.restarted:
		// Who starts a loop again whose login was missing has mended it, or wants to
		// know, and asking the provider costs nothing when it still refuses.
		mended = &effects.Mended{By: "superloop run"}
	default:
		mended = nil
	}
	d.restarted = false
	fact, next, err := d.approvals.Answer(shutdown, d.state, mended)
	if wish && fact != nil {
		d.intents[in.ID] = true
	}
	if err != nil || fact != nil {
		return fact, err
	}
	if err := d.flushViews(); err != nil {
		return nil, err
	}
	timer := time.NewTimer(next.Sub(d.o.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.answered:
	case <-d.outbox.News():
	case <-d.look:
	case <-d.newConfig:
	case <-shutdown.Done():
	}
	return nil, nil
}

// watchAnswers has answers wake the loop.
func (d *driver) watchAnswers() error {
	if d.answered == nil {
		if err := d.o.Disk.MkdirAll("dirs", d.paths.Questions(), 0o700); err != nil {
			return d.host.Full(err)
		}
		d.answered = d.watches.Dir(d.life, d.paths.Questions(), func(path string) bool { return filepath.Base(path) == escalation.File })
	}
	return nil
}
