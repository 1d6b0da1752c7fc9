package steering

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/places"
)

// Home is the user's home directory, as superloop and its agents have it.
type Home struct {
	Env []string // superloop's environment, in the form of os.Environ; HOME and PATH come from it
	// Work lists the directories in which agents work: the repository and the loop's own work tree. What lies in them
	// is their work, and is not held.
	Work []string
	// Needed lists further directories that agents and superloop have to reach. No directory that contains one of them
	// is hidden as a whole.
	Needed []string
	// Paths and Allow are protect.paths and protect.allow of the configuration.
	Paths, Allow []string
}

// State says what happens to a place.
type State string

// The states of places.
const (
	ReadOnly State = "read-only" // it exists, and agents cannot change it
	Kept     State = "kept free" // it does not exist, and agents cannot make it
	Hidden   State = "hidden"    // agents do not see it
	Open     State = "open"      // protect.allow opens it
	Work     State = "work"      // it lies in the repository, where agents work
	Exposed  State = "not held"  // it cannot be held; Note says why
	Given    State = "writable"  // agents can write it, because they need it
)

// Place is a place of the Survey.
type Place struct {
	ID    string `json:"id"` // the entry of package places, "path", or "protect.paths"
	Path  string `json:"path"`
	State State  `json:"state"`
	Note  string `json:"note,omitempty"`
}

// Survey is what is there at one moment. All its paths are absolute and lead through no symbolic link.
type Survey struct {
	Files    []string // files and directories to be made read-only
	Links    []string // symbolic links that have to stay as they are
	Free     []string // names that have to stay free, in directories that exist or are in Dirs
	Dirs     []string // directories to be made first, so that a name in them can be kept free; parents come first
	Writable []string // existing directories and files inside of Files that agents may write
	Sockets  []string // to be hidden
	Private  []string // directories of sockets: agents see empty ones of their own
	Places   []Place
}

// surveyor makes a Survey.
type surveyor struct {
	Home
	home      string   // the real path of the home directory, "" if there is none
	trees     []string // the real paths of Home.Work
	work      []string // trees, but for those that contain the home directory
	allow     []string // the paths of protect.allow
	keeps     []string
	installed map[string]bool // by the ID of an entry: whether one of its programs is on PATH
	out       Survey
	seen      map[string]bool
}

// maxLinks is the number of symbolic links that the kernel follows in one path.
const maxLinks = 40

// Survey looks at all places. It changes nothing.
func (h Home) Survey() Survey {
	s := h.surveyor()
	for _, p := range h.Paths {
		for _, path := range expand(p, s.home, h.Env) {
			s.hold(extraID, path, true)
		}
	}
	for _, e := range places.Entries() {
		for _, word := range e.Holds {
			for _, path := range expand(word, s.home, h.Env) {
				if !strings.HasPrefix(word, "$") || s.ofUser(path) {
					s.hold(e.ID, path, s.installed[e.ID])
				}
			}
		}
	}
	s.path()
	s.holes()
	s.hideAll()
	for _, e := range places.Entries() {
		for _, word := range e.Keeps {
			for _, path := range expand(word, s.home, h.Env) {
				if _, err := os.Lstat(path); err == nil && s.installed[e.ID] {
					s.tell(e.ID, path, Given, "")
				}
			}
		}
	}
	return s.out
}

// surveyor resolves what the Survey begins with.
func (h Home) surveyor() *surveyor {
	s := &surveyor{Home: h, installed: map[string]bool{}, seen: map[string]bool{}}
	lexical := lookup(h.Env, "HOME")
	if real, err := filepath.EvalSymlinks(lexical); err == nil && filepath.IsAbs(lexical) && real != "/" {
		s.home = real
	}
	for _, w := range h.Work {
		if real, err := filepath.EvalSymlinks(w); err == nil {
			s.trees = append(s.trees, real)
			if s.home == "" || !under(s.home, real) {
				s.work = append(s.work, real)
			}
		}
	}
	for _, a := range h.Allow {
		s.allow = append(s.allow, expand(a, s.home, h.Env)...)
	}
	for _, e := range places.Entries() {
		s.installed[e.ID] = s.anyOf(e.With)
		for _, k := range e.Keeps {
			if s.installed[e.ID] {
				s.keeps = append(s.keeps, expand(k, s.home, h.Env)...)
			}
		}
	}
	return s
}

// anyOf reports whether one of the programs is on PATH. An empty list counts as installed.
func (s *surveyor) anyOf(programs []string) bool {
	env := []string{"PATH=" + lookup(s.Env, "PATH")}
	return len(programs) == 0 || slices.ContainsFunc(programs, func(program string) bool {
		_, err := proc.LookPath(program, env)
		return err == nil
	})
}

