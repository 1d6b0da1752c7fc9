package worktree

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// blob is the id that git gives to content.
func (r *Repo) blob(content []byte) (sum [32]byte) {
	h := r.newHash()
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	h.Sum(sum[:0])
	return sum
}

// hashFile is the id that git gives to a file's content, read as a stream.
func (r *Repo) hashFile(file string, size int64) (sum [32]byte, err error) {
	f, err := openRead(file)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := r.newHash()
	fmt.Fprintf(h, "blob %d\x00", size)
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err == nil && n != size {
		err = errGrew
	}
	if err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// submodule is the commit that a submodule is at and, when it has changes of
// its own, a digest of the commit and of its files.
func (r *Repo) submodule(c change, dir string) (mode uint32, sum [32]byte) {
	sum = headCommit(dir)
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

// headCommit reads the commit that HEAD of the repository at dir is at, without
// git; the zero id when there is none, or it is kept in a way not known here.
func headCommit(dir string) (sum [32]byte) {
	gitDir := filepath.Join(dir, ".git")
	if info, err := os.Stat(gitDir); err != nil {
		return sum
	} else if !info.IsDir() {
		to, ok := strings.CutPrefix(smallFile(gitDir), "gitdir: ")
		if !ok {
			return sum
		}
		if gitDir = to; !filepath.IsAbs(to) {
			gitDir = filepath.Join(dir, to)
		}
	}
	head := smallFile(filepath.Join(gitDir, "HEAD"))
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return objectID(head)
	}
	common := gitDir
	if to := smallFile(filepath.Join(gitDir, "commondir")); to != "" {
		if common = to; !filepath.IsAbs(to) {
			common = filepath.Join(gitDir, to)
		}
	}
	for _, d := range []string{gitDir, common} {
		if sum = objectID(smallFile(filepath.Join(d, filepath.FromSlash(ref)))); sum != [32]byte{} {
			return sum
		}
	}
	for line := range strings.Lines(smallFile(filepath.Join(common, "packed-refs"))) {
		if id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && name == ref {
			return objectID(id)
		}
	}
	return sum
}

func objectID(text string) (sum [32]byte) {
	if raw, err := hex.DecodeString(text); err == nil && (len(raw) == 20 || len(raw) == 32) {
		copy(sum[:], raw)
	}
	return sum
}

// smallFile reads a file of git's own, "" when it cannot.
func smallFile(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(data), "\n")
}
