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

// This file makes the mounts for agents. An agent can write wherever its user can. Read-only mounts cover the protected
// paths, empty mounts the hidden ones, and the directories above them cannot be moved; see pin.

// protectionNamespaces returns the namespaces in which protected agents start.
func protectionNamespaces() (ns proc.Namespaces, ok bool) {
	// Root needs no user namespace, and could not listen on low ports in one.
	return proc.Namespaces{User: proc.NeedsUser(), Mount: true}, true
}

// The kinds of places.
const (
	placeReadOnly = iota
	placeWritable
	placeHidden
	placeLink
	placePrivate
)

// cover is a place and the mount that covers it.
type cover struct {
	path string
	kind int
	rank int // among covers with the same path, the highest rank decides
	tree int // the descriptor of the mount; -1 for placeHidden and placePrivate
}

// guard makes the mounts, checks that they hold, and gives up the rights with which they were made.
func (o *order) guard(rep *report) error {
	a := o.Agent
	if a.UserNS {
		if err := proc.MapUser(a.User, a.Group); err != nil {
			return fmt.Errorf("in namespaces of its own: %w", err)
		}
	}
	// Later mounts of the host still arrive here. The mounts of this namespace do not reach the host.
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
	} else if err := shutSideDoors(); err != nil {
		rep.note("agents can reach superloop by the terminals or the cgroups of its user: %v", err)
	}
	table, err := mounts()
	if err != nil {
		return err
	}
	covers, err := o.covers(table)
	if err != nil {
		return err
	}
	first := ""
	if len(o.Protected) > 0 {
		first = string(o.Protected[0])
	}
	pins, err := pin(covers, table, first, real(string(a.Tmp)))
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
		// The directory is not empty, so this call never removes it.
		if err := unix.Rmdir(dir); err == unix.ENOTEMPTY {
			return fmt.Errorf("%s could be renamed, with all that is protected in it", dir)
		}
	}
	o.closePorts(rep, "an agent", false) // now, because it needs the rights that disarm gives up
	if err := a.disarm(); err != nil {
		return err
	}
	a.remark(rep, root)
	return locked(covers)
}

