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

// snapshotEvery is the least time between two snapshots of the environment: what changed between two successes that
// follow each other so closely is told by the later one.
const snapshotEvery = 30 * time.Second

// Snapshots keep the environment of the last success, so that a later failure can be asked what has changed since.
type Snapshots struct {
	*Host
	last time.Time // when one was kept
}

// Keep keeps the environment as it is now, if the last one is not just kept.
func (n *Snapshots) Keep(s loop.State) {
	now := n.Clock()
	if s.Plan.Respond == nil || now.Sub(n.last) < snapshotEvery {
		return
	}
	n.last = now
	snap := n.Current(s)
	n.Warn("the environment of this success could not be kept", Update(n.Store(), func(s *failures.Snapshot) bool { *s = snap; return true }))
}

// Store is where it is kept.
func (n *Snapshots) Store() preflight.Store[failures.Snapshot] {
	return preflight.Store[failures.Snapshot]{Disk: n.Disk, Path: filepath.Join(n.Paths.Private, "environment.json")}
}

// Environment is that of the last success, zero if there is none, and the one of now.
func (n *Snapshots) Environment(s loop.State) (was, now failures.Snapshot) {
	was, err := n.Store().Load()
	n.Warn("the environment of the last success cannot be read", err)
	return was, n.Current(s)
}

// Current is the environment as it is now.
func (n *Snapshots) Current(s loop.State) failures.Snapshot {
	return preflight.Collect(n.Repo.Top, tools(n.programs(), n.Env()), nil, n.Now(s))
}

// programs are what the loop and its usual tests start.
func (n *Snapshots) programs() []string {
	names := []string{"node", "npm", "python3", "go", "cargo", "git", "make", "gcc"}
	for _, r := range n.Settings().Config.Runners {
		names = append(names, r.Command[0])
	}
	return names
}

// tools are programs, told by where they are, their size and their time: a tool that was replaced is another one,
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
