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
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
)

// bytesOf is a file of the work tree as git would store it without filters.
type bytesOf struct {
	mode    string // gitFile, gitExec, gitLink, or gitEmpty if there is no file
	perm    uint32
	content []byte
	there   bool // something exists at the path, not necessarily a file
}

// readFile reads the file or link at a path. A path behind a link, and anything else than a file or link, yields
// gitEmpty, as git sees it. A file with more than limit bytes yields errTooBig.
func readFile(repo, rel string, limit int64) (bytesOf, error) {
	b := bytesOf{mode: gitEmpty}
	at, err := open(repo, rel)
	switch {
	case absent(err):
		return b, nil
	case err != nil:
		return b, err
	}
	defer at.close()
	st, err := at.lstat()
	if b.there = st.Mode != 0; err != nil {
		return b, err
	}
	switch kindOf(uint32(st.Mode)) {
	case isLink:
		to, err := readlinkat(int(at.dir.Fd()), at.name)
		return bytesOf{gitLink, 0o777, []byte(to), true}, err
	case isFile:
		b.mode, b.perm = gitFile, uint32(st.Mode)&0o7777
		if st.Mode&0o100 != 0 {
			b.mode = gitExec
		}
		b.content, err = at.read(limit)
	}
	return b, err
}

// state returns mode and SHA-256 of the file as a string, or "" if there is no file.
func (b bytesOf) state() string {
	if b.mode == gitEmpty {
		return ""
	}
	sum := sha256.Sum256(b.content)
	return b.mode + " " + hex.EncodeToString(sum[:])
}

// tooBig is the state of a file that is too big to be read. It never equals a kept state.
const tooBig = "too big"

// stateAt reads the file at a path and returns it with its state.
func (s Store) stateAt(rel string) (b bytesOf, state string, err error) {
	b, err = readFile(s.Repo, rel, maxTracked)
	if errors.Is(err, errTooBig) {
		return b, tooBig, nil
	}
	return b, b.state(), err
}

// keepTracked makes the commit of the tracked files with their content in the work tree. It reads only files that
// differ from HEAD. Files that do not fit into room are added to NotKept, and the commit has them as in HEAD.
func (s Store) keepTracked(ctx context.Context, g *git, list []difference, m *manifest, room int64) error {
	var in bytes.Buffer
	fmt.Fprintf(&in, "feature done\ncommit %s\nmark :1\ncommitter superloop <superloop@localhost> %d +0000\n", refBase+m.ID, m.Time.Unix())
	data(&in, []byte("what "+m.ID+" may change\n"))
	if g.head != "" {
		fmt.Fprintf(&in, "from %s\n", g.head)
	}
	for _, d := range list {
		b, err := readFile(s.Repo, d.path, min(room, maxTracked))
		switch {
		case errors.Is(err, errTooBig):
			m.skip(d.path, fmt.Sprintf("its changes do not fit into the %s that are kept of tracked files", size(room)))
			continue
		case err != nil:
			m.skip(d.path, "it cannot be read: "+err.Error())
			continue
		}
		name := quote(g.prefix + d.path)
		if b.mode == gitEmpty {
			fmt.Fprintf(&in, "D %s\n", name)
			m.Captured = append(m.Captured, capture{rawPath(d.path), 0})
			continue
		}
		if b.mode == d.oldMode && g.object("blob", b.content) == d.oldID {
			continue // the times differ, the content does not
		}
		room -= int64(len(b.content))
		fmt.Fprintf(&in, "M %s inline %s\n", b.mode, name)
		data(&in, b.content)
		m.Captured = append(m.Captured, capture{rawPath(d.path), b.perm})
	}
	m.Ref = refBase + m.ID
	if len(m.Captured) == 0 && g.head != "" {
		m.Commit = g.head
		if _, err := g.run(ctx, nil, "-c", "core.fsync=reference", "update-ref", m.Ref, m.Commit); err != nil {
			return fmt.Errorf("keeping the commit of HEAD: %w", err)
		}
		return nil
	}
	in.WriteString("get-mark :1\ndone\n")
	out, err := g.run(ctx, in.Bytes(), append(flushes(len(m.Captured)), "fast-import", "--quiet", "--date-format=raw")...)
	if err != nil {
		return fmt.Errorf("committing the tracked files: %w", err)
	}
	m.Commit = strings.TrimSpace(string(out))
	if len(m.Commit) < 40 {
		return fmt.Errorf("committing the tracked files: git fast-import answered %q", out)
	}
	return nil
}

// flushes returns the git options that flush exactly the data that stays. Up to 100 files become loose objects, which
// git does not flush by default. For more files git keeps the pack and flushes it by default. Without any flush a power
// cut would leave broken objects in the operator's repository.
func flushes(files int) []string {
	if files > 100 {
		return nil
	}
	return []string{"-c", "fastimport.unpackLimit=100000", "-c", "core.fsync=loose-object,reference", "-c", "core.fsyncMethod=batch"}
}

const maxTracked = 64 << 20 // bytes of the largest tracked file that is read

func data(b *bytes.Buffer, content []byte) {
	fmt.Fprintf(b, "data %d\n", len(content))
	b.Write(content)
	b.WriteByte('\n')
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", max(n, 0))
}

// packer copies single files one after another into the pack, a single file of the set.
type packer struct {
	repo string
	m    *manifest
	room *Caps
	file *durable.File
	at   int64
}

