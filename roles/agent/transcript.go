package agent

import (
	"io"
	"os"

	"github.com/superloop/superloop/internal/jsonstream"
)

const (
	maxTranscript = 256 << 20 // bytes of a session's file that are read: its end
	maxListed     = 4096      // entries of a directory that are looked at
)

// readTranscript reads the JSON lines of a regular file below root until each
// says that it has enough. It does nothing if there is no such file.
func readTranscript(root *os.Root, path string, shape *jsonstream.Shape, each func(*jsonstream.Line) (more bool)) {
	info, err := root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := root.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if over := info.Size() - maxTranscript; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return
		}
	}
	more := true
	r := shape.NewReader(func(l *jsonstream.Line) {
		if more && l.Kind == jsonstream.Object {
			more = each(l)
		}
	})
	chunk := make([]byte, 256<<10)
	for left := int64(maxTranscript); more && left > 0; {
		n, err := f.Read(chunk[:min(left, int64(len(chunk)))])
		r.Write(chunk[:n])
		left -= int64(n)
		if err != nil {
			break
		}
	}
	r.Close()
}

// listDir is the directory's entries in no order, at most maxListed of them.
func listDir(root *os.Root, path string) []os.DirEntry {
	info, err := root.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil
	}
	d, err := root.Open(path)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.ReadDir(maxListed)
	return list
}
