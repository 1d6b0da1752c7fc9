package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// furnish makes the mounts for the command, in the mount namespace in which this process was started. Except for a few,
// devices cannot be opened. Protected paths become read-only, hidden paths empty. If confine is true, everything except
// the writable paths becomes read-only; each writable path becomes a mount of its own.
func furnish(o *order, confine bool) error {
	// No mount of this namespace reaches the host, and no later mount of the host arrives here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	roots := outermost(o.Writable)
	v := view{roots: roots, anchored: map[string]bool{}}
	keep, attr := devices[:], uint64(unix.MOUNT_ATTR_NODEV)
	if confine {
		keep, attr = slices.Concat(keep, roots), attr|unix.MOUNT_ATTR_RDONLY
	}
	if err := remount(attr, keep, len(devices)); err != nil {
		return err
	}
	if err := privateShm(); err != nil {
		return err
	}
	if o.Probe {
		return v.protect("/proc")
	}
	for _, path := range o.Protected {
		if err := v.protect(filepath.Clean(string(path))); err != nil {
			return fmt.Errorf("protecting %s: %w", path, err)
		}
	}
	for _, path := range o.Hidden {
		if err := hide(string(path)); err != nil {
			return fmt.Errorf("hiding %s: %w", path, err)
		}
	}
	return nil
}

// remount sets attributes on all mounts, except on those paths of keep that exist. Below the paths of keep from index
// dead on, devices cannot be opened.
func remount(attr uint64, keep []string, dead int) error {
	trees := make([]int, len(keep))
	for i, path := range keep {
		only := uint64(0)
		if i >= dead {
			only = unix.MOUNT_ATTR_NODEV
		}
		var err error
		if trees[i], err = clone(path, only); err != nil && exists(path) {
			return err
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return fmt.Errorf("changing the mounts: %w (needs Linux 5.12)", err)
	}
	for i, path := range keep {
		if trees[i] < 0 {
			continue
		}
		if err := attach(trees[i], path); err != nil {
			return err
		}
	}
	return nil
}

const shm = "/dev/shm"

// privateShm mounts a private /dev/shm of 256 MiB, without which many programs cannot start their workers. It
// disappears with the command.
func privateShm() error {
	at, err := filepath.EvalSymlinks(shm)
	if err != nil {
		return nil // this system has no shared memory directory
	}
	if err := unix.Mount("none", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256m,mode=1777"); err != nil {
		return fmt.Errorf("mounting %s: %w", at, err)
	}
	return nil
}

// outermost returns the real paths of the existing places, without those that lie in another one, the shortest first.
func outermost(places []bytesOf) []string {
	var all []string
	for _, p := range places {
		if p, err := filepath.EvalSymlinks(string(p)); err == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(a) - len(b) })
	var out []string
	for _, p := range all {
		if !slices.ContainsFunc(out, func(o string) bool { return under(p, o) }) {
			out = append(out, p)
		}
	}
	return out
}

// clone returns a descriptor of a detached copy of the mounts at and below path, with attr added to their attributes.
// With an error it returns -1. If path is a symbolic link, clone does not follow it.
func clone(path string, attr uint64) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("copying the mount of %s: %w", path, err)
	}
	if attr == 0 {
		return fd, nil
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("changing the mount of %s: %w (needs Linux 5.12)", path, err)
	}
	return fd, nil
}

// attach mounts a detached copy at path and closes its descriptor.
func attach(tree int, path string) error {
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting %s: %w", path, err)
	}
	return nil
}

// bind mounts a copy of the tree at what onto path, with attr added to its attributes. Both paths may be the same.
func bind(what, path string, attr uint64) error {
	tree, err := clone(what, attr)
	if err != nil {
		return err
	}
	return attach(tree, path)
}

// view holds the state of the mounts that furnish makes.
type view struct {
	roots    []string // the outermost writable paths
	anchored map[string]bool
}

// protect makes path read-only. A mount point cannot be renamed or removed, but the directories above it can. Therefore
// protect turns each of them into a mount as well, up to the writable root.
func (v *view) protect(path string) error {
	at, err := filepath.EvalSymlinks(path)
	if err != nil && !exists(path) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, root := range v.roots {
		if under(path, root) && at != path {
			return errors.New("a symbolic link on its path could be replaced")
		}
		if !under(at, root) {
			continue
		}
		var above []string
		for dir := filepath.Dir(at); dir != root && under(dir, root) && !v.anchored[dir]; dir = filepath.Dir(dir) {
			above = append(above, dir)
		}
		for _, dir := range slices.Backward(above) {
			if err := bind(dir, dir, 0); err != nil {
				return err
			}
			v.anchored[dir] = true
		}
	}
	if err := bind(at, at, unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil || st.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("it is said to be read-only, and is not (%v)", err)
	}
	return nil
}

