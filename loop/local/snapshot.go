package local

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/preflight"
	"github.com/superloop/superloop/recovery/respond"
)

// snapshotEvery is the least time between two snapshots of the environment: what
// changed between two successes that follow each other so closely is told by the
// later one.
const snapshotEvery = 30 * time.Second

// keepSnapshot remembers the environment of a success, so that a later failure can
// be asked what has changed since.
func (d *driver) keepSnapshot() {
	now := d.o.Now()
	if d.state.Plan.Respond == nil || now.Sub(d.snapshotAt) < snapshotEvery {
		return
	}
	d.snapshotAt = now
	at, programs := d.host.Now(d.state), d.programs()
	ctx, stop := context.WithTimeout(context.Background(), storeTime)
	defer stop()
	snap := preflight.Collect(d.repo.Top, tools(programs, d.host.Env()), nil, at)
	if _, err := d.snapshots().Update(ctx, func(s *respond.Snapshot) bool { *s = snap; return true }); err != nil {
		d.log.Warn("the environment of this success could not be kept", zap.Error(err))
	}
}

func (d *driver) snapshots() preflight.Store[respond.Snapshot] {
	return preflight.Store[respond.Snapshot]{Disk: d.o.Disk, Path: filepath.Join(d.paths.Private, "environment.json")}
}

// environment is as it is now.
func (d *driver) environment() respond.Snapshot {
	return preflight.Collect(d.repo.Top, tools(d.programs(), d.host.Env()), nil, d.host.Now(d.state))
}

// programs are what the loop and its usual tests start.
func (d *driver) programs() []string {
	names := []string{"node", "npm", "python3", "go", "cargo", "git", "make", "gcc"}
	for _, r := range d.o.Config.Runners {
		names = append(names, r.Command[0])
	}
	return names
}

// tools are programs, told by where
// they are, their size and their time: a tool that was replaced is another one,
// whatever it says of itself, and nothing is started to find that out.
func tools(names, env []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		path, err := proc.LookPath(name, env)
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			out[name] = path + " (" + strconv.FormatInt(info.Size(), 10) + " bytes of " + info.ModTime().UTC().Format(time.RFC3339) + ")"
		}
	}
	return out
}
