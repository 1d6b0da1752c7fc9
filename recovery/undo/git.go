package undo

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/superloop/superloop/internal/proc"
)

// refBase is where the commits of sets have their refs.
const refBase = "refs/superloop/undo/"

// git is a repository's git, run in the directory of the repository of superloop, so that nothing of the repository's
// own configuration is executed: no hooks, no filters, no file system monitor, no fetches.
type git struct {
	dir    string
	env    []string
	quiet  []string // -c options that silence the filters of the configuration
	found  bool     // there is a work tree that git can read
	why    string   // why it cannot, if there may be one
	prefix string   // of dir below git's top directory
	sha256 bool
	head   string // "" without a commit
}

// openGit looks at the repository. That there is none, or no git, is no error.
func openGit(ctx context.Context, dir string) (*git, error) {
	g := &git{dir: dir, env: []string{"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none"}}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GIT_") || strings.HasPrefix(e, "GIT_CONFIG_") || strings.HasPrefix(e, "GIT_CEILING") {
			g.env = append(g.env, e)
		}
	}
	// With a commit it is the fourth line and the exit code is 0, without one it is 1.
	out, err := g.run(ctx, nil, "rev-parse", "--is-inside-work-tree", "--show-object-format", "--show-prefix", "--quiet", "--verify", "HEAD^{commit}")
	unborn := exitCode(err) == 1
	var failed *proc.ToolError
	if errors.As(err, &failed) && ctx.Err() == nil && (failed.Code == 128 || errors.Is(err, os.ErrNotExist)) {
		if !strings.Contains(failed.Stderr, "not a git repository") {
			g.why, _, _ = strings.Cut(strings.TrimSpace(failed.Stderr), "\n")
		}
		return g, nil
	}
	if err != nil && !unborn {
		return nil, err
	}
	facts := strings.SplitN(string(out), "\n", 3)
	if len(facts) < 3 || facts[0] != "true" {
		return g, nil
	}
	g.sha256, g.prefix = facts[1] == "sha256", strings.TrimSuffix(facts[2], "\n")
	if i := strings.LastIndexByte(g.prefix, '\n'); i >= 0 && !unborn {
		g.prefix, g.head = g.prefix[:i], g.prefix[i+1:]
	}
	filters, err := g.run(ctx, nil, "config", "-z", "--name-only", "--get-regexp", `^filter\.`)
	if err != nil && exitCode(err) != 1 {
		return nil, err
	}
	for name := range strings.SplitSeq(string(filters), "\x00") {
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			base := name[:i]
			g.quiet = append(g.quiet, "-c", base+".clean=", "-c", base+".smudge=", "-c", base+".process=", "-c", base+".required=false")
		}
	}
	g.found = true
	return g, nil
}

func exitCode(err error) int {
	var failed *proc.ToolError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return -1
}

func (g *git) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	argv := append([]string{"git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, g.quiet...)
	return proc.Tool{Dir: g.dir, Env: g.env, Stdin: stdin, Limit: 256 << 20}.Run(ctx, append(argv, args...)...)
}

func (g *git) object(kind string, content []byte) string {
	h := sha1.New()
	if g.sha256 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// difference is a tracked path whose work tree differs from a commit, or may.
type difference struct {
	path    string // relative to dir
	oldMode string // in the commit; gitEmpty: it is not there
	oldID   string
}

// differences compares a commit ("" is the empty tree) with the work tree, by what the index knows; a file whose times
// have changed is among them even if its content has not. Submodules are left out.
func (g *git) differences(ctx context.Context, commit string) ([]difference, error) {
	if commit == "" {
		commit = g.object("tree", nil)
	}
	out, err := g.run(ctx, nil, "diff-index", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=all", "--relative", commit, "--")
	if err != nil {
		return nil, fmt.Errorf("comparing tracked files: %w", err)
	}
	var list []difference
	for len(out) > 0 {
		var meta, name []byte
		meta, out, _ = bytes.Cut(out, []byte{0})
		name, out, _ = bytes.Cut(out, []byte{0})
		f := strings.Fields(string(meta))
		if len(f) != 5 || f[0][0] != ':' || len(name) == 0 {
			return nil, fmt.Errorf("git diff-index printed the record %q", meta)
		}
		if d := (difference{string(name), f[0][1:], f[2]}); d.oldMode != gitModule && f[1] != gitModule && !own(d.path) {
			list = append(list, d)
		}
	}
	return list, nil
}

// Modes as git writes them.
const (
	gitModule = "160000"
	gitLink   = "120000"
	gitExec   = "100755"
	gitFile   = "100644"
	gitEmpty  = "000000" // nothing is there
)

// own: superloop writes there while the command runs.
func own(p string) bool { return p == ".superloop" || strings.HasPrefix(p, ".superloop/") }

// untracked lists what git does not know: files, or with ignored set what it ignores, directories as one entry. A
// repository of its own ends in "/".
func (g *git) untracked(ctx context.Context, ignored bool) ([]string, error) {
	args := []string{"ls-files", "--others", "--exclude-standard", "-z"}
	if ignored {
		args = append(args, "--ignored", "--directory")
	}
	out, err := g.run(ctx, nil, args...)
	if err != nil {
		return nil, fmt.Errorf("listing untracked files: %w", err)
	}
	var list []string
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p != "" && !own(strings.TrimSuffix(p, "/")) {
			list = append(list, p)
		}
	}
	return list, nil
}

// quote writes a path as fast-import reads it.
func quote(p string) string { return `"` + escape(p, `"\`, `\%03o`) + `"` }

// escape writes each byte of s that is no printable ASCII, or one of special, by a format.
func escape(s, special, format string) string {
	var b []byte
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(special, c) >= 0 {
			b = fmt.Appendf(b, format, c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
