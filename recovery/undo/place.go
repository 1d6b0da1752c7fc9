package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// ErrLink: a path goes through a symbolic link, which is not followed.
var ErrLink = errors.New("it lies behind a symbolic link")

// place is an entry of a directory of the repository that is held open: whatever is renamed above it, it stays that
// entry.
type place struct {
	dir  *os.File
	real string // the directory's path when it was opened
	name string
}

// open holds the directory of a path of the repository. A directory that is missing is fs.ErrNotExist, one that is a
// link ErrLink.
func open(repo, rel string) (place, error) {
	dir, name := path.Split(rel)
	if name == "" || name == "." || name == ".." || path.IsAbs(rel) {
		return place{}, fmt.Errorf("%q is no path in the repository", rel)
	}
	fd, err := unix.Open(repo, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return place{}, &fs.PathError{Op: "open", Path: repo, Err: err}
	}
	for seg := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if seg == "" || seg == "." {
			continue
		}
		if seg == ".." {
			unix.Close(fd)
			return place{}, fmt.Errorf("%q leads out of the repository", rel)
		}
		next, err := openDir(fd, seg)
		unix.Close(fd)
		if err != nil {
			return place{}, err
		}
		fd = next
	}
	return place{dir: os.NewFile(uintptr(fd), filepath.Join(repo, dir)), real: filepath.Join(repo, dir), name: name}, nil
}

// openDir opens a directory, no link.
func openDir(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd, nil
	}
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && kindOf(uint32(st.Mode)) == isLink {
		return -1, fmt.Errorf("%s: %w", name, ErrLink)
	}
	return -1, &fs.PathError{Op: "open", Path: name, Err: err}
}

func (p place) close() { p.dir.Close() }

// path is a path to the directory, for this process.
func (p place) path() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/fd/" + strconv.Itoa(int(p.dir.Fd()))
	}
	return filepath.Clean(p.real)
}

// at is a path to an entry of the directory, for this process.
func (p place) at(name string) string { return p.path() + "/" + name }

// sibling is another entry of the same directory.
func (p place) sibling(name string) place { return place{p.dir, p.real, name} }

// run runs a program in the directory.
func (p place) run(ctx context.Context, argv ...string) error {
	_, err := proc.Tool{Dir: p.path()}.Run(ctx, argv...)
	return err
}

// lstat looks at the entry; if there is none its mode is 0.
func (p place) lstat() (st unix.Stat_t, err error) {
	err = unix.Fstatat(int(p.dir.Fd()), p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return unix.Stat_t{}, nil
	}
	if err != nil {
		err = &fs.PathError{Op: "lstat", Path: filepath.Join(p.real, p.name), Err: err}
	}
	return st, err
}

// kind says what the entry is.
func (p place) kind() (kind, error) {
	st, err := p.lstat()
	return kindOf(uint32(st.Mode)), err
}

// readlinkat reads a symbolic link of a directory. No system has longer ones.
func readlinkat(at int, name string) (string, error) {
	b := make([]byte, 8<<10)
	n, err := unix.Readlinkat(at, name, b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b[:n]), nil
}

// read reads a regular file of at most limit bytes that does not change meanwhile.
func (p place) read(limit int64) ([]byte, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), p.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p.name, Err: err}
	}
	f := os.NewFile(uintptr(fd), p.name)
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > limit:
		return nil, errTooBig
	}
	data, err := io.ReadAll(io.LimitReader(f, info.Size()+1))
	if err == nil && int64(len(data)) != info.Size() {
		err = errGrew
	}
	return data, err
}

// parent opens the directory of a path; one that is gone is made if need be, one that is a link now is refused.
func (s Store) parent(path string, need bool) (place, error) {
	at, err := open(s.Repo, path)
	if err == nil || !need || !errors.Is(err, fs.ErrNotExist) {
		return at, err
	}
	dir := filepath.Dir(path)
	up, err := s.parent(dir, true)
	if err != nil {
		return place{}, err
	}
	defer up.close()
	if err := s.Disk.MkdirAll("undo-parent", up.at(up.name), 0o755); err != nil {
		return place{}, err
	}
	return open(s.Repo, path)
}
