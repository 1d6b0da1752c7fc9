package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat holds the fields of /proc/PID/stat that this package uses. On a system without /proc no process is found.
type stat struct {
	pid, ppid, group, session int
	state                     byte   // Z and X mean dead
	start                     uint64 // clock ticks since boot
	kernel                    bool   // a kernel thread
}

const kernelThread = 0x00200000 // PF_KTHREAD

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// readStat reads /proc/PID/stat. It returns false if there is no such process.
func readStat(pid int) (stat, bool) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	var buf [1024]byte
	n, _ := f.Read(buf[:])
	f.Close()
	return parseStat(buf[:n])
}

// parseStat parses a line as described in proc_pid_stat(5). The name in parentheses may contain any character, even
// parentheses.
func parseStat(line []byte) (stat, bool) {
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return stat{}, false
	}
	rest := bytes.Fields(line[shut+1:])
	if len(rest) < 20 || len(rest[0]) != 1 {
		return stat{}, false
	}
	ok := true
	num := func(p []byte) int {
		n, err := strconv.Atoi(string(bytes.TrimSpace(p)))
		ok = ok && err == nil
		return n
	}
	start, err := strconv.ParseUint(string(rest[19]), 10, 64)
	s := stat{pid: num(line[:open]), state: rest[0][0], ppid: num(rest[1]), group: num(rest[2]), session: num(rest[3]),
		start: start, kernel: num(rest[6])&kernelThread != 0}
	return s, ok && err == nil
}

func pids() []int {
	entries, _ := os.ReadDir("/proc")
	var list []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

func processes() []stat {
	var out []stat
	for _, pid := range pids() {
		if s, ok := readStat(pid); ok {
			out = append(out, s)
		}
	}
	return out
}

// onlyZombies reports whether a process group has members and all of them are dead, waiting for init to reap them.
// Without /proc it returns false; there the group disappears as soon as init has reaped its zombies.
func onlyZombies(group int) bool {
	seen := false
	for _, s := range processes() {
		if s.group == group && !s.dead() {
			return false
		}
		seen = seen || s.group == group
	}
	return seen
}

// descendants returns the live processes below root, without root. The caller must use the numbers at once: the process
// table is a snapshot, milliseconds old.
func descendants(root int) []int {
	children := map[int][]stat{}
	for _, s := range processes() {
		children[s.ppid] = append(children[s.ppid], s)
	}
	var out []int
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			next = append(next, c.pid)
			if !c.dead() {
				out = append(out, c.pid)
			}
		}
		delete(children, next[0])
	}
	return out
}

// Identity identifies one process for all time. A pid alone is not enough, because it is reused.
type Identity struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time,omitempty"` // clock ticks from boot to the start of the process; 0 if unknown
	BootID    string `json:"boot_id,omitempty"`    // the boot in which the process runs; "" if unknown
	Host      string `json:"host,omitempty"`
	// Namespace is the PID namespace in which PID is valid, or 0 if the system has none.
	Namespace uint64 `json:"pid_namespace,omitempty"`
}

// Self returns the identity of this process.
func Self() Identity {
	id := Identity{PID: os.Getpid()}
	id.Host, _ = os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id.BootID = strings.TrimSpace(string(boot))
	if s, ok := readStat(id.PID); ok {
		id.StartTime = s.start
	}
	id.Namespace, _ = pidNamespace()
	return id
}

// pidNamespace returns the inode number of the PID namespace of this process.
func pidNamespace() (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat("/proc/self/ns/pid", &st)
	return st.Ino, err
}
