package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A directory that is a mount point cannot be renamed or removed, but those above it can: whoever moves the repository
// away and makes another one in its place has a configuration of his own there. To make a mount of each of those
// directories would keep programs from linking and renaming between them and the rest, as package managers do. What the
// kernel asks is only whether some mount of this namespace is mounted on that very directory, by whatever path. So they
// are mounted, read-only, one on the other, on the first protected directory (each mount is then the mount point of the
// next), and what covers the protected directory comes on top of the pile.
//
// Programs that look for other ways to their files take the pile for such a way, and cannot use it: Codex masks the
// directory of its socket, below the one for temporary files, on every mount where it seems to be. So those above that
// one are mounted where they are.

// pin keeps all directories above the places where they are, and returns them. It takes the copies of the places that
// are not in the way of each other. tmp is the directory for temporary files.
func pin(covers []cover, table mountTable, tmp string) ([]string, error) {
	anchor := slices.IndexFunc(covers, func(c cover) bool { return c.kind != placeWritable && isDir(c.path) })
	if anchor < 0 {
		return nil, errors.New("no directory is to be protected, only files")
	}
	var above, piled []string
	for _, c := range covers {
		for dir := filepath.Dir(c.path); dir != "/" && !slices.Contains(above, dir); dir = filepath.Dir(dir) {
			if !settled(dir, covers) {
				above = append(above, dir)
			}
		}
	}
	slices.SortFunc(above, func(x, y string) int { return len(x) - len(y) })
	for _, dir := range above {
		switch {
		case table.has(dir) || !replaceable(dir): // it stays where it is
		case !under(tmp, dir):
			piled = append(piled, dir)
		default:
			if err := bind(dir, 0); err != nil {
				return nil, err
			}
		}
	}
	// From what is there now: later it is covered.
	for i := range covers {
		if err := covers[i].take(); err != nil {
			return nil, err
		}
	}
	trees := make([]int, len(piled))
	for i, dir := range piled {
		var err error
		if trees[i], err = clone(dir, unix.MOUNT_ATTR_RDONLY); err != nil {
			return nil, err
		}
	}
	for _, tree := range trees {
		if err := attach(tree, covers[anchor].path); err != nil {
			return nil, err
		}
	}
	return above, nil
}

// settled reports whether dir lies in something that is protected and not writable, or is a place itself.
func settled(dir string, covers []cover) bool {
	kind := placeWritable
	for _, c := range covers { // the deeper ones come later
		if dir == c.path {
			return true
		}
		if under(dir, c.path) {
			kind = c.kind
		}
	}
	return kind != placeWritable
}

// replaceable reports whether our user may rename dir, or may become able to.
func replaceable(dir string) bool {
	parent := filepath.Dir(dir)
	var up, own unix.Stat_t
	if unix.Stat(parent, &up) != nil || unix.Stat(dir, &own) != nil {
		return true
	}
	user := os.Geteuid()
	if user == 0 || int(up.Uid) == user { // the owner may change the mode
		return true
	}
	return unix.Access(parent, unix.W_OK) == nil && (up.Mode&unix.S_ISVTX == 0 || int(own.Uid) == user)
}
