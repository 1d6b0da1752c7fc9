// Package door is the one way in which superloop reads a file that an agent can have written. What lies at such a path
// may be anything: a link to a secret, a FIFO that nobody writes to, a directory, a file of a terabyte that holds
// nothing, JSON that is nested ten thousand deep. The functions of this package read regular files only. They follow no
// link in the last component of a path, and none below .superloop that leads out of it. They never wait for another
// process, and read at most the number of bytes that the caller allows.
package door

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds, in bytes.
const (
	MaxParsed = 64 << 10 // a file that superloop parses
	MaxReport = 1 << 20  // a report that superloop quotes
)

// ErrNotRegular is wrapped by the error for a path that is a symbolic link, a directory, a FIFO, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is wrapped by the error for a file that has more bytes than the caller allows.
var ErrTooLarge = errors.New("too large")

var kinds = map[fs.FileMode]string{fs.ModeSymlink: "a symbolic link", fs.ModeDir: "a directory", fs.ModeNamedPipe: "a pipe",
	fs.ModeSocket: "a socket"}

// Conflict returns the error for a path at which something else than a regular file lies, with its mode. It wraps
// ErrNotRegular.
func Conflict(path string, mode fs.FileMode) error {
	return fmt.Errorf("opening %s: %w (%s)", path, ErrNotRegular, cmp.Or(kinds[mode.Type()], "a device"))
}

// Open opens a regular file for reading. It does not wait, for example for a writer of a FIFO. The error wraps
// fs.ErrNotExist or ErrNotRegular if that is the cause. The caller closes the file.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := open(path)
	if err != nil {
		if info, lerr := os.Lstat(path); lerr == nil && !info.Mode().IsRegular() {
			err = Conflict(path, info.Mode())
		}
		return nil, nil, err
	}
	return regular(f, path)
}

// regular closes f unless it is a regular file.
func regular(f *os.File, path string) (*os.File, fs.FileInfo, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = Conflict(path, info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenOwn is Open for a file of the operator, who may keep it elsewhere and link to it: it follows links.
func OpenOwn(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|flags&^unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	return regular(f, path)
}

const (
	super = string(filepath.Separator) + ".superloop" + string(filepath.Separator)
	flags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
)

// open opens path below .superloop, if path leads through it. Agents write there, and could make a link of a directory.
func open(path string) (*os.File, error) {
	i := strings.Index(path, super)
	if i < 0 {
		return os.OpenFile(path, os.O_RDONLY|flags, 0)
	}
	dir, err := openDir(path, filepath.Dir(path[i+len(super):]))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for {
		fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), flags, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// openDir opens the directory dir of the .superloop through which path leads. It follows no link out of .superloop.
func openDir(path, dir string) (*os.File, error) {
	root, err := os.OpenRoot(path[:strings.Index(path, super)+len(super)-1])
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Without O_DIRECTORY and O_NONBLOCK a FIFO in the place of the directory would wait for a writer.
	f, err := root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	led := err != nil && strings.Contains(err.Error(), "path escapes from parent")
	if led || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("opening %s: %w (its directory is none, or a link that leads away)", path, ErrNotRegular)
	}
	return f, err
}

// Names returns the names in a directory below .superloop, sorted. Links that lead out of .superloop are not followed.
// The error for a directory with more than most names wraps ErrTooLarge, and for one that does not exist
// fs.ErrNotExist.
func Names(dir string, most int) ([]string, error) {
	i := strings.Index(dir, super)
	if i < 0 {
		return nil, fmt.Errorf("reading %s: it is not below .superloop", dir)
	}
	f, err := openDir(dir, dir[i+len(super):])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(most + 1)
	switch {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, err
	case len(names) > most:
		return nil, fmt.Errorf("reading %s: %w: it has more than %d files", dir, ErrTooLarge, most)
	}
	slices.Sort(names)
	return names, nil
}

// Read reads a whole file, under the rules of Open. The error for a file of more than limit bytes wraps ErrTooLarge;
// the length of a sparse file counts. For an empty file Read returns a non-nil slice.
func Read(path string, limit int64) ([]byte, error) {
	return read(path, limit, Open)
}

// ReadOwn is Read for a file of the operator: it follows links.
func ReadOwn(path string, limit int64) ([]byte, error) { return read(path, limit, OpenOwn) }

func read(path string, limit int64, open func(string) (*os.File, fs.FileInfo, error)) ([]byte, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data []byte
	if info.Size() <= limit {
		data, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	if err == nil && max(info.Size(), int64(len(data))) > limit {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// ErrDeep is wrapped by the error for a JSON file in which values are nested deeper than MaxDepth.
var ErrDeep = errors.New("nested too deep")

// ReadJSON is Read for a file that the caller decodes. The error for a file that is not Shallow wraps ErrDeep.
func ReadJSON(path string, limit int64) ([]byte, error) {
	data, err := Read(path, limit)
	if err == nil && !Shallow(data) {
		return nil, fmt.Errorf("reading %s: %w: more than %d levels", path, ErrDeep, MaxDepth)
	}
	return data, err
}

// Ends reads a file under the rules of Open. It returns the whole file if it has at most head+tail bytes. Otherwise it
// returns the first head and the last tail bytes, with a line between them that says how many bytes were left out. size
// is the length of the file when it was opened. Ends does not read bytes that are appended later.
func Ends(path string, head, tail int) (text string, size int64, err error) {
	f, info, err := Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	size = info.Size()
	whole := size <= int64(head+tail)
	if whole {
		head, tail = int(size), 0
	}
	first, err := io.ReadAll(io.NewSectionReader(f, 0, int64(head)))
	var last []byte
	if err == nil && tail > 0 {
		last, err = io.ReadAll(io.NewSectionReader(f, size-int64(tail), int64(tail)))
	}
	switch {
	case err != nil:
		return "", size, fmt.Errorf("reading %s: %w", path, err)
	case whole:
		return string(first), size, nil
	}
	return JoinCut(string(first), string(last), size-int64(head+tail)), size, nil
}

// Release ends what other processes read from a FIFO, as if a writer had gone away.
func Release(fifo string) {
	if fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Close(fd)
	}
}

// maxSparse is the size, in bytes, from which on MostlyHoles looks at what a file has on the disk.
const maxSparse = 1 << 30

// MostlyHoles reports whether a file of more than 1 GiB has less than half of its length on the disk. Such a file costs
// nothing to make, and a terabyte of it takes minutes to read.
func MostlyHoles(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && info.Size() > maxSparse && st.Blocks*512 < info.Size()/2
}

// LeftOut begins the line of JoinCut that says how many bytes were left out.
const LeftOut = "[... "

// JoinCut joins the head and the tail of a text, with a line between them that says how many bytes were left out. The
// line is never empty, so no tag can form where the two parts meet.
func JoinCut(head, tail string, omitted int64) string {
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s"+LeftOut+"%d bytes left out ...]\n%s", head, omitted, tail)
}

// MaxDepth is how deep the values of a JSON text may be nested that superloop decodes or writes again. Each level costs
// memory, and an indented copy costs the square of the depth.
const MaxDepth = 100

// Shallow reports whether no value in a JSON text is nested deeper than MaxDepth. It needs no memory, and does not check
// whether data is JSON.
func Shallow(data []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return true
}
