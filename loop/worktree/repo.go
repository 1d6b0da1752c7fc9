// Package worktree finds out facts about a git work tree, and makes commits in it.
//
// It calls git (2.30 or newer) for facts that only git knows, and reads files for the others. No result includes a path
// below a directory named .superloop, because superloop writes there while the loop runs.
//
// A Snapshot lists the content of the tree, whether it is committed, staged or untracked. The same files give the same
// snapshot before and after a commit. So a loop can tell an agent that works from an agent that only commits.
//
// Commit commits the work of one iteration and nothing else. It uses git's own partial commit. So everything that an
// operator had staged or changed stays as it was, hooks run, and the index always fits HEAD.
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
	// ErrNotRepo means that a directory is not in the work tree of a repository.
	ErrNotRepo = errors.New("not a git work tree")
	// ErrUnborn means that an operation needs a commit, and the repository has none.
	ErrUnborn = errors.New("the repository has no commit yet")
)

const maxOutput = 256 << 20 // bytes of the output of one call of git: enough for about two million files

// Repo is a git work tree. Several goroutines may use a Repo, but not for two commits at the same time.
type Repo struct {
	Top string // the work tree's top directory, absolute
	// GitDir is the git directory of the work tree, absolute. For a linked work tree or a submodule it is not Top/.git.
	GitDir string

	env    []string
	sha256 bool // whether the repository's object format is SHA-256
}

// Open finds the work tree that contains dir. The work tree may be that of a submodule or of a repository without
// commits. A bare repository has none.
func Open(ctx context.Context, dir string) (*Repo, error) { return OpenEnv(ctx, dir, os.Environ()) }

// OpenEnv is Open with an environment for git. OpenEnv removes from it the variables that would direct git to another
// repository (GIT_DIR and others, which git sets for hooks).
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

// tied lists the variables that direct git to another repository or index.
var tied = strings.Fields(`GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR
	GIT_PREFIX GIT_NAMESPACE GIT_CEILING_DIRECTORIES GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS
	GIT_ICASE_PATHSPECS GIT_EDITOR GIT_QUARANTINE_PATH GIT_INTERNAL_SUPER_PREFIX`)

// cleanEnv removes the variables that direct git to another repository, and keeps git from opening an editor.
func cleanEnv(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(tied, name)
	})
	return append(out, "GIT_EDITOR=:")
}

// read runs git for a query. It switches off the file system monitor, a program that the configuration of the
// repository names. proc.Tool sets the language of the messages, and keeps git from taking locks that would disturb an
// agent.
func (r *Repo) read(ctx context.Context, args ...string) ([]byte, error) {
	t := proc.Tool{Dir: r.Top, Env: r.env, Limit: maxOutput}
	return t.Run(ctx, append([]string{"git", "-c", "core.fsmonitor=false"}, args...)...)
}

// write runs git with stdin for a change, as the user would run it. It switches off git's background maintenance,
// because that would be killed half-way when this call ends. The user's own calls of git do the maintenance.
func (r *Repo) write(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	t := proc.Tool{Dir: r.Top, Env: r.env, Stdin: stdin, Limit: maxOutput}
	return t.Run(ctx, append([]string{"git", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
}

// line runs git for a query that prints one path or name. It removes only the newline at the end, because a path may
// contain any other character.
func (r *Repo) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.read(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// exitCode returns the exit code of a git that ran and failed, or -1 for another error.
func exitCode(err error) int {
	if failed, ok := errors.AsType[*proc.ToolError](err); ok {
		return failed.Code
	}
	return -1
}

// Head returns the commit of HEAD, or "" in a repository without a commit.
func (r *Repo) Head(ctx context.Context) (string, error) {
	return r.orNone(ctx, "HEAD", "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
}

// Branch returns the short name of the current branch, even if the branch has no commit yet. It returns "" if HEAD is
// detached.
func (r *Repo) Branch(ctx context.Context) (string, error) {
	return r.orNone(ctx, "the branch", "symbolic-ref", "--quiet", "--short", "HEAD")
}

// orNone runs git for a query in which exit code 1 means that there is no answer.
func (r *Repo) orNone(ctx context.Context, what string, args ...string) (string, error) {
	out, err := r.line(ctx, args...)
	if exitCode(err) == 1 {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading %s: %w", what, err)
	}
	return out, nil
}

// Dirty returns the paths that differ from HEAD or are untracked, sorted, relative to Top. A repository inside the work
// tree that is not a submodule counts as one path: its directory with a slash at the end.
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

// status lists the paths that differ from HEAD or from the index, or are untracked, sorted by path. It calls git once.
func (r *Repo) status(ctx context.Context) ([]change, error) {
	out, err := r.read(ctx, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames", "--ignore-submodules=none")
	return parsed(out, err, parseStatus, "reading the status of "+r.Top)
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
			return nil, fmt.Errorf("git status printed the record %q", rec)
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
	out, err := r.read(ctx, "ls-files", "--stage", "-z")
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

// parseIndex parses the output of git ls-files --stage -z, which has a record "mode object stage<TAB>path" for each
// file.
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
