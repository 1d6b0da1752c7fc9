// Package claim decides which of several daemons works on an item of a tracker. A claim is a ref of the git remote,
// refs/superloop-tasks/<item>, which points to a commit that says who has the item. It changes by compare-and-swap only, so
// that of any number of daemons one gets it, wherever they run: they share nothing but the remote.
//
// A claim is a lease. Its holder renews it, which replaces the commit. A claim whose commit has stood for a whole TTL in the
// eyes of another daemon, by that daemon's own clock, is abandoned, and may be taken. So no two clocks are compared.
//
// The commit is the fencing token. Who delivers work pushes the branch and the claim in one atomic push, which the remote
// refuses if the claim is no longer the one that was taken. A daemon that has slept through its lease delivers nothing.
package claim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

// Place is where the refs of the claims lie on the remote.
const Place = "refs/superloop-tasks/"

// State says what became of the work on an item.
type State string

// The values of State. Nobody takes an item whose claim is not Working.
const (
	Working   State = "working"
	Delivered State = "delivered" // the branch is pushed
	Failed    State = "failed"    // its loop has ended otherwise; see Why
)

// Claim is what stands in the commit of a claim.
type Claim struct {
	Item   string    `json:"item"` // its key, which is the name of the ref
	ID     string    `json:"id"`   // what its tracker calls it
	Loop   string    `json:"loop"`
	Holder string    `json:"holder"` // the id of a daemon, which it keeps across restarts
	Name   string    `json:"name"`   // the daemon for people: user@host
	State  State     `json:"state"`
	Term   int       `json:"term"`  // from 1; one more each time that another daemon takes the item
	Beat   int       `json:"beat"`  // one more with each change, so that no commit is like another one
	Since  time.Time `json:"since"` // when the holder took it, by its own clock; for people only
	Why    string    `json:"why,omitempty"`

	// At is the commit, "" for an item that nobody has.
	At string `json:"-"`
}

var (
	// ErrTaken says that another daemon has the item.
	ErrTaken = errors.New("another daemon has the item")
	// ErrLost says that the claim is no longer the caller's: another daemon has taken the item, or a person has released it.
	ErrLost = errors.New("the claim on the item is lost")
)

// Store knows the claims of one remote. Several goroutines may use one.
type Store struct {
	Git          *gitcmd.Repo // whose objects are pushed
	Remote       string       // its address
	Holder, Name string
	TTL          time.Duration
	Now          func() time.Time

	mu    sync.Mutex
	known map[string]Claim     // by commit
	stood map[string]time.Time // when a commit was seen first
}

// maxClaim bounds the message of a claim, in bytes.
const maxClaim = 16 << 10

// key matches the key of an item, which is the last part of a ref's name.
var key = pattern.Lazy(`^[a-z0-9][a-z0-9_-]{0,99}$`)

// All returns the claims that stand on the remote, by item. A ref that holds no claim is one that nobody takes: it has the
// state "" and says why.
func (s *Store) All(ctx context.Context) (map[string]Claim, error) {
	refs, err := s.Git.Refs(ctx, s.Remote, Place+"*")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known, s.stood = map[string]Claim{}, map[string]time.Time{}
	}
	there := map[string]bool{}
	var unknown []string // refs
	for ref, at := range refs {
		there[at] = true
		if _, ok := s.known[at]; !ok {
			unknown = append(unknown, ref)
		}
	}
	slices.Sort(unknown)
	for some := range slices.Chunk(unknown, 500) {
		if err := s.read(ctx, some, refs); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(s.known, func(at string, _ Claim) bool { return !there[at] })
	maps.DeleteFunc(s.stood, func(at string, _ time.Time) bool { return !there[at] })
	all := map[string]Claim{}
	for ref, at := range refs {
		item := strings.TrimPrefix(ref, Place)
		if _, ok := s.stood[at]; !ok {
			s.stood[at] = s.Now()
		}
		c := s.known[at]
		c.At = at
		if c.Item != item { // damaged, or put there under another name
			c = Claim{Item: item, At: at, Why: "the ref " + ref + " holds no claim on this item"}
		}
		all[item] = c
	}
	return all, nil
}

// read fetches the commits of refs, and remembers what they say. It makes no ref here. The caller holds s.mu.
func (s *Store) read(ctx context.Context, names []string, refs map[string]string) error {
	if err := s.Git.Fetch(ctx, s.Remote, names...); err != nil {
		return err
	}
	var ask strings.Builder
	for _, ref := range names {
		ask.WriteString(refs[ref] + "\n")
	}
	out, err := s.Git.Run(ctx, []byte(ask.String()), "cat-file", "--batch")
	if err != nil {
		return err
	}
	for _, ref := range names {
		at := refs[ref]
		s.known[at], out = next(out)
	}
	return nil
}

