package worktree

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
)

// maxKept bounds the contents that Keep and Compare store, in bytes.
const maxKept = 64 << 20

// lost stands for a content that superloop does not have.
const lost = "superloop does not have the content of this file: it was too large to keep, or is no file.\nIts mark: "

// Keep stores the contents that git does not have of the files of a snapshot of the present tree, so that Compare can show
// them later: those that are neither committed nor staged. dir is a directory for this alone; Keep removes what is in it.
// It leaves out files of more than 8 MiB, all untracked files if there are more than 5,000, and what goes beyond 64 MiB.
func (r *Repo) Keep(ctx context.Context, disk durable.Disk, dir string, s Snapshot) error {
	if err := disk.RemoveAll("kept", dir); err != nil {
		return err
	}
	if len(s.dirty) == 0 {
		return nil
	}
	if err := r.scratch(ctx, disk, "kept", dir); err != nil {
		return err
	}
	_, err := r.store(ctx, dir, s, nil)
	return err
}

// scratch makes a repository of its own in dir. Nothing that an agent can write steers git there: it has no attributes,
// no hooks, and no configuration but its own.
func (r *Repo) scratch(ctx context.Context, disk durable.Disk, op, dir string) error {
	if err := disk.MkdirAll(op, dir, 0o700); err != nil {
		return err
	}
	format := "sha1"
	if r.git.SHA256 {
		format = "sha256"
	}
	_, err := gitcmd.Scratch(ctx, dir, "init", "--quiet", "--bare", "--object-format="+format, ".")
	return err
}

// store writes the contents of files of the present tree to the scratch repository in dir, and returns their entries.
// paths are the files; nil stands for all files of s for which git had no id.
func (r *Repo) store(ctx context.Context, dir string, s Snapshot, paths []string) (map[string]entry, error) {
	if paths == nil {
		for _, st := range s.dirty {
			if s.at(st.path).mode&byStat == 0 { // else its entry does not lead to the content
				paths = append(paths, st.path)
			}
		}
	}
	stored := map[string]entry{}
	var in bytes.Buffer
	for _, p := range paths {
		e := s.at(p)
		if e.path == "" || e.mode&^byStat == modeGitlink || e.mode&byDigest != 0 {
			continue
		}
		e.mode &^= byStat
		data, err := r.content(e)
		if err != nil || in.Len()+len(data) > maxKept {
			continue // Compare says that the content is not known
		}
		if e.sum, err = r.blob(bytes.NewReader(data), int64(len(data))); err != nil {
			return nil, err
		}
		fmt.Fprintf(&in, "blob\ndata %d\n", len(data))
		in.Write(data)
		in.WriteByte('\n')
		stored[p] = e
	}
	if in.Len() == 0 {
		return stored, nil
	}
	_, err := gitcmd.Feed(ctx, dir, in.Bytes(), "fast-import", "--quiet")
	return stored, err
}

// content returns the content for a file of the present tree.
func (r *Repo) content(e entry) ([]byte, error) {
	file := filepath.Join(r.Top, e.path)
	if e.mode == modeLink {
		to, err := os.Readlink(file)
		return []byte(to), err
	}
	return door.Read(file, maxHashed)
}

// Compared is two states of a work tree in a scratch repository. It holds the files that differ, and nothing else.
type Compared struct {
	Files []FileChange // sorted by path
	dir   string
	disk  durable.Disk
	trees [2]string
}

// FileChange is a file that differs between two states. Kind is added, changed or removed. Plus and Minus are the lines,
// -1 if the file is no text or its content is not known.
type FileChange struct {
	Path, Kind  string
	Plus, Minus int
}

// Compare compares an earlier snapshot with the present one. kept is the directory that Keep got at the earlier time, dir
// a directory for this call alone, which the caller removes by Close.
func (r *Repo) Compare(ctx context.Context, disk durable.Disk, dir, kept string, then, now Snapshot) (c *Compared, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("comparing the work tree with that before the first role: %w", err), disk.RemoveAll("compare", dir))
		}
	}()
	if err := disk.RemoveAll("compare", dir); err != nil {
		return nil, err
	}
	if err := r.scratch(ctx, disk, "compare", dir); err != nil {
		return nil, err
	}
	from := filepath.Join(r.git.Common, "objects") + "\n"
	if _, err := os.Lstat(kept); err == nil {
		from = filepath.Join(kept, "objects") + "\n" + from
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := disk.WriteProjection("compare", filepath.Join(dir, "objects", "info", "alternates"), []byte(from), 0o600); err != nil {
		return nil, err
	}
	paths := Diff(then, now)
	stored, err := r.store(ctx, dir, now, paths)
	if err != nil {
		return nil, err
	}
	c = &Compared{dir: dir, disk: disk}
	unknown := map[string]bool{}
	if c.trees[0], err = r.plant(ctx, dir, then, paths, nil, unknown); err == nil {
		c.trees[1], err = r.plant(ctx, dir, now, paths, stored, unknown)
	}
	if err == nil {
		err = c.list(ctx, then, now, unknown)
	}
	return c, err
}

