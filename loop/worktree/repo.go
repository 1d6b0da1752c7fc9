// Package worktree finds out facts about a git work tree, and makes commits in it.
//
// It calls git (2.30 or newer) through package gitcmd for facts that only git knows, and reads files for the others. No
// result includes a path below a directory named .superloop, because superloop writes there while the loop runs.
//
// A Snapshot lists the content of the tree, whether it is committed, staged or untracked. The same files give the same
// snapshot before and after a commit. So a loop can tell an agent that works from an agent that only commits.
//
// A Survey lists all that tests can read, without git, and only for the top directory leaves out .superloop. So a loop can
// tell whether the files are those on which the tests ran.
//
// Commit commits the work of one iteration and nothing else. What an operator had staged or changed stays as it was, and
// the index always fits HEAD.
package worktree

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/gitcmd"
)

var (
	// ErrNotRepo means that a directory is not in the work tree of a repository.
	ErrNotRepo = gitcmd.ErrNotRepo
	// ErrUnborn means that an operation needs a commit, and the repository has none.
	ErrUnborn = errors.New("the repository has no commit yet")
)

// Repo is a git work tree. Several goroutines may use a Repo, but not for two commits at the same time.
type Repo struct {
	Top string // the work tree's top directory, absolute
	// GitDir is the git directory of the work tree, absolute. For a linked work tree or a submodule it is not Top/.git.
	GitDir string

	git     *gitcmd.Repo
	durable durability
}

// Open finds the work tree that contains dir. The work tree may be that of a submodule or of a repository without
// commits. A bare repository has none. private is a directory that agents cannot write, for what git must not take from
// the repository; "" is superloop's state directory.
func Open(ctx context.Context, dir, private string) (*Repo, error) {
	return OpenEnv(ctx, dir, private, os.Environ())
}

// OpenEnv is Open with the environment from which git gets the settings of the user. Variables that would direct git to
// another repository (GIT_DIR and others, which git sets for hooks) have no effect.
func OpenEnv(ctx context.Context, dir, private string, env []string) (*Repo, error) {
	git, err := gitcmd.Open(ctx, dir, private, env)
	if err != nil {
		return nil, fmt.Errorf("opening the repository at %s: %w", dir, err)
	}
	return at(git), nil
}

// LostError says that a repository is no longer where it was.
type LostError = gitcmd.LostError

// Lost returns a *LostError if the work tree no longer belongs to the repository that was opened, and else nil.
func (r *Repo) Lost() *LostError {
	if r.git == nil {
		return nil
	}
	return r.git.Lost()
}

// Place names the repository to which the work tree belongs; see LostSince.
func (r *Repo) Place() string { return r.git.Dir + "\n" + r.git.Common + "\n" }

// LostSince returns a *LostError if the work tree belongs to another repository than that of which was is the Place.
func (r *Repo) LostSince(was string) *LostError {
	dir, common, _ := strings.Cut(strings.TrimSuffix(was, "\n"), "\n")
	return gitcmd.Lost(r.Top, dir, common)
}

// OnMoved has f called with both paths when a FIFO or a sparse file that held git up was moved aside.
func (r *Repo) OnMoved(f func(path, to string)) { r.git.OnMoved(f) }

// at makes a Repo whose commands run at the top of its work tree.
func at(git *gitcmd.Repo) *Repo {
	git = git.FromTop()
	return &Repo{Top: git.Top, GitDir: git.Dir, git: git}
}

// run runs git at the top of the work tree. See package gitcmd for what git takes from the repository, and what not.
func (r *Repo) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	if r.git == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotRepo, r.Top)
	}
	return r.git.Run(ctx, stdin, args...)
}

// read runs git for a query.
func (r *Repo) read(ctx context.Context, args ...string) ([]byte, error) {
	return r.run(ctx, nil, args...)
}

