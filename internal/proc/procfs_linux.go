package proc

import (
	"bytes"
	"os"
	"strconv"
)

// stat is what we use of /proc/PID/stat.
type stat struct {
	pid, ppid, group, session int
	state                     byte   // Z and X are dead
	start                     uint64 // clock ticks since boot
	kernel                    bool   // a kernel thread
}

const kernelThread = 0x00200000 // PF_KTHREAD

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// readStat reads /proc/PID/stat into buf. False: there is no such process (any more).
func readStat(pid int, buf []byte) (stat, bool) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	n, _ := f.Read(buf)
	f.Close()
	return parseStat(buf[:n])
}

// parseStat reads one line of proc_pid_stat(5). The name in parentheses may hold anything, also parentheses.
func parseStat(line []byte) (stat, bool) {
	var s stat
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return s, false
	}
	rest := bytes.Fields(line[shut+1:])
	if len(rest) < 20 || len(rest[0]) != 1 {
		return s, false
	}
	var errs [6]error
	var flags uint64
	s.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	s.state = rest[0][0]
	s.ppid, errs[1] = strconv.Atoi(string(rest[1]))
	s.group, errs[2] = strconv.Atoi(string(rest[2]))
	s.session, errs[3] = strconv.Atoi(string(rest[3]))
	s.start, errs[4] = strconv.ParseUint(string(rest[19]), 10, 64)
	flags, errs[5] = strconv.ParseUint(string(rest[6]), 10, 64)
	s.kernel = flags&kernelThread != 0
	return s, errs == [6]error{}
}

// pids lists the processes in /proc, in no particular order.
func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	list := make([]int, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// processes reads the whole process table.
func processes() []stat {
	buf := make([]byte, 1024)
	list := pids()
	out := make([]stat, 0, len(list))
	for _, pid := range list {
		if s, ok := readStat(pid, buf); ok {
			out = append(out, s)
		}
	}
	return out
}

// onlyZombies says that nothing in a process group lives: what is still listed waits for init to read its status.
func onlyZombies(group int) bool {
	for _, s := range processes() {
		if s.group == group && !s.dead() {
			return false
		}
	}
	return true
}

// descendants returns the live processes below root, root itself not included. A pid is to be used
// at once: the table is a picture of the last milliseconds.
func descendants(root int) []int {
	children := map[int][]stat{}
	for _, s := range processes() {
		children[s.ppid] = append(children[s.ppid], s)
	}
	var out []int
	for next := []int{root}; len(next) > 0; {
		parent := next[0]
		next = next[1:]
		for _, c := range children[parent] {
			next = append(next, c.pid)
			if !c.dead() {
				out = append(out, c.pid)
			}
		}
		delete(children, parent)
	}
	return out
}
