package effects

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/preflight"
)

// snapshotEvery is the least time between two snapshots of the environment. If two successes follow each other more
// closely, only the first one leaves a snapshot.
const snapshotEvery = 30 * time.Second

// Snapshots keeps the environment of the last success, so that an analysis of a later failure can tell what has changed
// since.
type Snapshots struct {
	*Host
	last time.Time // when Keep last kept a snapshot
}

// Keep saves a snapshot of the current environment, unless it saved one within snapshotEvery.
func (n *Snapshots) Keep(s loop.State) {
	now := n.Clock()
	if s.Plan.Respond == nil || now.Sub(n.last) < snapshotEvery {
		return
	}
	n.last = now
	snap := n.Current(s)
	n.Warn("the environment of this success could not be kept", Update(n.Store(), func(s *failures.Snapshot) bool { *s = snap; return true }))
}

// Store returns the store of the snapshot.
func (n *Snapshots) Store() preflight.Store[failures.Snapshot] {
	return preflight.Store[failures.Snapshot]{Disk: n.Disk, Path: filepath.Join(n.Paths.Private, "environment.json")}
}

// Environment returns the environment of the last success, zero if there is none, and the current environment.
func (n *Snapshots) Environment(s loop.State) (was, now failures.Snapshot) {
	was, err := n.Store().Load()
	n.Warn("the environment of the last success cannot be read", err)
	return was, n.Current(s)
}

// Current returns the current environment.
func (n *Snapshots) Current(s loop.State) failures.Snapshot {
	return preflight.Collect(n.Repo.Top, tools(n.programs(), n.Env()), nil, n.Now(s))
}

// programs returns the names of the programs that the loop and common tests start.
func (n *Snapshots) programs() []string {
	names := []string{"node", "npm", "python3", "go", "cargo", "git", "make", "gcc"}
	for _, r := range n.Settings().Config.Runners {
		names = append(names, r.Command[0])
	}
	return names
}

// tools identifies programs by their path, size and modification time. A tool that was replaced counts as another tool,
// whatever version it reports. tools starts no process.
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
