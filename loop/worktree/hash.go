package worktree

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// maxWalked bounds how many files of a foreign directory are looked at.
const maxWalked = 50_000

var errGrew = errors.New("the file changed while it was read")

func (r *Repo) newHash() hash.Hash {
	if r.sha256 {
		return sha256.New()
	}
	return sha1.New()
}

// blob is the id that git gives to content of that size, read as a stream.
func (r *Repo) blob(content io.Reader, size int64) (sum [32]byte, err error) {
	h := r.newHash()
	fmt.Fprintf(h, "blob %d\x00", size)
	n, err := io.Copy(h, io.LimitReader(content, size+1))
	if err == nil && n != size {
		err = errGrew
	}
	if err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// hashFile is the id that git gives to a file's content.
func (r *Repo) hashFile(file string, size int64) (sum [32]byte, err error) {
	f, err := openRead(file)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	return r.blob(f, size)
}

// submodule is the commit that a submodule is at and, when it has changes of
// its own, a digest of the commit and of its files.
func (r *Repo) submodule(ctx context.Context, c change, dir string) (mode uint32, sum [32]byte) {
	// Without a repository of its own at dir, git must not find the one around it.
	in := Repo{Top: dir, env: append(slices.Clone(r.env), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))}
	head, err := in.Head(ctx)
	if raw, bad := hex.DecodeString(head); err == nil && bad == nil {
		copy(sum[:], raw)
	}
	if !strings.ContainsAny(c.submodule, "MU") && sum != [32]byte{} {
		return modeGitlink, sum
	}
	files := digestDir(dir)
	return modeGitlink | byDigest, sha256.Sum256(append(sum[:], files[:]...))
}

// digestDir is a digest over path, mode, size and time of the files below dir,
// its git directory left out; at most maxWalked of them.
func digestDir(dir string) (sum [32]byte) {
	h := sha256.New()
	n := 0
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			fmt.Fprintf(h, "unreadable %q\n", rel)
			return nil
		case d.Name() == ".git" || d.Name() == ".superloop":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		if n++; n > maxWalked {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(h, "%q %o %d %d\n", filepath.ToSlash(rel), info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	h.Sum(sum[:0])
	return sum
}
