package server

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/space"
)

// housekeepEvery is the time between two passes over the repositories.
const housekeepEvery = 24 * time.Hour

// housekeep removes what no longer has to be kept of the loops of all repositories that the registry knows, now and once
// a day, until ctx ends.
func (d *daemon) housekeep(ctx context.Context) {
	tick := time.NewTicker(housekeepEvery)
	defer tick.Stop()
	for {
		all, _ := d.store.All() // look says what is wrong with an entry
		seen := map[string]bool{}
		for _, e := range all {
			p, err := Paths(d.store, e)
			if err == nil && !seen[p.Repo] {
				seen[p.Repo] = true
				d.tidy(ctx, p)
			} // else the repository is gone
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tidy removes what is due in one repository, and says so in the daemon's log: no run of a loop need be going on.
func (d *daemon) tidy(ctx context.Context, p layout.Paths) {
	log := d.o.Log.With(zap.String("repo", p.Repo))
	use, err := space.Look(ctx, p, 0)
	due := use.Due(d.o.Keep, time.Now())
	if err != nil || len(due) == 0 {
		return // Look fails only when the daemon ends, or when the repository has just gone
	}
	freed, err := space.Remove(ctx, d.o.Disk, p, due)
	paths := make([]string, len(due))
	for i, u := range due {
		paths[i] = u.Path
	}
	log.Info("old logs and archives are removed", zap.Int64("bytes", freed), zap.Strings("paths", paths))
	if err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("something could not be removed", zap.Error(err))
	}
}
