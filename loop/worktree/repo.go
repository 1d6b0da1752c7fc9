// Package worktree tells facts about a git work tree, and commits in it.
//
// It calls git (2.30 or newer) for what only git knows and reads files itself for the rest. Everything under a
// directory named .superloop is left out of every answer: superloop writes there while the loop runs.
//
// A Snapshot says what is in the tree, whatever of it is committed, staged or untracked: the same files give the same
// snapshot before and after a commit, so that a loop can tell an agent that works from one that only commits.
//
// Commit commits the work of one iteration and nothing else. It uses git's own partial commit, so that what an operator
// had staged or changed stays as it was, hooks run, and the index and HEAD are never out of step.
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

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

var (
	// ErrNotRepo is a directory that is not in the work tree of a repository.
	ErrNotRepo = errors.New("not a git work tree")
	// ErrUnborn is an operation that needs a commit in a repository without one.
	ErrUnborn = errors.New("the repository has no commit yet")
)

const maxOutput = 256 << 20 // bytes that one call of git may print: the list of about two million files

// Repo is a git work tree. Several goroutines may use it, but two commits at once get in each other's way.
type Repo struct {
	Top string // the work tree's top directory, absolute
	// GitDir is its git directory, absolute; for a linked work tree or a submodule that is not Top/.git.
	GitDir string

	env    []string
	sha256 bool // the object format
}

// Open finds the work tree that dir is in, also of a submodule or a repository without commits; not of a bare one.
func Open(ctx context.Context, dir string) (*Repo, error) { return OpenEnv(ctx, dir, os.Environ()) }

// OpenEnv is Open with the environment that git is to be run with. Variables that would make git look at another
// repository (GIT_DIR and the like, set inside of hooks) are left out of it.
func OpenEnv(ctx context.Context, dir string, env []string) (*Repo, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("opening the repository: %w: %s is not a directory", ErrNotRepo, abs)
	}
	r := &Repo{Top: abs, env: cleanEnv(env)}
	out, err := r.read(ctx, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--show-object-format")
	failed, ran := errors.AsType[*proc.ToolError](err)
	switch {
	case ran && strings.Contains(failed.Stderr, "not a git repository"):
		return nil, fmt.Errorf("%w: %s; to make it one: git -C %s init", ErrNotRepo, abs, text.Paste(abs))
	case err != nil:
		return nil, fmt.Errorf("opening the repository at %s: %w", abs, err)
	}
	facts := strings.Fields(string(out))
	switch {
	case len(facts) < 3:
		return nil, fmt.Errorf("opening the repository at %s: git rev-parse answered %q; git 2.30 or newer is needed", abs, out)
	case facts[0] == "true":
		return nil, fmt.Errorf("%w: %s is a bare repository; clone it, or add a work tree: git -C %s worktree add DIR",
			ErrNotRepo, abs, text.Paste(abs))
	case facts[1] != "true":
		return nil, fmt.Errorf("%w: %s is inside a git directory, not beside it", ErrNotRepo, abs)
	}
	r.sha256 = facts[2] == "sha256"
	if r.GitDir, err = r.line(ctx, "rev-parse", "--absolute-git-dir"); err == nil {
		r.Top, err = r.line(ctx, "rev-parse", "--show-toplevel")
	}
	if err != nil {
		return nil, fmt.Errorf("opening the repository at %s: %w", abs, err)
	}
	return r, nil
}

// tied are the variables that tie git to another repository or index.
var tied = strings.Fields(`GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR
	GIT_PREFIX GIT_NAMESPACE GIT_CEILING_DIRECTORIES GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS
	GIT_ICASE_PATHSPECS GIT_EDITOR GIT_QUARANTINE_PATH GIT_INTERNAL_SUPER_PREFIX`)

// cleanEnv drops what ties git to another repository, and what makes it ask on a terminal.
func cleanEnv(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(tied, name)
	})
	return append(out, "GIT_EDITOR=:")
}

// read runs git for an answer, without the file system monitor, which is a program that the repository's own
// configuration names. proc.Tool sees to the language of messages and to it that no lock gets in an agent's way.
func (r *Repo) read(ctx context.Context, args ...string) ([]byte, error) {
	t := proc.Tool{Dir: r.Top, Env: r.env, Limit: maxOutput}
	return t.Run(ctx, append([]string{"git", "-c", "core.fsmonitor=false"}, args...)...)
}