// line runs git for a query that prints one path or name. It removes only the newline at the end, because a path may
// contain any other character.
func (r *Repo) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.read(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// Head returns the commit of HEAD, or "" in a repository without a commit.
func (r *Repo) Head(ctx context.Context) (string, error) {
	return r.orNone(ctx, "HEAD", "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
}

// Branch returns the short name of the current branch, even if the branch has no commit yet. It returns "" if HEAD is
// detached.
func (r *Repo) Branch(ctx context.Context) (string, error) {
	if short, ok := strings.CutPrefix(r.branch(), "refs/heads/"); ok && short != ".invalid" { // a reftable has the real name
		return short, nil
	}
	return r.orNone(ctx, "the branch", "symbolic-ref", "--quiet", "--short", "HEAD")
}

// orNone runs git for a query in which exit code 1 means that there is no answer.
func (r *Repo) orNone(ctx context.Context, what string, args ...string) (string, error) {
	out, err := r.line(ctx, args...)
	if gitcmd.ExitCode(err) == 1 {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading %s: %w", what, err)
	}
	return out, nil
}

// Dirty returns the paths that differ from HEAD or are untracked, sorted, relative to Top. A repository inside the work
// tree that is not a submodule counts as one path: its directory with a slash at the end.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	_, list, err := r.changes(ctx, true)
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, c.path)
	}
	return out, err
}

// Committed is a commit of the current branch.
type Committed struct {
	SHA     string
	At      time.Time // time of the commit, not of the author's work
	Subject string
	Files   []string // the paths that the commit changed, relative to Top, in the form that git prints
}

// Recent returns the commits of HEAD since a time, the newest first, at most n. In a repository without a commit it
// returns none.
func (r *Repo) Recent(ctx context.Context, since time.Time, n int) ([]Committed, error) {
	if head, err := r.Head(ctx); err != nil || head == "" {
		return nil, err
	}
	args := []string{"-c", "log.showSignature=false", "log", "-z", "--no-color", "--no-renames", "--name-only", "--no-decorate",
		"--max-count=" + strconv.Itoa(n), "--format=%x01%H%x02%ct%x02%s%x03"}
	if !since.IsZero() {
		args = append(args, "--since="+since.UTC().Format(time.RFC3339))
	}
	out, err := r.read(ctx, append(args, "HEAD", "--")...)
	if err != nil {
		return nil, fmt.Errorf("reading the last commits: %w", err)
	}
	var all []Committed
	for _, part := range strings.Split(string(out), "\x01")[1:] {
		head, files, _ := strings.Cut(part, "\x03")
		words := strings.SplitN(head, "\x02", 3)
		if len(words) < 3 {
			return nil, fmt.Errorf("reading the last commits: git log printed %q", head)
		}
		at, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the last commits: git log printed the time %q", words[1])
		}
		c := Committed{SHA: words[0], At: time.Unix(at, 0).UTC(), Subject: words[2]}
		c.Files = strings.FieldsFunc(files, func(r rune) bool { return r == 0 || r == '\n' })
		all = append(all, c)
	}
	return all, nil
}

// File modes of git.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
)

// change is a path that git status lists.
type change struct {
	path      string
	staged    byte // X: HEAD compared with the index; '.' for equal, '?' in both fields for untracked
	worktree  byte // Y: the index compared with the work tree
	submodule string
	mode      uint32 // mode in the work tree; 0 if the path is deleted or untracked
	unmerged  bool
}

func (c change) untracked() bool { return c.worktree == '?' }

// nested reports whether the change is an untracked repository inside the work tree.
func (c change) nested() bool { return c.untracked() && strings.HasSuffix(c.path, "/") }

// own reports whether a path belongs to superloop.
func own(path string) bool {
	return strings.Contains("/"+path+"/", "/.superloop/")
}

