package proc

import (
	"fmt"
	"os"
	"syscall"

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
