package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// containment is how the spawner process holds one tree at a time. It is used by one goroutine.
type containment interface {
	// open makes room for the n-th tree and says how its first process is to be started.
	open(n int, attr *syscall.SysProcAttr) error
	name() string // name is what the directory names of this process's cgroups begin with, "" without cgroups.
	// signal sends a signal to every process of the tree, once each.
	signal(main int, s syscall.Signal)
	kill(main int)      // kill sends SIGKILL to every process of the tree that it finds.
	count(main int) int // count is the number of live processes in the tree, zombies not counted.
	// gone reports whether no process of the tree lives elsewhere. It is called when this process has no children left.
	gone(main int) bool
	close() error // close gives the room back.
}

// group is ProcessGroup: the session leader's own group, nothing more.
type group struct{}

func (group) open(int, *syscall.SysProcAttr) error { return nil }
func (group) name() string                         { return "" }
func (group) close() error                         { return nil }
func (group) gone(main int) bool                   { return unix.Kill(-main, 0) != nil || onlyZombies(main) }
func (group) signal(main int, s syscall.Signal)    { signalAll([]int{-main}, s) }
func (group) kill(main int)                        { _ = unix.Kill(-main, unix.SIGKILL) }

// count cannot look into the group; it says that there is something.
func (g group) count(main int) int {
	if g.gone(main) {
		return 0
	}
	return 1
}

// signalAll signals processes, or groups with a negative number. A stopped process takes the signal only when it goes
// on.
func signalAll(list []int, s syscall.Signal) {
	for _, signal := range []syscall.Signal{s, unix.SIGCONT} {
		for _, pid := range list {
			_ = unix.Kill(pid, signal)
		}
	}
}
