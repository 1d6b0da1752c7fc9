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
	return proc.Namespaces{User: !has(unix.CAP_SYS_ADMIN), Mount: true}, true
}

// protectionHint names the kernel setting that forbids namespaces, and the command that allows them, or returns "".
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

// The kinds of places.
const (
	placeReadOnly = iota
	placeWritable
	placeHidden
)

// cover is a place and the mount that covers it.
type cover struct {
	path string
	kind int
	rank int // among covers with the same path, the highest rank decides
	tree int // the descriptor of the mount; -1 for placeHidden
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
	}
	table, err := mounts()
	if err != nil {
		return err
	}
	covers, err := o.covers(table)
	if err != nil {
		return err
	}
	pins, err := pin(covers, table, real(string(a.Tmp)))
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
	for kind, list := range [][]string{placeReadOnly: p.ReadOnly, placeWritable: p.Writable, placeHidden: p.Hidden} {
		for _, path := range list {
			if !exists(path) {
				if kind == placeHidden || p.optional(path) {
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

func (c *cover) take() (err error) {
	if c.kind == placeHidden {
		return nil
	}
	attr := uint64(0)
	if c.kind == placeReadOnly {
		attr = unix.MOUNT_ATTR_RDONLY
	}
	c.tree, err = clone(c.path, attr)
	return err
}

func (c *cover) put() error {
	if c.kind == placeHidden {
		if err := hide(c.path); err != nil {
			return fmt.Errorf("hiding %s: %w", c.path, err)
		}
		return nil
	}
	return attach(c.tree, c.path)
}

// holds checks that the kernel has made the mount as requested.
func (c *cover) holds() error {
	var st unix.Statfs_t
	err := unix.Statfs(c.path, &st)
	switch {
	case err != nil && c.kind == placeHidden && errors.Is(err, unix.EACCES):
		return nil // a path that the shim cannot reach is unreachable for the agent, too
	case err != nil:
		return fmt.Errorf("looking at %s: %w", c.path, err)
	case c.kind == placeReadOnly && st.Flags&unix.ST_RDONLY == 0:
		return fmt.Errorf("%s is said to be read-only, and is not", c.path)
	case c.kind == placeHidden && st.Type != unix.TMPFS_MAGIC && !same(c.path, os.DevNull):
		return fmt.Errorf("%s is said to be hidden, and is not", c.path)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// locked tries to undo the first cover. It returns an error if this works.
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

// takenCapabilities are the capabilities that a protected agent of root does not have. Each of them could undo or
// bypass the mounts: in this namespace, or through the kernel's memory, a disk, or another process. In a user namespace
// that the agent makes it does have them, but only for resources of this namespace.
const takenCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_BOOT |
	1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_MKNOD | 1<<unix.CAP_MAC_OVERRIDE | 1<<unix.CAP_MAC_ADMIN |
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
		rep.note("agents run in a user namespace: sudo, su and rootless containers do not work, and the files of others seem to belong to nobody")
	case root:
		rep.note("agents run as root, without what could undo the mounts (no mount, no disks, /sys is read-only; bwrap needs --unshare-user)")
		rep.note("root can change the kernel's settings in /proc/sys, some of which start programs outside; run superloop as an ordinary user")
	}
	rep.note("a service that an agent may ask (docker, systemd --user, tmux, ssh to this machine) works outside of the protection")
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
	if err := newTerminals(); err != nil {
		return err
	}
	if !exists("/sys/kernel") {
		return nil
	}
	if err := bind("/sys", "/sys", unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("/sys: %w", err)
	}
	return nil
}

// newTerminals mounts a new devpts, because shutDevices has made the old terminals unusable.
func newTerminals() error {
	if !isDir(pts) {
		return nil
	}
	if err := unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
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
