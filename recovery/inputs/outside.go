package inputs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/superloop/superloop/recovery/places"
)

// Outside says where a command finds programs, and their settings, outside of the repository. Agents can write below
// Home, so a program of the command that lies there is an input, and so are the files below Home that steer it (package
// places). The path of such an input begins with "/~/".
type Outside struct {
	Home string // the home directory of the command, absolute; "" watches nothing outside of the repository
	Path string // the PATH of the command
}

// atHome begins the path of a file below the home directory. No path of the repository begins so.
const atHome = "/~/"

// maxRead bounds the size of a file outside of the repository that is read. A larger one counts by its size, its times
// and its inode, of which an agent cannot set all.
const maxRead = 8 << 20

// outside adds what a call reads outside of the repository: the program, where it lies below the home directory, and
// the files there that steer it.
func (c call) outside(word string) {
	for _, pattern := range places.ByProgram()[c.name] {
		c.home(pattern)
	}
	for _, file := range c.query.candidates(word) {
		c.home(file)
	}
}

// candidates returns the files below the home directory, relative to it, that may be the program which a shell runs for
// the word.
func (q Query) candidates(word string) (out []string) {
	home := q.Outside.Home
	below := func(file string) {
		if rel, err := filepath.Rel(home, file); err == nil && filepath.IsLocal(rel) && !(q.Repo != "" && within(file, q.Repo)) {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	switch rest, tilde := strings.CutPrefix(word, "~/"); {
	case home == "" || word == "" || strings.Contains(word, Unknown):
	case tilde:
		below(filepath.Join(home, rest))
	case filepath.IsAbs(word):
		below(word)
	case !strings.Contains(word, "/"):
		for _, dir := range filepath.SplitList(q.Outside.Path) {
			if filepath.IsAbs(dir) {
				below(filepath.Join(dir, word))
			}
		}
	}
	return out
}

// home adds the files below the home directory that match the pattern.
func (c call) home(pattern string) {
	home := c.query.Outside.Home
	if home == "" {
		return
	}
	for _, k := range c.tree.outside(home, pattern) {
		c.outer[k.path] = k
		in := Input{Path: k.path, For: c.name, Text: k.text, Sum: k.sum}
		if k.kind == link {
			in.Text = []byte("a link to " + string(k.text))
		}
		c.add(in)
	}
}

// outside implements Tree.
func (b *Baseline) outside(_, pattern string) (out []known) {
	dir, all := strings.CutSuffix(atHome+pattern, "/*")
	if !all {
		if k, ok := b.find(dir); ok {
			out = append(out, *k)
		}
		return out
	}
	list, _ := b.list(dir) // an error says that there is none
	for _, e := range list {
		if k, ok := b.find(path.Join(dir, e.name)); ok {
			out = append(out, *k)
		}
	}
	return out
}

// outside implements Tree.
func (w *WorkTree) outside(home, pattern string) (out []known) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil // there is no home directory
	}
	defer root.Close()
	dir, all := strings.CutSuffix(pattern, "/*")
	if !all {
		if k, ok := outer(root, pattern); ok {
			out = append(out, k)
		}
		return out
	}
	list, _ := (&WorkTree{root}).list(dir)
	for _, e := range list {
		if k, ok := outer(root, path.Join(dir, e.name)); ok && e.kind != directory {
			out = append(out, k)
		}
	}
	return out
}

// outer looks at a file below the home directory. It follows links that stay below it. Of any other link the target
// counts, and of a file that cannot be read the reason.
func outer(root *os.Root, name string) (known, bool) {
	k := known{path: atHome + name, kind: odd, stored: true}
	// A link that leads nowhere, as superloop makes to keep a name free, is nothing to the programs.
	if _, err := os.Stat(filepath.Join(root.Name(), name)); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return k, false
	}
	info, err := root.Lstat(name)
	if err != nil { // the way to it leads out
		k.text = []byte("cannot be looked at: " + err.Error())
		return k, true
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil && info.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(name)
		k.kind, k.text = link, []byte(to)
		return k, err == nil
	}
	if err == nil {
		defer f.Close()
		info, err = f.Stat()
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		k.text = []byte("may not be read")
	case err != nil:
		k.text = []byte("cannot be read")
	case info.IsDir():
		return k, false
	case !info.Mode().IsRegular():
		k.text = []byte("not a regular file")
	case info.Size() > maxRead:
		k.kind, k.stored, k.exec, k.size = regular, false, info.Mode()&0o111 != 0, info.Size()
		k.sum = sumOf(identityOf(info))
	default:
		c, err := readAll(f, info)
		if err != nil {
			k.text = []byte("cannot be read: " + err.Error())
			return k, true
		}
		c.name()
		k.kind, k.content = regular, c
		if k.stored = c.size <= maxProgram; !k.stored {
			k.text = nil
		}
	}
	return k, true
}

func identityOf(info fs.FileInfo) string {
	s := fmt.Sprintf("%d bytes, changed %d", info.Size(), info.ModTime().UnixNano())
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s += fmt.Sprintf(", inode %d of %d, %d", st.Ino, st.Dev, changeTime(st))
	}
	return s
}
