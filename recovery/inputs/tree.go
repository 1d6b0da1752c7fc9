package inputs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/proc"
)

const (
	maxText    = 16 << 20  // bytes of a file whose content is read
	maxDigest  = 256 << 20 // bytes of a file whose digest is computed
	maxLinks   = 16        // symbolic links on one path
	maxListing = 20_000    // entries of one directory
)

// kind is the kind of file at a path.
type kind uint8

const (
	missing kind = iota
	regular
	directory
	link
	odd // a device, a pipe, a socket
)

// entry is an entry of a directory.
type entry struct {
	name string
	kind kind
}

// content describes a regular file. text is nil if the file has more than maxText bytes, or if a baseline holds only
// digests of it.
type content struct {
	text []byte
	size int64
	sum  string // SHA-256, hex; "" if only id is known
	id   string // the git object id, in the object format of the tree
	exec bool
}

// Tree is a set of files in which inputs are found: the work tree (Open) or a Baseline. Paths are relative to the
// repository, use slashes and contain no links.
type Tree interface {
	list(dir string) ([]entry, error) // sorted by name
	read(file string) (content, error)
	target(link string) (string, error)
	objects() string // the git object format of ids
}

// The reasons why a file or a directory cannot be watched.
var (
	errTooBig  = fmt.Errorf("it has more than %d MiB", maxDigest>>20)
	errTooMany = fmt.Errorf("the directory has more than %d entries", maxListing)
	errMoved   = errors.New("it changed while it was read")
	errOdd     = errors.New("it is not a regular file")
)

// WorkTree is the repository on disk. The kernel resolves every path below the descriptor of the top directory. No link
// leads out of the repository, and neither does a directory that is replaced during the access.
type WorkTree struct {
	root   *os.Root
	format string
}

// Open opens the repository in the directory repo. The caller closes the WorkTree.
func Open(repo string) (*WorkTree, error) {
	root, err := os.OpenRoot(repo)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	return &WorkTree{root: root, format: formatSHA1}, nil
}

func (w *WorkTree) Close() error { return w.root.Close() }

func (w *WorkTree) objects() string { return w.format }

