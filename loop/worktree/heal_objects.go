package worktree

import (
	"bufio"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

const maxIndex = 1 << 30 // bytes

var errSparse = errors.New("the index is damaged, and the work tree is a sparse one")

func (r *Repo) hash() hash.Hash {
	if r.git.SHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// objects moves the files of objects away that are none: empty ones, and loose objects since h.was.Since whose content does
// not fit their name.
func (h *healer) objects(ctx context.Context) error {
	top := filepath.Join(h.git.Common, "objects")
	bad := 0
	for _, path := range files(top) {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil || !h.damaged(path, info) {
			continue
		}
		if err := h.keep(path); err != nil {
			return err
		}
		bad++
	}
	if bad > 0 {
		h.did("moved %s away that a power cut had left damaged", counted(bad, "object"))
	}
	return nil
}

// damaged reports whether a file below objects is not what its name says.
func (h *healer) damaged(path string, info os.FileInfo) bool {
	dir, name := filepath.Base(filepath.Dir(path)), filepath.Base(path)
	switch {
	case len(dir) == 2 && isID(dir+name):
		return info.Size() == 0 || changedSince(path, h.was.Since) && h.loose(path) != dir+name
	case strings.HasPrefix(name, "tmp_"):
		return false
	case info.Size() > 0:
		return false
	}
	// These have a content at all times; .keep and .promisor need none.
	for _, end := range []string{".pack", ".idx", ".rev", ".bitmap", ".graph", "multi-pack-index", "commit-graph"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// loose returns the id that the content of a loose object has, or "" if it is damaged.
func (r *Repo) loose(path string) string {
	f, _, err := door.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	in := bufio.NewReader(f)
	z, err := zlib.NewReader(in)
	if err != nil {
		return ""
	}
	sum := r.hash()
	if _, err := io.Copy(sum, z); err != nil {
		return ""
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return "" // something follows that is not of the object
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// sound reports whether the index is there as git wrote it. A repository may have none.
func (r *Repo) sound() bool {
	f, info, err := door.Open(filepath.Join(r.GitDir, "index"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	sum := r.hash()
	size := info.Size() - int64(sum.Size())
	if size < 12 {
		return false
	}
	head, end := make([]byte, 4), make([]byte, sum.Size())
	if _, err := f.ReadAt(head, 0); err != nil || string(head) != "DIRC" {
		return false
	}
	if _, err := f.ReadAt(end, size); err != nil {
		return false
	}
	if strings.Trim(string(end), "\x00") == "" {
		return true // index.skipHash
	}
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return false
	}
	return string(sum.Sum(nil)) == string(end)
}

// index builds the index anew from HEAD if it is damaged or names objects that are gone.
func (h *healer) index(ctx context.Context) error {
	file := filepath.Join(h.GitDir, "index")
	head, err := h.Head(ctx)
	if err != nil {
		return err
	}
	if h.sound() {
		whole, err := h.indexWhole(ctx)
		if err != nil || whole {
			return err
		}
	}
	if v, err := h.line(ctx, "config", "--type=bool", "core.sparseCheckout"); err == nil && v == "true" {
		return errSparse
	}
	own := filepath.Join(h.git.View, "heal-index")
	defer func() { _ = h.disk.Unlink("git-heal", own) }()
	_ = h.disk.Unlink("git-heal", own)
	made := &Repo{Top: h.Top, GitDir: h.GitDir, git: h.git.WithIndex(own)}
	tree := "--empty"
	if head != "" {
		tree = head
	}
	if _, err := made.read(ctx, "read-tree", tree); err != nil {
		return fmt.Errorf("building the index from HEAD: %w", err)
	}
	_, _ = made.read(ctx, "update-index", "-q", "--refresh") // exit code 1 says that files differ
	data, err := door.Read(own, maxIndex)
	if err != nil {
		return err
	}
	if err := h.replace(file, data); err != nil {
		return err
	}
	h.did("built the index anew from HEAD; what was staged is not staged any more")
	return nil
}

// indexWhole reports whether git can read the index, and has the objects that it names.
func (h *healer) indexWhole(ctx context.Context) (bool, error) {
	list, err := h.Repo.index(ctx)
	if err != nil {
		return false, ctx.Err()
	}
	ids := make([]string, 0, len(list))
	for _, e := range list {
		if e.mode != modeGitlink {
			ids = append(ids, hex.EncodeToString(e.sum[:h.hash().Size()]))
		}
	}
	gone, err := h.missing(ctx, ids)
	return len(gone) == 0, err
}
