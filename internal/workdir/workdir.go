// Package workdir finds the directory in which a command is to run. The directory lies inside of a repository, even if
// symbolic links lead to it or somebody renames directories at the same time.
package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/text"
)

const (
	maxDir     = 4096 // bounds the path of a working directory, in bytes
	maxParents = 512  // bounds the number of directories between a working directory and the repository
)

// stateDir is the directory with superloop's own files.
const stateDir = ".superloop"

// Root is a repository in which superloop looks for working directories. It holds a descriptor of the repository, so a
// later change at the repository's path does not matter.
type Root struct {
	*os.File
	ID
	Real string // path of the repository, absolute and without symbolic links
	path string // path as the caller gave it, made absolute
	dir  *os.Root
}

// ID identifies a directory, whatever its name is, for as long as it exists.
type ID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Dir is a working directory. It stays the same directory if somebody renames directories. The caller runs a command in
// it by its descriptor, or compares its ID.
type Dir struct {
	*os.File // open only as a place to start in, not for reading
	ID
	Rel string // path below the repository, "." for the repository itself
}

// Error says why a directory cannot be a working directory. Its message is complete and quotes the requested directory.
type Error struct {
	Dir string // the requested directory
	Why string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the working directory \"%s\" %s", text.Display(text.Cut(e.Dir, 123)), e.Why)
}

// OpenRoot opens the repository at path.
func OpenRoot(path string) (*Root, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	r := &Root{path: abs}
	if r.Real, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	if r.dir, err = os.OpenRoot(r.Real); err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	if r.File, err = r.dir.Open("."); err == nil {
		r.ID, err = identify(int(r.File.Fd()))
	}
	if err != nil {
		r.dir.Close()
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	return r, nil
}

// Close closes the descriptors.
func (r *Root) Close() error { return errors.Join(r.File.Close(), r.dir.Close()) }

// Resolve finds a working directory. dir is relative to the repository, or an absolute path below it. "" means the
// repository itself. Resolve expands neither ~ nor variables. It follows links that stay inside of the repository. On
// Linux the kernel checks each step of the path, and elsewhere os.Root does, so concurrent renames change nothing.
// Resolve refuses a path that does not exist, is not a directory, lies outside of the repository, inside of .git or
// .superloop, or on another file system. Every refusal is a *Error.
func (r *Root) Resolve(dir string) (*Dir, error) {
	refuse := func(why string) (*Dir, error) { return nil, &Error{dir, why} }
	if why := Impossible(dir); why != "" {
		return refuse(why)
	}
	rel, ok := r.relative(dir)
	if !ok {
		return refuse("is not in the repository " + r.Real)
	}
	if why := Forbidden(rel); why != "" {
		return refuse(why)
	}
	fd, err := r.beneath(rel)
	if err != nil {
		return refuse(whyNot(err))
	}
	f := os.NewFile(uintptr(fd), dir)
	id, err := identify(fd)
	if err == nil {
		err = r.inside(fd)
	}
	if err != nil {
		f.Close()
		return refuse(err.Error())
	}
	return &Dir{f, id, rel}, nil
}

// Impossible returns the reason why no repository can contain dir, or "". It does not look at the disk.
func Impossible(dir string) string {
	switch {
	case len(dir) > maxDir:
		return fmt.Sprintf("has %d bytes; at most %d are possible", len(dir), maxDir)
	case strings.IndexByte(dir, 0) >= 0:
		return "holds a NUL character"
	}
	return ""
}

// Forbidden returns the reason why no command may run in rel because of a name in it, or "". rel is relative to the
// repository. The repository itself may lie in such a directory, as the work trees of loops do.
func Forbidden(rel string) string {
	for segment := range strings.SplitSeq(rel, "/") {
		if strings.EqualFold(segment, ".git") || strings.EqualFold(segment, stateDir) {
			return "lies in " + strings.ToLower(segment) + ", where no command runs"
		}
	}
	return ""
}

// relative returns dir as a path below the repository. It does not clean the path: if a is a link, a/../b is not b.
func (r *Root) relative(dir string) (string, bool) {
	if dir == "" {
		return ".", true
	}
	if !filepath.IsAbs(dir) {
		return dir, true
	}
	for _, base := range []string{r.Real, r.path} {
		rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(base, "/"))
		if ok && strings.Trim(rest, "/") == "" {
			return ".", true
		}
		if ok && rest[0] == '/' {
			return strings.TrimLeft(rest, "/"), true
		}
	}
	return "", false
}

func whyNot(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return "does not exist"
	case errors.Is(err, unix.ENOTDIR):
		return "is not a directory"
	case errors.Is(err, unix.EXDEV), strings.Contains(err.Error(), "escapes"):
		return "leads out of the repository"
	case errors.Is(err, unix.ELOOP):
		return "goes through too many links, or one that is not allowed"
	case errors.Is(err, unix.EAGAIN):
		return "cannot be held fast: something on its path is renamed all the time"
	case errors.Is(err, unix.EACCES):
		return "may not be entered"
	}
	return "cannot be opened: " + err.Error()
}

func identify(fd int) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ID{}, fmt.Errorf("cannot be looked at: %w", err)
	}
	return ID{uint64(st.Dev), st.Ino}, nil // Dev is signed on some systems
}

// inside follows the parents of a directory up to the repository. So it proves that the directory lies in the
// repository, and not in one of the directories where no command may run.
func (r *Root) inside(fd int) error {
	at, err := unix.Openat(fd, ".", lookAt, 0)
	if err != nil {
		return errors.New("may not be entered")
	}
	defer func() { unix.Close(at) }()
	for range maxParents {
		id, err := identify(at)
		switch {
		case err != nil:
			return err
		case id == r.ID:
			return nil
		case id.Dev != r.Dev:
			return errors.New("lies on another device than the repository")
		}
		up, err := unix.Openat(at, "..", lookAt, 0)
		if err != nil {
			return fmt.Errorf("cannot be followed up to the repository: %w", err)
		}
		above, err := identify(up)
		unix.Close(at)
		at = up
		// Compare with the forbidden directories from above, because a link may have led into one under another name.
		for _, name := range []string{".git", stateDir} {
			var st unix.Stat_t
			if unix.Fstatat(up, name, &st, 0) == nil && id == (ID{uint64(st.Dev), st.Ino}) {
				return fmt.Errorf("lies in %s, where no command runs", name)
			}
		}
		if err != nil || above == id {
			return errors.New("is not in the repository")
		}
	}
	return fmt.Errorf("lies more than %d directories deep", maxParents)
}

// beneathRoot opens a directory with os.Root, which follows the path step by step and lets no step leave the
// repository.
func (r *Root) beneathRoot(rel string) (int, error) {
	f, err := r.dir.OpenFile(rel, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0) // else a FIFO would block
	if err != nil {
		return -1, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return -1, err
	}
	if !info.IsDir() {
		return -1, unix.ENOTDIR
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}
