package worktree

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Kinds of files, in the sums of a Survey.
const (
	kindRead    = 'c' // by content
	kindTimes   = 't' // by times
	kindLink    = 'l'
	kindSpecial = 's' // a FIFO, a socket, a device
	kindClosed  = 'x' // a directory that cannot be read
	kindBulk    = 'b' // the files of one directory of a bulk rule
	kindOutside = 'o' // what a link leads to outside of the work tree
)

// walker makes a Survey.
type walker struct {
	ctx     context.Context
	top     string
	tracked []entry // sorted by path
	globs   ignoreList
	sources bool // leave out the directories of bulk rules
	rules   outputRules
	home    string // the home directory in the tree, "." for its top; ".." if it is not in it
	state   string // superloop's state directory, in the same way
	prev    []seen // the rest of the earlier Survey
	now     int64
	files   []seen
	left    int                // how many files it may look at
	beyond  int                // how many files it may look at outside
	outside map[[2]uint64]bool // the directories outside that it has looked at, by device and inode
	buf     []byte             // for sums
	names   [32 << 10]byte     // for names of directories
	content [32 << 10]byte     // for contents of files
}

// look says how the walk treats a directory.
type look struct {
	rel    string // with a slash at the end, "" for the top
	name   string
	bulk   bool
	device uint64 // of a directory outside; 0 inside
	deep   int
}

func (w *walker) walk() error {
	fd, err := unix.Open(w.top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: w.top, Err: err}
	}
	return w.dir(fd, look{})
}

// dir looks at an open directory, and closes it.
func (w *walker) dir(fd int, d look) error {
	defer func() { _ = unix.Close(fd) }()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	names, err := w.list(fd)
	if errors.Is(err, ErrTooManyFiles) || len(w.files) > maxSeen {
		return ErrTooManyFiles
	}
	if err != nil {
		w.closed(d)
		return nil //nolint:nilerr // the mark of a directory that cannot be read is the answer
	}
	var bulk []byte
	at := len(w.files)
	if d.bulk {
		bulk = make([]byte, 0, 64*len(names))
		w.files = append(w.files, seen{path: d.rel})
	}
	for _, name := range names {
		if name == ".git" || d.rel == "" && name == ".superloop" {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // it is gone
		}
		if w.left--; w.left < 0 {
			return ErrTooManyFiles
		}
		mode := uint32(st.Mode)
		switch {
		case mode&unix.S_IFMT == unix.S_IFDIR:
			if err := w.enter(fd, name, d, &st); err != nil {
				return err
			}
		case w.skipped(d, name):
		case d.bulk:
			bulk = append(append(bulk, name...), 0, byte(mode>>8), byte(mode))
			bulk = timesOf(&st).add(bulk)
			if mode&unix.S_IFMT == unix.S_IFLNK && d.device == 0 {
				bulk = append(bulk, w.beyondTop(fd, name, d.rel+name, true)...)
			}
		case mode&unix.S_IFMT == unix.S_IFLNK:
			w.link(fd, name, d.rel+name)
		case mode&unix.S_IFMT == unix.S_IFREG:
			w.file(fd, name, d.rel+name, &st, len(names) > maxListed)
		default:
			w.mark(d.rel+name, kindSpecial, mode, nil)
		}
	}
	if d.bulk {
		w.files[at].sum = sha256.Sum256(append(bulk, kindBulk))
	}
	return nil
}

// enter looks at a directory below d, unless it does not count.
func (w *walker) enter(fd int, name string, d look, st *unix.Stat_t) error {
	rel := d.rel + name
	sub := look{rel: rel + "/", name: name, bulk: d.bulk, device: d.device, deep: d.deep + 1}
	if d.device != 0 && uint64(st.Dev) != d.device { // a mount below what a link leads to can be anything
		return nil
	}
	if w.globs.hit(rel, true) || rel == w.state && d.device == 0 {
		return nil
	}
	skip, bulk := w.rules.dir(d.name, name)
	if skip, bulk = skip || w.dotInHome(d, name), bulk || d.bulk; skip || bulk {
		tracked := w.tracksBelow(sub.rel)
		if skip && !tracked {
			return nil
		}
		if sub.bulk = bulk && !tracked; sub.bulk && w.sources {
			return nil
		}
	}
	if sub.deep > maxDeep {
		return ErrTooManyFiles
	}
	child, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return w.dir(child, sub)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return ErrTooManyFiles
	case !errors.Is(err, unix.ENOENT):
		w.closed(sub)
	}
	return nil
}

func (w *walker) closed(d look) { w.mark(d.rel, kindClosed, 0, nil) }

