package steering

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/recovery/places"
)

// maxPrograms bounds the entries of one directory of PATH that superloop looks at.
const maxPrograms = 10_000

// path adds the directories of PATH that the user may write, and what the links in directories of PATH lead to.
func (s *surveyor) path() {
	for _, dir := range filepath.SplitList(lookup(s.Env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue // such a directory depends on where the program is that looks for it
		}
		dir = filepath.Clean(dir)
		own := s.ofUser(dir)
		if own {
			s.hold(pathID, dir, true)
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || s.open(pathID, dir) || s.open(pathID, real) || within(real, s.work) {
			continue
		}
		entries, err := os.ReadDir(real)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), maxPrograms)] {
			link := filepath.Join(real, e.Name())
			if e.Type()&fs.ModeSymlink == 0 {
				continue
			}
			if to, err := os.Readlink(link); err == nil && strings.Contains(to, "/") { // else it leads to a neighbour
				s.program(real, link)
			}
		}
	}
}

// program adds what a link in a directory of PATH leads to.
func (s *surveyor) program(dir, link string) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil || under(target, dir) || !s.ofUser(target) || within(target, s.out.Files) {
		return
	}
	s.hold(pathID, s.installation(dir, target), true)
}

// installation returns the directory that a program on PATH belongs to, or the program itself if that cannot be told.
// dir is the directory of PATH. The result never contains a place that agents need.
func (s *surveyor) installation(dir, target string) string {
	if at, _, ok := strings.Cut(target, "/node_modules/"); ok {
		return filepath.Join(at, "node_modules")
	}
	shared := dir
	for !under(target, shared) {
		shared = filepath.Dir(shared)
	}
	if shared == "/" || s.home != "" && under(s.home, shared) {
		return target // the two have nothing in common but the user
	}
	rest := strings.Split(strings.TrimPrefix(target, shared+"/"), "/")
	at := shared
	for _, name := range rest {
		at = filepath.Join(at, name)
		if !contains(at, s.keeps) && !contains(at, s.work) {
			return at
		}
	}
	return target
}

// hideAll adds the sockets, and the directories of sockets, of all entries.
func (s *surveyor) hideAll() {
	for _, e := range places.Entries() {
		for _, word := range e.Hides {
			for _, pattern := range expand(word, s.home, s.Env) {
				found, _ := filepath.Glob(pattern) // a bad pattern finds nothing, and a test reads all
				for _, path := range found {
					s.conceal(e.ID, path)
				}
			}
		}
	}
}

// conceal adds a socket, or a directory of sockets. Of a directory that contains something needed it adds what else lies
// in it.
func (s *surveyor) conceal(id, path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || s.seen[real] || within(real, s.work) {
		return
	}
	var st unix.Stat_t
	if unix.Lstat(real, &st) != nil {
		return
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case kind != unix.S_IFSOCK && kind != unix.S_IFDIR:
		return
	case s.open(id, path) || s.open(id, real):
		s.tell(id, path, Open, "")
		return
	case kind == unix.S_IFSOCK:
		s.out.Sockets = add(s.out.Sockets, real)
	case real == "/" || contains(real, slices.Concat(s.Needed, s.work, s.allow, []string{s.home})):
		// Only what else lies in it is hidden.
		entries, err := os.ReadDir(real)
		if err != nil {
			s.tell(id, path, Exposed, err.Error())
		}
		for _, e := range entries {
			if at := filepath.Join(real, e.Name()); !slices.Contains(s.Needed, at) {
				s.conceal(id, at)
			}
		}
		return
	default:
		s.out.Private = add(s.out.Private, real)
	}
	s.seen[real] = true
	s.tell(id, path, Hidden, "")
}

// Sockets returns the sockets of services that could do for a command what the command may not do itself, and the
// directories that hold such sockets. needed lists the directories that the command has to reach. protect.allow does
// not count for the command of a recovery.
func Sockets(env, needed []string) []string {
	s := Home{Env: env, Needed: needed}.surveyor()
	s.hideAll()
	return append(s.out.Sockets, s.out.Private...)
}
