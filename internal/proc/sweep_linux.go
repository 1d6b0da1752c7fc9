package proc

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