// write runs git to change something, as the user would, with stdin. The housekeeping that git does on the side is left
// to the user's own calls: it would be ended half-way with this one.
func (r *Repo) write(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	t := proc.Tool{Dir: r.Top, Env: r.env, Stdin: stdin, Limit: maxOutput}
	return t.Run(ctx, append([]string{"git", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
}

// line is the answer of a call that gives one path, which may hold anything but a newline at its end.
func (r *Repo) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.read(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// exitCode is the exit code of a git that ran and failed, -1 for another error.
func exitCode(err error) int {
	if failed, ok := errors.AsType[*proc.ToolError](err); ok {
		return failed.Code
	}
	return -1
}

// Head is the commit that HEAD is at, "" in a repository without a commit.
func (r *Repo) Head(ctx context.Context) (string, error) {
	return r.orNone(ctx, "HEAD", "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
}

// Branch is the short name of the current branch, also of one without a commit; "" when HEAD is detached.
func (r *Repo) Branch(ctx context.Context) (string, error) {
	return r.orNone(ctx, "the branch", "symbolic-ref", "--quiet", "--short", "HEAD")
}

// orNone is the answer of a call that says by the exit code 1 that there is none.
func (r *Repo) orNone(ctx context.Context, what string, args ...string) (string, error) {
	out, err := r.line(ctx, args...)
	if exitCode(err) == 1 {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading %s: %w", what, err)
	}
	return out, nil
}

// Dirty lists the paths that differ from HEAD or are untracked, sorted, relative to Top; a repository inside the work
// tree that is not a submodule is its directory with a slash at the end.
func (r *Repo) Dirty(ctx context.Context) ([]string, error) {
	list, err := r.status(ctx)
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, c.path)
	}
	return out, err
}

// Committed is a commit of the current branch.
type Committed struct {
	SHA     string
	At      time.Time // of the commit, not of its author
	Subject string
	Files   []string // paths that it changed, relative to Top, as git names them
}

// Recent lists the commits of HEAD since a time, the newest first, at most n. A repository without a commit has none.
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

// Modes of git's own, and what else a snapshot's entry can be.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
)

// change is a path that git status tells of.
type change struct {
	path      string
	staged    byte // X: HEAD against the index; '.' the same, '?' for both untracked
	worktree  byte // Y: the index against the work tree
	submodule string
	mode      uint32 // in the work tree; 0 when it is deleted or untracked
	unmerged  bool
}

func (c change) untracked() bool { return c.worktree == '?' }

// nested is an untracked repository inside the work tree.
func (c change) nested() bool { return c.untracked() && strings.HasSuffix(c.path, "/") }

// own reports whether a path is superloop's.
func own(path string) bool {
	return strings.Contains("/"+path+"/", "/.superloop/")
}

// status lists what differs from HEAD or the index or is untracked, sorted by path. It is one call of git.
func (r *Repo) status(ctx context.Context) ([]change, error) {
	out, err := r.read(ctx, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames", "--ignore-submodules=none")
	return parsed(out, err, parseStatus, "reading the status of "+r.Top)
}

// parseStatus reads the output of git status --porcelain=v2 -z.
func parseStatus(out []byte) ([]change, error) {
	var list []change
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		if len(rec) == 0 || rec[0] == '#' || rec[0] == '!' {
			continue
		}
		// How many fields stand before the path, and which is the mode in the work tree.
		fields := map[byte][2]int{'1': {8, 5}, '2': {9, 5}, 'u': {10, 6}, '?': {1, 0}}[rec[0]]
		parts := strings.SplitN(string(rec), " ", fields[0]+1)
		good := fields[0] > 0 && len(parts) == fields[0]+1
		if good && rec[0] == '2' { // a rename, which was not asked for: the old name follows
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
			return nil, fmt.Errorf("git status printed the record %q", rec)
		}
		if !own(strings.TrimSuffix(c.path, "/")) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// index lists the files of the index, sorted by path; a path with a conflict is left out. It is one call of git.
func (r *Repo) index(ctx context.Context) ([]entry, error) {
	out, err := r.read(ctx, "ls-files", "--stage", "-z")
	return parsed(out, err, parseIndex, "listing the files of "+r.Top)
}

// parsed is what parse finds in the output of a git that ended with err; doing stands before each error.
func parsed[T any](out []byte, err error, parse func([]byte) ([]T, error), doing string) (list []T, _ error) {
	if err == nil {
		list, err = parse(out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return list, nil
}

// parseIndex reads the output of git ls-files --stage -z: for each file "mode object stage<TAB>path".
func parseIndex(out []byte) ([]entry, error) {
	list := make([]entry, 0, bytes.Count(out, []byte{0}))
	sorted := true
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		meta, path, ok := bytes.Cut(rec, []byte{'\t'})
		if !ok || len(meta) < 6+1+40+1+1 || meta[6] != ' ' || meta[len(meta)-2] != ' ' {
			return nil, fmt.Errorf("git ls-files printed the record %q", rec)
		}
		if meta[len(meta)-1] != '0' {
			continue
		}
		mode, err := strconv.ParseUint(string(meta[:6]), 8, 32)
		object := meta[7 : len(meta)-2]
		e := entry{path: string(path), mode: uint32(mode)}
		if err == nil && hex.DecodedLen(len(object)) <= len(e.sum) {
			_, err = hex.Decode(e.sum[:], object)
		} else {
			err = hex.ErrLength
		}
		if err != nil {
			return nil, fmt.Errorf("git ls-files printed the record %q", rec)
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
