// Package carry takes a loop from machine to machine by git. What a machine needs to go on is one commit on a ref of a
// remote repository, refs/superloop/<loop>/state: the work tree as it is, the journal and the small files of the loop, and
// the part of its private state that is not the machine's own.
//
// A push replaces the commit by compare-and-swap, so of two machines one has the loop. Nothing counts before it is pushed:
// a machine pushes before it tells an outcome, and before it begins what must not happen twice. So the commit is the truth
// about the loop. A machine whose push is refused has lost the loop, keeps its work under a ref of its own, and goes on
// with nothing.
//
// The machines of a fleet authenticate the commit with a key that they share: whoever can write to the remote and has no
// such key, an agent for example, cannot change what a loop has done or been told.
package carry

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/layout"
)

// Options are what all functions need of the machine. Every field but StateHome is required.
type Options struct {
	StateHome string   // XDG_STATE_HOME, "" for its default
	Environ   []string // the environment of the operator, with which git reaches the remote
	Disk      durable.Disk
	Log       *zap.Logger
	Now       func() time.Time
}

// record is what a machine knows of a loop that it has: a file in its private state.
type record struct {
	host.Claim
	State string `json:"state"`          // the commit with which this machine has the loop; "" while its files are being written
	Next  string `json:"next,omitempty"` // the commit that is being pushed
	Ended bool   `json:"ended,omitempty"`
}

const maxRecord = 1 << 20 // bounds the file, in bytes

// Loop is a loop that this machine has, or had.
type Loop struct {
	Repo  string // its repository on this machine
	o     Options
	rec   record
	paths layout.Paths
	dir   string // its place in the private state
	git   *gitcmd.Repo
	blobs map[string]blob

	mu     sync.Mutex
	pushed string // the tree and the HEAD of State, if they are known
}

// blob is the object of a file as it was last read.
type blob struct {
	size int64
	at   time.Time
	id   string
}

// LostError says that another machine has the loop.
type LostError struct {
	Loop, Repo string
	Ref        string // what this machine had done and could not push is kept there; "" if there is nothing
}

func (e *LostError) Error() string {
	kept := ""
	if e.Ref != "" {
		kept = fmt.Sprintf("; what was done here since is kept (see it by: git -C %s log -p %s)", text.Paste(e.Repo), e.Ref)
	}
	return fmt.Sprintf("another machine has the loop %s now%s", e.Loop, kept)
}

// RefusedError says that the loop may not be run here, until an operator starts it again.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string {
	return e.Why + " (type in a clone of its repository: superloop-fleet start --unbound)"
}

// Trees is the directory with the work trees of loops of a fleet. It lies beside superloop's private state, which agents do
// not see. state is the result of layout.StateRoot.
func Trees(state string) string { return filepath.Join(filepath.Dir(state), "superloop-fleet") }

// StateRef is the ref of the state of a loop. WorkRef is what the loop has committed, for people.
func StateRef(loop string) string { return "refs/superloop/" + loop + "/state" }
func WorkRef(loop string) string  { return "refs/superloop/" + loop + "/work" }

// lostRef is where the work of a machine is kept that has lost the loop. It is never pushed.
func lostRef(loop string, at time.Time) string {
	return "refs/superloop-lost/" + loop + "/" + at.UTC().Format("20060102T150405.000Z")
}

// PlaceOf returns the directory of the work tree that a loop has on this machine, whether it is there or not.
func PlaceOf(remote, loop, stateHome string) (string, error) {
	state, err := layout.StateRoot(stateHome)
	return filepath.Join(Trees(state), nameOf(remote, loop)), err
}

// nameOf names the directories of a loop.
func nameOf(remote, loop string) string {
	sum := sha256.Sum256([]byte(remote + "\n" + loop))
	base := strings.TrimSuffix(path.Base(filepath.ToSlash(remote)), ".git")
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, base)
	return text.Cut(clean, 40) + "-" + hex.EncodeToString(sum[:6]) + "-" + loop
}

// In reports whether a directory is the work tree of a loop of a fleet, also of one that this machine has lost.
func In(repo, stateHome string) bool {
	state, err := layout.StateRoot(stateHome)
	return err == nil && filepath.Dir(repo) == Trees(state)
}

