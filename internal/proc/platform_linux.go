package proc

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const waitAll = unix.WALL // children made by clone with another exit signal as well

// spawnerAttr returns how the spawner process is started for a level.
func spawnerAttr(l Level) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if l == PIDNamespace {
		a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	return a
}

// contain sets this process up for a level, or says why it cannot be had.
func contain(l Level) (containment, error) {
	switch l {
	case PIDNamespace:
		return newNamespace()
	case ProcessGroup:
		return group{}, nil
	case Cgroup, Subreaper:
	default:
		return nil, fmt.Errorf("unknown level %q", l)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the parent of orphans: %w", err)
	}
	if l == Cgroup {
		return newCgroup()
	}
	return subreaper{}, nil
}

// subreaper is Subreaper: every orphan becomes our child, so the tree is all that descends from us.
type subreaper struct{ group }

func (subreaper) gone(int) bool                  { return true }
func (subreaper) count(int) int                  { return len(descendants(os.Getpid())) }
func (subreaper) signal(_ int, s syscall.Signal) { signalAll(descendants(os.Getpid()), s) }

// kill walks until a walk finds nothing new, or killPasses times: what was forked between reading the list and killing
// is found by the next walk, and a chain of forks is caught as soon as one walk is quicker than one link. The caller
// comes back until wait4 says that none is left.
func (subreaper) kill(int) {
	seen := map[int]bool{}
	for range killPasses {
		before := len(seen)
		for _, pid := range descendants(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
			seen[pid] = true
		}
		if len(seen) == before {
			return
		}
	}
}

const killPasses = 8

// namespace is PIDNamespace: we are PID 1, so -1 means the tree, all of it, at one moment.
type namespace struct{ subreaper }

func newNamespace() (containment, error) {
	if os.Getpid() != 1 {
		return nil, fmt.Errorf("making a PID namespace: this is process %d in it, not 1", os.Getpid())
	}
	if self, _ := os.Readlink("/proc/self"); self == "1" {
		return namespace{}, nil // Enter has done it
	}
	// Slave: mounts of the host still arrive here, ours do not go out.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return nil, fmt.Errorf("separating the mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("mounting /proc of the PID namespace: %w", err)
	}
	if self, err := os.Readlink("/proc/self"); self != "1" {
		return nil, fmt.Errorf("mounting /proc of the PID namespace: /proc/self is %q (%v), not 1", self, err)
	}
	return namespace{}, nil
}

func (namespace) signal(_ int, s syscall.Signal) { signalAll([]int{-1}, s) }
func (namespace) kill(int)                       { _ = unix.Kill(-1, unix.SIGKILL) }

// Enter sets up what a level needs of the mounts, as long as that may be done: a program that becomes a spawner process
// calls it before it gives up its capabilities.
func Enter(l Level) error {
	if l != PIDNamespace {
		return nil
	}
	_, err := newNamespace()
	return err
}

// Undumpable keeps other processes of the same user from tracing this one, from reading its memory and environment, and
// from going through its directories and namespaces in /proc, unless they have CAP_SYS_PTRACE. Processes that it starts
// are not affected. There are no core files then. On systems other than Linux it does nothing.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	return nil
}

// apply asks for the namespaces in attr. If unmapped, an ordinary user's process maps itself, with MapUser: the files
// in /proc by which a parent does that are closed to one that is undumpable.
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
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // else it would lose all of them with its exec
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

// ownIDs maps to themselves all ids that a file like /proc/self/uid_map lists.
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

// MapUser maps the user and the group that started this process in a user namespace of its own to the same numbers.
// Root's are mapped already.
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

// SetKernel writes a file of the kernel's, such as those in /proc.
func SetKernel(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return WriteAll(fd, []byte(text))
}

// Sweep kills every process whose environment contains the entry marker (KEY=value, the whole of it), and returns their
// numbers in order. It is for what a crash left where only the Subreaper level holds. It goes over the process table
// until a pass finds nothing, so what it killed is gone then; it returns after sweepBound at the latest. Never killed:
// this process and its ancestors, and what belongs to other users (root sees all). A marker without a key and a value
// finds nothing.
func Sweep(marker string) []int {
	if key, value, ok := strings.Cut(marker, "="); !ok || key == "" || value == "" || hasNUL(marker) {
		return nil
	}
	spare := ancestors()
	killed := map[int]bool{}
	tick := time.NewTicker(sweepPause)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < sweepBound; <-tick.C {
		again := false
		for _, pid := range pids() {
			if spare[pid] {
				continue
			}
			marked, undecided := look(pid, marker)
			if marked && endMarked(pid, marker) {
				killed[pid] = true
			}
			again = again || marked || undecided && time.Since(begun) < undecidedMax
		}
		if !again {
			break
		}
	}
	return slices.Sorted(maps.Keys(killed))
}

const (
	sweepBound   = 5 * time.Second
	sweepPause   = 2 * time.Millisecond // between two passes
	undecidedMax = time.Second          // for processes in the middle of an exec to show their environment
)

// endMarked kills the process if it still has the marker. The pidfd is opened before the look, so that it is the same
// process that is looked at and killed.
func endMarked(pid int, marker string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ENOSYS { // before Linux 5.3
		return unix.Kill(pid, unix.SIGKILL) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	marked, _ := look(pid, marker)
	return marked && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// look reads the environment that a process was started with, and says whether the marker is in it. In the middle of an
// exec there is for a moment neither environment nor command line: then that is undecided. Zombies and kernel threads
// have neither for good.
func look(pid int, marker string) (marked, undecided bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	env, err := os.ReadFile(dir + "/environ")
	if err != nil || len(env) > 0 {
		return bytes.Contains(slices.Concat([]byte{0}, env, []byte{0}), []byte("\x00"+marker+"\x00")), false
	}
	if cmd, err := os.ReadFile(dir + "/cmdline"); err != nil || len(cmd) > 0 {
		return false, false
	}
	s, ok := readStat(pid)
	return false, ok && !s.dead() && !s.kernel
}

// ancestors is this process and all above it.
func ancestors() map[int]bool {
	all := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !all[pid]; {
		all[pid] = true
		s, _ := readStat(pid)
		pid = s.ppid
	}
	return all
}

// endOrphans kills what is left of a tree whose spawner process is dead: its cgroups, which begin with a name, else the
// session of its first process (0 if that is not known) and what descends from that. A process that made a session of
// its own and lost its parent is not found.
func endOrphans(session int, cgroups string) {
	if cgroups != "" {
		parent, prefix := filepath.Split(cgroups)
		list, _ := os.ReadDir(parent)
		for _, e := range list {
			if strings.HasPrefix(e.Name(), prefix) {
				_ = killCgroup(parent + e.Name())
				_ = removeCgroup(parent + e.Name())
			}
		}
		return
	}
	for range killPasses {
		found := false
		for _, s := range processes() {
			if s.session != session || session == 0 || s.dead() {
				continue
			}
			found = true
			for _, pid := range append(descendants(s.pid), s.pid) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}
