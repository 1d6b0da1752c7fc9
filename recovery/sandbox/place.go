package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// FileID names a file or directory, whatever it is called, for as long as it exists.
type FileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Place is a directory in a repository, and which ones the two were when it was decided that a command may run there.
// By its IDs the shim notices that somebody put another directory in its place.
type Place struct {
	Repo   string `json:"repo"`    // absolute, without symbolic links
	Dir    string `json:"dir"`     // below Repo; "." is Repo itself
	RepoID FileID `json:"repo_id"` // and DirID are what the two paths led to
	DirID  FileID `json:"dir_id"`
}

const (
	maxDir   = 4096 // bytes of a working directory
	maxDepth = 512  // directories from a working directory up to the repository
)

// Resolve finds a working directory in a repository. dir is relative to repo, or an absolute path below it; "" is repo
// itself; there is no ~ and no variable. Symbolic links are followed as long as they stay inside. Refused are what lies
// outside, on another device, or in .git or .superloop.
func Resolve(repo, dir string) (Place, error) {
	p, fds, err := open(repo, dir)
	if err != nil {
		return Place{}, err
	}
	fds.close()
	return p, nil
}

// opened are the descriptors of a Place.
type opened struct{ repo, dir int }

func (o opened) close() {
	unix.Close(o.repo)
	unix.Close(o.dir)
}

// open is Resolve; it gives the two directories as well.
func open(repo, dir string) (Place, opened, error) {
	var none opened
	rel, root, err := relative(repo, dir)
	if err != nil {
		return Place{}, none, err
	}
	refuse := func(err error) (Place, opened, error) {
		return Place{}, none, fmt.Errorf("working directory %q: %w", dir, err)
	}
	top, err := unix.Open(root, lookAt, 0)
	if err != nil {
		return Place{}, none, fmt.Errorf("opening the repository: %w", &fs.PathError{Op: "open", Path: root, Err: err})
	}
	fd, err := beneath(top, root, rel)
	if err != nil {
		unix.Close(top)
		return refuse(err)
	}
	fds := opened{repo: top, dir: fd}
	p := Place{Repo: root, Dir: rel}
	if p.RepoID, err = idOf(top); err == nil {
		p.DirID, err = idOf(fd)
	}
	if err == nil {
		err = inside(fds, p)
	}
	if err != nil {
		fds.close()
		return refuse(err)
	}
	return p, fds, nil
}

// relative gives dir as a path below the repository, whose real path is root.
func relative(repo, dir string) (rel, root string, err error) {
	if dir == "" {
		dir = "."
	}
	switch {
	case !filepath.IsAbs(repo):
		return "", "", fmt.Errorf("the repository %q is not an absolute path", repo)
	case len(dir) > maxDir:
		return "", "", fmt.Errorf("a working directory of %d bytes, %d is the most", len(dir), maxDir)
	case strings.IndexByte(dir, 0) >= 0:
		return "", "", fmt.Errorf("working directory %q: it contains a NUL byte", dir)
	}
	if root, err = filepath.EvalSymlinks(repo); err != nil {
		return "", "", fmt.Errorf("finding the repository: %w", err)
	}
	if !filepath.IsAbs(dir) {
		return dir, root, nil // as it is: a/../b is not b where a is a link
	}
	for _, base := range []string{root, filepath.Clean(repo)} {
		if rel, err := filepath.Rel(base, dir); err == nil && filepath.IsLocal(rel) {
			return rel, root, nil
		}
	}
	return "", "", fmt.Errorf("working directory %q: it is not in the repository %s", dir, root)
}

// idOf: Dev is signed on some systems.
func idOf(fd int) (FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return FileID{}, fmt.Errorf("looking at it: %w", err)
	}
	return FileID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// inside goes up from the directory until it finds the repository, which proves
// that it is in there, whatever its path was.
func inside(fds opened, p Place) error {
	forbidden := map[FileID]string{}
	for _, name := range []string{".git", ".superloop"} {
		var st unix.Stat_t
		if unix.Fstatat(fds.repo, name, &st, 0) == nil {
			forbidden[FileID{Dev: uint64(st.Dev), Ino: st.Ino}] = name
		}
	}
	at, err := unix.Openat(fds.dir, ".", lookAt, 0)
	if err != nil {
		return fmt.Errorf("it may not be read: %w", err)
	}
	defer func() { unix.Close(at) }()
	for range maxDepth {
		id, err := idOf(at)
		switch name, bad := forbidden[id]; {
		case err != nil:
			return err
		case bad:
			return fmt.Errorf("it lies in %s", name)
		case id == p.RepoID:
			return nil
		case id.Dev != p.RepoID.Dev:
			return errors.New("it lies on another device than the repository")
		}
		up, err := unix.Openat(at, "..", lookAt, 0)
		if err != nil {
			return fmt.Errorf("going up from it: %w", err)
		}
		above, err := idOf(up)
		unix.Close(at)
		at = up
		if err != nil || above == id {
			return errors.New("it is not in the repository")
		}
	}
	return fmt.Errorf("it lies more than %d directories deep", maxDepth)
}

// below opens a directory below root without openat2.
func below(root, rel string) (int, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	f, err := dir.Open(rel)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening it: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Close(fd)
		return -1, unix.ENOTDIR
	}
	return fd, nil
}
