// Package gitcmd is the one way in which superloop runs git with its own rights. Agents can write nearly all that steers
// git: the configuration of the repository and of the user, attributes, hooks, and the files that lead from one
// directory of git to the next. So git gets none of that from where agents write.
//
//   - The program is the one of proc.Trusted. The environment is built from nothing.
//   - The configuration is superloop's own: a view of the repository, a directory in the private state whose file config
//     holds only keys of a list, and whose links lead to the repository's objects and refs. git takes it for the
//     repository (GIT_COMMON_DIR). So there are no hooks, filters, monitors, signatures, aliases, helpers, text
//     converters, merge or diff programs, remotes and includes, whatever they are called, and nothing changes between
//     a look at the configuration and the start of git.
//   - The work tree and the directories of git are found once, when the repository is opened, without git. core.worktree
//     and a file commondir in the repository's own .git are not followed.
//
// A file with the attribute "filter" is content that the user's git would convert: see Repo.Filtered.
package gitcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

const (
	maxOutput = 256 << 20 // bytes of the output of one call of git: enough for about two million files
	maxTime   = 10 * time.Minute
)

// Repo is a repository with a work tree. Several goroutines may use one.
type Repo struct {
	Top    string // the top directory of the work tree, absolute, links resolved
	Dir    string // the git directory of the work tree
	Common string // the git directory of the repository; another one than Dir for a linked work tree
	View   string // the view that git takes for Common
	SHA256 bool   // the object format

	at      string   // the directory in which commands run
	private string   // where views lie
	environ []string // the caller's
	index   string   // see WithIndex
	program string
	named   []string // files outside of the git directory that the configuration has git read
	*waits
}

// Open finds the work tree that contains dir, and makes the view of its repository in the directory private. Agents must
// not be able to write private; "" is superloop's state directory for environ. git reads the settings of the user as
// environ says (HOME, XDG_CONFIG_HOME, GIT_CONFIG_*), and takes the names, addresses and times of GIT_AUTHOR_* and
// GIT_COMMITTER_* from it; nothing else of environ reaches it. For a directory that is in no work tree the error is
// ErrNotRepo.
func Open(ctx context.Context, dir, private string, environ []string) (*Repo, error) {
	abs, err := real(dir)
	if err != nil {
		return nil, err
	}
	found, err := find(abs)
	if err != nil {
		return nil, err
	}
	return open(ctx, found, abs, private, environ, &waits{})
}

// Inside opens the repository whose work tree begins exactly at dir: a submodule, a linked work tree.
func (r *Repo) Inside(ctx context.Context, dir string) (*Repo, error) {
	top, err := real(dir)
	if err != nil {
		return nil, err
	}
	found, ok := placeAt(top)
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNotRepo, dir)
	}
	return open(ctx, found, top, r.private, r.environ, r.waits)
}

func open(ctx context.Context, found place, at, private string, environ []string, shared *waits) (*Repo, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	if private == "" {
		private = stateDir(environ)
	}
	sum := sha256.Sum256([]byte(found.dir + "\x00" + found.common))
	r := &Repo{Top: found.top, Dir: found.dir, Common: found.common, View: filepath.Join(private, "git-"+hex.EncodeToString(sum[:8])),
		at: at, private: private, environ: environ, program: program, waits: shared}
	return r, r.Refresh(ctx)
}

// stateDir returns superloop's state directory for an environment, or a temporary directory if it names none.
func stateDir(environ []string) string {
	home := value(environ, "XDG_STATE_HOME")
	if home == "" && value(environ, "HOME") != "" {
		home = filepath.Join(value(environ, "HOME"), ".local", "state")
	}
	if !filepath.IsAbs(home) {
		return filepath.Join(os.TempDir(), fmt.Sprintf("superloop-%d", os.Geteuid()))
	}
	return filepath.Join(home, "superloop")
}

func value(environ []string, name string) (v string) {
	for _, e := range environ {
		if rest, ok := strings.CutPrefix(e, name+"="); ok {
			v = rest
		}
	}
	return v
}

// FromTop returns the same repository with the top of the work tree as the directory in which commands run.
func (r *Repo) FromTop() *Repo {
	other := *r
	other.at = r.Top
	return &other
}

// WithIndex returns the same repository with another index.
func (r *Repo) WithIndex(file string) *Repo {
	other := *r
	other.index = file
	return &other
}

// Run runs git with args and stdin, and returns its standard output. git prints at most 256 MiB and takes at most ten
// minutes. See proc.Tool.Run for the error.
func (r *Repo) Run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	env := append(r.base(r.View),
		"HOME="+r.View, "XDG_CONFIG_HOME="+r.View, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null")
	for _, name := range []string{"AUTHOR_NAME", "AUTHOR_EMAIL", "AUTHOR_DATE", "COMMITTER_NAME", "COMMITTER_EMAIL", "COMMITTER_DATE"} {
		if v := value(r.environ, "GIT_"+name); v != "" {
			env = append(env, "GIT_"+name+"="+v)
		}
	}
	if v := value(r.environ, "EMAIL"); v != "" {
		env = append(env, "EMAIL="+v)
	}
	if r.index != "" {
		env = append(env, "GIT_INDEX_FILE="+r.index)
	}
	return r.watched(ctx, r.at, env, stdin, args...)
}

