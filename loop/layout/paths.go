// Package layout says where the files of a loop lie: in the repository, where people and agents read them, and in the
// private state, which agents must not reach. It creates nothing.
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

// Gitignore is the content of .superloop/.gitignore in a new repository. It excludes the files that superloop writes
// while it runs. Without it git would read all of them at every look at the tree.
const Gitignore = "# what superloop writes while it runs\n/loops/\n/worktrees/\n/state.json\n"

// Paths holds the root directories of one loop's files.
type Paths struct {
	Repo    string // the repository's root, absolute, symlinks resolved
	Super   string // <repo>/.superloop
	Loop    string // <repo>/.superloop/loops/<id>
	Private string // $XDG_STATE_HOME/superloop/<repo-id>/loops/<id>
	State   string // $XDG_STATE_HOME/superloop, for all repositories
}

// NewPaths computes the paths of the loop id in the repository repo. stateHome is the value of XDG_STATE_HOME. "" means
// ~/.local/state.
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

// StateRoot returns the directory of superloop's private state for all repositories. stateHome is the value of
// XDG_STATE_HOME. "" means ~/.local/state.
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

// resolved resolves the symbolic links in the part of a path that exists. The private state may lie behind links, and
// the sandbox protects a directory under its real path only.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// repoID names a repository by its device, inode and path. Two repositories that were at the same path at different
// times have different ids, and so has one repository under two mounts.
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

// OwnTree is the work tree of a loop that has one of its own (git.worktree), and OwnBranch the branch in it.
func (p Paths) OwnTree() string   { return filepath.Join(p.Super, "worktrees", filepath.Base(p.Loop)) }
func (p Paths) OwnBranch() string { return "superloop/" + filepath.Base(p.Loop) }

// Rel returns a path as events have it: relative to the repository and with slashes.
func (p Paths) Rel(path string) string {
	if rel, err := filepath.Rel(p.Repo, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

// File and the methods after it return paths in the loop's directory.
func (p Paths) File(name string) string { return filepath.Join(p.Loop, name) }
func (p Paths) Logs(iteration int) string {
	return p.File(filepath.Join("logs", "iter-"+strconv.Itoa(iteration)))
}
func (p Paths) OwnConfig() string { return p.File(ownConfig) }      // of a loop that is not in config.json: of run --prompt, or of the queue
func (p Paths) OwnPrompt() string { return p.File(ownPrompt) }      // the prompt with which such a loop was started last, or its spec
func (p Paths) Events() string    { return p.File("events.jsonl") } // the journal
func (p Paths) Result() string    { return p.File("result.md") }    // what people read about a run that has ended
func (p Paths) Proposals() string { return p.File("proposals") }
func (p Paths) RepoLock() string  { return p.File("lock") }

// Policies is the directory with the policies that have judged, and Policy the file of the one with a digest.
func (p Paths) Policies() string            { return p.File("policies") }
func (p Paths) Policy(digest string) string { return filepath.Join(p.Policies(), digest+".json") }

// Lock and the methods after it return paths in the loop's private directory.
func (p Paths) Lock() string           { return p.private("lock") }
func (p Paths) Control() string        { return p.private("control") }
func (p Paths) Trees() string          { return p.private("trees") }
func (p Paths) Tree(sig string) string { return filepath.Join(p.Trees(), sig) }
func (p Paths) Baseline() string       { return p.private("baseline.json") }
func (p Paths) Git() string            { return p.private("git") }  // what git takes instead of the repository's configuration
func (p Paths) Kept() string           { return p.private("kept") } // the uncommitted contents before the first role
func (p Paths) Commit() string         { return p.private("commit.json") }
func (p Paths) Repository() string     { return p.private("repository") } // the path of the git directory with which the loop began
func (p Paths) Questions() string      { return p.private(escalation.Folder) }
func (p Paths) Ended() string          { return p.private(escalation.EndedFile) }
func (p Paths) Outbox() string         { return p.private("outbox") } // messages until they are delivered

// Backlog is the directory of specs that the daemon makes loops of, if an operator has said so.
func (p Paths) Backlog() string { return filepath.Join(p.Super, "backlog") }

// Item says of which file of the backlog the loop was made.
func (p Paths) Item() string { return p.private("item.json") }

// Head is the anchor of the journal. An agent at level L1 that cuts or rewrites events.jsonl cannot reach it.
func (p Paths) Head() string { return p.private("head") }

// Locks are the lock files that a supervisor of the loop holds.
func (p Paths) Locks() []string { return []string{p.Lock(), p.RepoLock()} }

// Common is the directory of the private state that all loops of the repository share. It holds the ledger of the files
// that listed commands read.
func (p Paths) Common() string { return p.shared("") }

// Undo and the methods after it return paths that all loops of the repository share: the files that recoveries
// overwrote, the remedies that helped, the health of the runners, the environment checks, and how the last role runs
// ended.
func (p Paths) Undo() string        { return p.shared("undo") }
func (p Paths) Learned() string     { return p.shared("learned.json") }
func (p Paths) Health() string      { return p.shared("health.json") }
func (p Paths) Preventions() string { return p.shared("preventions.json") }
func (p Paths) Watched() string     { return p.shared("watched.json") }

// Cooldowns is the directory in which all loops of this user keep the limits of their accounts.
func (p Paths) Cooldowns() string { return Cooldowns(p.State) }

// Cooldowns is that directory in the state that StateRoot returns.
func Cooldowns(state string) string { return filepath.Join(state, "cooldowns") }

// Checklist is the file in which agents tick the boxes of the spec of a loop that was made of a spec with boxes. It begins as
// a copy of the spec, which agents cannot change.
func (p Paths) Checklist() string { return p.File("checklist.md") }

// The files of a loop that run --prompt made, or that was queued with its spec. Notes is what its role keeps for its next run.
const (
	ownConfig = "config.json"
	ownPrompt = "prompt.md"
	Notes     = "notes.md"
)

// OwnFiles are the names of the files in a loop's directory that an operator's command wrote. Agents do not write them,
// and a fresh run keeps them.
func OwnFiles() []string { return []string{ownConfig, ownPrompt} }

// Owns reports whether a configuration file is the loop's own one, and not that of the repository. The path may lead to
// the repository through links.
func (p Paths) Owns(config string) bool {
	dir := filepath.Dir(config)
	return filepath.Base(dir) == filepath.Base(p.Loop) && filepath.Base(filepath.Dir(dir)) == filepath.Base(filepath.Dir(p.Loop)) && filepath.Base(config) == ownConfig
}

// Trust is the file with the pin of a configuration: that of the repository, or the own one of the loop.
func (p Paths) Trust(config string) string {
	if p.Owns(config) {
		return p.private("trust.json")
	}
	return filepath.Join(p.State, "trust", filepath.Base(p.shared(""))+".json")
}

func (p Paths) private(name string) string { return filepath.Join(p.Private, name) }
func (p Paths) shared(name string) string  { return filepath.Join(p.Private, "..", "..", name) }