// WorkflowOf returns what the loop in a work tree of this machine is called in the fleet, "" if this machine does not have
// it.
func WorkflowOf(repo, stateHome string) string {
	state, err := layout.StateRoot(stateHome)
	if err != nil || !In(repo, stateHome) {
		return ""
	}
	rec, _ := readRecord(filepath.Join(state, "carried", filepath.Base(repo)))
	return rec.Workflow
}

// Ended reports whether the loop has ended. Nothing of it is carried out until it is started again.
func (l *Loop) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Ended
}

// Open opens a loop that this machine has. If another machine has it, the error is a *LostError.
func Open(ctx context.Context, repo, loop string, o Options) (*Loop, error) {
	l, err := at(repo, o)
	if err != nil {
		return nil, err
	}
	if l.rec, err = readRecord(l.dir); err != nil {
		return nil, err
	}
	if l.rec.State == "" || l.rec.Loop != loop {
		return nil, &LostError{Loop: loop, Repo: repo}
	}
	return l, l.open(ctx)
}

// at returns the loop in a directory, without what is recorded of it.
func at(repo string, o Options) (*Loop, error) {
	state, err := layout.StateRoot(o.StateHome)
	if err != nil {
		return nil, err
	}
	return &Loop{Repo: repo, o: o, dir: filepath.Join(state, "carried", filepath.Base(repo)), blobs: map[string]blob{}}, nil
}

// open opens the repository.
func (l *Loop) open(ctx context.Context) (err error) {
	if l.git, err = gitcmd.Open(ctx, l.Repo, filepath.Join(l.dir, "git"), l.o.Environ); err != nil {
		return fmt.Errorf("opening the work tree of loop %s: %w", l.rec.Loop, err)
	}
	l.git = l.git.FromTop()
	l.paths, err = layout.NewPaths(l.Repo, l.rec.Loop, l.o.StateHome)
	return err
}

func readRecord(dir string) (rec record, err error) {
	data, err := door.ReadOwn(filepath.Join(dir, "record.json"), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if err == nil {
		err = text.Decode(data, &rec)
	}
	if err != nil {
		err = fmt.Errorf("reading what this machine knows of a loop of the fleet, in %s: %w", dir, err)
	}
	return rec, err
}

func (l *Loop) write() error {
	data, err := loop.EncodeIndent(l.rec, "  ")
	if err != nil {
		return err
	}
	return l.o.Disk.WriteFile("carried", filepath.Join(l.dir, "record.json"), data, 0o600)
}

// meta is what the commit says of itself.
type meta struct {
	Version  int    `json:"version"`
	Workflow string `json:"workflow"`
	Loop     string `json:"loop"`
	Machine  string `json:"machine"`
	Grant    string `json:"grant"`
	Ended    bool   `json:"ended,omitempty"` // the loop has to be started again before anything of it is carried out
}

const metaVersion = 1

// macLine begins the line of the commit's message that authenticates it.
const macLine = "Superloop-Mac: "

// mac authenticates a state: its tree, and the commit that the work tree has as HEAD.
func mac(key []byte, workflow, tree, head string) string {
	h := hmac.New(sha256.New, key)
	_ = json.NewEncoder(h).Encode([]string{"superloop state", workflow, tree, head}) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// authentic returns the tree of a state and the HEAD of its work tree, from what git prints of the commit. It returns an error
// unless a machine of the fleet has made the state.
func authentic(commit string, raw []byte, c host.Claim) (tree, head string, err error) {
	header, message, _ := strings.Cut(string(raw), "\n\n")
	for line := range strings.Lines(header) {
		line = strings.TrimSuffix(line, "\n")
		if id, ok := strings.CutPrefix(line, "tree "); ok && tree == "" {
			tree = id
		} else if id, ok := strings.CutPrefix(line, "parent "); ok && head == "" {
			head = id
		}
	}
	_, said, _ := strings.Cut(message, macLine)
	said, _, _ = strings.Cut(said, "\n")
	for _, key := range c.Keys {
		if hmac.Equal([]byte(said), []byte(mac(key, c.Workflow, tree, head))) {
			return tree, head, nil
		}
	}
	return "", "", &RefusedError{fmt.Sprintf("the state %.12s of loop %s in %s was not written by a machine of this fleet", commit, c.Loop, text.Paste(c.Remote))}
}

// exists reports whether something is at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
