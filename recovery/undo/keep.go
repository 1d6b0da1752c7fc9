// Package undo keeps the files that a recovery command is going to delete or overwrite inside the repository, and
// restores them.
//
//	Plan ----> Store.Keep ----> (the command runs) ----> Store.Seal ----> Store.Restore
//	words      a whole set,                              what it left     only what it changed,
//	-> paths   or nothing                                behind           nothing that changed since
//
// # What is kept
//
//   - Tracked files: a commit of the work tree with its uncommitted changes, under refs/superloop/undo/<id>. The
//     operator's index and the work tree stay untouched; the commit is made from the bytes of the files, without
//     filters or hooks. If no file differs from HEAD, the commit is that of HEAD. Changes to files that git is told to
//     ignore (assume-unchanged, skip-worktree) are not kept, unless the command names the file.
//   - Single files that the command names or overwrites (a lock file): by copy.
//   - Trees that the command deletes or rebuilds (node_modules, dist, .venv), and big files: below the private
//     directory, by reflink where the file system supports it, which needs no space. Elsewhere a tree that the command
//     deletes is kept by hard link. Other trees are not, because a hard link is the same file: a program that writes
//     into the file would change the kept content. The last way is a copy, if the tree is small.
//   - For a command that superloop does not know: besides the tracked files those that are neither tracked nor ignored,
//     by copy.
//
// Files that exceed a cap, cannot be read, lie behind a link or lie on another file system are not kept. Kept.NotKept
// names them, so an operator sees before the command runs what undo could not restore.
//
// # What is restored
//
// Seal records the state that the command left behind. Restore then changes only paths that the command changed, and
// only where the path is still in the state that the command left. A path that has changed since then is a conflict:
// Restore reports it and leaves it alone. With Force it renames the conflict to a name ending in
// .superloop-undo-conflict, and restores the kept content. Restore never discards anything that the command did not
// make itself. Files that the command created at new paths stay and are reported. The index, HEAD and branches are not
// restored.
//
// # Crashes
//
// A set begins with a mark file and is valid once its manifest is renamed into place. If superloop is killed before the
// rename, there is no set, and the next Keep or Prune removes its remains. If superloop is killed after the rename, the
// set is complete. Restore decides from the current state of the files, so a second call continues where a killed one
// stopped: it copies trees to a name beside their place and renames them. A set survives a kill. A power cut may
// destroy a set that was made just before, or the content of a tree; Restore then finds the tree damaged and refuses to
// restore it. Data that is written into git is flushed.
//
// # Programs
//
// cp copies trees, rm removes them, and ln makes links; everything else is done by git and durable.Disk. undo opens
// paths directory by directory without following links, and starts the programs in the opened directory. Therefore no
// link that somebody creates meanwhile leads out of the repository.
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

// Store holds the sets of one repository. Calls that change something exclude each other: a second call waits up to 3 s
// and then returns a *durable.LockedError.
type Store struct {
	Disk durable.Disk
	Dir  string // private, outside of the repository; made if it is missing
	Repo string // the repository's directory
}

// Caps limit what is kept for one command.
type Caps struct {
	Shared int64 // bytes kept by reflink or hard link
	Copied int64 // bytes kept by copy; the same limit applies separately to changed tracked files
	Files  int   // the number of files, directories and links
}

// DefaultCaps returns the caps that apply unless the caller sets others.
func DefaultCaps() Caps { return Caps{Shared: 512 << 20, Copied: 64 << 20, Files: 200_000} }

// Request says what to keep.
type Request struct {
	Label   Label
	Targets Targets
	Caps    Caps
	Time    time.Time
}

// The names of the files of a set in the directory sets: <id> and one of these suffixes. A mark without a manifest
// belongs to a set that was not finished, or that is being removed.
const (
	markFile     = ".set"      // is made first and removed last
	manifestFile = ".json"     // the set is valid once this file exists
	afterFile    = ".after"    // the record of Seal
	backFile     = ".restored" // exists once Restore has met no conflict and no failure
	packFile     = ".pack"     // the content of single files
	treesDir     = ".trees"
)

const (
	smallTree = 1 << 20 // bytes; smaller trees are copied without a test for reflinks
	cleanUp   = 30 * time.Second
)

func (s Store) sets() string { return filepath.Join(s.Dir, "sets") }

func (s Store) path(id, what string) string { return filepath.Join(s.sets(), id+what) }

// Keep keeps what req describes, before a command is executed. When Keep returns without an error, the set is complete
// and survives a kill. After an error or a kill there is no set, the files of the repository are untouched, and the
// next Keep or Prune removes the remains. Keep flushes nothing except git objects, so a power cut may destroy the set.
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
		// ctx may have ended, which may be the reason for the error.
		ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
		defer cancel()
		if _, missing := os.Lstat(s.path(m.ID, markFile)); missing == nil {
			_ = s.clear(ctx, m.ID) // a later sweep removes the rest
		}
		return Kept{}, fmt.Errorf("keeping what the command may change: %w", err)
	}
	return m.kept(false, false), nil
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
	g, err := s.openGit(ctx)
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

// keepTarget keeps one target in the cheapest safe way. A target that cannot be kept is added to NotKept. The returned
// error concerns only the private directory.
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

// ways returns the methods that may keep a tree, the best first.
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
