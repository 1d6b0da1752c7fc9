package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// An agent's view of the mounts. It may write everywhere as its user does, but what is protected is covered by
// read-only mounts, what is hidden by empty ones, and the directories above them stay where they are; see pin.

// protectionNamespaces are those that a protected agent is started in.
func protectionNamespaces() (ns proc.Namespaces, ok bool) {
	// Root needs no user namespace; in one it could not listen on low ports.
	return proc.Namespaces{User: !has(unix.CAP_SYS_ADMIN), Mount: true}, true
}

// protectionHint is what an operator may look at when namespaces are refused.
func protectionHint() string {
	for _, h := range []struct{ path, refused, hint string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "an AppArmor profile for superloop with \"userns,\", or sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		if firstLine(h.path) == h.refused {
			return " (" + h.path + " is " + h.refused + "; what would allow it: " + h.hint + ")"
		}
	}
	return ""
}

// Kinds of places.
const (
	placeReadOnly = iota
	placeWritable
	placeHidden
)

// cover is one place, and what is mounted over it.
type cover struct {
	path string
	kind int
	rank int // of places with the same path, the one of the highest rank decides
	tree int // what to mount, -1 for placeHidden
}

// guard makes the mounts, and gives up what they were made with.
func (a *agentOrder) guard(rep *report) error {
	if a.UserNS {
		if err := proc.MapUser(a.User, a.Group); err != nil {
			return fmt.Errorf("in namespaces of its own: %w", err)
		}
	}
	// Mounts of the host still arrive here, ours do not go out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	if err := proc.Enter(a.Level); err != nil {
		return err
	}
	root := !a.UserNS && os.Geteuid() == 0
	if root {
		if err := shutDevices(); err != nil {
			return err
		}
	}
	table, err := mounts()
	if err != nil {
		return err
	}
	covers, err := a.covers(table)
	if err != nil {
		return err
	}
	pins, err := a.pin(covers, table)
	if err != nil {
		return err
	}
	for _, c := range covers {
		if err := c.put(); err != nil {
			return err
		}
	}
	for _, c := range covers {
		if err := c.holds(); err != nil {
			return err
		}
	}
	for _, dir := range pins {
		// It is not empty, so this never removes anything.
		if err := unix.Rmdir(dir); err == unix.ENOTEMPTY {
			return fmt.Errorf("%s could be renamed, with all that is protected in it", dir)
		}
	}
	if err := a.disarm(); err != nil {
		return err
	}
	a.remark(rep, root)
	return locked(covers)
}

// covers are all places, where they lie and wherever else they can be seen, those that lie in others after these.
func (a *agentOrder) covers(table mountTable) ([]cover, error) {
	var all []cover
	for kind, list := range [][]bytesOf{placeReadOnly: a.ReadOnly, placeWritable: a.Writable, placeHidden: a.Hidden} {
		for _, path := range convert[string](list) {
			if !exists(path) {
				if kind == placeHidden || kind == placeReadOnly && slices.ContainsFunc(a.Writable, func(w bytesOf) bool { return under(path, string(w)) }) {
					continue
				}
				return nil, fmt.Errorf("protecting %s: it does not exist any more", path)
			}
			if at, err := filepath.EvalSymlinks(path); err != nil || at != path {
				return nil, fmt.Errorf("protecting %s: it leads through a symbolic link now (to %s, %v)", path, at, err)
			}
			whole, parts := table.aliases(path)
			whole = slices.DeleteFunc(whole, func(at string) bool { return !same(at, path) })
			for _, at := range slices.Concat([]string{path}, whole, parts) {
				all = append(all, cover{path: at, kind: kind, rank: len(path), tree: -1})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y cover) int {
		return cmp.Or(len(x.path)-len(y.path), strings.Compare(x.path, y.path), y.rank-x.rank)
	})
	return slices.CompactFunc(all, func(x, y cover) bool { return x.path == y.path }), nil
}

// take copies what is at the place.
func (c *cover) take() (err error) {
	if c.kind == placeHidden {
		return nil
	}
	if c.tree, err = clone(c.path); err != nil {
		return err
	}
	if c.kind == placeReadOnly {
		err = change(c.tree, unix.MOUNT_ATTR_RDONLY)
	}
	if err != nil {
		return fmt.Errorf("%s: %w (needs Linux 5.12)", c.path, err)
	}
	return nil
}

// put mounts it.
func (c *cover) put() error {
	if c.kind == placeHidden {
		if err := hide(c.path); err != nil {
			return fmt.Errorf("hiding %s: %w", c.path, err)
		}
		return nil
	}
	return attach(c.tree, c.path)
}

// holds looks whether the kernel did what it was asked for.
func (c *cover) holds() error {
	var st unix.Statfs_t
	err := unix.Statfs(c.path, &st)
	switch {
	case err != nil && c.kind == placeHidden && errors.Is(err, unix.EACCES):
		return nil // where we may not go the agent may not either
	case err != nil:
		return fmt.Errorf("looking at %s: %w", c.path, err)
	case c.kind == placeReadOnly && st.Flags&unix.ST_RDONLY == 0:
		return fmt.Errorf("%s is said to be read-only, and is not", c.path)
	case c.kind == placeHidden && st.Type != unix.TMPFS_MAGIC && !isNull(c.path):
		return fmt.Errorf("%s is said to be hidden, and is not", c.path)
	}
	return nil
}

func isNull(path string) bool {
	here, err1 := os.Stat(path)
	null, err2 := os.Stat(os.DevNull)
	return err1 == nil && err2 == nil && os.SameFile(here, null)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// locked tries to undo the first cover.
func locked(covers []cover) error {
	path := covers[0].path
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err == nil {
		return fmt.Errorf("%s could be unmounted by an agent", path)
	}
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &attr); err == nil {
		return fmt.Errorf("%s could be made writable again by an agent", path)
	}
	return nil
}