// list returns the names in an open directory, sorted.
func (w *walker) list(fd int) ([]string, error) {
	var names []string
	for {
		n, err := unix.ReadDirent(fd, w.names[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		if _, _, names = unix.ParseDirent(w.names[:n], -1, names); len(names) > w.left {
			return nil, ErrTooManyFiles
		}
	}
	slices.Sort(names)
	return names, nil
}

// skipped reports whether a file that is no directory does not count.
func (w *walker) skipped(d look, name string) bool {
	if w.globs != nil && w.globs.hit(d.rel+name, false) {
		return true
	}
	if !w.rules.file(d.name, name) && !w.dotInHome(d, name) {
		return false
	}
	_, tracked := slices.BinarySearchFunc(w.tracked, d.rel+name, pathOf)
	return !tracked
}

// dotInHome reports whether a name below d is one in the home directory that begins with a dot.
func (w *walker) dotInHome(d look, name string) bool {
	return name[0] == '.' && d.device == 0 && w.home != ".." && (d.rel == w.home+"/" || d.rel == "" && w.home == ".")
}

// tracksBelow reports whether git tracks a file whose path begins with dir, which ends in a slash.
func (w *walker) tracksBelow(dir string) bool {
	i, _ := slices.BinarySearchFunc(w.tracked, dir, pathOf)
	return i < len(w.tracked) && strings.HasPrefix(w.tracked[i].path, dir)
}

// mark appends a file that counts by its kind, its mode and data.
func (w *walker) mark(rel string, kind byte, mode uint32, data []byte) *seen {
	w.buf = append(append(w.buf[:0], kind, byte(mode>>8), byte(mode)), data...)
	w.files = append(w.files, seen{path: rel, sum: sha256.Sum256(w.buf)})
	return &w.files[len(w.files)-1]
}

// file looks at a regular file.
func (w *walker) file(fd int, name, rel string, st *unix.Stat_t, many bool) {
	t, mode := timesOf(st), uint32(st.Mode)
	for len(w.prev) > 0 && byWalk(w.prev[0].path, rel) < 0 {
		w.prev = w.prev[1:]
	}
	if len(w.prev) > 0 && w.prev[0].path == rel && w.prev[0].times == t && t.settled(w.prev[0].read) {
		w.files = append(w.files, w.prev[0])
		return
	}
	if t.size > maxContent || many {
		w.mark(rel, kindTimes, mode, t.add(nil))
		return
	}
	sum, ok := w.read(fd, name, st)
	if !ok {
		w.mark(rel, kindTimes, mode, t.add(nil)) // unreadable, or it changes right now
		return
	}
	f := w.mark(rel, kindRead, mode, sum[:])
	f.times, f.read = t, w.now
}

// read returns the hash of a regular file. It opens nothing else, whatever has taken the file's place meanwhile.
func (w *walker) read(fd int, name string, st *unix.Stat_t) (sum [32]byte, ok bool) {
	file, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return sum, false
	}
	defer func() { _ = unix.Close(file) }()
	var now unix.Stat_t
	if unix.Fstat(file, &now) != nil || now.Ino != st.Ino || now.Dev != st.Dev || timesOf(&now) != timesOf(st) {
		return sum, false
	}
	h := sha256.New()
	var size int64
	for {
		n, err := unix.Read(file, w.content[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return sum, false
		}
		if n <= 0 {
			break
		}
		h.Write(w.content[:n])
		if size += int64(n); size > maxContent {
			return sum, false
		}
	}
	h.Sum(sum[:0])
	return sum, size == st.Size
}

// link looks at a link, and at what it leads to if that is outside of the work tree.
func (w *walker) link(fd int, name, rel string) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, name, target)
	if err != nil {
		return // it is gone
	}
	at := len(w.files)
	w.mark(rel, kindLink, 0, target[:n])
	if more := w.beyondTop(fd, name, rel, false); len(more) > 0 {
		sum := w.files[at].sum
		w.files[at].sum = sha256.Sum256(append(sum[:], more...))
	}
}

// beyondTop returns the times of the file that a link leads to, if that is outside of the work tree. If it leads to a
// directory, beyondTop looks at the files in it. byName says that the target's name tells whether it is outside, which is
// cheap; otherwise all links on the way count.
func (w *walker) beyondTop(fd int, name, rel string, byName bool) []byte {
	if byName {
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, name, target)
		if err != nil || !strings.HasPrefix(string(target[:n]), "/") && filepath.IsLocal(path.Join(path.Dir(rel), string(target[:n]))) {
			return nil
		}
	}
	real, err := filepath.EvalSymlinks(filepath.Join(w.top, rel))
	if err != nil || within(w.top, real) || within(real, w.top) || slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return within(dir, real) }) {
		return nil
	}
	var st unix.Stat_t
	if unix.Lstat(real, &st) != nil {
		return nil
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFDIR {
		return timesOf(&st).add([]byte{kindOutside, byte(st.Mode >> 8), byte(st.Mode)})
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	if w.outside[id] || w.beyond <= 0 {
		return nil
	}
	if w.outside == nil {
		w.outside = map[[2]uint64]bool{}
	}
	w.outside[id] = true
	dir, err := unix.Open(real, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	other := &walker{ctx: w.ctx, top: real, rules: w.rules, left: w.beyond}
	_ = other.dir(dir, look{rel: rel + "/", name: path.Base(real), bulk: true, device: uint64(st.Dev)})
	w.beyond = other.left
	var buf []byte
	for _, f := range other.files {
		buf = append(append(buf, f.path...), f.sum[:]...)
	}
	return buf
}

// within reports whether a path is dir or below it.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func timesOf(st *unix.Stat_t) times {
	return times{size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), inode: st.Ino}
}
