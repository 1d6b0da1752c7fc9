package roles

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrNotRegular is wrapped when a path is a symbolic link, a directory, a
// pipe, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

var kinds = map[fs.FileMode]string{fs.ModeSymlink: "a symbolic link", fs.ModeDir: "a directory", fs.ModeNamedPipe: "a pipe", fs.ModeSocket: "a socket"}

// OpenRegular opens for reading a file that an agent may have made. The last
// element of path is not followed if it is a symbolic link (an agent could
// point it at a secret), and a pipe without a writer does not block. The error
// wraps fs.ErrNotExist or ErrNotRegular where that is the cause.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	refuse := func(info fs.FileInfo) error {
		return fmt.Errorf("opening %s: %w (%s)", path, ErrNotRegular, cmp.Or(kinds[info.Mode().Type()], "a device"))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, lerr := os.Lstat(path); lerr == nil && !info.Mode().IsRegular() {
			err = refuse(info)
		}
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refuse(info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ReadRegular reads what OpenRegular may open: all of it up to head+tail
// bytes, else its first head and its last tail bytes with a line between them
// that says how many bytes were left out. size is the file's length when it
// was opened; a file that grows meanwhile is read no further.
func ReadRegular(path string, head, tail int) (text string, size int64, err error) {
	f, info, err := OpenRegular(path)
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

// JoinCut puts the marker of left-out bytes between the head and the tail of a
// text. The marker is never empty, so that no tag can be formed by the two
// ends meeting.
func JoinCut(head, tail string, omitted int64) string {
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s[... %d bytes left out ...]\n%s", head, omitted, tail)
}