// covers returns the covers of all places and of all their aliases, sorted such that a place comes after those that
// contain it.
func (o *order) covers(table mountTable) ([]cover, error) {
	var all []cover
	p := Protection{ReadOnly: convert[string](o.Protected), Writable: convert[string](o.Writable), Hidden: convert[string](o.Hidden)}
	lists := [...][]string{placeReadOnly: p.ReadOnly, placeWritable: p.Writable, placeHidden: p.Hidden,
		placeLink: convert[string](o.Links), placePrivate: convert[string](o.Private)}
	for kind, list := range lists {
		for _, path := range list {
			if !exists(path) {
				if kind == placeHidden || kind == placePrivate || p.optional(path) {
					continue
				}
				return nil, fmt.Errorf("protecting %s: it does not exist any more", path)
			}
			if at, err := place(path, kind); err != nil || at != path {
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

// place returns the real path of a place. A place of kind placeLink is the link itself.
func place(path string, kind int) (string, error) {
	if kind != placeLink {
		return filepath.EvalSymlinks(path)
	}
	if _, err := os.Readlink(path); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

func (c *cover) take() (err error) {
	attr := uint64(0)
	switch c.kind {
	case placeHidden, placePrivate:
		return nil
	case placeReadOnly:
		attr = unix.MOUNT_ATTR_RDONLY
	case placeLink:
		// bubblewrap changes the attributes of each mount that has not all of these. It names the mount by its path, so
		// it would look for the mount where the link leads to.
		attr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	}
	c.tree, err = clone(c.path, attr)
	return err
}

func (c *cover) put() error {
	switch c.kind {
	case placeHidden:
		if err := hide(c.path); err != nil {
			return fmt.Errorf("hiding %s: %w", c.path, err)
		}
		return nil
	case placePrivate:
		if err := private(c.path); err != nil {
			return fmt.Errorf("making an empty directory of %s: %w", c.path, err)
		}
		return nil
	}
	return attach(c.tree, c.path)
}

// private mounts an empty directory over a directory, with the same mode. The agent can write it.
func private(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	return unix.Mount("none", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=64m,mode=%o", st.Mode&0o7777))
}

// holds checks that the kernel has made the mount as requested.
func (c *cover) holds() error {
	var st unix.Statfs_t
	err := statfs(c.path, &st)
	switch {
	case err != nil && c.kind == placeHidden && errors.Is(err, unix.EACCES):
		return nil // a path that the shim cannot reach is unreachable for the agent, too
	case err != nil:
		return fmt.Errorf("looking at %s: %w", c.path, err)
	case (c.kind == placeReadOnly || c.kind == placeLink) && st.Flags&unix.ST_RDONLY == 0:
		return fmt.Errorf("%s is said to be read-only, and is not", c.path)
	case c.kind == placePrivate && st.Type != unix.TMPFS_MAGIC:
		return fmt.Errorf("%s is said to be empty, and is not", c.path)
	case c.kind == placeHidden && st.Type != unix.TMPFS_MAGIC && !same(c.path, os.DevNull):
		return fmt.Errorf("%s is said to be hidden, and is not", c.path)
	}
	return nil
}

// statfs asks about the mount at path itself. It does not follow a symbolic link there.
func statfs(path string, st *unix.Statfs_t) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fstatfs(fd, st)
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// locked tries to undo the first cover. It returns an error if this works.
func locked(covers []cover) error {
	path := covers[max(0, slices.IndexFunc(covers, func(c cover) bool { return c.kind == placeReadOnly }))].path
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err == nil {
		return fmt.Errorf("%s could be unmounted by an agent", path)
	}
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &attr); err == nil {
		return fmt.Errorf("%s could be made writable again by an agent", path)
	}
	return nil
}

// takenCapabilities are the capabilities that a protected agent of root does not have. Each of them could undo or
// bypass the mounts: in this namespace, or through the kernel's memory, a disk, or another process; or the wall, by a
// packet filter that redirects ports, or by packets that are read and made by hand. In a user namespace that the agent
// makes it does have them, but only for resources of this namespace.
const takenCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_BOOT |
	1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_MKNOD | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_MAC_OVERRIDE | 1<<unix.CAP_MAC_ADMIN |
	1<<unix.CAP_PERFMON | 1<<unix.CAP_BPF | 1<<unix.CAP_CHECKPOINT_RESTORE

// knownCapabilities are the capabilities that takenCapabilities takes into account. superloop also takes away all newer
// ones.
const knownCapabilities = 1<<(unix.CAP_CHECKPOINT_RESTORE+1) - 1

// disarm gives up the rights with which the mounts were made.
func (a *agentOrder) disarm() error {
	keep := uint64(knownCapabilities &^ takenCapabilities)
	if a.UserNS {
		keep = 0
	}
	bounded := has(unix.CAP_SETPCAP)
	if err := keepCapabilities(keep); err != nil {
		return err
	}
	if bounded {
		return nil
	}
	// A program file with capabilities would give the rights back. Other setuid programs have no effect in this user
	// namespace anyway.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	return nil
}

// remark notes what an agent will notice, and what it can still do.
func (a *agentOrder) remark(rep *report, root bool) {
	switch {
	case a.UserNS:
		rep.note("agents run in a user namespace: sudo, setuid programs and rootless containers do not work (run --unprotected is for those), and the files of others seem to belong to nobody")
	case root:
		rep.note("agents run as root, without what could undo the mounts (no mount, no disks, /sys is read-only; bwrap needs --unshare-user)")
		rep.note("root can change the kernel's settings in /proc/sys, some of which start programs outside; run superloop as an ordinary user")
	}
	rep.note("a service that an agent can reach (over the network, by an abstract socket, or by a socket that protect.allow opens) works outside of the protection")
}

// agentDevices lists the devices that an agent of root may use in addition to devices. None gives access to a disk or
// to memory.
var agentDevices = [...]string{"/dev/tty", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/dri", "/dev/kfd", "/dev/snd"}

const (
	pts  = "/dev/pts"
	ptmx = "/dev/ptmx"
)

// shutDevices closes the ways around the mounts that root has because of file modes: device files of disks and memory,
// and the objects of the kernel in /sys. It also mounts new terminals.
func shutDevices() error {
	nvidia, _ := filepath.Glob("/dev/nvidia*") // the pattern is well-formed
	keep := slices.Concat(devices[:], agentDevices[:], nvidia)
	if err := remount(unix.MOUNT_ATTR_NODEV, keep, len(keep)); err != nil {
		return err
	}
	if err := newTerminals(",gid=5"); err != nil {
		return err
	}
	return shutSys()
}

// shutSideDoors closes the ways by which an ordinary user holds up or ends processes of another PID namespace: their
// terminals (output to a terminal can be suspended), and the cgroups that the user owns (which can be frozen and
// killed).
func shutSideDoors() error { return errors.Join(newTerminals(""), shutSys()) }

func shutSys() error {
	if !exists("/sys/kernel") {
		return nil
	}
	if err := bind("/sys", "/sys", unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("/sys: %w", err)
	}
	return nil
}

// newTerminals mounts a new devpts, in which only the terminals of agents are. group is the mount option for the group
// of the terminals.
func newTerminals(group string) error {
	if !isDir(pts) {
		return nil
	}
	if err := unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"+group); err != nil {
		return fmt.Errorf("mounting %s: %w", pts, err)
	}
	info, err := os.Lstat(ptmx)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return nil // it is a link to the new one, or does not exist
	}
	return bind(pts+"/ptmx", ptmx, 0)
}

// prepareAgents makes the mounts for the spawner process that this process will become. back is the descriptor for the
// report, kind the kind of err.
func (o *order) prepareAgents(rep *report) (back int, kind string, err error) {
	if back, err = takeControl(); err != nil {
		return reportFD, broken, err
	}
	if err = o.guard(rep); err == nil {
		err = watchMounts()
	}
	return back, noMount, err
}

// takeControl moves the control socket to the descriptor where the spawner process expects it, which was that of the
// order. It returns the new descriptor for the report.
func takeControl() (back int, err error) {
	back, err = unix.FcntlInt(reportFD, unix.F_DUPFD_CLOEXEC, orderFD+shimFiles+1)
	if err != nil {
		return -1, fmt.Errorf("keeping the way back: %w", err)
	}
	if err := unix.Dup3(orderFD+shimFiles, proc.ControlFD, 0); err != nil {
		return -1, fmt.Errorf("passing the control socket on: %w", err)
	}
	return back, nil
}

// watchMounts gives the spawner process a descriptor on which the kernel signals a change of the mounts. The mounts
// change when a process outside removes or replaces a file under a mount (the kernel then removes the mount), and when
// something is mounted or unmounted on the host.
func watchMounts() error {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(fd, proc.WatchFD, 0)
	}
	if err != nil {
		return fmt.Errorf("watching the mounts: %w", err)
	}
	return nil
}
