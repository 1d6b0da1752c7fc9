package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

var (
	// ErrNoBranch means that the branch that is to be merged does not exist.
	ErrNoBranch = errors.New("there is no such branch")
	// ErrDetached means that no branch is checked out, so that there is nothing to merge into.
	ErrDetached = errors.New("no branch is checked out")
	// ErrOldGit means that the git of this machine cannot merge without a work tree: it is older than 2.38.
	ErrOldGit = errors.New("this git is older than 2.38 and cannot merge without changing the work tree")
)

// UnfitError says why a branch is not merged: Paths are in the way.
type UnfitError struct {
	Why   string // dirty, conflict, steers, filtered, untracked
	Paths []string
}

// The reasons of an UnfitError.
const (
	UnfitDirty     = "dirty"     // the work tree has changes that are not committed
	UnfitConflict  = "conflict"  // both branches changed the same lines
	UnfitSteers    = "steers"    // the branch changes files of superloop itself
	UnfitFiltered  = "filtered"  // files with a filter (git-lfs), which superloop does not run
	UnfitUntracked = "untracked" // untracked files are where the branch has files
)

func (e *UnfitError) Error() string {
	words := map[string]string{UnfitDirty: "the work tree has changes that are not committed", UnfitConflict: "both branches changed the same files",
		UnfitSteers: "the branch changes files that steer superloop", UnfitFiltered: "files have a filter, which superloop does not run",
		UnfitUntracked: "untracked files are in the way"}[e.Why]
	const most = 5
	shown := make([]string, 0, most)
	for _, p := range e.Paths[:min(most, len(e.Paths))] {
		shown = append(shown, text.Paste(p))
	}
	if more := len(e.Paths) - most; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	if len(shown) == 0 {
		return words
	}
	return words + ": " + strings.Join(shown, ", ")
}

// Merging is what a merge of a branch into the one that is checked out would do.
type Merging struct {
	Branch, Into string // short names
	Head, Tip    string // the commits of Into and of Branch
	// Nothing says that Into already has all that Branch has. FastForward says that Branch only adds commits to Into.
	Nothing, FastForward bool
	Tree                 string   // the files after the merge
	Paths                []string // what the merge changes, sorted
}

// PlanMerge finds out what a merge of a branch into the one that is checked out would do. It changes nothing. If the merge
// is not possible, the error is ErrBusy, ErrDetached, ErrNoBranch, ErrOldGit or an *UnfitError.
func (r *Repo) PlanMerge(ctx context.Context, branch string) (m Merging, err error) {
	m.Branch = branch
	if err := r.free(); err != nil {
		return m, err
	}
	if m.Into, err = r.Branch(ctx); err != nil {
		return m, err
	} else if m.Into == "" {
		return m, ErrDetached
	}
	if m.Head, err = r.Head(ctx); err != nil {
		return m, err
	} else if m.Head == "" {
		return m, ErrUnborn
	}
	if m.Tip, err = r.Tip(ctx, branch); err != nil {
		return m, err
	}
	_, changes, err := r.changes(ctx, true)
	if err != nil {
		return m, err
	}
	changes = slices.DeleteFunc(changes, change.untracked)
	if len(changes) > 0 {
		unfit := &UnfitError{Why: UnfitDirty}
		for _, c := range changes {
			unfit.Paths = append(unfit.Paths, c.path)
		}
		return m, unfit
	}
	if err := r.mergedTree(ctx, &m); err != nil || m.Nothing {
		return m, err
	}
	return m, r.fit(ctx, &m)
}

// Tip returns the commit of a branch. The error is ErrNoBranch if there is none.
func (r *Repo) Tip(ctx context.Context, branch string) (string, error) {
	tip, err := r.orNone(ctx, "the branch "+branch, "rev-parse", "--quiet", "--verify", "refs/heads/"+branch+"^{commit}")
	if err == nil && tip == "" {
		err = fmt.Errorf("%w: %s", ErrNoBranch, branch)
	}
	return tip, err
}

