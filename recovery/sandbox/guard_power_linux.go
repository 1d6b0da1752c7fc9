package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// takenCapabilities are what a protected agent of root goes without: by each of them the mounts could be undone or got
// around, in this namespace or through the kernel's memory, a disk, or another process. In a user namespace that it
// makes it has them, for what is in there.
const takenCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_BOOT |
	1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_MKNOD | 1<<unix.CAP_MAC_OVERRIDE | 1<<unix.CAP_MAC_ADMIN |
	1<<unix.CAP_PERFMON | 1<<unix.CAP_BPF | 1<<unix.CAP_CHECKPOINT_RESTORE

// knownCapabilities are those whose meaning was looked at; newer ones are taken as well.
const knownCapabilities = 1<<(unix.CAP_CHECKPOINT_RESTORE+1) - 1

// disarm gives up what the mounts were made with.
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
	// A program with capabilities in its file would get them back. Other setuid programs have no effect in this user
	// namespace anyway.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	return nil
}

// remark says what an agent will notice, and what it still can do.
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

// agentDevices may be used by an agent of root besides devices: none of them leads to a disk or to memory.
var agentDevices = [...]string{"/dev/tty", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/dri", "/dev/kfd", "/dev/snd"}

const (
	pts  = "/dev/pts"
	ptmx = "/dev/ptmx"
)

// shutDevices closes the ways around mounts that are root's by the mode of a file: disks and memory, and the kernel's
// objects in /sys. Terminals are new ones.
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
	if err := bind("/sys", unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("/sys: %w", err)
	}
	return nil
}

// newTerminals lets programs make terminals, which they could not with the old ones being dead.
func newTerminals() error {
	if !isDir(pts) {
		return nil
	}
	if err := unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
		return fmt.Errorf("mounting %s: %w", pts, err)
	}
	info, err := os.Lstat(ptmx)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return nil // it leads to the new ones, or there was none
	}
	tree, err := clone(pts + "/ptmx")
	if err != nil {
		return err
	}
	return attach(tree, ptmx)
}

// become is the life of the shim from the order on, if it is to be the spawner process of agents. It returns when that
// failed.
func (a *agentOrder) become() int {
	rep := report{Level: None}
	back, err := takeControl()
	if err != nil {
		rep.fail(broken, err)
		_ = say(reportFD, rep) // if nobody listens nobody will miss it
		return 1
	}
	if err := a.guard(&rep); err != nil {
		rep.fail(noMount, err)
	} else if err := watchMounts(); err != nil {
		rep.fail(noMount, err)
	}
	if err := say(back, rep); err != nil || rep.Failure != "" {
		return 1
	}
	err = syscall.Exec(string(a.Path), convert[string](a.Argv), convert[string](a.Env))
	rep.fail(broken, fmt.Errorf("executing %s: %w", a.Path, err))
	_ = say(back, rep)
	return 1
}

// takeControl moves the control socket to where the spawner process expects it, in the place of the order, and returns
// where the report goes now.
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

// watchMounts leaves the spawner process a descriptor that tells when the mounts change. They do when a file under a
// mount is removed or replaced from outside (the kernel takes the mount away then), and when something is mounted or
// unmounted on the host.
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
