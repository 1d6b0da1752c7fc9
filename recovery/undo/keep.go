// Package undo keeps what a recovery is going to delete or overwrite inside the repository, and puts it back.
//
//	Plan ----> Store.Keep ----> (the command runs) ----> Store.Seal ----> Store.Restore
//	words      a whole set,                              what it left     only what it changed,
//	-> paths   or nothing                                behind           nothing that changed since
//
// # What is kept
//
//   - Tracked files: a commit of the work tree as it is, under refs/superloop/undo/<id>. Neither the operator's index nor the
//     work tree is touched; the commit is made from the files' bytes, without filters or hooks. If none differs from HEAD
//     it is HEAD's commit. What git was told to take for unchanged (assume-unchanged, skip-worktree) is not seen, unless
//     the command names it.
//   - Single files that the command names or overwrites (a lock file): by copy.
//   - Trees that it deletes or rebuilds (node_modules, dist, .venv), and big files: below the private directory, by reflink
//     where the file system can, so that no room is needed. Where it cannot, by hard link, but only a tree that the command
//     deletes: a hard link is the same file, so a program that writes into it would write into what was kept. Else by copy,
//     if it is small.
//   - Of a command that nobody here knows: besides tracked files those that are untracked and not ignored, by copy.
//
// What is over a cap, cannot be read, lies behind a link or on another file system is not kept, and is named in
// Kept.NotKept: an operator sees before the command runs what could not be taken back.
//
// # What is put back
//
// Seal records what the command left behind. Restore then changes only what the command changed, and only where it
// still is as the command left it. What has changed since then is a conflict: it is reported and stays, or with Force
// is moved beside, to a name ending in .superloop-undo-conflict, and what was kept takes its place. Nothing is ever
// thrown away but what the command made itself. What the command created where nothing was stays, and is reported. The
// index, HEAD and branches are not restored.
//
// # Crashes
//
// A set begins with a mark and is one once its manifest is renamed into its place. Killed before that there is none,
// and the next Keep or Prune sweeps what is left of it; killed after it, it is whole. Restore is judged from what is
// there, so calling it again goes on where it was killed: trees are copied beside their place and renamed into it. A
// set survives a kill. A power cut may take one that was made just before, or the content of a tree, which Restore then
// finds damaged and refuses; what is written into git is flushed.
//
// # Programs
//
// Trees are copied by cp, removed by rm, links are made by ln; the rest is git and durable.Disk. Paths are opened
// directory by directory without following links, and the programs are started in the directory that was opened, so no
// link that is planted meanwhile leads out of the repository.
package undo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

// Store holds the sets of one repository. Two calls that change something do not run at once: the second waits 3 s, and
// then gets a *durable.LockedError.
type Store struct {
	Disk durable.Disk
	Dir  string // private, outside of the repository; made if need be
	Repo string // the repository's directory
}

// Caps bound what is kept of one command.
type Caps struct {
	Shared int64 // bytes kept by reflink or hard link
	Copied int64 // bytes kept by copy; and, once more, of changed tracked files
	Files  int   // files, directories and links
}

// DefaultCaps are what is kept where nobody says otherwise.
func DefaultCaps() Caps { return Caps{Shared: 512 << 20, Copied: 64 << 20, Files: 200_000} }

// Request says what to keep.
type Request struct {
	Label   Label
	Targets Targets
	Caps    Caps
	Time    time.Time
}

// What there is of a set, in the directory sets: <id> and one of these. A mark without a manifest is a set that was not
// finished, or that is being removed.
const (
	markFile     = ".set"   // the first that is made, the last that goes
	manifestFile = ".json"  // with it there is a set
	afterFile    = ".after" // what Seal has recorded
	packFile     = ".pack"  // untracked files
	treesDir     = ".trees"
)

const (
	smallTree = 1 << 20 // bytes; smaller trees are copied without a look at what the file system can do
	cleanUp   = 30 * time.Second
)

func (s Store) sets() string { return filepath.Join(s.Dir, "sets") }

func (s Store) path(id, what string) string { return filepath.Join(s.sets(), id+what) }

// Keep keeps what req says, before a command is executed. When it returns without an error, the set is whole and
// survives a kill; after an error, and when it is killed, there is no set, the repository's files are untouched, and
// the next Keep or Prune removes what is left. Nothing outside of git is flushed: a power cut may take it.
func (s Store) Keep(ctx context.Context, req Request) (Kept, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Kept{}, err
	}
	defer unlock()
	if err := s.sweep(ctx); err != nil {
		return Kept{}, err
	}
	var r [4]byte
	_, _ = rand.Read(r[:]) // never fails
	id := req.Time.UTC().Format("20060102T150405-") + hex.EncodeToString(r[:])
	m := manifest{Version: version, ID: id, Label: req.Label, Repo: s.Repo, Time: req.Time.UTC()}
	for _, n := range req.Targets.Refused {
		m.skip(n.Path, n.Why)
	}
	if err := s.build(ctx, &m, req); err != nil {
		// The context that has ended may be why there is no set.
		ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
		defer cancel()
		if _, missing := os.Lstat(s.path(m.ID, markFile)); missing == nil {
			_ = s.clear(ctx, m.ID) // what remains is swept later
		}
		return Kept{}, fmt.Errorf("keeping what the command may change: %w", err)
	}
	return m.kept(false), nil
}

