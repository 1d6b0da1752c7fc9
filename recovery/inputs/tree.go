package inputs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
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
// the digest of it.
type content struct {
	text []byte
	size int64
	sum  string // SHA-256, hex; "" if it was never computed
	exec bool
}

// Tree is a set of files in which inputs are found: the work tree (Open) or a Baseline. Paths are relative to the
// repository, use slashes and contain no links.
type Tree interface {
	list(dir string) ([]entry, error) // sorted by name
	read(file string) (content, error)
	target(link string) (string, error)
	// outside returns the files below the directory home that match the pattern, which is relative to it. Their paths
	// begin with atHome.
	outside(home, pattern string) []known
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
type WorkTree struct{ root *os.Root }

// Open opens the repository in the directory repo. The caller closes the WorkTree.
func Open(repo string) (*WorkTree, error) {
	root, err := os.OpenRoot(repo)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	return &WorkTree{root}, nil
}

func (w *WorkTree) Close() error { return w.root.Close() }

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
	return readAll(f, info)
}

// readAll reads a regular file. Of a file of more than maxText bytes it computes only the digest.
func readAll(f io.Reader, info fs.FileInfo) (content, error) {
	c := content{size: info.Size(), exec: info.Mode()&0o111 != 0}
	if c.size > maxDigest {
		return c, errTooBig
	}
	if c.size > maxText {
		return c, c.digest(f)
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

// name fills in the size and the digest of a file whose text was read completely.
func (c *content) name() {
	if c.sum == "" && c.text != nil {
		c.size = int64(len(c.text))
		_ = c.digest(bytes.NewReader(c.text)) // cannot fail: the text has exactly c.size bytes
	}
}

// digest reads a file of c.size bytes from f and fills in its digest. It returns errMoved if f has more or fewer bytes.
func (c *content) digest(f io.Reader) error {
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(f, c.size+1))
	if err == nil && n != c.size {
		err = errMoved
	}
	c.sum = hex.EncodeToString(sum.Sum(nil))
	return err
}

// below joins dir and p. ok is false if the result leads out of the repository.
func below(dir, p string) (string, bool) {
	p = path.Join(dir, p)
	return p, p != ".." && !(len(p) > 2 && p[:3] == "../") && p[0] != '/'
}