// add keeps one file or link. If the file has more than limit bytes, add returns errTooBig. Other files that cannot be
// kept are added to NotKept. All other errors concern only the private directory.
func (p *packer) add(rel string, limit int64) error {
	if p.room.Files <= 0 {
		p.m.skip(rel, errTooMany.Error())
		return nil
	}
	b, err := readFile(p.repo, rel, limit)
	switch {
	case errors.Is(err, errTooBig):
		return errTooBig
	case err != nil:
		p.m.skip(rel, why(err))
		return nil
	case b.mode == gitEmpty: // the file has disappeared
		return nil
	}
	p.room.Files--
	f := looseFile{Path: rawPath(rel), Mode: b.perm, Offset: p.at, Sum: b.state()}
	if b.mode == gitLink {
		f.Link = rawPath(b.content)
		p.m.Files = append(p.m.Files, f)
		return nil
	}
	if _, err := p.file.Write(b.content); err != nil {
		return err
	}
	f.Size = int64(len(b.content))
	p.at += f.Size
	p.room.Copied -= f.Size
	p.m.Files = append(p.m.Files, f)
	return nil
}

func keepLoose(ctx context.Context, g *git, targets []Target, pack *packer) error {
	m := pack.m
	if !g.found {
		m.skip(".", "without git nobody can tell which files are the operator's; only what the command names is kept")
		return nil
	}
	list, err := g.untracked(ctx, false)
	if err != nil {
		return err
	}
	for _, p := range list {
		if strings.HasSuffix(p, "/") {
			m.skip(p, "it is a repository of its own")
			continue
		}
		if inTree(p, targets) {
			continue
		}
		switch err := pack.add(p, pack.room.Copied); {
		case errors.Is(err, errTooBig):
			m.skip(p, fmt.Sprintf("there is room for another %s only", size(pack.room.Copied)))
		case err != nil:
			return err
		}
	}
	return nil
}

// inTree reports whether a path lies in one of the targets, which are kept as a whole.
func inTree(p string, targets []Target) bool {
	return slices.ContainsFunc(targets, func(t Target) bool { return p == t.Path || strings.HasPrefix(p, path.Clean(t.Path)+"/") })
}

// refBase is the prefix of the refs of sets.
const refBase = "refs/superloop/undo/"

// git runs git commands in the directory of the repository. Package gitcmd describes what of the repository's own
// configuration has no effect.
type git struct {
	repo   *gitcmd.Repo // nil if there is none
	found  bool         // there is a work tree that git can read
	why    string       // why git cannot read the work tree, or ""
	prefix string       // the path of the directory below git's top directory
	sha256 bool
	head   string // the commit of HEAD; "" if there is none
}

// openGit examines the repository. A missing repository or a missing git is not an error.
func (s Store) openGit(ctx context.Context) (*git, error) {
	g := &git{}
	repo, err := gitcmd.Open(ctx, s.Repo, s.Dir, os.Environ())
	switch {
	case errors.Is(err, gitcmd.ErrNotRepo):
		return g, nil
	case err != nil && ctx.Err() == nil:
		g.why, _, _ = strings.Cut(err.Error(), "\n")
		return g, nil
	case err != nil:
		return nil, err
	}
	g.repo = repo
	// With a commit, git prints it as the second line and exits with 0. Without one it exits with 1.
	out, err := g.run(ctx, nil, "rev-parse", "--show-prefix", "--quiet", "--verify", "HEAD^{commit}")
	unborn := gitcmd.ExitCode(err) == 1
	if failed, ok := errors.AsType[*proc.ToolError](err); ok && ctx.Err() == nil && failed.Code == 128 {
		g.why, _, _ = strings.Cut(strings.TrimSpace(failed.Stderr), "\n")
		return g, nil
	}
	if err != nil && !unborn {
		return nil, err
	}
	g.sha256, g.prefix = repo.SHA256, strings.TrimSuffix(string(out), "\n")
	if i := strings.LastIndexByte(g.prefix, '\n'); i >= 0 && !unborn {
		g.prefix, g.head = g.prefix[:i], g.prefix[i+1:]
	}
	g.found = true
	return g, nil
}

func (g *git) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return g.repo.Run(ctx, stdin, args...)
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

// difference is a tracked path whose file in the work tree differs, or may differ, from a commit.
type difference struct {
	path    string // relative to Store.Repo
	oldMode string // the mode in the commit; gitEmpty if the commit lacks the path
	oldID   string
}

// differences compares a commit with the work tree, based on the index; "" stands for the empty tree. A file with
// changed times is in the result even if its content is the same. Submodules are left out.
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

// The file modes, as git writes them.
const (
	gitModule = "160000"
	gitLink   = "120000"
	gitExec   = "100755"
	gitFile   = "100644"
	gitEmpty  = "000000" // nothing is there
)

// own reports whether a path belongs to superloop, which writes there while the command runs.
func own(p string) bool { return p == ".superloop" || strings.HasPrefix(p, ".superloop/") }

// untracked lists the files that git neither tracks nor ignores. If ignored is true, it lists the ignored files
// instead, and a completely ignored directory as one entry. The name of a nested repository ends in "/".
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

// quote quotes a path for git fast-import.
func quote(p string) string { return `"` + escape(p, `"\`, `\%03o`) + `"` }

// escape replaces each byte of s that is not printable ASCII, or that is in special, by its formatted value.
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
