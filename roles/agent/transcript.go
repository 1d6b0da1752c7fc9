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

// Recoverer is a Stream that finds in the files of its CLI what the output did
// not tell, such as the usage of a run that was killed. Recover is called after
// Finish, in any case, with the agent's environment and directory, and only adds
// to what was learned. It reads a bounded part of regular files below the CLI's
// own directory and writes nothing; what it does not find stays unknown.
type Recoverer interface {
	Recover(env []string, workdir string, l *Learned)
}

// readTranscript reads the JSON lines of a regular file below root until each
// says that it has enough. It does nothing if there is no such file.
func readTranscript(root *os.Root, path string, layout *layout, each func(event) (more bool)) {
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
	r := layout.shape.NewReader(func(l *jsonstream.Line) {
		if more && l.Kind == jsonstream.Object {
			more = each(event{l, layout.wants})
		}
	})
	from, chunk := io.LimitReader(f, maxTranscript), make([]byte, 256<<10)
	for err == nil && more {
		var n int
		n, err = from.Read(chunk)
		r.Write(chunk[:n])
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
