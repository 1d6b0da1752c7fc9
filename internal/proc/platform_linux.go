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

const waitAll = unix.WALL // includes children made by clone with another exit signal

// contain sets up this process for a level. ids are the arguments that spawnerAttr returned. The error says why the
// level is not available.
func contain(l Level, ids []string) (containment, error) {
	switch l {
	case PIDNamespace:
		return newNamespace(ids)
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

// bounds returns the limits, priorities and processors that commands inherit from this thread. A command can set those
// of its spawner process, because the kernel only asks for the same user.
func bounds() string {
	limits, _ := os.ReadFile("/proc/self/limits")
	victim, _ := os.ReadFile("/proc/self/oom_score_adj")
	var schedule unix.SchedAttr
	if now, err := unix.SchedGetAttr(0, 0); err == nil {
		schedule = unix.SchedAttr{Policy: now.Policy, Nice: now.Nice, Priority: now.Priority} // the kernel changes others by itself
	}
	var on unix.CPUSet
	_ = unix.SchedGetaffinity(0, &on)
	disk, _, _ := unix.RawSyscall(unix.SYS_IOPRIO_GET, 1, 0, 0)
	return fmt.Sprintf("%s%s%+v%v%d", limits, victim, schedule, on, disk)
}

// subreaper implements Subreaper: every orphan becomes a child of this process, so the tree consists of its
// descendants.
type subreaper struct{ group }

func (subreaper) gone(int) bool                  { return true }
func (subreaper) count(int) int                  { return len(descendants(os.Getpid())) }
func (subreaper) signal(_ int, s syscall.Signal) { signalAll(descendants(os.Getpid()), s) }

// kill repeats the search for descendants until it finds no new one, at most killPasses times. The next search finds
// processes that were forked between a search and its kills. A chain of forks ends as soon as one search is faster than
// one fork. The caller repeats kill until wait4 finds no child.
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

// Undumpable prevents other processes of the same user from tracing this one, from reading its memory and environment,
// and from using its directories and namespaces in /proc, unless they have CAP_SYS_PTRACE. Processes that this one
// starts are not affected. The kernel writes no core file of this process. On other systems than Linux the function
// does nothing.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	return nil
}

// SetKernel writes text to a file of the kernel, such as those in /proc.
func SetKernel(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return WriteAll(fd, []byte(text))
}

// Sweep kills every process whose environment contains the complete entry marker (KEY=value), and returns their
// numbers, sorted. It removes what a crash left at the Subreaper level. It searches the process table until a pass
// finds nothing, and returns after sweepBound at the latest. It never kills this process, its ancestors, or processes
// of other users (root reaches all users). A marker without key or value matches nothing.
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
	undecidedMax = time.Second          // how long to wait for the environment of a process in the middle of an exec
)

// endMarked kills the process if it still has the marker. It opens a pidfd before it reads the environment, so that it
// checks and kills the same process.
func endMarked(pid int, marker string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ENOSYS { // Linux before 5.3 has no pidfd_open
		return unix.Kill(pid, unix.SIGKILL) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	marked, _ := look(pid, marker)
	return marked && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// look reports whether the marker is in the environment with which a process was started. In the middle of an exec,
// environment and command line are empty for a moment; the result is then undecided. They are always empty for zombies
// and kernel threads, which are never undecided.
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

// ancestors returns this process and all processes above it.
func ancestors() map[int]bool {
	all := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !all[pid]; {
		all[pid] = true
		s, _ := readStat(pid)
		pid = s.ppid
	}
	return all
}

// endOrphans kills the remaining processes of a tree whose spawner process has died. If cgroups is not "", it kills all
// cgroups whose path has this prefix. Otherwise it kills the session of the first process (0 if unknown) and the
// descendants of its members. It does not find a process that made its own session and has lost its parent.
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