// hide mounts an empty directory over a directory, and /dev/null over anything else.
func hide(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrPermission) || err != nil && !exists(path) {
		return nil // a path that the shim cannot reach is unreachable for the command, too
	}
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		err = unix.Mount("none", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,nr_inodes=2,mode=0555")
		if err != nil {
			err = fmt.Errorf("mounting nothing there: %w", err)
		}
		return err
	}
	return bind(os.DevNull, path, 0)
}

// mounted is a line of /proc/self/mountinfo.
type mounted struct {
	device string // major:minor of the file system
	root   string // the path in the file system that is mounted
	at     string // the mount point
}

type mountTable []mounted

func mounts() (mountTable, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for other mounts of the same files: %w", err)
	}
	return parseMounts(string(text)), nil
}

func parseMounts(text string) mountTable {
	var table mountTable
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 5 {
			table = append(table, mounted{device: f[2], root: unescape.Replace(f[3]), at: unescape.Replace(f[4])})
		}
	}
	return table
}

// aliases returns the other paths that lead to the same files as path, because the same file system is mounted more
// than once. whole lists paths that lead to path itself, parts those that lead to something inside of it. The caller
// checks whether another mount hides the paths in whole.
func (t mountTable) aliases(path string) (whole, parts []string) {
	own, ok := t.of(path)
	if !ok {
		return nil, nil
	}
	inside := filepath.Join(own.root, strings.TrimPrefix(path, own.at))
	for _, m := range t {
		switch {
		case m.device != own.device:
		case under(inside, m.root):
			rel, err := filepath.Rel(m.root, inside)
			if at := filepath.Join(m.at, rel); err == nil && at != path && !slices.Contains(whole, at) {
				whole = append(whole, at)
			}
		case under(m.root, inside) && !under(m.at, path):
			if top, _ := t.of(m.at); top == m && !slices.Contains(parts, m.at) {
				parts = append(parts, m.at)
			}
		}
	}
	return whole, parts
}

// of returns the mount in which path lies: among the mounts with the longest mount point, the last one.
func (t mountTable) of(path string) (best mounted, ok bool) {
	for _, m := range t {
		if under(path, m.at) && (!ok || len(m.at) >= len(best.at)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// has reports whether path is a mount point. A mount point cannot be renamed or removed.
func (t mountTable) has(path string) bool {
	return slices.ContainsFunc(t, func(m mounted) bool { return m.at == path })
}

func same(a, b string) bool {
	x, err1 := os.Lstat(a)
	y, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// A mount point cannot be renamed or removed, but the directories above it can. An agent that moves the repository away
// and makes another one in its place would have its own configuration there. If each of these directories became a
// mount at its own path, programs such as package managers could no longer link and rename files across it. The kernel
// only asks whether the directory is a mount point anywhere in this namespace. Therefore pin stacks read-only mounts of
// these directories on the first protected directory: each mount is the mount point of the next one. The mount that
// covers the protected directory comes on top of the stack.
//
// Some programs search the mount table for other paths to their files and find the stack, which they cannot use: Codex
// masks the directory of its socket, in the directory for temporary files, on every mount that seems to contain it.
// Therefore the directories above the one for temporary files become mounts at their own paths.

// pin keeps the directories above all places from being renamed or removed, and returns these directories. Before the
// stack covers the places, pin clones their mounts (cover.take). The stack is put on the directory first, if it lies
// in no other place. tmp is the directory for temporary files.
func pin(covers []cover, table mountTable, first, tmp string) ([]string, error) {
	carries := func(c cover) bool { return (c.kind == placeReadOnly || c.kind == placeHidden) && isDir(c.path) }
	anchor := slices.IndexFunc(covers, carries) // the shortest path, so no other cover hides it
	for i, c := range covers {
		if c.path == first && carries(c) && !slices.ContainsFunc(covers, func(o cover) bool { return o.path != first && under(first, o.path) }) {
			anchor = i
		}
	}
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
		case table.has(dir) || !replaceable(dir): // it cannot be moved anyway
		case !under(tmp, dir):
			piled = append(piled, dir)
		default:
			if err := bind(dir, dir, 0); err != nil {
				return nil, err
			}
		}
	}
	// The copies must show the files as they are now, before they are covered.
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

// settled reports whether dir is one of the places, or lies in a place that is not writable.
func settled(dir string, covers []cover) bool {
	kind := placeWritable
	for _, c := range covers { // sorted: deeper places come later
		if dir == c.path {
			return true
		}
		if under(dir, c.path) {
			kind = c.kind
		}
	}
	return kind != placeWritable
}

// replaceable reports whether this user may rename dir, or could get the right to.
func replaceable(dir string) bool {
	parent := filepath.Dir(dir)
	var up, own unix.Stat_t
	if unix.Stat(parent, &up) != nil || unix.Stat(dir, &own) != nil {
		return true
	}
	user := os.Geteuid()
	if user == 0 || int(up.Uid) == user { // the owner of the parent may change its mode
		return true
	}
	return unix.Access(parent, unix.W_OK) == nil && (up.Mode&unix.S_ISVTX == 0 || int(own.Uid) == user)
}