// build makes a set: first its mark, last its manifest.
func (s Store) build(ctx context.Context, m *manifest, req Request) error {
	mark, err := s.Disk.Create("undo-mark", s.path(m.ID, markFile), 0o600)
	if err == nil {
		err = mark.Close()
	}
	if err != nil {
		return err
	}
	g, err := openGit(ctx, s.Repo)
	if err != nil {
		return err
	}
	var changes []difference
	if g.found {
		if changes, err = g.differences(ctx, g.head); err != nil {
			return err
		}
	}
	if g.why != "" {
		m.skip(".", "tracked files are not kept, git says: "+g.why)
	}
	targets := req.Targets
	if targets.Ignored && g.found {
		list, err := g.untracked(ctx, true)
		if err != nil {
			return err
		}
		for _, p := range list {
			targets.Paths = append(targets.Paths, Target{Path: strings.TrimSuffix(p, "/"), Deleted: true, Why: "git clean"})
		}
		targets.Paths = outermost(targets.Paths)
	}
	room := req.Caps
	file, err := s.Disk.Create("undo-pack", s.path(m.ID, packFile), 0o600)
	if err != nil {
		return err
	}
	pack := &packer{s.Repo, m, &room, file, 0}
	err = s.fill(ctx, g, targets, pack)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if g.found {
		if err := s.keepTracked(ctx, g, changes, m, req.Caps.Copied); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.writeJSON("undo-manifest", s.path(m.ID, manifestFile), m)
}

func (s Store) fill(ctx context.Context, g *git, targets Targets, pack *packer) error {
	for i, t := range targets.Paths {
		if err := s.keepTarget(ctx, fmt.Sprint(i), t, pack); err != nil {
			return err
		}
	}
	if targets.Untracked {
		return keepLoose(ctx, g, targets.Paths, pack)
	}
	return nil
}

// keepTarget keeps one target by the cheapest way that is safe. What cannot be kept is named; an error is about the
// private directory only.
func (s Store) keepTarget(ctx context.Context, name string, t Target, pack *packer) error {
	room, m := pack.room, pack.m
	var kind kind
	at, err := open(s.Repo, t.Path)
	if err == nil {
		defer at.close()
		kind, err = at.kind()
	}
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && kind == isMissing:
		m.Trees = append(m.Trees, tree{Path: rawPath(t.Path), Method: wasAbsent})
		return nil
	case err == nil && kind == isOdd:
		err = errors.New("it is neither a file nor a directory")
	case err == nil && kind != isDir:
		if err := pack.add(t.Path, min(room.Copied, smallTree)); !errors.Is(err, errTooBig) {
			return err
		}
	}
	var had survey
	if err == nil {
		had, err = at.look(room.Files, max(room.Shared, room.Copied))
	}
	if err != nil {
		m.skip(t.Path, why(err))
		return nil
	}
	for _, o := range had.odd {
		m.skip(t.Path+"/"+o, "it is a socket, a pipe or a device")
	}
	dir := s.path(m.ID, treesDir)
	if err := s.Disk.MkdirAll("undo-trees", dir, 0o700); err != nil {
		return err
	}
	to := filepath.Join(dir, name)
	kept := tree{Path: rawPath(t.Path), Store: name, Files: had.files, Bytes: had.bytes, Sum: had.sum}
	var last error
	for _, method := range ways(t, had, *room) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if method == byReflink && (kind == isDir && had.probe == "" || !s.canReflink(ctx, at, had, dir)) {
			continue
		}
		if last = at.copyTo(ctx, method, to); last == nil {
			last = same(dir, name, had.sum, whileCopied)
		}
		if last == nil {
			shared := &room.Shared
			if method == byCopy {
				shared = &room.Copied
			}
			*shared -= had.bytes
			room.Files -= had.files
			kept.Method = method
			m.Trees = append(m.Trees, kept)
			return nil
		}
		if err := removeTree(ctx, filepath.Dir(to), name); err != nil {
			return err
		}
	}
	reason := ", the file system cannot share its content, and the command may write into its files"
	if t.Deleted {
		reason = ", and it cannot be linked to the directory that keeps it"
	}
	reason = fmt.Sprintf("it has %s; by copy only %s are kept", size(had.bytes), size(room.Copied)) + reason
	if last != nil {
		reason = why(last)
	}
	m.skip(t.Path, reason)
	return nil
}

// ways lists how a tree may be kept, the best first.
func ways(t Target, had survey, room Caps) []string {
	var out []string
	small := had.bytes <= min(smallTree, room.Copied) && had.files < 1000
	if had.bytes <= room.Shared && !small {
		out = append(out, byReflink)
		if t.Deleted && had.kind == isDir {
			out = append(out, byLink)
		}
	}
	if had.bytes <= room.Copied {
		out = append(out, byCopy)
	}
	return out
}

func why(err error) string {
	if errors.Is(err, os.ErrPermission) {
		return "it may not be read"
	}
	if failed, ok := errors.AsType[*proc.ToolError](err); ok {
		line, _, _ := strings.Cut(strings.TrimSpace(failed.Stderr), "\n")
		return "it cannot be copied: " + line
	}
	return err.Error()
}