// mergedTree sets Nothing, FastForward and Tree.
func (r *Repo) mergedTree(ctx context.Context, m *Merging) (err error) {
	if m.Nothing, err = r.leadsTo(ctx, m.Tip, m.Head); err != nil || m.Nothing {
		return err
	}
	if m.FastForward, err = r.leadsTo(ctx, m.Head, m.Tip); err != nil {
		return err
	} else if m.FastForward {
		m.Tree, err = r.line(ctx, "rev-parse", m.Tip+"^{tree}")
		return err
	}
	out, err := r.read(ctx, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", m.Head, m.Tip)
	fields := strings.Split(string(out), "\x00")
	switch code := gitcmd.ExitCode(err); {
	case err == nil:
		m.Tree = fields[0]
	case code == 1:
		unfit := &UnfitError{Why: UnfitConflict}
		for _, p := range fields[1:] {
			if p != "" && !slices.Contains(unfit.Paths, p) {
				unfit.Paths = append(unfit.Paths, p)
			}
		}
		return unfit
	case code == 129:
		return ErrOldGit
	default:
		return err
	}
	tree, err := r.line(ctx, "rev-parse", m.Head+"^{tree}")
	m.Nothing = tree == m.Tree
	return err
}

// leadsTo reports whether a commit is another one or an ancestor of it.
func (r *Repo) leadsTo(ctx context.Context, ancestor, sha string) (bool, error) {
	_, err := r.read(ctx, "merge-base", "--is-ancestor", ancestor, sha)
	if gitcmd.ExitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// fit sets Paths, and returns an *UnfitError if superloop must not check one of them out.
func (r *Repo) fit(ctx context.Context, m *Merging) error {
	if err := r.harmless(ctx, m); err != nil {
		return err
	}
	filtered, err := r.git.Filtered(ctx, m.Paths)
	if err != nil {
		return err
	} else if len(filtered) > 0 {
		return &UnfitError{Why: UnfitFiltered, Paths: filtered}
	}
	return r.vacant(ctx, m.Paths)
}

// harmless sets Paths, and returns an *UnfitError if a file of superloop itself is among them.
func (r *Repo) harmless(ctx context.Context, m *Merging) error {
	out, err := r.read(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", m.Head, m.Tree)
	if err != nil {
		return err
	}
	m.Paths = strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 })
	slices.Sort(m.Paths)
	steers := slices.DeleteFunc(slices.Clone(m.Paths), func(p string) bool { return !own(p) })
	if len(steers) > 0 {
		return &UnfitError{Why: UnfitSteers, Paths: steers}
	}
	return nil
}

// vacant returns an *UnfitError if something that git does not track is where a merge writes, ignored or not: git itself
// would overwrite what is ignored.
func (r *Repo) vacant(ctx context.Context, paths []string) error {
	index, err := r.index(ctx)
	if err != nil {
		return err
	}
	unfit := &UnfitError{Why: UnfitUntracked}
	for _, p := range paths {
		for at := p; at != "."; at = path.Dir(at) {
			info, err := os.Lstat(filepath.Join(r.Top, at))
			if err != nil {
				continue
			}
			_, tracked := slices.BinarySearchFunc(index, at, func(e entry, p string) int { return strings.Compare(e.path, p) })
			below := slices.ContainsFunc(index, func(e entry) bool { return strings.HasPrefix(e.path, at+"/") })
			if !tracked && (!info.IsDir() || at == p && !below) && !slices.Contains(unfit.Paths, at) {
				unfit.Paths = append(unfit.Paths, at)
			}
			break
		}
	}
	if len(unfit.Paths) > 0 {
		return unfit
	}
	return nil
}

// Merge carries a Merging out and returns the commit that Into has then: that of Branch if FastForward is set and squash
// is not, else one new commit with the message. Author and committer are the user of git. No hook, no filter and no merge
// program runs. If Merge fails, Into, the index and the work tree are as they were. The commit survives a power cut.
func (r *Repo) Merge(ctx context.Context, m Merging, squash bool, message string) (sha string, err error) {
	sha = m.Tip
	how := "merge " + m.Branch + ": fast-forward"
	if squash || !m.FastForward {
		how = "merge " + m.Branch + ": squash"
		out, err := r.run(ctx, []byte(message), "commit-tree", m.Tree, "-p", m.Head, "-F", "-")
		if err != nil {
			return "", r.explain("committing the merge", err)
		}
		sha = strings.TrimSpace(string(out))
	}
	_, _ = r.read(ctx, "update-index", "-q", "--refresh") // exit code 1 says that files differ
	if _, err := r.read(ctx, "read-tree", "-m", "-u", m.Head, sha); err != nil {
		if failed, ok := errors.AsType[*proc.ToolError](err); ok && strings.Contains(failed.Stderr, "would be overwritten by merge") {
			return "", &UnfitError{Why: UnfitUntracked, Paths: inTheWay(failed.Stderr)}
		}
		return "", r.explain("checking the merge out", err)
	}
	err = r.flushBefore(ctx, m.Head, m.Paths)
	if err == nil {
		_, err = r.read(ctx, "update-ref", "-m", how, "HEAD", sha, m.Head)
	}
	if err != nil {
		_, back := r.read(ctx, "read-tree", "-m", "-u", sha, m.Head)
		return "", errors.Join(r.explain("moving the branch "+m.Into, err), back)
	}
	_, _ = r.read(ctx, "update-ref", "ORIG_HEAD", m.Head) // for people only
	return sha, r.flushRef(sha)
}

// inTheWay returns the paths that git quotes in its refusals to overwrite files.
func inTheWay(stderr string) (paths []string) {
	for line := range strings.Lines(stderr) {
		_, rest, ok := strings.Cut(line, "'")
		if p, _, closed := strings.Cut(rest, "'"); ok && closed {
			paths = append(paths, p)
		}
	}
	return paths
}

// Linked opens the linked work tree at dir. It returns nil if the repository has none there, or if it is half made.
func (r *Repo) Linked(ctx context.Context, dir string) (*Repo, error) {
	known, err := r.linkedAt(ctx, dir)
	if err != nil || known == nil || known.half() {
		return nil, err
	}
	w, err := r.linked(ctx, dir)
	if errors.Is(err, ErrNotRepo) {
		return nil, nil // its directory is gone
	}
	return w, err
}

// Remotes returns the addresses to which the remotes of the repository are pushed, by their names.
func (r *Repo) Remotes(ctx context.Context) (map[string]string, error) { return r.git.Remotes(ctx) }

// Push makes a commit the tip of a branch of the repository at url, with the rights of the user (gitcmd.Repo.Push).
func (r *Repo) Push(ctx context.Context, url, sha, branch string) error {
	return r.git.Push(ctx, url, sha+":refs/heads/"+branch)
}
