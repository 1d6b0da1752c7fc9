package local

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
)

// written is the time after which the system has certainly written to the disk what an agent wrote to a file.
const written = 15 * time.Minute

// heal makes a repository usable that a power cut has damaged. After an end that superloop did not record it looks at
// all that may be damaged, and otherwise only at HEAD and the index. The event follows with tellHealed.
func (d *driver) heal(ctx context.Context, repo *worktree.Repo) error {
	s := d.state
	a := worktree.Accident{Unclean: s.Version != 0 && !s.Status.Ended() && s.Status != loop.Paused, Now: d.o.Now(), Commit: d.commits.Last()}
	if !s.UpdatedAt.IsZero() {
		a.Since = s.UpdatedAt.Add(-written)
	}
	healed, err := repo.Heal(ctx, a)
	d.noteHealed(healed)
	if err != nil && s.Version != 0 { // the run ends here
		err = errors.Join(err, d.tellHealed())
	}
	return err
}

// cause returns what an operator has to mend, if err follows from it: the repository or the journal is no longer where it
// was. It pauses the loop, if that can still be recorded. The next run performs the effect again.
func (d *driver) cause(err error) error {
	if err == nil {
		return nil
	}
	if lost := d.repo.Lost(); lost != nil {
		if d.state.Version != 0 && !d.state.Status.Ended() {
			d.host.Warn("the loop could not be paused", d.step(loop.Stopped{Status: loop.Paused, Reason: lost.Error()}))
		}
		return lost
	}
	if !exists(d.paths.Events()) {
		return &durable.ChangedError{Path: d.paths.Events(), Why: "it was deleted or replaced"}
	}
	return err
}

// sameRepository returns a *worktree.LostError unless the work tree belongs to the repository with which the loop began.
// A fresh loop takes the repository as it is.
func (d *driver) sameRepository(fresh bool) error {
	was, err := door.Read(d.paths.Repository(), maxPlace)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &door.StateError{What: "with which repository the loop began", Path: d.paths.Repository(), Err: err, Without: "the loop takes the repository as it is"}
	}
	if err == nil && !fresh {
		if lost := d.repo.LostSince(string(was)); lost != nil {
			lost.Fix += "; superloop run --fresh takes the repository as it is"
			return lost
		}
		return nil
	}
	return d.host.Full(d.o.Disk.WriteFile("repository", d.paths.Repository(), []byte(d.repo.Place()), 0o600))
}

// maxPlace bounds the length of two paths, in bytes.
const maxPlace = 16 << 10

func (d *driver) noteHealed(healed worktree.Healed) {
	if len(healed.Did)+len(healed.Damaged) == 0 {
		return
	}
	d.log.Warn("the repository was damaged, as a power cut leaves it", zap.Strings("did", healed.Did), zap.Strings("damaged", healed.Damaged),
		zap.String("kept_in", healed.Kept))
	d.healed = append(d.healed, healed)
}

// tellHealed writes an event for each healing since the last call, and for each submodule that could not be healed.
func (d *driver) tellHealed() error {
	for _, h := range d.healed {
		for _, damaged := range h.Damaged {
			if err := d.record("submodule_damaged", map[string]any{"error": damaged}); err != nil {
				return err
			}
		}
		if len(h.Did) == 0 {
			continue
		}
		fields := map[string]any{"did": strings.Join(h.Did, "; ")}
		if h.Kept != "" {
			fields["kept_in"] = d.paths.Rel(h.Kept)
		}
		if err := d.record("repository_healed", fields); err != nil {
			return err
		}
	}
	d.healed = nil
	return nil
}
