package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxTreeFiles bounds a directory that is hashed as one artifact.
const maxTreeFiles = 100_000

// ReasonEmptyDir is an artifact that is a directory without any file.
const ReasonEmptyDir = "empty_directory"

type hashed struct {
	sum   string // SHA-256, hex
	mtime int64  // seconds since the epoch
	size  int64
	files int
}

// hashFile streams a regular file through SHA-256.
func (t *tree) hashFile(ctx context.Context, p string) (hashed, error) {
	f, info, err := t.open(p)
	if err != nil {
		return hashed{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, untilDone{ctx, f})
	if err != nil {
		return hashed{}, faultOf(err)
	}
	return hashed{hex.EncodeToString(sum.Sum(nil)), info.ModTime().Unix(), n, 1}, nil
}

// hashTree is the SHA-256 over one line for each file below dir, in the order
// of their paths: "sha256 size path" with the path quoted, "link" and the quoted
// target in place of the sum and size for a symbolic link. Directories named
// .git and .superloop are left out: they change without the work changing.
func (t *tree) hashTree(ctx context.Context, dir string) (hashed, error) {
	var files []string
	links := map[string]bool{}
	var walk func(string) error
	walk = func(d string) error {
		list, err := t.entries(d)
		if err != nil {
			return err
		}
		for _, e := range list {
			p := path.Join(d, e.Name())
			switch {
			case e.IsDir() && (e.Name() == ".git" || e.Name() == ".superloop"):
				continue
			case e.IsDir():
				if err := walk(p); err != nil {
					return err
				}
				continue
			case e.Type()&fs.ModeSymlink != 0:
				links[p] = true
			}
			files = append(files, p)
			if len(files) > maxTreeFiles {
				return &fault{ReasonTooLarge, fmt.Errorf("more than %d files", maxTreeFiles)}
			}
		}
		return ctx.Err()
	}
	if err := walk(dir); err != nil {
		return hashed{}, err
	}
	if len(files) == 0 {
		return hashed{}, &fault{reason: ReasonEmptyDir}
	}
	slices.Sort(files)
	sum := sha256.New()
	out := hashed{files: len(files)}
	for _, p := range files {
		name := strings.TrimPrefix(p, dir+"/")
		if links[p] {
			target, err := t.root.Readlink(p)
			if err != nil {
				return hashed{}, faultOf(err)
			}
			fmt.Fprintf(sum, "link %q %q\n", target, name)
			continue
		}
		h, err := t.hashFile(ctx, p)
		if err != nil {
			return hashed{}, err
		}
		fmt.Fprintf(sum, "%s %d %q\n", h.sum, h.size, name)
		out.size += h.size
		out.mtime = max(out.mtime, h.mtime)
	}
	out.sum = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

// untilDone ends a copy when the context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
