package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// ErrLink says that a path goes through a symbolic link, which undo does not follow.
var ErrLink = errors.New("it lies behind a symbolic link")

// place is an entry of an open directory. Renaming the directories above does not change which entry it is.
type place struct {
	dir  *os.File
	real string // the path of the directory when it was opened
	name string
}

// open opens the directory of a path of the repository. The error is fs.ErrNotExist if the directory is missing, and
// ErrLink if a link is in the way.
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

// absent reports whether err, an error of open, means that nothing can be at the path: a directory above is missing, a
// link or a file.
func absent(err error) bool {
	return errors.Is(err, ErrLink) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// openDir opens a directory. It does not follow a link.
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

// path returns a path to the directory that is valid in this process.
func (p place) path() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/fd/" + strconv.Itoa(int(p.dir.Fd()))
	}
	return filepath.Clean(p.real)
}

// at returns a path to an entry of the directory that is valid in this process.
func (p place) at(name string) string { return p.path() + "/" + name }

func (p place) sibling(name string) place { return place{p.dir, p.real, name} }

func (p place) run(ctx context.Context, argv ...string) error {
	_, err := proc.System(ctx, p.path(), argv...)
	return err
}

// lstat reads the attributes of the entry. For a missing entry the mode is 0 and err is nil.
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

func (p place) kind() (kind, error) {
	st, err := p.lstat()
	return kindOf(uint32(st.Mode)), err
}

// readlinkat reads a symbolic link of a directory. No supported system has links longer than 8 KiB.
func readlinkat(at int, name string) (string, error) {
	b := make([]byte, 8<<10)
	n, err := unix.Readlinkat(at, name, b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b[:n]), nil
}

// read reads a regular file of at most limit bytes. It returns an error if the file grows or shrinks meanwhile.
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

// parent opens the directory of a path. If need is true, parent makes missing directories. It returns an error if a
// directory is a link.
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

// survey describes the entry at a place and everything below it, by names, sizes and times.
type survey struct {
	kind  kind // isMissing if nothing is at the place
	files int  // entries of any kind
	bytes int64
	// sum is the SHA-256 over the names, kinds, modes, sizes and times of files, and the targets of links. A copy made
	// by cp -a has the same sum.
	sum string
	// exact is like sum, with the inode and the change time of each file. No program can set these, so no copy has the
	// same value.
	exact string
	odd   []string // sockets, pipes and devices, which the survey leaves out
	probe string   // a regular file with content, relative to the surveyed directory
}

var (
	errTooMany = errors.New("it has more files than are kept")
	errTooBig  = errors.New("it is bigger than what is kept")
	errMount   = errors.New("another file system is mounted in it")
	errGrew    = errors.New("it changed while it was read")
)

// look surveys a place within the given bounds. It follows no link.
func (p place) look(maxFiles int, maxBytes int64) (survey, error) {
	st, err := p.lstat()
	if err != nil || st.Mode == 0 {
		return survey{}, err
	}
	s := surveyor{dev: uint64(st.Dev), maxFiles: maxFiles, maxBytes: maxBytes, sum: sha256.New(), exact: sha256.New()}
	s.out.kind = kindOf(uint32(st.Mode))
	if err := s.entry(int(p.dir.Fd()), p.name, "", &st); err != nil {
		return s.out, err
	}
	s.out.sum, s.out.exact = hex.EncodeToString(s.sum.Sum(nil)), hex.EncodeToString(s.exact.Sum(nil))
	return s.out, nil
}

type surveyor struct {
	dev        uint64
	maxFiles   int
	maxBytes   int64
	sum, exact hash.Hash
	out        survey
}

func (s *surveyor) entry(at int, name, rel string, st *unix.Stat_t) error {
	if s.out.files++; s.out.files > s.maxFiles {
		return errTooMany
	}
	mode := uint32(st.Mode)
	line := fmt.Sprintf("%q %o", rel, mode)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if s.out.bytes += st.Size; s.out.bytes > s.maxBytes {
			return errTooBig
		}
		if s.out.probe == "" && st.Size > 0 {
			s.out.probe = rel
		}
		// Microseconds only, because not every file system stores nanoseconds.
		line += fmt.Sprintf(" %d %d.%06d", st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec)/1000)
	case unix.S_IFLNK:
		to, err := readlinkat(at, name)
		if err != nil {
			return err
		}
		line = fmt.Sprintf("%q link %q", rel, to)
	case unix.S_IFDIR:
	default:
		s.out.odd = append(s.out.odd, rel)
		return nil
	}
	fmt.Fprintln(s.sum, line)
	if mode&unix.S_IFMT == unix.S_IFDIR {
		fmt.Fprintln(s.exact, line, st.Ino)
		return s.directory(at, name, rel)
	}
	fmt.Fprintln(s.exact, line, st.Ino, int64(st.Ctim.Sec), int64(st.Ctim.Nsec))
	return nil
}

func (s *surveyor) directory(at int, name, rel string) error {
	fd, err := openDir(at, name)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		var st unix.Stat_t
		err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "lstat", Path: rel + "/" + n, Err: err}
		}
		if uint64(st.Dev) != s.dev {
			return errMount
		}
		if err := s.entry(fd, n, path.Join(rel, n), &st); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies the place to a path that does not exist yet. It preserves modes, times, links and names, and owners if
// the user may set them.
func (p place) copyTo(ctx context.Context, method, to string) error {
	argv := []string{"cp", "-a"}
	switch {
	case method == byReflink && runtime.GOOS == "darwin":
		argv = append(argv, "-c")
	case method == byReflink:
		argv = append(argv, "--reflink=always")
	case method == byLink:
		argv = append(argv, "-l")
	}
	return p.run(ctx, append(argv, "--", "./"+p.name, to)...)
}

// canReflink tests with one file of a tree whether the file system supports reflinks to dir.
func (s Store) canReflink(ctx context.Context, p place, had survey, dir string) bool {
	to := filepath.Join(dir, "probe")
	err := p.sibling(filepath.Join(p.name, had.probe)).copyTo(ctx, byReflink, to)
	_ = s.Disk.Remove("undo-probe", to)
	return err == nil
}

const whileCopied = "it changed while it was copied"

// same surveys an entry of a directory. If its sum differs, same returns an error with the text why.
func same(dir, name, sum, why string) error {
	at, err := open(dir, name)
	if err != nil {
		return err
	}
	defer at.close()
	got, err := at.look(1<<30, 1<<62)
	if err == nil && got.sum != sum {
		err = errors.New(why)
	}
	return err
}

// removeTree removes an entry of a directory with everything below it. If this fails, it makes the directories writable
// and tries once more.
func removeTree(ctx context.Context, dir, name string) error {
	if _, err := proc.System(ctx, dir, "rm", "-rf", "--", "./"+name); err == nil {
		return nil
	}
	_, _ = proc.System(ctx, dir, "find", "./"+name, "-type", "d", "-exec", "chmod", "u+rwx", "{}", "+")
	if _, err := proc.System(ctx, dir, "rm", "-rf", "--", "./"+name); err != nil {
		return fmt.Errorf("removing %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// remove removes an entry of the repository with everything below it. A missing entry is not an error.
func (p place) remove(ctx context.Context) error {
	if k, err := p.kind(); k == isMissing || err != nil {
		return err
	}
	return removeTree(ctx, p.path(), p.name)
}