// next reads the first object that git cat-file --batch has printed. What is no claim is the Claim{}.
func next(out []byte) (c Claim, rest []byte) {
	head, rest, _ := bytes.Cut(out, []byte("\n"))
	fields := strings.Fields(string(head))
	if len(fields) != 3 {
		return c, rest // "<commit> missing": the ref has changed since
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil || size < 0 || size >= len(rest) {
		return c, nil
	}
	object, rest := rest[:size], rest[size+1:]
	if fields[1] == "commit" {
		c, _ = decode(object) // else it is no claim
	}
	return c, rest
}

// decode reads the claim in a commit.
func decode(commit []byte) (c Claim, err error) {
	_, message, _ := bytes.Cut(commit, []byte("\n\n"))
	if len(message) > maxClaim {
		return c, fmt.Errorf("a claim of %d bytes; at most %d are read", len(message), maxClaim)
	}
	if err := text.Decode(message, &c); err != nil {
		return Claim{}, fmt.Errorf("reading a claim: %w", err)
	}
	switch {
	case !key().MatchString(c.Item) || c.Loop == "" || c.Holder == "":
		return Claim{}, errors.New("the claim names no item, no loop or no holder")
	case c.State != Working && c.State != Delivered && c.State != Failed:
		return Claim{}, fmt.Errorf("the claim has no state %q", c.State)
	}
	return c, nil
}

// Free reports whether an item may be taken: nobody has it, or its holder has not renewed the claim for TTL. now is a claim
// of All, or Claim{} if there is none.
func (s *Store) Free(now Claim) bool {
	if now.At == "" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.stood[now.At]
	return now.State == Working && now.Holder != s.Holder && ok && s.Now().Sub(seen) >= s.TTL
}

// Take takes an item that is Free, and that its tracker calls id. now is the claim of All that stands there, or one with nothing but the item. The error
// is ErrTaken if another daemon was faster.
func (s *Store) Take(ctx context.Context, now Claim, id, loop string) (Claim, error) {
	if !key().MatchString(now.Item) {
		return Claim{}, fmt.Errorf("%q is no key of an item", now.Item)
	}
	c, err := s.swap(ctx, now, Claim{Item: now.Item, ID: id, Loop: loop, State: Working, Term: now.Term + 1, Since: s.Now().UTC()})
	if errors.Is(err, ErrLost) {
		err = ErrTaken
	}
	return c, err
}

// Renew says that the holder lives. The error is ErrLost if the claim is no longer its own.
func (s *Store) Renew(ctx context.Context, c Claim) (Claim, error) { return s.swap(ctx, c, c) }

// End says what became of the work, and with Working that it goes on. With push, a refspec, it pushes that in the same
// moment: both arrive, or none. The error is ErrLost if the claim is no longer the caller's.
func (s *Store) End(ctx context.Context, c Claim, state State, why string, push ...string) (Claim, error) {
	next := c
	next.State, next.Why = state, text.Head(why, 1000)
	return s.swap(ctx, c, next, push...)
}

// Release takes a claim away, whoever holds it, so that the item may be taken again. The error is ErrLost if it has changed
// since it was read.
func (s *Store) Release(ctx context.Context, c Claim) error {
	err := s.Git.Swap(ctx, s.Remote, Place+c.Item, c.At, "")
	if err == nil {
		return nil
	}
	return s.outcome(ctx, c, "", err)
}

// swap replaces the claim was by next.
func (s *Store) swap(ctx context.Context, was, next Claim, push ...string) (Claim, error) {
	next.Holder, next.Name, next.Beat = s.Holder, s.Name, was.Beat+1
	at, err := s.commit(ctx, next)
	if err != nil {
		return was, err
	}
	next.At = at
	if err := s.Git.Swap(ctx, s.Remote, Place+next.Item, was.At, at, push...); err != nil {
		if err := s.outcome(ctx, was, at, err); err != nil {
			return was, err
		}
	}
	return next, nil
}

// outcome finds out what came of a push that has failed with err: its answer may have been lost.
func (s *Store) outcome(ctx context.Context, was Claim, wanted string, err error) error {
	there, look := s.Git.At(ctx, s.Remote, Place+was.Item)
	switch {
	case look != nil:
		return errors.Join(err, look)
	case there == wanted:
		return nil
	case there != was.At:
		return ErrLost
	}
	return err
}

// commit makes the commit of a claim. It has no parent and no file.
func (s *Store) commit(ctx context.Context, c Claim) (string, error) {
	message, err := loop.EncodeIndent(c, "  ")
	if err != nil {
		return "", err
	}
	tree, err := s.Git.Run(ctx, nil, "mktree")
	if err != nil {
		return "", err
	}
	out, err := s.Git.Run(ctx, message, "-c", "user.name=superloop", "-c", "user.email=superloop@localhost", "commit-tree", "--no-gpg-sign", strings.TrimSpace(string(tree)))
	return strings.TrimSpace(string(out)), err
}