// status lists the paths that differ from HEAD or from the index, or are untracked, sorted by path. Of a submodule it
// sees only the commit.
func (r *Repo) status(ctx context.Context) ([]change, error) {
	out, err := r.read(ctx, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames", "--ignore-submodules=dirty")
	return parsed(out, err, parseStatus, "reading the status of "+r.Top)
}

// submodules adds the submodules in index whose work tree differs from their own commit to the changes in list. It calls
// git two times for each. In a submodule git itself would start another git, which would take the configuration of the
// submodule.
func (r *Repo) submodules(ctx context.Context, index []entry, list []change) []change {
	for _, e := range index {
		if e.mode != modeGitlink || !r.changedInside(ctx, e.path) {
			continue
		}
		i, listed := slices.BinarySearchFunc(list, e.path, func(c change, path string) int { return strings.Compare(c.path, path) })
		if !listed {
			list = slices.Insert(list, i, change{path: e.path, staged: '.', worktree: 'M', mode: modeGitlink})
		}
		list[i].submodule = "S.M."
	}
	return list
}

// changedInside reports whether the work tree of a submodule differs from its own commit.
func (r *Repo) changedInside(ctx context.Context, path string) bool {
	git, err := r.git.Inside(ctx, filepath.Join(r.Top, path))
	if err != nil {
		return false // it is not checked out
	}
	list, err := at(git).Dirty(ctx)
	return err == nil && len(list) > 0
}

// parseStatus parses the output of git status --porcelain=v2 -z.
func parseStatus(out []byte) ([]change, error) {
	var list []change
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		if len(rec) == 0 || rec[0] == '#' || rec[0] == '!' {
			continue
		}
		// For each kind of record: the number of fields before the path, and the field with the mode in the work tree.
		fields := map[byte][2]int{'1': {8, 5}, '2': {9, 5}, 'u': {10, 6}, '?': {1, 0}}[rec[0]]
		parts := strings.SplitN(string(rec), " ", fields[0]+1)
		good := fields[0] > 0 && len(parts) == fields[0]+1
		if good && rec[0] == '2' { // a rename record, although --no-renames excludes it: the old name follows
			_, out, _ = bytes.Cut(out, []byte{0})
		}
		c := change{path: parts[len(parts)-1], staged: '?', worktree: '?', unmerged: rec[0] == 'u'}
		if good && rec[0] != '?' {
			m, err := strconv.ParseUint(parts[fields[1]], 8, 32)
			if good = err == nil && len(parts[1]) == 2; good {
				c.staged, c.worktree, c.submodule, c.mode = parts[1][0], parts[1][1], parts[2], uint32(m)
			}
		}
		if !good {
			return nil, fmt.Errorf("git status printed the record %.200q", rec)
		}
		if !own(strings.TrimSuffix(c.path, "/")) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// index lists the files of the index, sorted by path, without the paths that have a conflict. It calls git once.
func (r *Repo) index(ctx context.Context) ([]entry, error) {
	out, err := r.read(ctx, "ls-files", "--stage", "-v", "-z")
	return parsed(out, err, parseIndex, "listing the files of "+r.Top)
}

// parsed parses the output of a git that ended with err. doing begins the text of each error.
func parsed[T any](out []byte, err error, parse func([]byte) ([]T, error), doing string) (list []T, _ error) {
	if err == nil {
		list, err = parse(out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return list, nil
}

// parseIndex parses the output of git ls-files --stage -v -z, which has a record "tag mode object stage<TAB>path" for
// each file. See unwatchedTag for the tag.
func parseIndex(out []byte) ([]entry, error) {
	list := make([]entry, 0, bytes.Count(out, []byte{0}))
	sorted := true
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		meta, path, ok := bytes.Cut(rec, []byte{'\t'})
		if !ok || len(meta) < 2+6+1+40+1+1 || meta[1] != ' ' || meta[8] != ' ' || meta[len(meta)-2] != ' ' {
			return nil, fmt.Errorf("git ls-files printed the record %.200q", rec)
		}
		tag, meta := meta[0], meta[2:]
		if meta[len(meta)-1] != '0' {
			continue
		}
		mode, err := strconv.ParseUint(string(meta[:6]), 8, 32)
		object := meta[7 : len(meta)-2]
		e := entry{path: string(path), mode: uint32(mode) | unwatchedTag(tag)}
		if err == nil && hex.DecodedLen(len(object)) <= len(e.sum) {
			_, err = hex.Decode(e.sum[:], object)
		} else {
			err = hex.ErrLength
		}
		if err != nil {
			return nil, fmt.Errorf("git ls-files printed the record %.200q", rec)
		}
		if own(e.path) {
			continue
		}
		sorted = sorted && (len(list) == 0 || list[len(list)-1].path < e.path)
		list = append(list, e)
	}
	if !sorted {
		slices.SortFunc(list, byPath)
	}
	return list, nil
}