// ofUser reports whether a place is the user's own: it lies in the home directory, or the user may write it. Everything
// can be written by root, so for root only the home directory counts.
func (s *surveyor) ofUser(path string) bool {
	if s.home != "" && under(path, s.home) {
		return true
	}
	return os.Geteuid() != 0 && (unix.Access(path, unix.W_OK) == nil || unix.Access(filepath.Dir(path), unix.W_OK) == nil)
}

func (s *surveyor) tell(id, path string, state State, note string) {
	s.out.Places = append(s.out.Places, Place{id, path, state, note})
}

// open reports whether protect.allow opens the place.
func (s *surveyor) open(id, path string) bool {
	return slices.Contains(s.Allow, id) || within(path, s.allow)
}

// hold adds a place and the links on the way to it. present says whether a missing place is kept free.
func (s *surveyor) hold(id, path string, present bool) {
	if _, err := os.Lstat(path); s.seen[path] || err != nil && !present {
		return
	}
	s.seen[path] = true
	if s.open(id, path) {
		if _, err := os.Lstat(path); err == nil {
			s.tell(id, path, Open, "")
		}
		return
	}
	at, rest := "/", strings.Split(strings.TrimPrefix(path, "/"), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		var to string
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			to, err = os.Readlink(next)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && to == Free:
			s.missing(id, path, at, rest, present)
			return
		case err != nil:
			s.tell(id, path, Exposed, err.Error())
			return
		case to == "" && len(rest) > 1 && !info.IsDir():
			return // a file is where a directory would have to be, so nothing reads the place
		case to == "":
			at, rest = next, rest[1:]
			continue
		}
		if links++; links > maxLinks {
			s.tell(id, path, Exposed, "it leads through too many symbolic links")
			return
		}
		if s.ofUser(next) && !within(next, s.work) {
			s.out.Links = add(s.out.Links, next)
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.FieldsFunc(to, func(r rune) bool { return r == '/' }), rest[1:]...)
	}
	s.present(id, path, at)
}

// present adds a place that exists. real is its real path.
func (s *surveyor) present(id, path, real string) {
	info, err := os.Lstat(real)
	switch {
	case err != nil || !info.IsDir() && !info.Mode().IsRegular():
		return // a device or a socket steers nothing
	case s.open(id, real):
		s.tell(id, path, Open, "")
	case within(real, s.work):
		s.tell(id, path, Work, "it is "+real)
	case real == "/" || s.home != "" && under(s.home, real):
		s.tell(id, path, Exposed, "it contains the home directory")
	default:
		s.out.Files = add(s.out.Files, real)
		s.tell(id, path, ReadOnly, "")
	}
}

// missing adds a place of which only the directory at exists. rest are the names below it.
func (s *surveyor) missing(id, path, at string, rest []string, present bool) {
	name := filepath.Join(at, rest[0])
	if !present || within(name, s.work) || !s.ofUser(name) {
		return
	}
	if within(name, s.trees) {
		s.tell(id, path, Exposed, "the repository contains the home directory, and nothing is made in it")
		return
	}
	var dirs []string
	for rest = rest[1:]; contains(name, s.keeps); name, rest = filepath.Join(name, rest[0]), rest[1:] {
		if len(rest) == 0 {
			return // agents may make it
		}
		dirs = append(dirs, name)
	}
	for _, d := range dirs {
		s.out.Dirs = add(s.out.Dirs, d)
	}
	s.out.Free = add(s.out.Free, name)
	s.tell(id, path, Kept, "")
}

// holes adds the places inside of held directories that agents may write, and leaves out what a held directory around
// it holds in any case.
func (s *surveyor) holes() {
	files := s.out.Files
	for _, path := range slices.Concat(s.keeps, s.work, s.allow) {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && within(real, files) && !slices.Contains(files, real) {
			s.out.Writable = add(s.out.Writable, real)
		}
	}
	// settled reports whether the directory of path is held.
	settled := func(path string) bool {
		held, hole := deepest(filepath.Dir(path), files), deepest(filepath.Dir(path), s.out.Writable)
		return len(held) > len(hole)
	}
	for _, list := range []*[]string{&s.out.Files, &s.out.Links, &s.out.Free, &s.out.Dirs} {
		*list = slices.DeleteFunc(slices.Clone(*list), settled)
	}
	s.out.Dirs = slices.DeleteFunc(s.out.Dirs, func(dir string) bool { return !contains(dir, s.out.Free) })
}

// deepest returns the longest of dirs that is path or contains it, or "".
func deepest(path string, dirs []string) (longest string) {
	for _, dir := range dirs {
		if under(path, dir) && len(dir) > len(longest) {
			longest = dir
		}
	}
	return longest
}

func add(list []string, path string) []string {
	if slices.Contains(list, path) {
		return list
	}
	return append(list, path)
}
