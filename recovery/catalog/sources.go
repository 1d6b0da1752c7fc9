package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Sources are the files of overlays, as they were when Read read them. The same sources make the same catalog.
type Sources struct {
	dirs [2]overlayDir // of the user, of the repository
}

// Read reads the files of overlays for a catalog. For a context that ends it does as Load.
func Read(ctx context.Context, o Options) *Sources {
	s := &Sources{dirs: [2]overlayDir{{source: SourceUser, root: o.UserDir, below: "."}, {source: SourceRepository, root: o.RepoDir, below: repositoryDir}}}
	for i := range s.dirs {
		s.dirs[i].read(ctx)
	}
	s.dirs[0].files = append(s.dirs[0].files, o.More...)
	return s
}

// Same reports whether both make the same catalog, with the same problems and origins of entries.
func (s *Sources) Same(other *Sources) bool {
	return s == other || slices.EqualFunc(s.dirs[:], other.dirs[:], func(a, b overlayDir) bool {
		return slices.Equal(a.unread, b.unread) && slices.EqualFunc(a.files, b.files, func(a, b File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
	})
}

// overlayDir is a directory of overlays, and what read has found there.
type overlayDir struct {
	source string
	root   string // read opens no file outside root
	below  string // the directory of the files, relative to root
	files  []File
	unread Problems // of the files that are left out
}

// read reads the files of the directory. It leaves out what it cannot read.
func (o *overlayDir) read(ctx context.Context) {
	if o.root == "" {
		return
	}
	dir := filepath.Join(o.root, filepath.FromSlash(o.below))
	fail := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) {
			o.unread = Problems{{File: dir, Message: "cannot be read: " + reason(err)}}
		}
	}
	outer, err := os.OpenRoot(o.root)
	if err != nil {
		fail(err)
		return
	}
	defer func() { _ = outer.Close() }()
	root, err := outer.OpenRoot(o.below)
	if err != nil {
		fail(err)
		return
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".") // sorted
	if err != nil {
		fail(err)
		return
	}
	names, problems := overlayFiles(entries, dir)
	o.unread = problems
	size := 0
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := ctx.Err(); err != nil {
			o.unread = append(o.unread, Problem{File: file, Message: "was not read: " + err.Error()})
			return
		}
		text, err := readCapped(root, name)
		if err != nil {
			o.unread = append(o.unread, Problem{File: file, Message: "cannot be read: " + reason(err)})
			continue
		}
		if size += len(text); size > MaxDirSize {
			o.unread = append(o.unread, Problem{
				File: file, Message: fmt.Sprintf("was not read, nor the files after it: together they are larger than %d bytes", MaxDirSize),
			})
			return
		}
		o.files = append(o.files, File{Name: file, Data: text})
	}
}

// overlayFiles returns the names of the files to read, in the order of the entries. It warns about files that an
// operator may expect superloop to read.
func overlayFiles(entries []fs.DirEntry, dir string) (names []string, problems Problems) {
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."), e.IsDir():
		case strings.HasSuffix(name, ".yaml"):
			names = append(names, name)
		case strings.HasSuffix(name, ".yml"), strings.HasSuffix(name, ".json"):
			problems = append(problems, Problem{File: filepath.Join(dir, name), Warning: true, Message: "is not read: only names that end in .yaml are"})
		}
	}
	if len(names) > MaxFiles {
		problems = append(problems, Problem{
			File: dir, Message: fmt.Sprintf("holds %d files, of which only the first %d are read: put several handlers into one file", len(names), MaxFiles),
		})
		names = names[:MaxFiles]
	}
	return names, problems.sorted()
}

func readCapped(root *os.Root, name string) ([]byte, error) {
	// Without O_NONBLOCK the open of a named pipe would wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err == nil && len(text) > MaxFileSize {
		err = fmt.Errorf("larger than %d bytes: split it into several files", MaxFileSize)
	}
	return text, err
}

// reason returns the text of an error without the system call and the path, because the problem has the path already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if strings.Contains(err.Error(), "escapes") {
		return "it is a link out of its directory; copy the file instead"
	}
	return err.Error()
}
