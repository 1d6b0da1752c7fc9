// Package layout says where the files of a loop lie: what is in the repository for people and agents to read, and what
// is kept where an agent has no business. It creates nothing.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/superloop/superloop/escalation"
)

// Gitignore is what .superloop/.gitignore holds of a new repository: what superloop writes while it runs, and what git
// would walk through with every look at the tree.
const Gitignore = "# what superloop writes while it runs\n/loops/\n/worktrees/\n/state.json\n"

// Paths are the places of one loop.
type Paths struct {
	Repo    string // the repository's root, absolute, symlinks resolved
	Super   string // <repo>/.superloop
	Loop    string // <repo>/.superloop/loops/<id>
	Private string // $XDG_STATE_HOME/superloop/<repo-id>/loops/<id>
	State   string // $XDG_STATE_HOME/superloop, of all repositories
}

// NewPaths works the places out; it creates nothing. stateHome is the value of XDG_STATE_HOME, "" for its default below
// home.
func NewPaths(repo, id, stateHome string) (Paths, error) {
	root, err := filepath.Abs(repo)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return Paths{}, fmt.Errorf("finding the repository %s: %w", repo, err)
	}
	state, err := StateRoot(stateHome)
	if err != nil {
		return Paths{}, err
	}
	rid, err := repoID(root)
	if err != nil {
		return Paths{}, err
	}
	super := filepath.Join(root, ".superloop")
	return Paths{Repo: root, Super: super, Loop: filepath.Join(super, "loops", id), Private: filepath.Join(state, rid, "loops", id), State: state}, nil
}

// StateRoot is the directory of superloop's private state, of all repositories; stateHome is the value of
// XDG_STATE_HOME, "" for its default below home.
func StateRoot(stateHome string) (string, error) {
	if stateHome == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding a place for private state: %w; set XDG_STATE_HOME", err)
		}
		stateHome = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(stateHome) {
		return "", fmt.Errorf("XDG_STATE_HOME is %q, it must be an absolute path", stateHome)
	}
	return resolved(filepath.Join(stateHome, "superloop")), nil
}

// resolved follows the links in what exists of a path: people keep their state behind links, and what is protected must
// be named by its own path.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// repoID tells repositories apart that were, at different times, at the same path, and the same repository under two
// mounts: device, inode and path.
func repoID(root string) (string, error) {
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("looking at the repository: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("this system gives no inode for the repository")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d:%s", st.Dev, st.Ino, root))
	return hex.EncodeToString(sum[:8]), nil
}

// Rel is a path as it stands in events: relative to the repository.
func (p Paths) Rel(path string) string {
	if rel, err := filepath.Rel(p.Repo, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

// What lies in the loop's directory.
func (p Paths) File(name string) string { return filepath.Join(p.Loop, name) }
func (p Paths) Logs(iteration int) string {
	return p.File(filepath.Join("logs", "iter-"+strconv.Itoa(iteration)))
}
func (p Paths) Events() string    { return p.File("events.jsonl") } // the journal
func (p Paths) Proposals() string { return p.File("proposals") }
func (p Paths) RepoLock() string  { return p.File("lock") }

// What is private to the loop.
func (p Paths) Lock() string           { return p.private("lock") }
func (p Paths) Control() string        { return p.private("control") }
func (p Paths) Trees() string          { return p.private("trees") }
func (p Paths) Tree(sig string) string { return filepath.Join(p.Trees(), sig) }
func (p Paths) Baseline() string       { return p.private("baseline.json") }
func (p Paths) Guard() string          { return p.private("guard.json") }
func (p Paths) Questions() string      { return p.private(escalation.Folder) }
func (p Paths) Outbox() string         { return p.private("outbox") } // news to people, until they are delivered

// Head is the anchor of the journal: what an agent that cuts or rewrites events.jsonl cannot reach.
func (p Paths) Head() string { return p.private("head") }

// Locks are the files that a supervisor of the loop holds.
func (p Paths) Locks() []string { return []string{p.Lock(), p.RepoLock()} }

// What all loops of the repository share: what recoveries were about to overwrite, what has helped, what is known of the
// runners, what is looked at before an iteration, how the last role runs ended.
func (p Paths) Undo() string        { return p.shared("undo") }
func (p Paths) Learned() string     { return p.shared("learned.json") }
func (p Paths) Health() string      { return p.shared("health.json") }
func (p Paths) Preventions() string { return p.shared("preventions.json") }
func (p Paths) Watched() string     { return p.shared("watched.json") }

// Cooldowns is what all loops of this user know of their providers' limits.
func (p Paths) Cooldowns() string { return filepath.Join(p.State, "cooldowns") }

// Trust is the pin of the repository's configuration. Below State it has the repository's name.
func (p Paths) Trust() string {
	return filepath.Join(p.State, "trust", filepath.Base(p.shared(""))+".json")
}

func (p Paths) private(name string) string { return filepath.Join(p.Private, name) }
func (p Paths) shared(name string) string  { return filepath.Join(p.Private, "..", "..", name) }