func (w *WorkTree) list(dir string) ([]entry, error) {
	f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := f.ReadDir(maxListing + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(found) > maxListing {
		return nil, errTooMany
	}
	out := make([]entry, 0, len(found))
	for _, e := range found {
		out = append(out, entry{e.Name(), kindOf(e.Type())})
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

func kindOf(m fs.FileMode) kind {
	switch {
	case m.IsRegular():
		return regular
	case m.IsDir():
		return directory
	case m&fs.ModeSymlink != 0:
		return link
	}
	return odd
}

func (w *WorkTree) target(name string) (string, error) { return w.root.Readlink(name) }

func (w *WorkTree) read(name string) (content, error) {
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	if !info.Mode().IsRegular() {
		return content{}, errOdd
	}
	c := content{size: info.Size(), exec: info.Mode()&0o111 != 0}
	if c.size > maxDigest {
		return c, errTooBig
	}
	if c.size > maxText {
		return c, c.digest(f, w.format)
	}
	// A read of one byte more than the size shows whether the file has grown.
	text := make([]byte, c.size+1)
	n, err := io.ReadFull(f, text)
	switch {
	case err == nil || int64(n) < c.size:
		return c, errMoved
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return c, err
	}
	c.text = text[:n:n]
	return c, nil
}

// The object formats of git.
const (
	formatSHA1   = "sha1"
	formatSHA256 = "sha256"
)

// name fills in the size and the digests of a file whose text was read completely.
func (c *content) name(format string) {
	if c.sum == "" && c.text != nil {
		c.size = int64(len(c.text))
		_ = c.digest(bytes.NewReader(c.text), format) // cannot fail: the text has exactly c.size bytes
	}
}

// digest reads a file of c.size bytes from f and fills in its digests. It returns errMoved if f has more or fewer
// bytes.
func (c *content) digest(f io.Reader, format string) error {
	sum, id := sha256.New(), sha1.New()
	if format == formatSHA256 {
		id = sha256.New()
	}
	fmt.Fprintf(id, "blob %d\x00", c.size)
	n, err := io.Copy(io.MultiWriter(sum, id), io.LimitReader(f, c.size+1))
	if err == nil && n != c.size {
		err = errMoved
	}
	c.sum, c.id = hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(id.Sum(nil))
	return err
}

// below joins dir and p. ok is false if the result leads out of the repository.
func below(dir, p string) (string, bool) {
	p = path.Join(dir, p)
	return p, p != ".." && !(len(p) > 2 && p[:3] == "../") && p[0] != '/'
}

// git is a directory in which git commands run.
type git string

func (g git) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return proc.Git(ctx, string(g), stdin, args...)
}

type headInfo struct{ commit, format string }

// head returns the commit that HEAD points to. It returns ErrNoHead if there is no commit, no repository or no git.
func (g git) head(ctx context.Context) (headInfo, error) {
	out, err := g.run(ctx, nil, "rev-parse", "--show-object-format", "--verify", "HEAD^{commit}")
	if failed, ok := errors.AsType[*proc.ToolError](err); ok && ctx.Err() == nil && (failed.Code == 128 || failed.Code == -1 && errors.Is(err, os.ErrNotExist)) {
		return headInfo{}, fmt.Errorf("%w: %s", ErrNoHead, strings.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return headInfo{}, err
	}
	f := strings.Fields(string(out))
	if len(f) != 2 || f[0] != formatSHA1 && f[0] != formatSHA256 {
		return headInfo{}, fmt.Errorf("git rev-parse answered %q; git 2.30 or newer is needed", out)
	}
	return headInfo{commit: f[1], format: f[0]}, nil
}

// files lists the files of a commit below the directory g. more is true if there are more than maxFiles.
func (g git) files(ctx context.Context, commit string) (list []known, more bool, err error) {
	out, err := g.run(ctx, nil, "ls-tree", "-r", "-z", commit)
	if err != nil {
		return nil, false, err
	}
	list = make([]known, 0, min(maxFiles, bytes.Count(out, []byte{0})))
	for len(out) > 0 {
		var rec []byte
		rec, out, _ = bytes.Cut(out, []byte{0})
		meta, name, ok := bytes.Cut(rec, []byte{'\t'})
		f := strings.Fields(string(meta))
		if !ok || len(f) != 3 {
			return nil, false, fmt.Errorf("git ls-tree printed the record %q", rec)
		}
		if f[1] != "blob" {
			continue // a submodule is a repository of its own
		}
		if len(list) >= maxFiles {
			return list, true, nil
		}
		k := known{path: string(name), kind: regular, content: content{exec: f[0] == "100755", id: f[2]}}
		if f[0] == "120000" {
			k.kind = link
		}
		list = append(list, k)
	}
	return list, false, nil
}

// contents fills in the content of the wanted files until maxStored bytes are used, and returns the number of bytes.
func (g git) contents(ctx context.Context, files []known, wanted []int) (int64, error) {
	var ids bytes.Buffer
	for _, i := range wanted {
		ids.WriteString(files[i].id + "\n")
	}
	sizes, err := g.run(ctx, ids.Bytes(), "cat-file", "--batch-check")
	if err != nil {
		return 0, err
	}
	ids.Reset()
	var fitting []int
	var total int64
	lines := strings.Split(string(sizes), "\n")
	for n, i := range wanted {
		if n >= len(lines) {
			break
		}
		f := strings.Fields(lines[n])
		if len(f) != 3 || f[1] != "blob" {
			continue // git lacks the object: the baseline keeps the id only
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || size > maxText || total+size > maxStored {
			continue
		}
		total += size
		files[i].size = size
		fitting = append(fitting, i)
		ids.WriteString(files[i].id + "\n")
	}
	out, err := g.run(ctx, ids.Bytes(), "cat-file", "--batch")
	if err != nil {
		return 0, err
	}
	for _, i := range fitting {
		head, rest, ok := bytes.Cut(out, []byte{'\n'})
		size := files[i].size
		if !ok || !bytes.HasPrefix(head, []byte(files[i].id)) || int64(len(rest)) <= size {
			return 0, fmt.Errorf("git cat-file printed %q for %s", head, files[i].path)
		}
		files[i].text, files[i].stored = rest[:size:size], true
		out = rest[size+1:]
	}
	return total, nil
}
