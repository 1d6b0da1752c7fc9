package proc

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spawnerAttr returns the attributes with which the spawner process of a level is started. For PIDNamespace, user says
// whether a user namespace is needed and allowed, and more are the arguments by which the process maps itself there.
func spawnerAttr(l Level, user bool) (attr *syscall.SysProcAttr, more []string, err error) {
	attr = &syscall.SysProcAttr{Setsid: true}
	if l != PIDNamespace {
		return attr, nil, nil
	}
	attr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	// A spawner process that is stopped reads no end of file. See startBound for the thread that is the parent.
	attr.Pdeathsig = unix.SIGKILL
	if !user {
		return attr, nil, nil
	}
	err = Namespaces{User: true}.apply(attr, true)
	return attr, []string{strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())}, err
}

// NeedsUser reports whether this process can make other namespaces only inside of a new user namespace.
func NeedsUser() bool {
	all, err := Capabilities()
	return err != nil || all&(1<<unix.CAP_SYS_ADMIN) == 0
}

// Capabilities returns the permitted capabilities of this thread.
func Capabilities() (permitted uint64, err error) {
	var data [2]unix.CapUserData
	err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, err
}

// NamespaceHint names the kernel setting that forbids user namespaces, and the command that allows them, or returns "".
func NamespaceHint() string {
	for _, h := range []struct{ path, refused, hint string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/user/max_pid_namespaces", "0", "sudo sysctl user.max_pid_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "an AppArmor profile for superloop with \"userns,\", or sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		if text, err := os.ReadFile(h.path); err == nil && strings.TrimSpace(string(text)) == h.refused {
			return " (" + h.path + " is " + h.refused + "; what would allow it: " + h.hint + ")"
		}
	}
	return ""
}

// enterUser maps this process in its new user namespace. ids are the arguments that spawnerAttr returned; without any
// there is no such namespace.
func enterUser(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	uid, err := strconv.Atoi(ids[0])
	if err != nil || len(ids) != 2 {
		return fmt.Errorf("the ids %q are no user and group", ids)
	}
	gid, err := strconv.Atoi(ids[1])
	if err != nil {
		return fmt.Errorf("the group %q is none", ids[1])
	}
	return MapUser(uid, gid)
}

// namespace implements PIDNamespace: this process is PID 1, so kill(-1) reaches the whole tree at once.
type namespace struct{ subreaper }

// newNamespace finishes the namespace in which this process was started. ids are those for enterUser. All commands must
// be started by this thread, which newNamespace locks: what it gives up, they do not get.
func newNamespace(ids []string) (containment, error) {
	if os.Getpid() != 1 {
		return nil, fmt.Errorf("making a PID namespace: this is process %d in it, not 1", os.Getpid())
	}
	runtime.LockOSThread()
	if err := enterUser(ids); err != nil {
		return nil, err
	}
	if err := Enter(PIDNamespace); err != nil {
		return nil, err
	}
	if err := deaf(); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return namespace{}, nil
	}
	// This process keeps its capabilities of the user namespace. Without them the commands cannot trace it, nor look
	// into its memory and its descriptors. A program file with capabilities would give them back.
	if err := bequeathNothing(); err != nil {
		return nil, fmt.Errorf("keeping our capabilities from the commands: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("setting no_new_privs: %w", err)
	}
	return namespace{}, nil
}

// bequeathNothing keeps the capabilities of this thread from the programs that it starts, unless they run as root.
func bequeathNothing() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	if err == nil {
		data[0].Inheritable, data[1].Inheritable = 0, 0
		err = unix.Capset(&header, &data[0]) // this ends the ambient ones, too
	}
	return err
}

// faults are the signals that the Go runtime handles by ending the process, also if another process sends them.
var faults = [...]syscall.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT}

// deaf makes this process, which is PID 1, ignore the faults that the processes of its namespace send: the kernel
// delivers only signals for which PID 1 has a handler. A fault of its own still ends it.
func deaf() error {
	var byDefault [64]byte // struct sigaction of all architectures, in which 0 means SIG_DFL
	for _, s := range faults {
		if _, _, no := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0); no != 0 {
			return fmt.Errorf("ignoring %v: %w", s, no)
		}
	}
	return nil
}

// Enter makes the mounts that a level needs: a /proc that shows the processes of the new PID namespace. A program that
// becomes a spawner process calls it before it drops its capabilities; a second call does nothing.
func Enter(l Level) error {
	if l != PIDNamespace {
		return nil
	}
	if self, _ := os.Readlink("/proc/self"); self == "1" {
		return nil
	}
	// Slave: later mounts of the host still arrive here; the mounts of this namespace do not reach the host.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc of the PID namespace: %w", err)
	}
	if self, err := os.Readlink("/proc/self"); self != "1" {
		return fmt.Errorf("mounting /proc of the PID namespace: /proc/self is %q (%v), not 1", self, err)
	}
	return nil
}

func (namespace) signal(_ int, s syscall.Signal) { signalAll([]int{-1}, s) }
func (namespace) kill(int)                       { _ = unix.Kill(-1, unix.SIGKILL) }

// apply requests the namespaces in attr. If unmapped is true, the process of an ordinary user has to map itself with
// MapUser, because the parent cannot open the mapping files in /proc of an undumpable process.
func (n Namespaces) apply(attr *syscall.SysProcAttr, unmapped bool) (err error) {
	if n.Mount {
		attr.Cloneflags |= unix.CLONE_NEWNS
	}
	if n.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if !n.User {
		return nil
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // otherwise the exec would drop all capabilities
		if !unmapped {
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		}
		return nil
	}
	attr.GidMappingsEnableSetgroups = true
	if attr.UidMappings, err = ownIDs("/proc/self/uid_map"); err != nil {
		return err
	}
	attr.GidMappings, err = ownIDs("/proc/self/gid_map")
	return err
}

// ownIDs returns a mapping of all ids in a file such as /proc/self/uid_map to themselves.
func ownIDs(table string) ([]syscall.SysProcIDMap, error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return nil, fmt.Errorf("mapping users: %w", err)
	}
	var all []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("mapping users: %s: %q: %w", table, line, err)
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return all, nil
}

// MapUser maps the user and the group that started this process to the same numbers in its own user namespace. For root
// it does nothing, because root's ids are mapped already.
func MapUser(uid, gid int) error {
	if uid == 0 {
		return nil
	}
	for _, f := range []struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", uid, uid)},
		{"/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", gid, gid)},
	} {
		if err := SetKernel(f.path, f.text); err != nil {
			return fmt.Errorf("mapping the user: %s: %w", f.path, err)
		}
	}
	return nil
}