// plant writes a tree of those files of a snapshot that paths names, and returns its id. stored has the entries of files
// that are not as git has them. plant notes in unknown the files whose content it does not have.
func (r *Repo) plant(ctx context.Context, dir string, s Snapshot, paths []string, stored map[string]entry, unknown map[string]bool) (string, error) {
	var entries []entry
	var ask, lack bytes.Buffer
	for _, p := range paths {
		e, known := stored[p]
		if !known {
			e = s.at(p)
		}
		if e.path == "" {
			continue
		}
		entries = append(entries, e)
		fmt.Fprintln(&ask, r.hexID(e))
	}
	have, err := gitcmd.Feed(ctx, dir, ask.Bytes(), "cat-file", "--batch-check=%(objecttype)")
	if err != nil {
		return "", err
	}
	kinds := strings.Split(string(have), "\n")
	var index bytes.Buffer
	for i, e := range entries {
		mode := e.mode &^ (byStat | byDigest | assumed | skipped)
		if mode != modeGitlink && (e.mode&(byStat|byDigest) != 0 || i >= len(kinds) || kinds[i] != "blob") || mode == modeGitlink && e.mode&byDigest != 0 {
			unknown[e.path] = true
			text := fmt.Sprintf("%s%x\n", lost, e.sum)
			fmt.Fprintf(&lack, "blob\ndata %d\n%s\n", len(text), text)
			if e.sum, err = r.blob(strings.NewReader(text), int64(len(text))); err != nil {
				return "", err
			}
			mode = modeFile
		}
		fmt.Fprintf(&index, "%06o %s\t%s\x00", mode, r.hexID(e), strings.TrimSuffix(e.path, "/"))
	}
	if lack.Len() > 0 {
		if _, err := gitcmd.Feed(ctx, dir, lack.Bytes(), "fast-import", "--quiet"); err != nil {
			return "", err
		}
	}
	if _, err := gitcmd.Scratch(ctx, dir, "read-tree", "--empty"); err != nil {
		return "", err
	}
	// A name that only Windows or macOS refuse is one that a file can have here.
	plain := []string{"-c", "core.protectNTFS=false", "-c", "core.protectHFS=false"}
	if _, err := gitcmd.Feed(ctx, dir, index.Bytes(), append(plain, "update-index", "-z", "--index-info")...); err != nil {
		return "", err
	}
	id, err := gitcmd.Scratch(ctx, dir, append(plain, "write-tree", "--missing-ok")...)
	return strings.TrimSpace(string(id)), err
}

// hexID returns the object id of an entry as git writes it.
func (r *Repo) hexID(e entry) string {
	if r.git.SHA256 {
		return hex.EncodeToString(e.sum[:])
	}
	return hex.EncodeToString(e.sum[:20])
}

// list sets c.Files.
func (c *Compared) list(ctx context.Context, then, now Snapshot, unknown map[string]bool) error {
	out, err := gitcmd.Scratch(ctx, c.dir, "diff-tree", "-r", "-z", "--numstat", "--no-renames", c.trees[0], c.trees[1])
	if err != nil {
		return err
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		words := strings.SplitN(rec, "\t", 3)
		if len(words) < 3 {
			continue
		}
		f := FileChange{Path: words[2], Kind: "changed", Plus: -1, Minus: -1}
		nested := f.Path + "/" // so a snapshot names a repository inside the work tree
		if was, is := then.at(f.Path).path+then.at(nested).path, now.at(f.Path).path+now.at(nested).path; was == "" {
			f.Kind = "added"
		} else if is == "" {
			f.Kind = "removed"
		}
		plus, bad := strconv.Atoi(words[0]) // "-" for a file that is no text
		minus, worse := strconv.Atoi(words[1])
		if bad == nil && worse == nil && !unknown[f.Path] && !unknown[nested] {
			f.Plus, f.Minus = plus, minus
		}
		c.Files = append(c.Files, f)
	}
	slices.SortFunc(c.Files, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// Diff returns the difference as git shows it, without colours: a patch, or with stat the table of the files for a screen
// of width columns. The text of files stands in it as it is.
func (c *Compared) Diff(ctx context.Context, stat bool, width int) ([]byte, error) {
	args := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"}
	if stat {
		args = append(args, "--stat="+strconv.Itoa(width))
	} else {
		args = append(args, "--binary")
	}
	return gitcmd.Scratch(ctx, c.dir, append(args, c.trees[0], c.trees[1])...)
}

// Close removes what Compare made.
func (c *Compared) Close() error { return c.disk.RemoveAll("compare", c.dir) }