// watched runs git and ends what holds it.
func (r *Repo) watched(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	go r.unblock(ctx)
	out, err := run(ctx, r.program, dir, env, stdin, args...)
	if failed, ok := errors.AsType[*proc.ToolError](err); ok && strings.Contains(failed.Stderr, outOfMemory) && r.moveAside(ctx, sparse) {
		return run(ctx, r.program, dir, env, stdin, args...)
	}
	return out, err
}

// Admin runs git worktree or git config with the repository's own configuration, because these subcommands write paths
// and settings that the user's git reads. They read no content of files, so no filter applies; they run without hooks,
// and "worktree add" must not check files out. Any other subcommand is an error.
func (r *Repo) Admin(ctx context.Context, args ...string) ([]byte, error) {
	if len(args) < 2 || args[0] != "config" && args[0] != "worktree" || args[1] == "add" && !slices.Contains(args, "--no-checkout") {
		return nil, fmt.Errorf("git %s: it must run in the view of the repository", strings.Join(args, " "))
	}
	env := r.base(r.Common)
	for _, e := range r.environ {
		name, _, _ := strings.Cut(e, "=")
		if name == "HOME" || name == "XDG_CONFIG_HOME" || strings.HasPrefix(name, "GIT_CONFIG") {
			env = append(env, e)
		}
	}
	return r.watched(ctx, r.Top, env, nil, append([]string{"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"}, args...)...)
}

// base returns the environment of every git in this repository, with common as its common directory.
func (r *Repo) base(common string) []string {
	env := plain(r.environ)
	return append(env, "GIT_DIR="+r.Dir, "GIT_COMMON_DIR="+common, "GIT_WORK_TREE="+r.Top, "GIT_OBJECT_DIRECTORY="+filepath.Join(r.Common, "objects"))
}

// plain returns the part of the environment that no repository needs.
func plain(environ []string) []string {
	env := []string{"PATH=/usr/bin:/bin", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_EDITOR=:", "GIT_PAGER=cat",
		"GIT_TRACE2=0", "GIT_TRACE2_EVENT=0", "GIT_TRACE2_PERF=0"}
	if tz := value(environ, "TZ"); tz != "" {
		env = append(env, "TZ="+tz)
	}
	return env
}

func run(ctx context.Context, program, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	return proc.Tool{Dir: dir, Env: env, Stdin: stdin, Limit: maxOutput}.Run(ctx, append([]string{program}, args...)...)
}

// Scratch runs git in a directory that superloop has just made for itself, such as that of the demo. git reads no
// configuration but that of the repository that superloop makes there.
func Scratch(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return Feed(ctx, dir, nil, args...)
}

// Feed is Scratch with a standard input.
func Feed(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	env := append(plain(nil), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_TEMPLATE_DIR=")
	return run(ctx, program, dir, env, stdin, args...)
}

// Filtered returns those of the paths for which an attribute names a filter (git-lfs, git-crypt), sorted. The user's git
// would store other content for them than that of the file, and superloop runs no filter. Paths are relative to the
// directory that was opened.
func (r *Repo) Filtered(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	out, err := r.Run(ctx, []byte(strings.Join(paths, "\x00")+"\x00"), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return nil, fmt.Errorf("reading the attributes of files: %w", err)
	}
	var list []string
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+2 < len(fields); i += 3 {
		if v := fields[i+2]; v != "unspecified" && v != "unset" {
			list = append(list, fields[i])
		}
	}
	slices.Sort(list)
	return list, nil
}

// ExitCode returns the exit code of a git that ran and failed, or -1 for another error.
func ExitCode(err error) int {
	if failed, ok := errors.AsType[*proc.ToolError](err); ok {
		return failed.Code
	}
	return -1
}

// Missing reports whether err says that there is no git that superloop may run.
func Missing(err error) bool { return errors.Is(err, errNoGit) }

var errNoGit = errors.New("no git that superloop may run")

// Program returns the path of the git that superloop runs. The first call decides for the life of the process.
func Program() (string, error) {
	path, err := proc.Trusted("git")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoGit, err)
	}
	return path, nil
}

// Version returns what the git that superloop runs says of its version, and its path.
func Version(ctx context.Context) (said, path string, err error) {
	if path, err = Program(); err != nil {
		return "", "", err
	}
	out, err := run(ctx, path, "/", plain(nil), nil, "version")
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return text.Cut(line, 120), path, err
}

var disk = durable.OS()
